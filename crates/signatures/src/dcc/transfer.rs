//! Transfer encodings undone, forgivingly: mail that breaks the rules is decoded as far as it goes.

use std::borrow::Cow;

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

/// Up to the first `=`; characters outside the alphabet do not count.
fn base64(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    let (mut waiting, mut waiting_bits) = (0u32, 0);
    for value in text.iter().take_while(|&&byte| byte != b'=').filter_map(|&byte| base64_value(byte)) {
        waiting = waiting << 6 | u32::from(value);
        waiting_bits += 6;
        if waiting_bits >= 8 {
            waiting_bits -= 8;
            decoded.push((waiting >> waiting_bits) as u8);
        }
    }
    decoded
}

fn base64_value(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Escapes and soft line ends; an `=` that is neither stays.
fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match (byte, behind) {
            (b'=', [b'\n', behind @ ..] | [b'\r', b'\n', behind @ ..]) => rest = behind,
            (b'=', [high, low, behind @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                decoded.push(hex_value(*high) << 4 | hex_value(*low));
                rest = behind;
            }
            _ => decoded.push(byte),
        }
    }
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
