//! Structured information strings: `key=value` pairs joined by `&`, one string per line.
//!
//! Keys are short lower-case words. In values, every byte except letters, digits and `-._~` is escaped as `%` and two
//! hex digits. This includes `=`, because the client splits at every `=`.

use std::borrow::Cow;

use bruit_signatures::hex;
use memchr::memchr;

/// Iterates over the pairs of a line without its line ending, in order, with decoded values. A missing value is empty.
pub(super) fn pairs(line: &[u8]) -> impl Iterator<Item = (&[u8], Cow<'_, [u8]>)> {
    raw_pairs(line).map(|(key, value)| (key, unescape(value)))
}

/// Iterates over the pairs of a line. The values are not decoded.
pub(super) fn raw_pairs(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).map(split_pair)
}

fn split_pair(pair: &[u8]) -> (&[u8], &[u8]) {
    let Some((key, value)) = memchr(b'=', pair).and_then(|place| pair.split_at_checked(place)) else {
        return (pair, b"");
    };
    (key, value.get(1..).unwrap_or_default())
}

/// Strips LF and a preceding CR.
pub(super) fn strip_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Decodes percent-escapes. A `%` not followed by two hex digits is literal.
pub(super) fn unescape(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'%', value).is_none() {
        return Cow::Borrowed(value);
    }
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [first, tail @ ..] = rest {
        let byte = if *first == b'%' { escaped(tail) } else { None };
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    Cow::Owned(decoded)
}

/// Returns the byte encoded by the two digits at the start of `text`.
fn escaped(text: &[u8]) -> Option<u8> {
    hex::byte(*text.first_chunk()?)
}

/// Appends a line of pairs. The keys should ascend.
pub(super) fn put_line(out: &mut Vec<u8>, pairs: &[(&str, &[u8])]) {
    for (place, (key, value)) in pairs.iter().enumerate() {
        out.extend_from_slice(if place == 0 { b"" } else { b"&" });
        out.extend_from_slice(key.as_bytes());
        out.push(b'=');
        value.iter().for_each(|&byte| put_escaped(out, byte));
    }
    out.extend_from_slice(b"\r\n");
}

fn put_escaped(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        out.push(byte);
        return;
    }
    let digit = |value: u8| DIGITS.get(usize::from(value & 15)).copied().unwrap_or(b'0');
    out.extend([b'%', digit(byte >> 4), digit(byte)]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(line: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        pairs(line.as_bytes()).map(|(key, value)| (text(key), text(&value))).collect()
    }

    #[test]
    fn a_line_is_pairs_in_order() {
        let expected = [("a", "reg"), ("user", "al=ice@example.org"), ("pass", ""), ("flag", "")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(texts("a=reg&user=al=ice%40example.org&pass=&&flag"), expected);
        assert_eq!(texts(""), []);
    }

    #[test]
    fn a_plus_is_no_blank_and_a_lone_percent_stands_for_itself() {
        assert_eq!(texts("k=a+b%20c"), [("k".to_owned(), "a+b c".to_owned())]);
        for lone in ["%", "%4", "%zz", "100%&"] {
            assert_eq!(unescape(lone.as_bytes()), lone.as_bytes());
        }
        assert_eq!(unescape(b"%%41%4a%4A"), &b"%AJJ"[..]);
    }

    #[test]
    fn one_line_end_is_stripped_with_or_without_cr() {
        for (line, bare) in [("x\r\n", "x"), ("x\n", "x"), ("x", "x"), ("x\r\r\n", "x\r"), ("\r\n", ""), ("\n\n", "\n")]
        {
            assert_eq!(strip_line_end(line.as_bytes()), bare.as_bytes());
        }
    }

    #[test]
    fn all_but_unreserved_bytes_are_escaped() {
        let mut line = b"-".to_vec();
        put_line(&mut line, &[("a", b"-._~09azAZ-"), ("b", b"&=?*% :\xff\0")]);
        assert_eq!(line, b"-a=-._~09azAZ-&b=%26%3D%3F%2A%25%20%3A%FF%00\r\n");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let mut line = Vec::new();
            put_line(&mut line, &values.iter().map(|value| ("key", &value[..])).collect::<Vec<_>>());
            let read: Vec<Vec<u8>> = pairs(strip_line_end(&line)).map(|(_, value)| value.into_owned()).collect();
            prop_assert_eq!(read, values);
        }
    }
}
