//! The attachment scheme. It makes one signature for each part that is not text, or that is displayed as a file.
//!
//! The signature is the SHA-256 of the decoded content, in the form that `sha256sum` prints for the saved file. It can
//! therefore be looked up in other services. An empty part has no signature.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use crate::exact::Sha256Signature;
use crate::message::{Message, Part};
use crate::outline::Piece;

/// The signature of one attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedFile {
    /// Index of the part in the message.
    pub part: usize,
    /// Kind of piece that the signature covers.
    pub piece: Piece,
    /// Signature of the content.
    pub signature: Sha256Signature,
}

/// Signs the attachments of a message.
pub fn sign(message: &Message<'_>) -> Vec<SignedFile> {
    let parts = message.parts().into_iter().enumerate();
    let contents = parts.filter(|(_, part)| is_file(part)).map(|(index, part)| (index, part, part.bytes()));
    let signed = |(part, found, bytes): (usize, &Part<'_>, Cow<'_, [u8]>)| SignedFile {
        part,
        piece: Piece::of_file(found, &bytes),
        signature: Sha256Signature(Sha256::digest(&bytes).into()),
    };
    contents.filter(|(_, _, bytes)| !bytes.is_empty()).map(signed).collect()
}

/// Returns true if a part is a file, i.e. is not text or is displayed as a file.
pub(crate) fn is_file(part: &Part<'_>) -> bool {
    part.media.is_attachment || !part.media.is("text", None)
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
        // The example "abc" from FIPS 180-2.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let expected = [(1, abc.to_owned()), (2, abc.to_owned())];
        let found: Vec<_> = signed.iter().map(|file| (file.part, file.signature.to_string())).collect();
        assert_eq!(found, expected);
    }
}
