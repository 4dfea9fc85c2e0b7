//! The exact scheme: one signature for all that a reader sees, in one spelling.
//!
//! Letters are kept as they are, case and accents too; only white space is folded, so that re-encoding, re-wrapping and the
//! way from plain text to HTML change nothing. A message without text has no signature: it would be that of too many. One
//! that only passes another message on has another signature than that: a forward of spam to an abuse desk is no spam.

use sha2::{Digest, Sha256};

use crate::reading::Reading;
use crate::sha256::Sha256Signature;

/// Stands before the text of a message that is attached to an empty one. No text has it, as blanks are folded.
const FORWARD_MARK: &str = "forwarded\n";

/// Signs what a reader sees.
pub fn sign(reading: &Reading) -> Option<Sha256Signature> {
    let mut words = reading.text.split_whitespace();
    let mut text = String::with_capacity(reading.text.len());
    if !reading.parts.is_empty() && reading.parts.iter().all(|part| part.is_forwarded) {
        text.push_str(FORWARD_MARK);
    }
    text.push_str(words.next()?);
    for word in words {
        text.push(' ');
        text.push_str(word);
    }
    Some(Sha256Signature(Sha256::digest(text).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    fn signed(message: &str) -> Option<String> {
        sign(&Reading::of(&Message::read(message.as_bytes()))).map(|signature| signature.to_string())
    }

    #[test]
    fn ways_to_send_one_text() {
        // As sha256sum prints it of "Buy now, friend".
        let expected = Some("85cd93129cb24fc82fa26a655ace2772471c0086a8244849b849feb6f160d408".to_owned());
        for message in [
            "Subject: x\n\nBuy now,\nfriend\n",
            "Content-Type: text/html\n\n<p>Buy  now,<br>friend</p>",
            "Content-Transfer-Encoding: base64\n\nQnV5IG5vdywgZnJpZW5k\n",
            "Content-Transfer-Encoding: quoted-printable\n\nBuy=20now, fri=\nend",
            "Content-Type: multipart/mixed; boundary=x\n\n--x\n\nBuy now,\n--x\n\nfriend\n--x--\n",
        ] {
            assert_eq!(signed(message), expected, "{message}");
        }
        assert_ne!(signed("\nBuy now, Friend"), expected);
    }

    #[test]
    fn a_bare_forward_is_not_what_it_forwards() {
        let forward = "Content-Type: message/rfc822\n\nSubject: x\n\nBuy now, friend\n";
        assert!(signed(forward).is_some() && signed(forward) != signed("\nBuy now, friend\n"));
    }

    #[test]
    fn no_text_no_signature() {
        assert_eq!(signed("Subject: x\n\n \n\t\n"), None);
    }
}
