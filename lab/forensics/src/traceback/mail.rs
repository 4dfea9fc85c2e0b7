//! The invariant part of a message, and its time.

use bruit_signatures::attachment::{self, SignedFile};
use bruit_signatures::exact;
use bruit_signatures::message::{Fields, Message};
use bruit_signatures::reading::Reading;

use sha2::{Digest, Sha256};

use super::Invariant;
use crate::mail::{bounded, seconds};
use crate::pages::Span;

/// Header fields that relays do not change. Relays may add, refold or rewrite all other fields.
const FIELDS: [&str; 3] = ["message-id", "date", "from"];

/// Maximum clock error assumed for senders and servers.
pub const CLOCKS_SECONDS: u64 = 3600;
/// Maximum time that servers are assumed to keep undeliverable mail in a queue: a week. RFC 5321 (section 4.5.4.1)
/// recommends 4 to 5 days.
pub const QUEUE_SECONDS: u64 = 7 * 24 * 3600;

impl Invariant {
    /// Returns the invariant of a message: the unfolded fields Message-ID, Date and From, the visible text, and the
    /// attached files. Line endings, transfer encodings and fields added by relays are ignored.
    #[must_use]
    pub fn of_message(raw: &[u8]) -> Self {
        let message = Message::read(raw);
        let mut digest = Sha256::new();
        for name in FIELDS {
            put_field(&mut digest, message.fields.get(name).unwrap_or_default());
        }
        if let Some(text) = exact::sign(&Reading::of(&message)) {
            put(&mut digest, b"text", &text.0);
        }
        for SignedFile { signature: file, .. } in attachment::sign(&message) {
            put(&mut digest, b"file", &file.0);
        }
        Self::from_parts(&[&digest.finalize()])
    }
}

fn put(digest: &mut Sha256, label: &[u8; 4], bytes: &[u8]) {
    digest.update(label);
    digest.update((bytes.len() as u64).to_le_bytes());
    digest.update(bytes);
}

/// Adds a field, with its whitespace normalised.
fn put_field(digest: &mut Sha256, value: &[u8]) {
    let words: Vec<_> = bounded(value).split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    put(digest, b"line", &words.join(&b' '));
}

/// Returns the time at which the message was received, in seconds since 1970. It is the time in the first `Received`
/// field, which the last server added. (The sender writes the `Date` field, which may be false.)
#[must_use]
pub fn received_at(raw: &[u8]) -> Option<u64> {
    received(&Fields::of(raw))
}

/// Returns the span in which servers may have held this message: from [`CLOCKS_SECONDS`] before it was sent to
/// [`QUEUE_SECONDS`] after it was received. If one of the two times is unknown, the other is used for both. If both are
/// unknown, the result is `None`.
///
/// The sender's Date is used only if it is no later than the time of reception, and at most [`QUEUE_SECONDS`] earlier.
/// A false Date therefore cannot lead the search to the wrong pages.
#[must_use]
pub fn window_of(raw: &[u8]) -> Option<Span> {
    let fields = Fields::of(raw);
    let received = received(&fields);
    let is_believed =
        |sent: &u64| received.is_none_or(|received| (*sent..=sent.saturating_add(QUEUE_SECONDS)).contains(&received));
    let sent = fields.get("date").and_then(seconds).filter(is_believed);
    let (first, last) = (sent.or(received)?, received.or(sent)?);
    Some(Span { from: first.saturating_sub(CLOCKS_SECONDS), to: last.saturating_add(QUEUE_SECONDS) })
}

fn received(fields: &Fields<'_>) -> Option<u64> {
    let value = fields.get("received")?;
    let semicolon = bounded(value).iter().rposition(|&byte| byte == b';')?;
    seconds(value.get(semicolon + 1..)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "From: Ann <ann@example.org>\nTo: bob@example.net\nDate: Tue, 14 Nov 2023 22:13:20 +0000\n\
        Message-ID: <1@example.org>\nSubject: hello\n\nSee you\nat noon.\n";

    fn of(message: &str) -> Invariant {
        Invariant::of_message(message.as_bytes())
    }

    #[test]
    fn changes_by_relays_are_ignored() {
        let relayed = [
            format!("Received: from a by b; Tue, 14 Nov 2023 22:13:25 +0000\nX-Spam: no\n{MESSAGE}"),
            format!("From ann Tue Nov 14 22:13:20 2023\nReturn-Path: <ann@example.org>\n{MESSAGE}"),
            MESSAGE.replace('\n', "\r\n"),
            MESSAGE.replace("From: Ann <", "From: Ann\n\t<"),
            MESSAGE
                .replace("Subject", "Content-Transfer-Encoding: quoted-printable\nSubject")
                .replace("noon", "n=6Fon"),
            MESSAGE.replace("Subject: hello", "Subject: [SPAM] hello"),
        ];
        for message in relayed {
            assert_eq!(of(&message), of(MESSAGE), "{message}");
        }
    }

    #[test]
    fn changes_by_senders_count() {
        for (from, to) in [("1@", "2@"), ("22:13:20", "22:13:21"), ("ann@", "eve@"), ("noon", "nine")] {
            assert_ne!(of(&MESSAGE.replace(from, to)), of(MESSAGE), "{to}");
        }
        let with = |file: &str| {
            let head = "Message-ID: <1@x>\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nSee you\n--b\n";
            of(&format!("{head}Content-Disposition: attachment\n\n{file}\n--b--\n"))
        };
        assert_ne!(with("one"), with("two"));
    }

    #[test]
    fn a_message_without_fields_or_text_has_one_too() {
        assert_ne!(of(""), of("\nx"));
        assert_eq!(of("").as_bytes().len(), 32);
    }

    #[test]
    fn a_message_was_received_when_its_last_server_says() {
        let received =
            |field: &str| received_at(format!("{field}\nReceived: by a; 1 Jan 2020 00:00:00 +0000\n\n").as_bytes());
        assert_eq!(
            received("Received: from a (x; y) by b;\n\tTue, 14 Nov 2023 23:13:20 +0100 (CET)"),
            Some(1_700_000_000)
        );
        for field in [
            "Received: by b",
            "Received: by b; yesterday",
            "Received: by b; 31 Dec 1969 23:59:59 +0000",
            "Received: by b; 99 Xyz 2023 99:99:99 +0000",
        ] {
            assert_eq!(received(field), None, "{field}");
        }
        assert_eq!(received_at(MESSAGE.as_bytes()), None, "the sender's date is not used");
    }

    #[test]
    fn a_message_is_asked_for_from_when_it_was_sent_to_a_week_after_it_was_received() {
        let window = |fields: &str| window_of(format!("{fields}\n\n").as_bytes());
        let span = |sent: u64, received: u64| Some(Span { from: sent - CLOCKS_SECONDS, to: received + QUEUE_SECONDS });
        let sent = "Date: Tue, 14 Nov 2023 22:13:20 +0000";
        let received = "Received: by b; Wed, 15 Nov 2023 22:13:20 +0000";
        assert_eq!(window(sent), span(1_700_000_000, 1_700_000_000));
        assert_eq!(window(received), span(1_700_086_400, 1_700_086_400));
        assert_eq!(window(&format!("{received}\n{sent}")), span(1_700_000_000, 1_700_086_400));
        for date in ["Date: 1 Jan 1999 00:00:00 +0000", "Date: 16 Nov 2023 22:13:20 +0000", "Date: soon"] {
            assert_eq!(window(&format!("{received}\n{date}")), span(1_700_086_400, 1_700_086_400), "{date}");
        }
        assert_eq!((window("Subject: x"), window("Date: soon")), (None, None));
    }
}
