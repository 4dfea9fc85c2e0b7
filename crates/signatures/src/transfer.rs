//! Transfer encodings: their names, and quoted-printable decoding.
//!
//! Base64 is decoded by its callers, because readers differ in how they handle malformed base64.

use memchr::memchr;

use crate::hex;

/// A transfer encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// No encoding.
    #[default]
    None,
    /// RFC 2045, section 6.8.
    Base64,
    /// RFC 2045, section 6.7.
    QuotedPrintable,
}

impl Encoding {
    /// Returns the encoding with this name.
    pub(crate) fn named(name: &[u8]) -> Self {
        let name = name.trim_ascii();
        if name.eq_ignore_ascii_case(b"base64") {
            Self::Base64
        } else if name.eq_ignore_ascii_case(b"quoted-printable") {
            Self::QuotedPrintable
        } else {
            Self::None
        }
    }
}

/// Decodes escapes and soft line ends. Any other `=` stays; mail-parser would reject the whole text because of it.
pub(crate) fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, [_, escape @ ..])) = memchr(b'=', rest).and_then(|mark| rest.split_at_checked(mark)) {
        decoded.extend_from_slice(plain);
        rest = match escape {
            [b'\n', behind @ ..] | [b'\r', b'\n', behind @ ..] => behind,
            [high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                decoded.extend(hex::byte([*high, *low]));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_printable_with_signs_that_mean_nothing() {
        let decoded = |raw: &str| String::from_utf8(quoted_printable(raw.as_bytes())).unwrap();
        assert_eq!(decoded("a=3Db=\nc=\r\nd"), "a=bcd");
        assert_eq!(decoded("a=zb =\u{e9}= =3"), "a=zb =\u{e9}= =3");
        assert_eq!(decoded("=e2=82=AC"), "€");
    }
}
