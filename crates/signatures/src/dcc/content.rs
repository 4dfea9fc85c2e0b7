//! The body of a message as a run of segments: structure (boundaries and headers of parts) and decoded content.

use std::borrow::Cow;

use super::fields::{fields, is_blank_line, split_header};
use super::transfer::Encoding;

/// How many multiparts may lie inside each other. The boundaries of deeper ones are content.
pub const NESTING_MAX: usize = 20;

/// A piece of the body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    /// A boundary, with the header of the part that it opens.
    Structure(&'a [u8]),
    /// What is between, with its transfer encoding undone.
    Content(Cow<'a, [u8]>),
}

impl Segment<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Structure(bytes) => bytes,
            Self::Content(bytes) => bytes,
        }
    }
}

/// The segments of the body of `message`, in order.
pub(super) fn segments(message: &[u8]) -> Vec<Segment<'_>> {
    let (header, mut rest) = split_header(message);
    let mut walker = Walker::default();
    walker.open(header, 0);
    while !rest.is_empty() {
        let (content, mark) = walker.find_mark(rest);
        walker.push_content(head(rest, content));
        rest = tail(rest, content);
        let Some(mark) = mark else { break };
        let structure = head(rest, walker.structure_length(rest, &mark));
        walker.push_structure(structure, &mark);
        rest = tail(rest, structure.len());
    }
    walker.segments
}

/// Where in the nesting we are.
#[derive(Default)]
struct Walker<'a> {
    /// Of the multiparts around us, outermost first.
    boundaries: Vec<Vec<u8>>,
    /// Of the part we are in.
    encoding: Encoding,
    segments: Vec<Segment<'a>>,
}

/// A boundary line of the multipart that lies in `depth` others.
struct Mark {
    depth: usize,
    is_closing: bool,
}

impl<'a> Walker<'a> {
    /// Goes on below the header of a part that lies in `depth` multiparts.
    fn open(&mut self, header: &[u8], depth: usize) {
        self.boundaries.truncate(depth);
        self.encoding = Encoding::default();
        for field in fields(header) {
            if field.is("Content-Transfer-Encoding") {
                self.encoding = Encoding::named(field.value);
            } else if field.is("Content-Type") && depth < NESTING_MAX {
                self.boundaries.truncate(depth);
                self.boundaries.extend(boundary(field.value));
            }
        }
        // What is around parts is never encoded.
        if self.boundaries.len() > depth {
            self.encoding = Encoding::default();
        }
    }

    /// How much lies before the next boundary line, and what that is.
    fn find_mark(&self, text: &[u8]) -> (usize, Option<Mark>) {
        let mut length = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let mark = self.mark(line);
            if mark.is_some() {
                return (length, mark);
            }
            length += line.len();
        }
        (length, None)
    }

    /// What boundary `line` is, if any; inner ones before outer ones.
    fn mark(&self, line: &[u8]) -> Option<Mark> {
        let line = line.trim_ascii_end().strip_prefix(b"--")?;
        self.boundaries.iter().enumerate().rev().find_map(|(depth, boundary)| {
            let rest = line.strip_prefix(boundary.as_slice())?;
            matches!(rest, b"" | b"--").then_some(Mark { depth, is_closing: !rest.is_empty() })
        })
    }

    /// The length of the boundary line at the start of `text`, with the header behind it up to its blank line. A header may
    /// lack that and end at the next boundary.
    fn structure_length(&self, text: &[u8], mark: &Mark) -> usize {
        let mut length = 0;
        for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
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

    fn push_content(&mut self, content: &'a [u8]) {
        if !content.is_empty() {
            self.segments.push(Segment::Content(self.encoding.decode(content)));
        }
    }

    fn push_structure(&mut self, structure: &'a [u8], mark: &Mark) {
        self.segments.push(Segment::Structure(structure));
        if mark.is_closing {
            self.boundaries.truncate(mark.depth);
            self.encoding = Encoding::default();
        } else {
            let line_length =
                structure.iter().position(|&byte| byte == b'\n').map_or(structure.len(), |newline| newline + 1);
            self.open(tail(structure, line_length), mark.depth + 1);
        }
    }
}

/// The boundary that a `Content-Type` names, if it is a multipart.
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

fn head(text: &[u8], end: usize) -> &[u8] {
    text.get(..end).unwrap_or(text)
}

fn tail(text: &[u8], start: usize) -> &[u8] {
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(text: &str) -> Segment<'_> {
        Segment::Structure(text.as_bytes())
    }

    fn content(text: &str) -> Segment<'_> {
        Segment::Content(text.as_bytes().into())
    }

    #[test]
    fn a_plain_body_is_one_segment() {
        assert_eq!(segments(b"a: b\n\nc\n--d\n"), [content("c\n--d\n")]);
        assert_eq!(segments(b"Content-Transfer-Encoding: BASE64\n\naGVs\nbG8="), [content("hello")]);
        assert_eq!(segments(b"a: b"), []);
    }

    #[test]
    fn parts_are_decoded_each_on_its_own() {
        let message = "Content-Type: multipart/mixed;\n boundary=\"o u\"\n\npre\n--o u\nContent-Type: Multipart/x; boundary=i;\n\n\
                       --i\nContent-Transfer-Encoding: quoted-printable\n\na=41\n--i--\nbetween\n--o u \ncontent-transfer-encoding:base64\n\n\
                       aGVs\n--o u--\npost";
        assert_eq!(
            segments(message.as_bytes()),
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
        assert_eq!(segments(message), [structure("--b\nA: b\n"), structure("--b\n\n"), content("c")]);
    }

    #[test]
    fn nesting_has_an_end() {
        let nested = |depth: usize| {
            let levels: String =
                (0..depth).map(|i| format!("Content-Type: multipart/x; boundary=b{i}\n\n--b{i}\n")).collect();
            levels + "\ninnermost"
        };
        let structures = |message: String| {
            segments(message.as_bytes()).iter().filter(|segment| matches!(segment, Segment::Structure(_))).count()
        };
        assert_eq!(structures(nested(NESTING_MAX)), NESTING_MAX);
        assert_eq!(structures(nested(NESTING_MAX + 1)), NESTING_MAX);
        assert_eq!(structures(nested(50_000)), NESTING_MAX);
    }
}
