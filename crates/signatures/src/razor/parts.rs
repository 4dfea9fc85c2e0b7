//! Parts as the client signs and reports them. They are the leaves of a message, truncated and with LF line ends.

use std::{iter, mem};

use memchr::memchr;

use super::mime::{self, Leaf};
use super::text::{head, is_false, tail};

/// Number of bytes of a body that are used.
pub const BODY_BYTES_MAX: usize = 60 * 1024;

/// Number of bytes of a part's header that are kept.
pub const HEADER_BYTES_MAX: usize = 4 * 1024;

/// One part of a message, as it is reported. It consists of header lines (`X-Razor2-…` and `Content-…`), a blank line,
/// and a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part(Vec<u8>);

impl Part {
    /// Returns the bytes of the part.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the parts of `message`, in the order in which the client numbers them from 0. Parts without a body are
/// omitted.
#[must_use]
pub fn parts(message: &[u8]) -> Vec<Part> {
    mime::leaves(message).iter().filter_map(prepare).collect()
}

/// Converts a leaf to a part, unless it has no body (or only a `0`, which is false in Perl).
fn prepare(leaf: &Leaf<'_>) -> Option<Part> {
    if is_false(leaf.body) {
        return None;
    }
    let mut header = unify_line_ends(&leaf.header).collect::<Vec<_>>().concat();
    let body_length = unify_line_ends(leaf.body).map(<[u8]>::len).sum::<usize>();
    if body_length > BODY_BYTES_MAX {
        header = [format!("X-Razor2-Origlen-Body: {body_length}\n").as_bytes(), &header].concat();
    }
    if header.len() > HEADER_BYTES_MAX {
        header = cut_header(&header);
    }
    let part_length = header.len() + 1 + body_length.min(BODY_BYTES_MAX);
    let mut part = Vec::with_capacity(part_length);
    part.extend_from_slice(&header);
    part.push(b'\n');
    for piece in unify_line_ends(leaf.body) {
        part.extend_from_slice(head(piece, part_length - part.len()));
    }
    Some(Part(part))
}

/// Returns the pieces of `text` that remain when all CRs directly before an LF are removed.
fn unify_line_ends(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    iter::from_fn(move || {
        let mut end = 0;
        while let Some(place) = memchr(b'\r', tail(rest, end)) {
            let start = end + place;
            end = start + tail(rest, start).iter().take_while(|&&byte| byte == b'\r').count();
            if rest.get(end) == Some(&b'\n') {
                let piece = head(rest, start);
                rest = tail(rest, end);
                return Some(piece);
            }
        }
        let piece = mem::take(&mut rest);
        (!piece.is_empty()).then_some(piece)
    })
}

/// Truncates a header that is too long. Its original length is recorded in the part.
///
/// An incomplete last line is removed. If the cut is at the end of a line, the client empties that line instead. The
/// part then has an extra blank line, which belongs to the body.
fn cut_header(header: &[u8]) -> Vec<u8> {
    let header = [format!("X-Razor2-Origlen-Header: {}\n", header.len()).as_bytes(), header].concat();
    let cut = head(&header, HEADER_BYTES_MAX);
    let (lines, line_end) = cut.strip_suffix(b"\n").map_or((cut, &b""[..]), |lines| (lines, b"\n"));
    let last_line = lines.iter().rev().take_while(|&&byte| byte != b'\n').count();
    [head(lines, lines.len() - last_line), line_end].concat()
}

#[cfg(test)]
mod tests {
    use super::super::text::split_at_blank_line;
    use super::*;

    fn part_of(message: &[u8]) -> Vec<u8> {
        parts(message).remove(0).0
    }

    #[test]
    fn line_ends_become_line_feeds() {
        let unified = |text: &[u8]| unify_line_ends(text).collect::<Vec<_>>().concat();
        assert_eq!(unified(b"a\r\nb\r\r\nc\rd\n\r\ne\r"), b"a\nb\nc\rd\n\ne\r");
        assert_eq!(unified(b"\r\r\n\r"), b"\n\r");
    }

    #[test]
    fn parts_without_a_body_are_left_out() {
        let message = b"Content-Type: multipart/x; boundary=b\n\n--b\n0\n--b\n\n0\n--b\n\n0\n--b\nx\n--b--";
        let bodies: Vec<_> =
            parts(message).iter().map(|part| split_at_blank_line(part.as_bytes()).1.unwrap().to_vec()).collect();
        assert_eq!(bodies, [&b"x"[..]]);
    }

    #[test]
    fn a_body_is_cut_at_its_bound() {
        let longest = [&b"To: a\n\n"[..], &[b'x'; BODY_BYTES_MAX]].concat();
        assert!(part_of(&longest).starts_with(b"X-Razor2-Agent"));
        assert_eq!(split_at_blank_line(&part_of(&longest)).1.unwrap().len(), BODY_BYTES_MAX);
        let longer = [&longest[..], b"y"].concat();
        assert!(part_of(&longer).starts_with(b"X-Razor2-Origlen-Body: 61441\nX-Razor2-Agent"));
        assert_eq!(split_at_blank_line(&part_of(&longer)).1.unwrap(), [b'x'; BODY_BYTES_MAX]);
    }

    /// Returns a message header of one line that makes the part's header `length` bytes long.
    fn header_of(length: usize) -> Vec<u8> {
        let line = "y".repeat(length - "X-Razor2-Agent: Razor-Agents v2.84\nContent-x: \n".len());
        let part = part_of(format!("Content-x: {line}\n\nbody").as_bytes());
        part.strip_suffix(b"body").unwrap().to_vec()
    }

    #[test]
    fn a_header_is_cut_at_its_bound() {
        assert_eq!(header_of(HEADER_BYTES_MAX).len(), HEADER_BYTES_MAX + 1);
        assert_eq!(
            header_of(HEADER_BYTES_MAX + 1),
            b"X-Razor2-Origlen-Header: 4097\nX-Razor2-Agent: Razor-Agents v2.84\n\n"
        );
    }

    #[test]
    fn a_cut_at_the_end_of_a_line_empties_it() {
        let lines = [&b"a\n"[..], &[b'b'; HEADER_BYTES_MAX - 33], b"\nc\n"].concat();
        let header = cut_header(&lines);
        assert_eq!(header, b"X-Razor2-Origlen-Header: 4068\na\n\n");
    }
}
