//! The exact scheme. It makes one signature of the whole visible text, in normalised form.
//!
//! Letters are unchanged, including case and accents. Only white space is folded. The signature is therefore unaffected
//! by re-encoding, re-wrapping, and conversion between plain text and HTML. A message without text has no signature,
//! because too many messages would share it. A message that only forwards another message as an attachment does not
//! have that message's signature, because spam forwarded to an abuse desk is not spam.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::hex;
use crate::reading::{Reading, is_invisible};

/// Prefix that is hashed before the text if all of the text is in attached messages. No text can start with this prefix
/// itself, because white space is folded.
const FORWARD_MARK: &str = "forwarded\n";

/// A signature of the schemes [`exact`](self), [`attachment`](crate::attachment) and [`url`](crate::url).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Signature(pub [u8; 32]);

impl fmt::Display for Sha256Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(out, &self.0)
    }
}

impl fmt::Debug for Sha256Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sha256Signature({self})")
    }
}

/// Signs the visible text.
pub fn sign(reading: &Reading) -> Option<Sha256Signature> {
    let mut words = reading.text.split_whitespace();
    let mut text = String::with_capacity(reading.text.len());
    if is_bare_forward(reading) {
        text.push_str(FORWARD_MARK);
    }
    text.push_str(words.next()?);
    for word in words {
        text.push(' ');
        text.push_str(word);
    }
    Some(Sha256Signature(Sha256::digest(text).into()))
}

/// Returns true if all of the text is in attached messages.
fn is_bare_forward(reading: &Reading) -> bool {
    let is_blank = |text: &str| text.chars().all(|char| char.is_whitespace() || is_invisible(char));
    let mut parts = reading.texts().filter(|(text, _)| !is_blank(text)).peekable();
    parts.peek().is_some() && parts.all(|(_, part)| part.is_forwarded)
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
        // Output of sha256sum for "Buy now, friend".
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
        for own in ["\n\n\n", "\n \n", "Content-Type: text/html\n\n<html><body><br></body></html>\n", "\n\u{200b}\n"] {
            let forward = format!("Content-Type: multipart/mixed; boundary=x\n\n--x\n{own}--x\n{forward}--x--\n");
            assert!(signed(&forward) != signed("\nBuy now, friend\n"), "{own:?}");
        }
    }

    #[test]
    fn empty_texts_have_no_signature() {
        assert_eq!(signed("Subject: x\n\n \n\t\n"), None);
    }
}
