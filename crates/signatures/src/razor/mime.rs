//! The client's split of a message at its MIME boundaries.
//!
//! This is not a real MIME parser. A nested piece has a header only if its first line is a `Content-Type`. A boundary
//! may be any sequence of bytes. Everything that is not recognised becomes text.

use std::iter;

use memchr::memchr;
use memchr::memmem::{self, Finder};

use super::text::{
    after_line_end, find_ignoring_case, head, is_blank, is_false, is_space, split_at_blank_line,
    starts_with_ignoring_case, tail,
};

/// Maximum nesting depth of multiparts. A deeper multipart stays one part.
pub const NESTING_MAX: usize = 50;

/// Maximum number of parts of a message. Further parts are dropped.
pub const PARTS_MAX: usize = 10_000;

/// First header line of every part, as written by Debian 12's client. No signature depends on it.
const AGENT_LINE: &[u8] = b"X-Razor2-Agent: Razor-Agents v2.84\n";

/// Prefix of a header line that declares a boundary.
const MULTIPART: &[u8] = b"Content-Type: multipart";
const BOUNDARY: &[u8] = b"boundary=";

/// A part of a message without parts of its own.
pub(super) struct Leaf<'a> {
    /// Header lines, including LF.
    pub(super) header: Vec<u8>,
    /// Body: everything after the blank line that ends the header.
    pub(super) body: &'a [u8],
}

/// Returns the leaves of `message` in order.
pub(super) fn leaves(message: &[u8]) -> Vec<Leaf<'_>> {
    let mut leaves = Vec::new();
    split(message, 0, &mut leaves);
    leaves
}

/// Appends the leaves of `text`. `depth` is the number of multiparts that enclose it.
fn split<'a>(text: &'a [u8], depth: usize, leaves: &mut Vec<Leaf<'a>>) {
    if leaves.len() >= PARTS_MAX {
        return;
    }
    let (header, body) = split_at_blank_line(text);
    let has_header = depth == 0 || starts_with_ignoring_case(header, b"Content-Type:");
    let Some(body) = body.filter(|body| has_header && !is_false(body)) else {
        leaves.push(without_header(text));
        return;
    };
    let kept = kept_lines(header);
    match boundary(&kept) {
        Some(boundary) if depth < NESTING_MAX => {
            for piece in pieces(body, &boundary).filter(|piece| !is_blank(piece)) {
                split(piece, depth + 1, leaves);
            }
        }
        _ => leaves.push(Leaf { header: [AGENT_LINE, &kept].concat(), body }),
    }
}

/// Creates a leaf from text without a header. A leading LF counts as the blank line after the header.
fn without_header(text: &[u8]) -> Leaf<'_> {
    Leaf { header: AGENT_LINE.to_vec(), body: text.strip_prefix(b"\n").unwrap_or(text) }
}

/// Returns the header lines that a part keeps. They are unfolded by deleting each LF before white space, together with
/// that white space.
fn kept_lines(header: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut line_start = 0;
    let mut rest = header;
    loop {
        let line = head(rest, memchr(b'\n', rest).unwrap_or(rest.len()));
        kept.extend_from_slice(line);
        let is_last = line.len() == rest.len();
        rest = tail(rest, line.len() + 1);
        let spaces = rest.iter().take_while(|&&byte| is_space(byte)).count();
        rest = tail(rest, spaces);
        if spaces > 0 {
            continue;
        }
        if is_kept(tail(&kept, line_start)) {
            kept.push(b'\n');
            line_start = kept.len();
        } else {
            kept.truncate(line_start);
        }
        if is_last {
            return kept;
        }
    }
}

fn is_kept(line: &[u8]) -> bool {
    starts_with_ignoring_case(line, b"Content-") || starts_with_ignoring_case(line, b"X-Razor2")
}

/// Returns the boundary of a multipart, if the `kept` header lines declare one.
fn boundary(kept: &[u8]) -> Option<Vec<u8>> {
    let mut rest = kept;
    while let Some(start) = find_ignoring_case(rest, MULTIPART) {
        rest = tail(rest, start + MULTIPART.len());
        let line_length = memchr(b'\n', rest).unwrap_or(rest.len());
        if let Some(value) = boundary_value(rest, line_length) {
            return Some(unquote(value).to_vec());
        }
        // The rest of the line is skipped, because another declaration in the same line would not find a value either.
        rest = tail(rest, line_length);
    }
    None
}

/// Returns the value of the last `boundary=` in the first line of `text`, which has `line_length` bytes. One without a
/// value, or at the very start of the line, is ignored. A quoted value may extend beyond the line.
fn boundary_value(text: &[u8], line_length: usize) -> Option<&[u8]> {
    let line = head(text, line_length);
    let places = line.windows(BOUNDARY.len()).enumerate().skip(1).rev();
    places
        .filter(|(_, window)| window.eq_ignore_ascii_case(BOUNDARY))
        .find_map(|(place, _)| value_at_start(tail(text, place + BOUNDARY.len())))
}

/// Returns a non-empty quoted string with its quotes. Without one, returns the characters up to the next white space.
fn value_at_start(text: &[u8]) -> Option<&[u8]> {
    let quoted = text.strip_prefix(b"\"").and_then(|inside| memchr(b'"', inside)).filter(|&length| length > 0);
    let length = quoted.map_or_else(|| text.iter().take_while(|&&byte| !is_space(byte)).count(), |length| length + 2);
    (length > 0).then(|| head(text, length))
}

/// Strips the quotes, unless there is an LF between them.
fn unquote(value: &[u8]) -> &[u8] {
    let inside = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    inside.filter(|inside| !inside.contains(&b'\n')).unwrap_or(value)
}

/// Returns the pieces between the boundary lines of `body`, up to the closing line. Without any boundary, the whole
/// body is one piece.
fn pieces<'a>(body: &'a [u8], boundary: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    let opening = [b"\n--", boundary].concat();
    let closing = [&opening, &b"--"[..]].concat();
    let body = head(body, memmem::find(body, &closing).unwrap_or(body.len()));
    let finder = Finder::new(&opening).into_owned();
    let mut rest = behind_preamble(body, &finder);
    iter::from_fn(move || {
        let text = rest?;
        let (piece, behind) = cut_at_boundary_line(text, &finder);
        rest = behind;
        Some(piece)
    })
}

/// Returns the text after the first boundary line of `body`. If the boundary does not occur at all, returns the whole
/// body. Returns `None` if the boundary occurs, but not as a boundary line.
fn behind_preamble<'a>(body: &'a [u8], opening: &Finder<'_>) -> Option<&'a [u8]> {
    let mark = tail(opening.needle(), 1);
    let at_once = body.strip_prefix(mark).and_then(after_line_end);
    if at_once.is_some() {
        return at_once;
    }
    match memmem::find(body, mark) {
        Some(_) => cut_at_boundary_line(body, opening).1,
        None => Some(body),
    }
}

/// Splits at the first boundary line, if there is one. The LFs before and at the end of a boundary line belong to it.
/// So of two consecutive boundary lines, the second counts as text.
fn cut_at_boundary_line<'a>(text: &'a [u8], opening: &Finder<'_>) -> (&'a [u8], Option<&'a [u8]>) {
    for place in opening.find_iter(text) {
        let behind = after_line_end(tail(text, place + opening.needle().len()));
        if behind.is_some() {
            return (head(text, place), behind);
        }
    }
    (text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the leaves as text, without the line that names the client.
    fn leaf_texts(message: &str) -> Vec<String> {
        let text = |leaf: Leaf<'_>| {
            let kept = leaf.header.strip_prefix(AGENT_LINE).unwrap();
            String::from_utf8([kept, b"\n", leaf.body].concat()).unwrap()
        };
        leaves(message.as_bytes()).into_iter().map(text).collect()
    }

    fn boundary_of(kept: &str) -> Option<String> {
        boundary(kept.as_bytes()).map(|boundary| String::from_utf8(boundary).unwrap())
    }

    #[test]
    fn a_plain_message_keeps_its_content_lines_unfolded() {
        let message = "To: a\ncontent-type:\n\ttext/plain\nX-Razor2-y: z\nSubject: b\n\nbody";
        assert_eq!(leaf_texts(message), ["content-type:text/plain\nX-Razor2-y: z\n\nbody"]);
    }

    #[test]
    fn without_a_body_all_is_body() {
        assert_eq!(leaf_texts("To: a\n\n0"), ["\nTo: a\n\n0"]);
        assert_eq!(leaf_texts("\n"), ["\n"]);
        assert_eq!(leaf_texts(""), ["\n"]);
    }

    #[test]
    fn boundaries_are_read_as_the_client_reads_them() {
        let multipart = |rest: &str| boundary_of(&format!("Content-Type: multipart{rest}\n"));
        assert_eq!(multipart("/x; boundary=a;b c"), Some("a;b".into()));
        assert_eq!(multipart("/x; BOUNDARY=\"a b\"; y"), Some("a b".into()));
        assert_eq!(multipart("/x; boundary=a; boundary=b"), Some("b".into()));
        assert_eq!(multipart("/x; boundary=a; boundary="), Some("a;".into()));
        assert_eq!(multipart("/x; boundary=\"a"), Some("\"a".into()));
        assert_eq!(multipart("/x; boundary=\"\""), Some(String::new()));
        assert_eq!(multipart("/x; boundary=\"a\nContent-b\" c"), Some("\"a\nContent-b\"".into()));
        assert_eq!(multipart("boundary=a"), None);
        assert_eq!(multipart("/x; boundary= a"), None);
        assert_eq!(boundary_of("Content-Type: multipart/x\nContent-y: boundary=a\n"), None);
    }

    #[test]
    fn pieces_lie_between_boundary_lines() {
        let texts = |body: &str| {
            pieces(body.as_bytes(), b"b").map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(texts("pre\n--b\nx\n--b\r\r\ny\n--b--\npost\n--b\nz"), ["x", "y"]);
        assert_eq!(texts("--b\nx\n--bb\ny"), ["x\n--bb\ny"]);
        assert_eq!(texts("no boundary"), ["no boundary"]);
        assert_eq!(texts("here --b it is"), [""; 0]);
        assert_eq!(texts("\n--b\n--b\nx"), ["--b\nx"]);
        assert_eq!(texts("\n--b--"), [""]);
    }

    #[test]
    fn a_nested_piece_has_a_header_only_if_its_type_comes_first() {
        let message =
            "Content-Type: multipart/x; boundary=b\n\n--b\nContent-Type: a\n\nx\n--b\nContent-y: a\n\nz\n--b--";
        assert_eq!(leaf_texts(message), ["Content-Type: a\n\nx", "\nContent-y: a\n\nz"]);
    }

    /// Returns a message of `depth` nested multiparts.
    fn nested(depth: usize) -> String {
        let levels: String =
            (0..depth).map(|i| format!("Content-Type: multipart/x; boundary=b{i}!\n\n--b{i}!\n")).collect();
        levels + "Content-Type: text/plain\n\ninnermost"
    }

    #[test]
    fn nesting_is_bounded() {
        assert_eq!(leaf_texts(&nested(NESTING_MAX)), ["Content-Type: text/plain\n\ninnermost"]);
        let leaves = leaf_texts(&nested(NESTING_MAX + 1));
        assert!(leaves[0].contains("multipart") && leaves[0].ends_with("innermost"), "{leaves:?}");
        assert_eq!(leaf_texts(&nested(100_000)).len(), 1);
    }

    #[test]
    fn parts_are_bounded() {
        let message = |parts: usize| ["Content-Type: multipart/x; boundary=b\n\n", &"\n--b\nx".repeat(parts)].concat();
        assert_eq!(leaf_texts(&message(PARTS_MAX)).len(), PARTS_MAX);
        assert_eq!(leaf_texts(&message(1_000_000)).len(), PARTS_MAX);
    }
}
