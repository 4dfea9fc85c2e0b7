//! What of a message stays the same from server to server, and when it was there.

use bruit_signatures::attachment::{self, SignedFile};
use bruit_signatures::exact;
use bruit_signatures::message::{Fields, Message};
use bruit_signatures::reading::Reading;

use sha2::{Digest, Sha256};

use super::Invariant;
use crate::mail::{bounded, seconds};
use crate::pages::Span;

/// The fields that no relay changes. All else may be added, folded anew or rewritten.
const FIELDS: [&str; 3] = ["message-id", "date", "from"];

/// How far the clocks of senders and servers are taken to be off.
pub const CLOCKS_SECONDS: u64 = 3600;
/// How long servers are taken to keep what they cannot deliver yet: a week, where RFC 5321 (section 4.5.4.1) has 4 to 5 days.
pub const QUEUE_SECONDS: u64 = 7 * 24 * 3600;

impl Invariant {
    /// The invariant of a message: its fields Message-ID, Date and From, whatever their folding, the text that a reader sees and
    /// the files attached. Line ends, transfer encodings and what relays write on top do not count.
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

/// A field with single blanks.
fn put_field(digest: &mut Sha256, value: &[u8]) {
    let words: Vec<_> = bounded(value).split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    put(digest, b"line", &words.join(&b' '));
}

/// When the server that has this message received it, in seconds since 1970: by the first field Received, which is its own. (The
/// field Date is the sender's, who can write any time there.)
#[must_use]
pub fn received_at(raw: &[u8]) -> Option<u64> {
    received(&Fields::of(raw))
}

/// When servers may have had this message: from [`CLOCKS_SECONDS`] before it was sent to [`QUEUE_SECONDS`] after it was received,
/// or sent if nobody says when it was received. None if no field says anything.
///
/// The sender's Date is believed if it is within [`QUEUE_SECONDS`] before the time of reception, so that no false Date leads the
/// question past the pages.
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
    fn what_relays_do_does_not_count() {
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
    fn what_senders_write_counts() {
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
        assert_eq!(received_at(MESSAGE.as_bytes()), None, "the date of the sender is not asked");
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
