//! Sections of a message body. A section is either structure, i.e. a boundary and the header of a part, or decoded
//! content.

use std::borrow::Cow;

use memchr::memmem;

use super::fields::{is_blank_line, last_values, lines};
use super::transfer;
use crate::transfer::Encoding;

/// Maximum nesting depth of multiparts. Deeper boundaries are content.
pub const NESTING_MAX: usize = 20;

/// The header fields that determine how a part is read.
pub(super) const FIELDS: [&str; 2] = ["Content-Type", "Content-Transfer-Encoding"];

/// A section of the body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodySection<'a> {
    /// A boundary, with the header of the part that it begins.
    Structure(&'a [u8]),
    /// Content between boundaries, with its transfer encoding removed.
    Content(Cow<'a, [u8]>),
}

impl BodySection<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Structure(bytes) => bytes,
            Self::Content(bytes) => bytes,
        }
    }
}

/// Iterator over the sections of a message body.
pub(super) struct BodySections<'a> {
    /// The unread rest.
    rest: &'a [u8],
    /// Boundaries of the enclosing multiparts, outermost first.
    boundaries: Vec<Vec<u8>>,
    /// Transfer encoding of the current part.
    encoding: Encoding,
}

/// A boundary line of a multipart. `depth` is the number of multiparts that enclose this multipart.
struct BoundaryMark {
    depth: usize,
    is_closing: bool,
}

impl<'a> BodySections<'a> {
    /// Creates an iterator over the sections of a message's `body`. `fields` are the values of [`FIELDS`] in the
    /// message's header.
    pub(super) fn new(fields: [Option<&[u8]>; 2], body: &'a [u8]) -> Self {
        let mut sections = Self { rest: body, boundaries: Vec::new(), encoding: Encoding::default() };
        sections.open(fields, 0);
        sections
    }

    /// Continues after the header of a part. `depth` is the number of multiparts that enclose the part. The array has
    /// the values of [`FIELDS`] in this header.
    fn open(&mut self, [content_type, encoding]: [Option<&[u8]>; 2], depth: usize) {
        self.boundaries.truncate(depth);
        self.boundaries.extend(content_type.filter(|_| depth < NESTING_MAX).and_then(boundary));
        // Text around parts is never encoded.
        let encoding = encoding.filter(|_| self.boundaries.len() <= depth);
        self.encoding = encoding.map_or_else(Encoding::default, Encoding::named);
    }

    /// Returns the number of bytes before the next boundary line, and the line.
    fn find_mark(&self, text: &[u8]) -> (usize, Option<BoundaryMark>) {
        if self.boundaries.is_empty() {
            return (text.len(), None);
        }
        let starts = memmem::find_iter(text, b"\n--").map(|newline| newline + 1);
        for start in [0].into_iter().chain(starts) {
            let mark = lines(tail(text, start)).next().and_then(|line| self.mark(line));
            if mark.is_some() {
                return (start, mark);
            }
        }
        (text.len(), None)
    }

    /// Returns the boundary that `line` matches, if any. Inner boundaries take precedence.
    fn mark(&self, line: &[u8]) -> Option<BoundaryMark> {
        let line = line.trim_ascii_end().strip_prefix(b"--")?;
        self.boundaries.iter().enumerate().rev().find_map(|(depth, boundary)| {
            let rest = line.strip_prefix(boundary.as_slice())?;
            matches!(rest, b"" | b"--").then_some(BoundaryMark { depth, is_closing: !rest.is_empty() })
        })
    }

    /// Returns the total length of the boundary line at the start of `text` and the header after it. The header ends at
    /// a blank line or, without one, at the next boundary.
    fn structure_length(&self, text: &[u8], mark: &BoundaryMark) -> usize {
        let mut length = 0;
        for (index, line) in lines(text).enumerate() {
            if index > 0 && (mark.is_closing || self.mark(line).is_some()) {
                return length;
            }
            length += line.len();
            if index > 0 && is_blank_line(line) {
                return length;
            }
        }
        length
    }

    /// Continues after a boundary line and its header.
    fn enter(&mut self, structure: &[u8], mark: &BoundaryMark) {
        if mark.is_closing {
            self.boundaries.truncate(mark.depth);
            self.encoding = Encoding::default();
        } else {
            let line_length = lines(structure).next().map_or(0, <[u8]>::len);
            self.open(last_values(tail(structure, line_length), FIELDS), mark.depth + 1);
        }
    }

    /// Takes `length` bytes from the unread rest.
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, &[]));
        self.rest = rest;
        taken
    }
}

impl<'a> Iterator for BodySections<'a> {
    type Item = BodySection<'a>;

    fn next(&mut self) -> Option<BodySection<'a>> {
        match self.find_mark(self.rest) {
            (0, None) => None,
            (0, Some(mark)) => {
                let structure = self.take(self.structure_length(self.rest, &mark));
                self.enter(structure, &mark);
                Some(BodySection::Structure(structure))
            }
            (length, _) => {
                let content = self.take(length);
                Some(BodySection::Content(transfer::decode(content, self.encoding)))
            }
        }
    }
}

/// Returns the boundary in a `Content-Type`, if it is a multipart.
fn boundary(content_type: &[u8]) -> Option<Vec<u8>> {
    let content_type = content_type.trim_ascii();
    content_type.get(..MULTIPART.len()).filter(|start| start.eq_ignore_ascii_case(MULTIPART))?;
    let start = content_type.windows(BOUNDARY.len()).position(|window| window.eq_ignore_ascii_case(BOUNDARY))?;
    let value = tail(content_type, start + BOUNDARY.len());
    let value = match value.strip_prefix(b"\"") {
        Some(quoted) => quoted.split(|&byte| byte == b'"').next()?,
        None => value.split(|&byte| byte == b';' || byte.is_ascii_whitespace()).next()?,
    };
    (!value.is_empty()).then(|| value.to_vec())
}

const MULTIPART: &[u8] = b"multipart/";
const BOUNDARY: &[u8] = b"boundary=";

fn tail(text: &[u8], start: usize) -> &[u8] {
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::fields::split_header;
    use super::*;

    fn sections(message: &[u8]) -> Vec<BodySection<'_>> {
        let (header, body) = split_header(message);
        BodySections::new(last_values(header, FIELDS), body).collect()
    }

    fn structure(text: &str) -> BodySection<'_> {
        BodySection::Structure(text.as_bytes())
    }

    fn content(text: &str) -> BodySection<'_> {
        BodySection::Content(text.as_bytes().into())
    }

    #[test]
    fn a_plain_body_is_one_segment() {
        assert_eq!(sections(b"a: b\n\nc\n--d\n"), [content("c\n--d\n")]);
        assert_eq!(sections(b"Content-Transfer-Encoding: BASE64\n\naGVs\nbG8="), [content("hello")]);
        assert_eq!(sections(b"a: b"), []);
    }

    #[test]
    fn parts_are_decoded_each_on_its_own() {
        let message = "Content-Type: multipart/mixed;\n boundary=\"o u\"\n\npre\n--o u\nContent-Type: Multipart/x; boundary=i;\n\n\
                       --i\nContent-Transfer-Encoding: quoted-printable\n\na=41\n--i--\nbetween\n--o u \ncontent-transfer-encoding:base64\n\n\
                       aGVs\n--o u--\npost";
        assert_eq!(
            sections(message.as_bytes()),
            [
                content("pre\n"),
                structure("--o u\nContent-Type: Multipart/x; boundary=i;\n\n"),
                structure("--i\nContent-Transfer-Encoding: quoted-printable\n\n"),
                content("aA\n"),
                structure("--i--\n"),
                content("between\n"),
                structure("--o u \ncontent-transfer-encoding:base64\n\n"),
                content("hel"),
                structure("--o u--\n"),
                content("post"),
            ]
        );
    }

    #[test]
    fn a_header_without_a_blank_line_ends_at_the_next_boundary() {
        let message = b"Content-Type: multipart/x; boundary=b\n\n--b\nA: b\n--b\n\nc";
        assert_eq!(sections(message), [structure("--b\nA: b\n"), structure("--b\n\n"), content("c")]);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            let levels: String =
                (0..depth).map(|i| format!("Content-Type: multipart/x; boundary=b{i}\n\n--b{i}\n")).collect();
            levels + "\ninnermost"
        };
        let structures = |message: String| {
            sections(message.as_bytes()).iter().filter(|section| matches!(section, BodySection::Structure(_))).count()
        };
        assert_eq!(structures(nested(NESTING_MAX)), NESTING_MAX);
        assert_eq!(structures(nested(NESTING_MAX + 1)), NESTING_MAX);
        assert_eq!(structures(nested(50_000)), NESTING_MAX);
    }
}
