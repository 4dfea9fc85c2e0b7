//! Digests, which is Pyzor's term for the signatures of messages, and their text form.

/// Size of a digest, which is a SHA-1.
pub const DIGEST_BYTES: usize = 20;

/// A digest.
pub type Digest = [u8; DIGEST_BYTES];

/// Parses forty hex digits in upper or lower case.
pub(super) fn read(digits: &[u8]) -> Option<Digest> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let pairs: &[[u8; 2]; DIGEST_BYTES] = pairs.try_into().ok()?;
    let mut wrong = 0;
    let digest = pairs.map(|[high, low]| {
        let (high, low) = (value(high), value(low));
        wrong |= high | low;
        high << 4 | (low & 0xf)
    });
    (wrong < 16).then_some(digest)
}

/// Returns the value of a hex digit. Returns 16 or more for any other byte. The code has no branches, because a CPU
/// cannot predict branches on random digits.
const fn value(digit: u8) -> u8 {
    let decimal = digit.wrapping_sub(b'0');
    let letter = (digit | 0x20).wrapping_sub(b'a');
    let decimal = if decimal < 10 { decimal } else { 0x80 };
    let letter = if letter < 6 { letter + 10 } else { 0x80 };
    if decimal < letter { decimal } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_digits_of_either_case_are_a_digest() {
        let digits = b"eb2a0e84c910ecae205eba635c8e442e85f5ee9a";
        let digest = read(digits).unwrap();
        assert_eq!((digest[0], digest[19]), (0xeb, 0x9a));
        assert_eq!(read(&digits.to_ascii_uppercase()), Some(digest));
        let written: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written.as_bytes(), digits);
    }

    #[test]
    fn anything_else_is_none() {
        for digits in [&[b'0'; 39][..], &[b'0'; 41], &[b'0'; 42], &[b'0'; 38], b""] {
            assert_eq!(read(digits), None);
        }
        for at in 0..40 {
            for byte in (0..=u8::MAX).filter(|byte| !byte.is_ascii_hexdigit()) {
                let mut digits = [b'f'; 40];
                digits[at] = byte;
                assert_eq!(read(&digits), None, "{byte} at {at}");
            }
        }
    }
}
