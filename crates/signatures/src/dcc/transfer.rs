//! Lenient transfer decoding. Malformed mail is decoded as far as possible.

use std::borrow::Cow;

use crate::base64;
use crate::transfer::{Encoding, quoted_printable};

/// Decodes a transfer encoding.
pub(super) fn decode(text: &[u8], encoding: Encoding) -> Cow<'_, [u8]> {
    match encoding {
        Encoding::None => text.into(),
        Encoding::Base64 => base64(text).into(),
        Encoding::QuotedPrintable => quoted_printable(text).into(),
    }
}

fn base64(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    base64::decode_into(text, &mut decoded);
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_undone() {
        let decoded = |name: &[u8], text: &'static [u8]| decode(text, Encoding::named(name));
        assert_eq!(*decoded(b" Base64\r\n", b"aGV*s\nbG8=xx"), *b"hello");
        assert_eq!(*decoded(b"Quoted-Printable", b"=41=\r\nb=\n=3d=4=zz="), *b"Ab==4=zz=");
        assert_eq!(*decoded(b"8bit", b"=41"), *b"=41");
    }
}
