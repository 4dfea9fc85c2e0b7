//! The messages attached to a message, such as the spam in a report that a user forwards.

use std::borrow::Cow;

use super::{MediaType, NESTING_MAX, decode, fields, pieces, without_envelope_line};

/// Maximum number of attached messages that are returned.
pub const ATTACHED_MAX: usize = 100;

/// The messages attached to a message.
#[derive(Debug, Default)]
pub struct Attached<'m> {
    /// The attached messages as received, with their transfer encoding removed.
    pub messages: Vec<Cow<'m, [u8]>>,
    /// True if a limit was reached, so that messages may be missing.
    pub is_cut: bool,
}

impl<'m> Attached<'m> {
    /// Finds the messages attached to a message, in order: its parts of type `message/rfc822` or `message/global`. An
    /// attachment of an attached message belongs to that message, and is not returned.
    pub fn of(raw: &'m [u8]) -> Self {
        let (fields, body) = fields::split(without_envelope_line(raw));
        let mut attached = Self::default();
        attached.collect(&fields.media_type(), body, 0);
        attached
    }

    fn collect(&mut self, media: &MediaType, body: &'m [u8], depth: usize) {
        if media.names_message() {
            self.push(decode::transfer(body, media.encoding));
        } else if let Some(boundary) = media.boundary.as_deref().filter(|_| media.is("multipart", None)) {
            if depth >= NESTING_MAX {
                self.is_cut = true;
                return;
            }
            let is_digest = media.is("multipart", Some("digest"));
            for piece in pieces(body, boundary.as_bytes()) {
                let (media, body) = super::piece(piece, is_digest);
                self.collect(&media, body, depth + 1);
            }
        }
    }

    fn push(&mut self, message: Cow<'m, [u8]>) {
        if self.messages.len() < ATTACHED_MAX {
            self.messages.push(message);
        } else {
            self.is_cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAM: &str = "From: sales@example.org\nSubject: watches\n\nGenuine watches at wholesale prices.\n";

    fn attached(raw: &str) -> Vec<String> {
        let attached = Attached::of(raw.as_bytes());
        assert!(!attached.is_cut);
        attached.messages.iter().map(|message| String::from_utf8_lossy(message).into_owned()).collect()
    }

    fn mixed(parts: &[&str]) -> String {
        let parts: String = parts.iter().map(|part| format!("--b\n{part}\n")).collect();
        format!("From: ann@example.org\nContent-Type: multipart/mixed; boundary=b\n\nA note.\n{parts}--b--\n")
    }

    #[test]
    fn attached_messages_are_returned_as_they_were_received() {
        let forwarded = mixed(&["\nThis is spam.", &format!("Content-Type: message/rfc822\n\n{SPAM}")]);
        assert_eq!(attached(&forwarded), [SPAM]);
        let encoded = "RnJvbTogc2FsZXNAZXhhbXBsZS5vcmcKU3ViamVjdDogd2F0Y2hlcwoKR2VudWluZSB3YXRjaGVzIGF0\nIHdob2xlc2FsZSBwcmljZXMuCg==";
        let header = "Content-Type: message/rfc822; name=spam.eml\nContent-Transfer-Encoding: base64";
        assert_eq!(attached(&mixed(&[&format!("{header}\n\n{encoded}"), "\nbye"])), [SPAM]);
        let digest = mixed(&[&format!("\n{SPAM}"), &format!("\n{SPAM}")]).replace("/mixed", "/digest");
        assert_eq!(attached(&digest), [SPAM, SPAM]);
        assert_eq!(attached(&format!("Content-Type: message/global\n\n{SPAM}")), [SPAM]);
    }

    #[test]
    fn attachments_of_an_attached_message_belong_to_it() {
        let bounce = mixed(&[&format!("Content-Type: message/rfc822\n\n{SPAM}")]).replace("--b", "--c");
        let bounce = bounce.replace("boundary=b", "boundary=c");
        let forwarded = mixed(&[&format!("Content-Type: message/rfc822\n\n{bounce}")]);
        assert_eq!(attached(&forwarded), [bounce]);
    }

    #[test]
    fn messages_without_attached_messages_have_none() {
        for raw in ["", SPAM, "Content-Type: text/rfc822\n\nno", "Content-Type: multipart/mixed; boundary=b\n\nno"] {
            assert!(attached(raw).is_empty(), "{raw}");
        }
    }

    #[test]
    fn attached_messages_end_at_their_number() {
        let part = format!("Content-Type: message/rfc822\n\n{SPAM}");
        assert_eq!(attached(&mixed(&vec![&*part; ATTACHED_MAX])).len(), ATTACHED_MAX);
        let beyond = mixed(&vec![&*part; ATTACHED_MAX + 1]);
        let found = Attached::of(beyond.as_bytes());
        assert_eq!((found.messages.len(), found.is_cut), (ATTACHED_MAX, true));
    }

    #[test]
    fn the_search_ends_at_its_depth() {
        let nested = |levels: usize| {
            let open = |at| format!("Content-Type: multipart/mixed; boundary=b{at}x\n\n--b{at}x\n");
            let opened: String = (0..levels).map(open).collect();
            format!("{opened}Content-Type: message/rfc822\n\n{SPAM}")
        };
        assert_eq!(attached(&nested(NESTING_MAX)), [SPAM]);
        let beyond = nested(NESTING_MAX + 1);
        let found = Attached::of(beyond.as_bytes());
        assert_eq!((found.messages.len(), found.is_cut), (0, true));
    }
}
