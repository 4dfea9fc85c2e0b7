//! Transfer encodings undone, forgivingly: mail that breaks the rules is decoded as far as it goes.

use std::borrow::Cow;

use memchr::memchr;

use crate::base64;

/// How a part travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Identity,
    Base64,
    QuotedPrintable,
}

impl Encoding {
    /// The encoding that a field names.
    pub(super) fn named(name: &[u8]) -> Self {
        let name = name.trim_ascii();
        if name.eq_ignore_ascii_case(b"base64") {
            Self::Base64
        } else if name.eq_ignore_ascii_case(b"quoted-printable") {
            Self::QuotedPrintable
        } else {
            Self::Identity
        }
    }

    pub(super) fn decode(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Identity => text.into(),
            Self::Base64 => base64(text).into(),
            Self::QuotedPrintable => quoted_printable(text).into(),
        }
    }
}

fn base64(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    base64::decode_into(text, &mut decoded);
    decoded
}

/// Escapes and soft line ends; an `=` that is neither stays.
fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, [_, escape @ ..])) = memchr(b'=', rest).and_then(|mark| rest.split_at_checked(mark)) {
        decoded.extend_from_slice(plain);
        rest = match escape {
            [b'\n', behind @ ..] | [b'\r', b'\n', behind @ ..] => behind,
            [high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                decoded.push(hex_value(*high) << 4 | hex_value(*low));
                behind
            }
            _ => {
                decoded.push(b'=');
                escape
            }
        };
    }
    decoded.extend_from_slice(rest);
    decoded
}

/// The value of a hexadecimal digit.
fn hex_value(digit: u8) -> u8 {
    char::from(digit).to_digit(16).map_or(0, |value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_undone() {
        assert_eq!(*Encoding::named(b" Base64\r\n").decode(b"aGV*s\nbG8=xx"), *b"hello");
        assert_eq!(*Encoding::named(b"Quoted-Printable").decode(b"=41=\r\nb=\n=3d=4=zz="), *b"Ab==4=zz=");
        assert_eq!(*Encoding::named(b"8bit").decode(b"=41"), *b"=41");
    }
}
