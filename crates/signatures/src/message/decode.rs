//! Lenient decoding of transfer encodings and character sets.

use std::borrow::Cow;
use std::ops::Range;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;

use crate::transfer::{Encoding, quoted_printable};

/// Minimum length, without line ends, of a run of base64 characters that counts as base64 within a text.
const BASE64_RUN_MIN: usize = 180;

/// Maximum average number of bytes per blank in text.
const BASE64_BYTES_PER_BLANK: usize = 100;

/// Decodes the transfer encoding.
pub(super) fn transfer(raw: &[u8], encoding: Encoding) -> Cow<'_, [u8]> {
    match encoding {
        Encoding::None => Cow::Borrowed(raw),
        Encoding::Base64 => Cow::Owned(base64(raw)),
        Encoding::QuotedPrintable => Cow::Owned(quoted_printable(raw)),
    }
}

/// Decodes undeclared or doubly encoded base64 in text, as produced by mailing lists and relays that rewrite
/// messages. Only the first run is decoded, and only if it contains text.
pub(super) fn without_stray_base64<'m>(text: Cow<'m, str>, charset: Option<&str>) -> Cow<'m, str> {
    let Some(run) = base64_run(text.as_bytes()) else { return text };
    let decoded = base64(text.as_bytes().get(run.clone()).unwrap_or_default());
    if !is_text(&decoded) {
        return text;
    }
    let decoded =
        self::text(Cow::Owned(decoded), charset.filter(|name| !name.to_ascii_lowercase().starts_with("utf-16")));
    let around = |range: Range<usize>| text.get(range).unwrap_or_default();
    Cow::Owned([around(0..run.start), &decoded, around(run.end..text.len())].concat())
}

/// Returns true if decoded bytes look like text: they contain enough blanks and no control characters.
fn is_text(bytes: &[u8]) -> bool {
    let is_control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r' | b'\n');
    let blanks = memchr::memchr_iter(b' ', bytes).count();
    !bytes.iter().any(is_control) && blanks * BASE64_BYTES_PER_BLANK >= bytes.len()
}

/// Returns true if a run of letters looks like base64 rather than words. Base64 has upper case, lower case and digits,
/// and all lines but the last have the same length.
fn looks_encoded(run: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| run.iter().any(is);
    let mut lines = run.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = lines.next().map_or(0, <[u8]>::len);
    let others: Vec<usize> = lines.map(<[u8]>::len).collect();
    let are_even =
        others.split_last().is_none_or(|(&last, middle)| last <= first && middle.iter().all(|&line| line == first));
    has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit) && are_even
}

/// Finds a run of base64 within other text. Such a run has no blanks, so only stretches without blanks are scanned.
fn base64_run(bytes: &[u8]) -> Option<Range<usize>> {
    let ends = memchr::memchr_iter(b' ', bytes).chain([bytes.len()]);
    let mut start = 0;
    for end in ends {
        let gap = start..end;
        start = end + 1;
        if gap.len() >= BASE64_RUN_MIN
            && let Some(run) = base64_run_in(bytes, gap)
            && looks_encoded(bytes.get(run.clone()).unwrap_or_default())
        {
            return Some(run);
        }
    }
    None
}

fn base64_run_in(bytes: &[u8], gap: Range<usize>) -> Option<Range<usize>> {
    let mut start = gap.start;
    let mut letters = 0;
    for (at, byte) in bytes.iter().enumerate().take(gap.end).skip(gap.start) {
        match byte {
            b'\r' | b'\n' => {}
            byte if is_base64_letter(byte) => {
                start = if letters == 0 { at } else { start };
                letters += 1;
            }
            _ if letters >= BASE64_RUN_MIN => return Some(start..at),
            _ => letters = 0,
        }
    }
    (letters >= BASE64_RUN_MIN).then_some(start..gap.end)
}

/// Decodes base64, skipping other characters. The encoded text ends at its padding, or at a line that is not base64,
/// such as the footer of a mailing list.
fn base64(raw: &[u8]) -> Vec<u8> {
    base64_decode(raw).unwrap_or_else(|| {
        let mut letters: Vec<u8> = Vec::with_capacity(raw.len());
        for line in raw.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
            let found = line.iter().copied().filter(is_base64_letter).count();
            let is_encoded = found * 10 >= line.len() * 9 && !line.contains(&b' ');
            if !is_encoded && !letters.is_empty() {
                break;
            }
            let data = line.split(|&byte| byte == b'=').next().unwrap_or_default();
            letters.extend(data.iter().copied().filter(|byte| is_encoded && is_base64_letter(byte)));
            if data.len() < line.len() && is_encoded {
                break;
            }
        }
        // A single remaining letter does not encode a whole byte.
        letters.truncate(letters.len() - usize::from(letters.len() % 4 == 1));
        base64_decode(&letters).unwrap_or_default()
    })
}

fn is_base64_letter(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

/// Decodes the character set. Valid UTF-8 is read as UTF-8 if it is labelled as a Western character set or has no
/// label.
pub(super) fn text<'m>(bytes: Cow<'m, [u8]>, charset: Option<&str>) -> Cow<'m, str> {
    let charset =
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") { Some("utf-16") } else { charset };
    // UTF-16 text without a byte order mark is full of zero bytes. Without this test, it would count as valid UTF-8.
    let bytes = if charset.is_none_or(is_western) && memchr::memchr(0, &bytes).is_none() {
        match utf8(bytes) {
            Ok(text) => return text,
            Err(bytes) => bytes,
        }
    } else {
        bytes
    };
    let decoder =
        charset.and_then(|name| charset_decoder(name.as_bytes())).or_else(|| charset_decoder(b"windows-1252"));
    match decoder {
        Some(decode) => Cow::Owned(decode(&bytes)),
        None => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Returns the bytes as text if they are valid UTF-8.
fn utf8(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>, Cow<'_, [u8]>> {
    match bytes {
        Cow::Borrowed(bytes) => str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Cow::Borrowed(bytes)),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|error| Cow::Owned(error.into_bytes())),
    }
}

/// Returns true if UTF-8 text is often mislabelled with this name.
fn is_western(charset: &str) -> bool {
    const NAMES: [&str; 8] =
        ["us-ascii", "ascii", "utf-8", "utf8", "iso-8859-1", "latin1", "windows-1252", "unknown-8bit"];
    NAMES.iter().any(|name| charset.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base64_text(raw: &str) -> String {
        String::from_utf8(transfer(raw.as_bytes(), Encoding::Base64).into_owned()).unwrap()
    }

    #[test]
    fn base64_with_something_between_or_behind() {
        assert_eq!(base64_text("SGVsbG8sIHdvcmxk"), "Hello, world");
        assert_eq!(base64_text("SGVs\nbG8s\r\nIHdvcmxk"), "Hello, world");
        assert_eq!(base64_text("SGVsbG8sIHdvcmxkIQ==\n\n-----\nA list and its footer\n"), "Hello, world!");
        assert_eq!(
            base64_text("SGVsbG8sIHdvcmxkSGVsbG8sIHdv!cmxk\nSGVsbG8sIHdvcmxk"),
            "Hello, worldHello, worldHello, world"
        );
        assert_eq!(base64_text("SGVsbG8sIHdvcmxkS"), "Hello, world");
        assert_eq!(base64_text("???"), "");
    }

    #[test]
    fn character_sets_as_named_or_as_they_are() {
        let read = |bytes: &'static [u8], charset| text(Cow::Borrowed(bytes), charset).into_owned();
        assert_eq!(read("grün".as_bytes(), None), "grün");
        assert_eq!(read("grün".as_bytes(), Some("iso-8859-1")), "grün");
        assert_eq!(read(b"gr\xfcn", Some("iso-8859-1")), "grün");
        assert_eq!(read(b"gr\xfcn", None), "grün");
        assert_eq!(read(b"gr\xfcn", Some("no-such-set")), "grün");
        assert_eq!(read(b"\xd0\xf3\xf1\xf1\xea\xe8\xe9", Some("windows-1251")), "Русский");
        assert_eq!(read(b"\xff\xfeh\0i\0", None), "hi");
        assert_eq!(read(b"\0h\0i", Some("utf-16be")), "hi");
    }

    #[test]
    fn base64_that_nobody_declared() {
        let encoded = "VGhpcyB0ZXh0IHdhcyBlbmNvZGVkIHR3aWNlIGJ5IGEgbGlzdC4g".repeat(4);
        let plain = "This text was encoded twice by a list. ".repeat(4);
        let read = |text: String| without_stray_base64(Cow::Owned(text), None).into_owned();
        assert_eq!(read(encoded.clone()), plain);
        assert_eq!(read(format!("Dear John,\n{encoded}\n-- footer")), format!("Dear John,\n{plain}-- footer"));
        let short = encoded.get(..104).unwrap().to_owned();
        assert_eq!(read(short.clone()), short);
        let words = "Words\n0f\nmany\nlines\nwithout\nany\nblank\n".repeat(10);
        assert_eq!(read(words.clone()), words);
        let picture = format!("iVBORw0KGgoAAAANSUhEUg{}", "AAAA".repeat(50));
        assert_eq!(read(picture.clone()), picture);
    }
}
