//! Hexadecimal: written in lower case, read in either case.

use std::fmt;

/// Writes two digits per byte.
pub(crate) fn write(out: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Decodes exactly `N` bytes.
pub fn read<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = (digit(*high)? << 4) | digit(*low)?;
    }
    Some(bytes)
}

/// Returns the value of a hex digit.
pub(crate) fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).map(|digit| digit as u8)
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
