//! Transfer decoding as in Python's `email` and `binascii`. Malformed input never fails.

use std::borrow::Cow;

use crate::hex;

/// Removes the transfer encoding of `payload`. An unknown name, or a known name with a trailing blank, counts as no
/// encoding.
pub(super) fn decode<'a>(payload: &'a [u8], encoding: &[u8]) -> Cow<'a, [u8]> {
    let is_one_of = |names: &[&str]| names.iter().any(|name| encoding.eq_ignore_ascii_case(name.as_bytes()));
    if is_one_of(&["quoted-printable"]) {
        quoted_printable(payload)
    } else if is_one_of(&["base64"]) {
        Cow::Owned(base64(payload))
    } else if is_one_of(&["x-uuencode", "uuencode", "uue", "x-uue"]) {
        uuencode(payload).map_or(Cow::Borrowed(payload), Cow::Owned)
    } else {
        Cow::Borrowed(payload)
    }
}

/// Decodes quoted-printable. A malformed escape stays. If a CR follows the equals sign, everything up to the next LF is
/// dropped.
fn quoted_printable(payload: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'=', payload) else { return Cow::Borrowed(payload) };
    let mut decoded = Vec::with_capacity(payload.len());
    let (start, mut rest) = payload.split_at_checked(first).unwrap_or_default();
    decoded.extend_from_slice(start);
    while let Some((_, escaped)) = rest.split_first() {
        let after = match escaped {
            [b'\n', after @ ..] => after,
            [b'\r', after @ ..] => {
                let end = memchr::memchr(b'\n', after).map_or(after.len(), |at| at + 1);
                after.get(end..).unwrap_or_default()
            }
            [b'=', after @ ..] => {
                decoded.push(b'=');
                after
            }
            [high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                decoded.extend(hex::byte([*high, *low]));
                after
            }
            [] => &[],
            after => {
                decoded.push(b'=');
                after
            }
        };
        let next = memchr::memchr(b'=', after).unwrap_or(after.len());
        let (plain, from_next) = after.split_at_checked(next).unwrap_or_default();
        decoded.extend_from_slice(plain);
        rest = from_next;
    }
    Cow::Owned(decoded)
}

/// Decodes base64 up to the first complete padding, skipping other characters. If a single character remains at the
/// end, the payload is not decoded at all.
///
/// Python decodes up to three times: twice strictly, then once with additional padding. If an earlier attempt succeeds,
/// the last one would return the same result. So only the last one is implemented.
fn base64(payload: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(payload.len() / 4 * 3 + 3);
    let mut group = 0_u32;
    let mut group_length = 0;
    let mut padding = 0;
    for &byte in payload.iter().chain(b"==") {
        if let Some(value) = base64_value(byte) {
            padding = 0;
            group = group << 6 | u32::from(value);
            group_length = (group_length + 1) % 4;
            match group_length {
                2 => decoded.push((group >> 4) as u8),
                3 => decoded.push((group >> 2) as u8),
                0 => decoded.push(group as u8),
                _ => {}
            }
        } else if byte == b'=' && group_length >= 2 {
            padding += 1;
            if group_length + padding == 4 {
                return decoded;
            }
        }
    }
    if group_length == 0 {
        return decoded;
    }
    payload.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect()
}

/// Returns the six bits of a base64 character.
fn base64_value(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Decodes the lines between `begin` and `end` of uuencoded text. Returns `None` if the `begin` line is missing, or if
/// a line is empty or irreparable.
fn uuencode(payload: &[u8]) -> Option<Vec<u8>> {
    let mut lines = lines(payload);
    lines.find(|line| line.strip_prefix(b"begin ").is_some_and(starts_with_mode))?;
    let mut decoded = Vec::new();
    for line in lines {
        if line.is_empty() {
            return None;
        }
        if line.trim_ascii() == b"end" {
            break;
        }
        uuencode_line(line, &mut decoded)?;
    }
    Some(decoded)
}

/// Splits text into lines as Python splits bytes: at CR, LF or both, without an empty last line.
fn lines(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end)?;
        rest = after.strip_prefix(b"\r\n").or_else(|| after.get(1..)).unwrap_or_default();
        Some(line)
    })
}

/// Returns true if the text up to the first blank is an octal number by Python's rules. These allow surrounding white
/// space, a sign, a prefix and single underscores.
fn starts_with_mode(line: &[u8]) -> bool {
    let word = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    let unsigned = match word.trim_ascii() {
        [b'+' | b'-', unsigned @ ..] => unsigned,
        unsigned => unsigned,
    };
    let digits = match unsigned {
        [b'0', b'o' | b'O', b'_', digits @ ..] | [b'0', b'o' | b'O', digits @ ..] => digits,
        digits => digits,
    };
    digits
        .split(|&byte| byte == b'_')
        .all(|group| !group.is_empty() && group.iter().all(|byte| matches!(byte, b'0'..=b'7')))
}

/// Decodes one line. If it is too long, decodes as many bytes as its length byte states.
fn uuencode_line(line: &[u8], decoded: &mut Vec<u8>) -> Option<()> {
    let before = decoded.len();
    if uuencode_attempt(line, decoded).is_some() {
        return Some(());
    }
    decoded.truncate(before);
    let length = usize::from(line.first()?.wrapping_sub(b' ') & 0x3f);
    let needed = (length * 4 + 5) / 3;
    uuencode_attempt(line.get(..needed).unwrap_or(line), decoded)
}

/// Decodes one line like `binascii.a2b_uu`. Missing characters are zero, and only padding may follow.
fn uuencode_attempt(line: &[u8], decoded: &mut Vec<u8>) -> Option<()> {
    let (first, mut rest) = line.split_first()?;
    let mut missing = first.wrapping_sub(b' ') & 0x3f;
    let mut bits = 0_u32;
    let mut bit_count = 0;
    while missing > 0 {
        let value = match rest.split_first() {
            Some((byte @ b' '..=b'`', after)) => {
                rest = after;
                (byte - b' ') & 0x3f
            }
            Some(_) => return None,
            None => 0,
        };
        bits = bits << 6 | u32::from(value);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            decoded.push((bits >> bit_count) as u8);
            missing -= 1;
        }
    }
    rest.iter().all(|byte| matches!(byte, b' ' | b'`')).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(payload: &str, encoding: &str) -> String {
        String::from_utf8(decode(payload.as_bytes(), encoding.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn quoted_printable_keeps_what_is_broken() {
        assert_eq!(decoded("a=62=\nc=\r\nd==e=4g=", "Quoted-Printable"), "abcd=e=4g");
        assert_eq!(decoded("a=\rlost\nb", "quoted-printable"), "ab");
        assert_eq!(decoded("a=62", "quoted-printable "), "a=62");
    }

    #[test]
    fn base64_is_repaired() {
        for (encoded, expected) in [
            ("YWJj\r\nZGVm", "abcdef"),
            ("YWJjZA", "abcd"),
            ("YW*Jj", "abc"),
            ("YWI=YWJj", "ab"),
            ("YW*I", "ab"),
            ("YWJjZ", "YWJjZ"),
            ("=YWJj", "abc"),
        ] {
            assert_eq!(decoded(encoded, "BASE64"), expected, "{encoded}");
        }
    }

    #[test]
    fn uuencode_is_read_between_begin_and_end() {
        assert_eq!(decoded("x\nbegin 644 name\n#86)C\n`\nend\ny", "x-uuencode"), "abc");
        assert_eq!(decoded("begin 644 name\n#86)Cgarbage\nend\n", "uue"), "abc");
        assert_eq!(decoded("begin 9 name\n#86)C\nend\n", "uue"), "begin 9 name\n#86)C\nend\n");
        assert_eq!(decoded("begin 644 name\n\n#86)C\nend\n", "uue"), "begin 644 name\n\n#86)C\nend\n");
    }
}
