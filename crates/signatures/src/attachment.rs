//! The attachment scheme: one signature for each part that is not text, or is shown as a file.
//!
//! The signature is the SHA-256 of the decoded content, as `sha256sum` prints it of the saved file, so that it can be
//! looked up elsewhere. An empty part has none.

use sha2::{Digest, Sha256};

use crate::message::Message;
use crate::sha256::Sha256Signature;

/// Signs the attachments of a message, each with the index of its part.
pub fn sign(message: &Message<'_>) -> Vec<(usize, Sha256Signature)> {
    let parts = message.parts().into_iter().enumerate();
    let files = parts.filter(|(_, part)| part.media.is_attachment || !part.media.is("text", None));
    let contents = files.map(|(index, part)| (index, part.bytes())).filter(|(_, bytes)| !bytes.is_empty());
    contents.map(|(index, bytes)| (index, Sha256Signature(Sha256::digest(&bytes).into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_signed_as_saved() {
        let message = "Content-Type: multipart/mixed; boundary=x\n\n--x\n\ntext\n--x\nContent-Type: image/png\n\
            Content-Transfer-Encoding: base64\n\nYWJj\n--x\nContent-Disposition: attachment\n\nabc\n--x\n\
            Content-Type: application/pdf\n\n\n--x--\n";
        let signed = sign(&Message::read(message.as_bytes()));
        // The example of FIPS 180-2, "abc".
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let expected = [(1, abc.to_owned()), (2, abc.to_owned())];
        assert_eq!(signed.iter().map(|(at, signature)| (*at, signature.to_string())).collect::<Vec<_>>(), expected);
    }
}
