//! Decoding by character set name.

use std::borrow::Cow;

use super::names::{self, Codec};
use super::{escapes, tables, two_byte, unicode};

/// The handling of undecodable bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Errors {
    /// Drop undecodable bytes.
    Ignore,
    /// Replace undecodable bytes with U+FFFD.
    Replace,
    /// Fail at undecodable bytes.
    Refuse,
}

/// Decodes with the named character set, or as ASCII if the name is unknown.
pub(in super::super) fn decode<'a>(bytes: Cow<'a, [u8]>, name: &str, errors: Errors) -> Cow<'a, str> {
    let codec = names::find(name).unwrap_or(Codec::Ascii);
    decode_by(bytes, codec, errors).unwrap_or_default()
}

/// Decodes with the named character set. Returns `None` if the name is unknown, or if there is an error and `errors` is
/// [`Errors::Refuse`].
pub(in super::super) fn try_decode<'a>(bytes: Cow<'a, [u8]>, name: &str, errors: Errors) -> Option<Cow<'a, str>> {
    decode_by(bytes, names::find(name)?, errors)
}

/// Decodes a payload that is not text, as Python does. Pure ASCII is unchanged. Any other payload is decoded with the
/// declared character set.
pub(in super::super) fn undecoded(payload: &[u8], name: impl FnOnce() -> Option<String>) -> Cow<'_, str> {
    match ascii(Cow::Borrowed(payload)) {
        Ok(text) => text,
        Err(payload) => decode(payload, name().as_deref().unwrap_or("ascii"), Errors::Replace),
    }
}

/// Decodes with a known character set.
fn decode_by(bytes: Cow<'_, [u8]>, codec: Codec, errors: Errors) -> Option<Cow<'_, str>> {
    if !codec.holds_ascii() {
        return unlike_ascii(&bytes, codec, errors).map(Cow::Owned);
    }
    let bytes = match ascii(bytes) {
        Ok(text) => return Some(text),
        Err(bytes) => bytes,
    };
    if let (Codec::Utf8, Cow::Borrowed(bytes)) = (codec, &bytes)
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return Some(Cow::Borrowed(text));
    }
    let mut text = Text::new(bytes.len(), errors);
    match codec {
        Codec::Utf8 => unicode::utf_8(&bytes, &mut text),
        Codec::Utf8Signed => unicode::utf_8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes), &mut text),
        Codec::Latin1 => text.text.extend(bytes.iter().copied().map(char::from)),
        Codec::SingleByte(table) => tables::single_byte(&bytes, table, &mut text),
        Codec::TwoByte(set) => two_byte::decode(&bytes, set, &mut text),
        _ => bytes.iter().for_each(|&byte| text.push(byte.is_ascii().then(|| char::from(byte)))),
    }
    text.finish().map(Cow::Owned)
}

/// Decodes with a character set that is not a superset of ASCII.
fn unlike_ascii(bytes: &[u8], codec: Codec, errors: Errors) -> Option<String> {
    let mut text = Text::new(bytes.len(), errors);
    match codec {
        Codec::Utf16(order) => unicode::utf_16(bytes, order, &mut text),
        Codec::Utf32(order) => unicode::utf_32(bytes, order, &mut text),
        Codec::Utf7 => unicode::utf_7(bytes, &mut text),
        Codec::Hz => escapes::hz(bytes, &mut text),
        Codec::Iso2022(set) => escapes::iso_2022(bytes, set, &mut text),
        _ => {}
    }
    text.finish()
}

/// Returns the bytes as text if all are ASCII, and unchanged otherwise.
fn ascii(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>, Cow<'_, [u8]>> {
    if !bytes.is_ascii() {
        return Err(bytes);
    }
    match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Cow::Borrowed(bytes)),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|error| Cow::Owned(error.into_bytes())),
    }
}

/// Decoded text.
pub(super) struct Text {
    pub(super) text: String,
    errors: Errors,
    is_refused: bool,
}

impl Text {
    fn new(capacity: usize, errors: Errors) -> Self {
        Self { text: String::with_capacity(capacity), errors, is_refused: false }
    }

    /// Appends a character. `None` stands for an error.
    pub(super) fn push(&mut self, character: Option<char>) {
        match (character, self.errors) {
            (Some(character), _) => self.text.push(character),
            (None, Errors::Ignore) => {}
            (None, Errors::Replace) => self.text.push(char::REPLACEMENT_CHARACTER),
            (None, Errors::Refuse) => self.is_refused = true,
        }
    }

    fn finish(self) -> Option<String> {
        (!self.is_refused).then_some(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], name: &str, errors: Errors) -> String {
        decode(Cow::Borrowed(bytes), name, errors).into_owned()
    }

    #[test]
    fn errors_are_dropped_replaced_or_refused() {
        for (name, bytes, text) in [
            ("ascii", &b"a\xe4b"[..], "ab"),
            ("unknown", b"a\xe4b", "ab"),
            ("UTF-8", b"\xc3\xa4\xff\xe2\x82", "ä"),
            ("latin1", b"\xe4\x85", "ä\u{85}"),
            ("windows-1252", b"\x80\x81\xe4", "€ä"),
            ("gb2312", b"\xb0\xa1\x81\xb0\xa1\xb0", "啊啊"),
            ("utf-16", b"\xfe\xff\0a\xd8\0\0b\0", "ab"),
            ("utf-7", b"+AOQ-b+", "äb"),
            ("iso-2022-jp", b"\x1b$B!!\x1b(Ba\x80", "\u{3000}a"),
            ("hz", b"~{0!~}~~", "啊~"),
        ] {
            assert_eq!(decoded(bytes, name, Errors::Ignore), text, "{name}");
        }
        assert_eq!(decoded(b"a\xe4\xb6\xff", "utf-8", Errors::Replace), "a\u{fffd}\u{fffd}");
        assert_eq!(try_decode(Cow::Borrowed(b"a\xe4"), "us-ascii", Errors::Refuse), None);
        assert_eq!(try_decode(Cow::Borrowed(b"a"), "unknown", Errors::Ignore), None);
    }
}
