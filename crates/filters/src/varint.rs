//! Variable-length integers: seven bits per byte, least significant first. All bytes but the last have the top bit set.
//!
//! Each number has exactly one encoding, because a redundant last byte of zero is rejected.

use crate::file::FileError;

/// Maximum length in bytes.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

/// Appends `value`.
pub(crate) fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the number called `field` from the front of `bytes`.
pub(crate) fn take(bytes: &mut &[u8], field: &'static str) -> Result<u64, FileError> {
    let mut value = 0;
    for at in 0..VARINT_BYTES_MAX {
        let (&byte, rest) = bytes.split_first().ok_or(FileError::Truncated)?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        let is_last = byte & 0x80 == 0;
        let fits = at + 1 < VARINT_BYTES_MAX || byte <= 1;
        if !fits || is_last && bits == 0 && at > 0 {
            return Err(FileError::invalid(field, byte));
        }
        value |= bits << (7 * at);
        if is_last {
            return Ok(value);
        }
    }
    unreachable!("the loop returns no later than at the last byte")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(value, &mut bytes);
        bytes
    }

    fn number(mut bytes: &[u8]) -> Result<u64, FileError> {
        let value = take(&mut bytes, "a number")?;
        assert_eq!(bytes, [7], "the bytes after the number remain");
        Ok(value)
    }

    proptest! {
        #[test]
        fn numbers_round_trip_and_truncated_ones_fail(value: u64, shift in 0..64u32) {
            let value = value >> shift;
            let bytes = bytes_of(value);
            prop_assert_eq!(bytes.len(), (64 - value.leading_zeros()).div_ceil(7).max(1) as usize);
            prop_assert_eq!(number(&[&bytes[..], &[7]].concat()).unwrap(), value);
            for cut in 0..bytes.len() {
                prop_assert!(matches!(take(&mut &bytes[..cut], "a number"), Err(FileError::Truncated)));
            }
        }
    }

    #[test]
    fn a_number_has_one_encoding_and_at_most_64_bits() {
        assert_eq!(bytes_of(u64::MAX).len(), VARINT_BYTES_MAX);
        assert_eq!(number(&[&bytes_of(u64::MAX)[..], &[7]].concat()).unwrap(), u64::MAX);
        let too_large = [&[0xff; 9][..], &[2]].concat();
        let endless = [0x80; 20];
        for bytes in [&[0x80, 0][..], &[0x85, 0x80, 0], &too_large, &endless] {
            assert!(matches!(take(&mut &*bytes, "a number"), Err(FileError::InvalidField { .. })), "{bytes:?}");
        }
    }
}
