//! Parts as the client signs and reports them: leaves of the MIME split, in LF line ends, cut to size.

use super::mime;
use super::text::{head, is_false, split_at_blank_line};

/// How much of a body is looked at.
pub const BODY_BYTES_MAX: usize = 60 * 1024;

/// How much of a part's header is kept.
pub const HEADER_BYTES_MAX: usize = 4 * 1024;

/// One part of a message: header lines (`X-Razor2-…` and `Content-…`), a blank line, and a body, as a report carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part(Vec<u8>);

impl Part {
    /// The bytes of the part.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The parts of `message`, numbered from 0 by the client in this order. Parts without a body are not among them.
#[must_use]
pub fn parts(message: &[u8]) -> Vec<Part> {
    mime::leaves(message).iter().filter_map(|leaf| prepare(leaf)).collect()
}

/// Makes a part of a leaf, unless it has no body (or only a zero, which Perl takes for none).
fn prepare(leaf: &[u8]) -> Option<Part> {
    let (header, body) = split_at_blank_line(leaf);
    let body = body.filter(|body| !is_false(body))?;
    let mut header = unify_line_ends(&[header, b"\n"].concat());
    let body = unify_line_ends(body);
    if body.len() > BODY_BYTES_MAX {
        header = [format!("X-Razor2-Origlen-Body: {}\n", body.len()).as_bytes(), &header].concat();
    }
    if header.len() > HEADER_BYTES_MAX {
        header = cut_header(&header);
    }
    Some(Part([&header, &b"\n"[..], head(&body, BODY_BYTES_MAX)].concat()))
}

/// Drops all CR directly before an LF.
fn unify_line_ends(text: &[u8]) -> Vec<u8> {
    let mut unified = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                let returns = line.iter().rev().take_while(|&&byte| byte == b'\r').count();
                unified.extend_from_slice(head(line, line.len() - returns));
                unified.push(b'\n');
            }
            None => unified.extend_from_slice(line),
        }
    }
    unified
}

/// Notes the length of a header that is too long, and cuts it.
///
/// The incomplete line at the end goes. If the cut hits the end of a line, the client empties that line instead, and the
/// part then has one blank line too many: it counts as body.
fn cut_header(header: &[u8]) -> Vec<u8> {
    let header = [format!("X-Razor2-Origlen-Header: {}\n", header.len()).as_bytes(), header].concat();
    let cut = head(&header, HEADER_BYTES_MAX);
    let (lines, line_end) = cut.strip_suffix(b"\n").map_or((cut, &b""[..]), |lines| (lines, b"\n"));
    let last_line = lines.iter().rev().take_while(|&&byte| byte != b'\n').count();
    [head(lines, lines.len() - last_line), line_end].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part_of(message: &[u8]) -> Vec<u8> {
        parts(message).remove(0).0
    }

    #[test]
    fn line_ends_become_line_feeds() {
        assert_eq!(unify_line_ends(b"a\r\nb\r\r\nc\rd\n\r\ne\r"), b"a\nb\nc\rd\n\ne\r");
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

    /// The header of a message with one line that is as long as makes the part's header `length` bytes.
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
