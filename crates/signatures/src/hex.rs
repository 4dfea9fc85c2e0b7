//! Hexadecimal encoding, written in lower case and read in either case.

use std::fmt;

/// Writes two digits per byte.
pub(crate) fn write(out: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
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
    fn digits_of_either_case_are_read_and_nothing_else() {
        assert_eq!(read("00fFa9"), Some([0, 255, 0xa9]));
        for text in ["", "00ff", "00ffa", "00ffa9a9", "00ffag", "+0ffa9", "é0ffa"] {
            assert_eq!(read::<3>(text), None, "{text}");
        }
    }
}
