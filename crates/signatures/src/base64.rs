//! Base64 decoding as in the clients of DCC and Razor. Characters outside the alphabet are skipped, and the first `=`
//! ends the text.

use memchr::memchr;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Value of a character outside the alphabet. All characters in the alphabet have values below 64, so the bitwise OR of
/// a group's values shows whether the group has such a character.
const NONE: u8 = 64;

/// The value of each byte.
const VALUES: [u8; 256] = values();

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated at compile time; the index is a byte, and the table has 256 entries"
)]
const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut value = 0;
    let mut rest: &[u8] = ALPHABET;
    while let [character, behind @ ..] = rest {
        values[*character as usize] = value;
        value += 1;
        rest = behind;
    }
    values
}

fn value(byte: u8) -> u8 {
    VALUES.get(usize::from(byte)).copied().unwrap_or(NONE)
}

/// Returns true if `byte` is in the alphabet.
pub(crate) fn is_character(byte: u8) -> bool {
    value(byte) < NONE
}

/// Appends the decoded `text` to `decoded`. If a single character is left over at the end, returns its value, because
/// its six bits do not make a byte.
pub(crate) fn decode_into(text: &[u8], decoded: &mut Vec<u8>) -> Option<u8> {
    let mut rest = text.get(..memchr(b'=', text).unwrap_or(text.len())).unwrap_or(text);
    decoded.reserve(rest.len() / 4 * 3 + 3);
    loop {
        rest = decode_clean_groups(rest, decoded);
        let (group, length, behind) = next_group(rest);
        decoded.extend(bytes(group).into_iter().take(length * 3 / 4));
        if length < 4 {
            return group.first().copied().filter(|_| length == 1);
        }
        rest = behind;
    }
}

/// Decodes groups up to the first character outside the alphabet, usually the end of the line. Returns the rest.
fn decode_clean_groups<'a>(text: &'a [u8], decoded: &mut Vec<u8>) -> &'a [u8] {
    let mut length = 0;
    for group in text.as_chunks().0 {
        let group = group.map(value);
        if group.iter().fold(0, |all, value| all | value) >= NONE {
            break;
        }
        decoded.extend_from_slice(&bytes(group));
        length += group.len();
    }
    text.get(length..).unwrap_or_default()
}

/// Returns the values of the next four characters of the alphabet, the number of characters found, and the rest of the
/// text.
fn next_group(text: &[u8]) -> ([u8; 4], usize, &[u8]) {
    let mut group = [0; 4];
    let mut length = 0;
    let mut bytes = text.iter();
    let values = bytes.by_ref().map(|&byte| value(byte)).filter(|&value| value < NONE);
    for (place, value) in group.iter_mut().zip(values) {
        *place = value;
        length += 1;
    }
    (group, length, bytes.as_slice())
}

/// Returns the bytes of a full group.
fn bytes(group: [u8; 4]) -> [u8; 3] {
    let bits = group.iter().fold(0, |bits, &value| bits << 6 | u32::from(value));
    let [_, bytes @ ..] = bits.to_be_bytes();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> (Vec<u8>, Option<u8>) {
        let mut decoded = b">".to_vec();
        let left_over = decode_into(text.as_bytes(), &mut decoded);
        (decoded, left_over)
    }

    #[test]
    fn anything_may_lie_between_characters() {
        for text in
            ["aGVsbG8gd29ybGQh", "aGVs\r\nbG8gd29ybG Qh", "*a*G*V*s*b*G*8*g*d*2*9*y*b*G*Q*h", "aGVsbG8gd29ybGQh\n=x"]
        {
            assert_eq!(decode(text), (b">hello world!".to_vec(), None), "{text}");
        }
    }

    #[test]
    fn a_group_may_be_short() {
        assert_eq!(decode(""), (b">".to_vec(), None));
        assert_eq!(decode("aGVsD"), (b">hel".to_vec(), Some(3)));
        assert_eq!(decode("aGVsbG"), (b">hell".to_vec(), None));
        assert_eq!(decode("aGVsbG8=bG8"), (b">hello".to_vec(), None));
    }
}
