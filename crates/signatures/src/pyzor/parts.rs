//! A message taken apart: its leaves in order, as Python's `email.feedparser` finds them.
//!
//! A part is a header and a body. The body of a multipart has parts between its boundaries, that of a message another
//! message, that of a delivery status one part for each block of lines; every other body makes its part a leaf. A body
//! ends where a line ends one of the parts around it, so no part ever needs to be looked at twice: the time taken is
//! linear in the message, times [`NESTING_MAX`] for lines that begin with two hyphens.

use std::borrow::Cow;

use super::boundary::{Boundary, Delimiter, without_line_end};
use super::content_type::Kind;
use super::header::Header;
use super::reader::Reader;

/// How deep parts may lie in parts. What lies deeper is not taken apart: its body is one undecoded leaf. Python goes to 980
/// before it gives up with an error; the deepest of 6,249 real messages has 3.
pub const NESTING_MAX: usize = 100;

/// A part without parts.
pub(super) struct Leaf<'a> {
    pub(super) header: Header<'a>,
    /// The body as transferred.
    pub(super) payload: Cow<'a, [u8]>,
}

/// Calls `visit` with every leaf of `message`, in order.
pub(super) fn for_each_leaf(message: &[u8], visit: &mut dyn FnMut(Leaf<'_>)) {
    let mut parser = Parser { reader: Reader::new(message), last: None, visit };
    parser.part(0, false);
    parser.finish_last();
}

/// Takes a message apart by recursion, at most [`NESTING_MAX`] deep.
struct Parser<'a, 'v> {
    reader: Reader<'a>,
    /// The newest leaf, as long as the line end before a boundary may yet be taken from it.
    last: Option<Leaf<'a>>,
    visit: &'v mut dyn FnMut(Leaf<'_>),
}

impl<'a> Parser<'a, '_> {
    /// Reads one part up to its end.
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

    /// Reads blocks of header lines with blank lines between them, each a part of its own.
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

    /// Reads parts between boundaries. Without the first boundary there are none, and all before the last is the payload.
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

    /// Reads the parts of a multipart from its first boundary on.
    fn parts(&mut self, depth: usize, header: &Header<'a>, boundary: &Boundary) {
        let messages_by_default = header.content_type().is_digest();
        while let Some(Delimiter::Between) = self.reader.peek().and_then(|line| boundary.find(line)) {
            // Boundaries in a row, even a last one, have no parts between them.
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

    /// Takes the line end before a boundary from the leaf before it, as it belongs to the boundary. A multipart that is a
    /// leaf, because it has no parts, keeps it.
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

    /// Hands the newest leaf on, now that nothing can change it.
    fn finish_last(&mut self) {
        if let Some(leaf) = self.last.take() {
            (self.visit)(leaf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payloads of all leaves.
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
