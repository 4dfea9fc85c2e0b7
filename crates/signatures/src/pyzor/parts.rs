//! The split of a message into its leaves, in order, as in Python's `email.feedparser`.
//!
//! A part is a header and a body. The body of a multipart contains parts between its boundaries. The body of a message
//! is another message. The body of a delivery status contains one part per block of lines. A part with any other body
//! is a leaf. A body ends at a line that ends one of the enclosing parts, so no part is read twice. The time is linear
//! in the size of the message, but a line that begins with two hyphens may cost up to [`NESTING_MAX`] comparisons.

use std::borrow::Cow;

use super::boundary::{Boundary, Delimiter, without_line_end};
use super::content_type::Kind;
use super::header::Header;
use super::reader::Reader;

/// Maximum nesting depth of parts. A deeper part is not split, so its body is one undecoded leaf. Python fails at a
/// depth of 980. The deepest of 6,249 real messages has a depth of 3.
pub const NESTING_MAX: usize = 100;

/// A part without parts.
pub(super) struct Leaf<'a> {
    pub(super) header: Header<'a>,
    /// Body as transferred.
    pub(super) payload: Cow<'a, [u8]>,
}

/// Calls `visit` with every leaf of `message`, in order.
pub(super) fn for_each_leaf(message: &[u8], visit: &mut dyn FnMut(Leaf<'_>)) {
    let mut parser = Parser { reader: Reader::new(message), last: None, visit };
    parser.part(0, false);
    parser.finish_last();
}

/// Splits a message recursively, at most [`NESTING_MAX`] levels deep.
struct Parser<'a, 'v> {
    reader: Reader<'a>,
    /// The latest leaf. It is not passed on yet, because its last line end is removed if a boundary follows.
    last: Option<Leaf<'a>>,
    visit: &'v mut dyn FnMut(Leaf<'_>),
}

impl<'a> Parser<'a, '_> {
    /// Reads one part.
    fn part(&mut self, depth: usize, message_by_default: bool) {
        self.finish_last();
        let header = Header::read(&mut self.reader, message_by_default);
        let content_type = header.content_type();
        match content_type.kind() {
            Kind::DeliveryStatus if depth < NESTING_MAX => self.delivery_status(depth),
            Kind::Message if depth < NESTING_MAX => self.part(depth + 1, false),
            Kind::Multipart if depth < NESTING_MAX => match content_type.boundary() {
                Some(boundary) => self.multipart(depth, header, &Boundary::new(&boundary)),
                None => self.leaf(header),
            },
            _ => self.leaf(header),
        }
    }

    /// Reads the rest of a part as its payload.
    fn leaf(&mut self, header: Header<'a>) {
        let start = self.reader.mark();
        self.reader.skip_to_end();
        let payload = self.reader.since(&start);
        self.last = Some(Leaf { header, payload });
    }

    /// Reads blocks of header lines that are separated by blank lines. Each block is a part.
    fn delivery_status(&mut self, depth: usize) {
        loop {
            self.reader.enter_block();
            self.part(depth + 1, false);
            self.reader.leave_block();
            self.reader.skip_line();
            if self.reader.peek().is_none() {
                return;
            }
        }
    }

    /// Reads parts between boundaries. Without a boundary there are no parts, and the whole body is the payload.
    fn multipart(&mut self, depth: usize, header: Header<'a>, boundary: &Boundary) {
        let start = self.reader.mark();
        while let Some(line) = self.reader.peek() {
            match boundary.find(line) {
                Some(Delimiter::Between) => return self.parts(depth, &header, boundary),
                Some(Delimiter::Last) => break,
                None => self.reader.advance(line),
            }
        }
        let payload = self.reader.since(&start);
        self.reader.skip_to_end();
        self.last = Some(Leaf { header, payload });
    }

    /// Reads the parts of a multipart, starting with its first boundary.
    fn parts(&mut self, depth: usize, header: &Header<'a>, boundary: &Boundary) {
        let messages_by_default = header.content_type().is_digest();
        while let Some(Delimiter::Between) = self.reader.peek().and_then(|line| boundary.find(line)) {
            // Consecutive boundaries, even closing ones, have no parts between them.
            while self.reader.peek().is_some_and(|line| boundary.find(line).is_some()) {
                self.reader.skip_line();
            }
            self.reader.enter_part(boundary.clone());
            self.part(depth + 1, messages_by_default);
            self.reader.leave_part();
            self.drop_last_line_end();
            self.finish_last();
        }
        self.reader.skip_to_end();
    }

    /// Removes the line end before a boundary from the preceding leaf, because it belongs to the boundary. A multipart
    /// without parts is itself a leaf and keeps its last line end.
    fn drop_last_line_end(&mut self) {
        let Some(leaf) = &mut self.last else { return };
        if leaf.header.content_type().kind() == Kind::Multipart {
            return;
        }
        let length = without_line_end(&leaf.payload).len();
        match &mut leaf.payload {
            Cow::Borrowed(payload) => *payload = payload.get(..length).unwrap_or_default(),
            Cow::Owned(payload) => payload.truncate(length),
        }
    }

    /// Passes on the latest leaf, which can no longer change.
    fn finish_last(&mut self) {
        if let Some(leaf) = self.last.take() {
            (self.visit)(leaf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the payloads of all leaves.
    fn payloads(message: &str) -> Vec<String> {
        let mut payloads = Vec::new();
        for_each_leaf(message.as_bytes(), &mut |leaf| {
            payloads.push(String::from_utf8_lossy(&leaf.payload).into_owned());
        });
        payloads
    }

    #[test]
    fn a_multipart_has_the_parts_between_its_boundaries() {
        let message =
            "Content-Type: multipart/mixed; boundary=b\n\nbefore\n--b\n\none\n\n--b \t\r\n\ntwo\n--b--\nafter\n";
        assert_eq!(payloads(message), ["one\n", "two"]);
    }

    #[test]
    fn an_outer_boundary_ends_inner_parts() {
        let message = "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/mixed; boundary=c\n\n\
                       --c\n\none\n--b\n\ntwo\n";
        assert_eq!(payloads(message), ["one", "two"]);
    }

    #[test]
    fn a_multipart_without_boundaries_is_a_leaf() {
        assert_eq!(payloads("Content-Type: multipart/mixed\n\n--b\n\none\n"), ["--b\n\none\n"]);
        assert_eq!(payloads("Content-Type: multipart/mixed; boundary=c\n\none\n--c--\ntwo\n"), ["one\n"]);
    }

    #[test]
    fn only_leaves_that_are_no_multiparts_lose_the_line_end_before_a_boundary() {
        let message = |inner: &str| {
            format!("Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: {inner}\n\none\n--b--")
        };
        assert_eq!(payloads(&message("image/gif")), ["one"]);
        assert_eq!(payloads(&message("message/rfc822\n")), ["one"]);
        assert_eq!(payloads(&message("multipart/mixed")), ["one\n"]);
    }

    #[test]
    fn an_envelope_after_the_header_belongs_to_the_body() {
        assert_eq!(payloads("From a\nSubject: b\nFrom c\n\nd\n"), ["From c\nd\n"]);
        assert_eq!(payloads("Subject: b\nFrom c\nTo: d\n\ne\n"), ["e\n"]);
    }

    #[test]
    fn blocks_of_a_delivery_status_are_parts() {
        assert_eq!(
            payloads("Content-Type: message/delivery-status\n\na: b\n\nc: d\nno header\n\n"),
            ["", "no header\n"]
        );
    }

    #[test]
    fn nesting_ends_at_its_bound() {
        let nested = |depth: usize| "Content-Type: message/rfc822\n\n".repeat(depth) + "Subject: b\n\nbody\n";
        assert_eq!(payloads(&nested(NESTING_MAX)), ["body\n"]);
        assert_eq!(payloads(&nested(NESTING_MAX + 1)), ["Subject: b\n\nbody\n"]);
    }
}
