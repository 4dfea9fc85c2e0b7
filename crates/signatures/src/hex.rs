//! Hexadecimal encoding, written in lower case and read in either case.

use std::fmt;

/// Writes two digits per byte.
///
/// # Errors
/// The errors of `out`.
pub fn write(out: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Returns two digits per byte.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    // Writing to a string does not fail.
    let _ = write(&mut text, bytes);
    text
}

/// Returns the digits of a SHA-1 digest, which Razor and Pyzor hash again.
#[must_use]
pub fn sha1_digits(digest: &[u8; 20]) -> [u8; 40] {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
    let mut digits = [0; 40];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(digest) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    digits
}

/// Decodes exactly `N` bytes.
pub fn read<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    fill(&mut bytes, text)?;
    Some(bytes)
}

/// Fills `bytes` from `text`, which must have exactly two digits per byte.
pub(crate) fn fill(bytes: &mut [u8], text: &str) -> Option<()> {
    let digits = text.as_bytes();
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (decoded, pair) in bytes.iter_mut().zip(digits.as_chunks().0) {
        *decoded = byte(*pair)?;
    }
    Some(())
}

/// Returns the byte encoded by two digits.
pub fn byte(digits: [u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? << 4 | low?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_written_in_lower_case() {
        let digest: [u8; 20] = std::array::from_fn(|at| (at * 13) as u8);
        assert_eq!(text(&digest[..4]), "000d1a27");
        assert_eq!(sha1_digits(&digest), text(&digest).as_bytes());
    }

    #[test]
    fn digits_of_either_case_are_read_and_nothing_else() {
        assert_eq!(read("00fFa9"), Some([0, 255, 0xa9]));
        for text in ["", "00ff", "00ffa", "00ffa9a9", "00ffag", "+0ffa9", "é0ffa"] {
            assert_eq!(read::<3>(text), None, "{text}");
        }
    }
}
