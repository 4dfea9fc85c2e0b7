//! Encoding of sets of narrow fingerprints: sorted numbers with Rice-coded gaps.
//!
//! - Each set has exactly one encoding, so equal sets have equal hashes and signatures.
//! - The size is close to the information content of a set of random numbers, and never more than 66 bits per number
//!   plus ten bytes.
//! - No input causes a panic or an allocation of more than a few times its own length.
//!
//! The numbers may have any meaning. `docs/design/filter-files.md` specifies the bytes.
//!
//! ```
//! use bruit_filters::sorted::{decode_sorted, encode_sorted};
//!
//! let mut bytes = Vec::new();
//! encode_sorted(&[3, 1 << 40, u64::MAX], &mut bytes);
//! bytes.extend(b"more");
//! assert_eq!(decode_sorted(&bytes, 3)?, (vec![3, 1 << 40, u64::MAX], &b"more"[..]));
//! assert!(decode_sorted(&bytes, 2).is_err(), "three numbers, two allowed");
//! # Ok::<(), bruit_filters::file::FileError>(())
//! ```

use crate::delta::bits::{BitReader, BitWriter, Code};
use crate::file::FileError;
use crate::varint;

/// Maximum number of elements. It ensures that at least two bits of a gap are written verbatim. A longer slice does not
/// fit in any memory.
const COUNT_MAX: u64 = (1 << 62) - 1;

/// Returns the number of low bits of a gap that are written verbatim, for `count` numbers in 1..=[`COUNT_MAX`].
///
/// The rest of the gap, divided by 2^bits, is written in unary. This takes one to two bits on average if the numbers
/// are spread over all 64 bits, and at most twice `count` bits in total for any distribution.
const fn plain_bits(count: u64) -> u32 {
    63 - count.ilog2()
}

/// Appends the encoding of `highs`, which must be in ascending order without duplicates.
///
/// # Panics
/// Panics if `highs` is not in ascending order or has duplicates.
pub fn encode_sorted(highs: &[u64], out: &mut Vec<u8>) {
    let count = highs.len() as u64;
    varint::put(count, out);
    if count == 0 {
        return;
    }
    let code = Code::rice(plain_bits(count));
    let mut codes = BitWriter::default();
    let mut next = Some(0);
    for &high in highs {
        let gap = next.and_then(|next| high.checked_sub(next)).expect("the numbers must be strictly ascending");
        codes.put_code(gap, code);
        next = high.checked_add(1);
    }
    out.extend(codes.finish());
}

/// Decodes the output of [`encode_sorted`], at most `count_max` numbers. Also returns the bytes that follow.
///
/// # Errors
/// [`FileError::Truncated`] if the input ends too early; [`FileError::InvalidField`] if [`encode_sorted`] cannot have
/// written the input or the input has more than `count_max` numbers.
pub fn decode_sorted(mut bytes: &[u8], count_max: usize) -> Result<(Vec<u64>, &[u8]), FileError> {
    let count = varint::take(&mut bytes, "the number of fingerprints")?;
    if count > COUNT_MAX.min(count_max as u64) {
        return Err(FileError::invalid("the number of fingerprints", count));
    }
    if count == 0 {
        return Ok((Vec::new(), bytes));
    }
    let plain_bits = plain_bits(count);
    // Checks the length before allocating memory. Each number needs its plain bits and at least one more bit. All
    // numbers together need at most two further bits per number.
    let [least, most] = [1, 3].map(|more| (u128::from(count) * u128::from(plain_bits + more)).div_ceil(8));
    if least > bytes.len() as u128 {
        return Err(FileError::Truncated);
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
    let mut codes = BitReader::new(bytes[..most].to_vec());
    let highs = take_numbers(count as usize, Code::rice(plain_bits), &mut codes)?;
    Ok((highs, &bytes[codes.whole_bytes()?..]))
}

fn take_numbers(count: usize, code: Code, codes: &mut BitReader) -> Result<Vec<u64>, FileError> {
    let mut highs = Vec::with_capacity(count);
    let mut next = Some(0u64);
    for _ in 0..count {
        let gap = codes.take_code(code)?;
        let high = next.and_then(|next| next.checked_add(gap));
        let high = high.ok_or_else(|| FileError::invalid("the gap to a fingerprint", gap))?;
        highs.push(high);
        next = high.checked_add(1);
    }
    Ok(highs)
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::Fingerprint;

    fn encoded(highs: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_sorted(highs, &mut bytes);
        bytes
    }

    /// Sets of numbers that are spread out, close together, or both.
    fn sets() -> impl Strategy<Value = Vec<u64>> {
        let numbers = (any::<u64>(), 0..64u32, any::<bool>());
        btree_set(numbers.prop_map(|(n, shift, top)| if top { !(n >> shift) } else { n >> shift }), 0..300)
            .prop_map(|set| set.into_iter().collect())
    }

    /// Returns `count` fingerprints in order. They are the same in every run.
    fn fingerprints(count: u64) -> Vec<u64> {
        let mut highs: Vec<u64> = (1..=count).map(|number| Fingerprint::narrow(number).low()).collect();
        highs.sort_unstable();
        highs
    }

    proptest! {
        #[test]
        fn sets_round_trip_within_the_documented_size(highs in sets()) {
            let bytes = encoded(&highs);
            prop_assert_eq!(decode_sorted(&bytes, highs.len()).unwrap(), (highs.clone(), &[][..]));
            let followed = [&bytes[..], &[7, 0]].concat();
            prop_assert_eq!(decode_sorted(&followed, highs.len()).unwrap(), (highs.clone(), &[7, 0][..]));
            prop_assert!(bytes.len() <= 10 + (66 * highs.len()).div_ceil(8));
        }

        #[test]
        fn every_truncation_is_refused(highs in sets()) {
            let bytes = encoded(&highs);
            for cut in 0..bytes.len() {
                prop_assert!(decode_sorted(&bytes[..cut], usize::MAX).is_err());
            }
        }

        #[test]
        fn a_changed_bit_is_refused_or_makes_another_set_of_the_one_encoding(highs in sets(), bit: usize) {
            let mut bytes = encoded(&highs);
            let bit = bit % (8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok((other, rest)) = decode_sorted(&bytes, usize::MAX) {
                prop_assert!(other != highs || !rest.is_empty());
                prop_assert_eq!([&encoded(&other), rest].concat(), bytes);
            }
        }

        #[test]
        fn any_bytes_are_refused_or_the_one_encoding_of_a_set(bytes in vec(any::<u8>(), 0..60)) {
            if let Ok((highs, rest)) = decode_sorted(&bytes, usize::MAX) {
                prop_assert_eq!([&encoded(&highs), rest].concat(), bytes);
            }
        }
    }

    #[test]
    fn the_bytes_are_as_documented() {
        assert_eq!(encoded(&[]), [0]);
        // One number: its top bit in unary (0 is "1", 1 is "01"), then 63 bits.
        assert_eq!(encoded(&[5]), [1, 0b1011, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encoded(&[1 << 63]), [1, 0b10, 0, 0, 0, 0, 0, 0, 0, 0]);
        // Three numbers, with gaps of 1, 2 and 0. Each gap is written as a one, followed by 62 bits.
        let rest = [0b10, 0, 0, 0, 0, 0, 0, 0b0100_0000, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(encoded(&[1, 4, 5]), [&[3, 0b11, 0, 0, 0, 0, 0, 0, 0b1000_0000][..], &rest].concat());
    }

    #[test]
    fn the_smallest_and_largest_numbers_round_trip() {
        for highs in [&[0][..], &[u64::MAX], &[0, u64::MAX], &[u64::MAX - 1, u64::MAX]] {
            assert_eq!(decode_sorted(&encoded(highs), 2).unwrap().0, highs);
        }
    }

    #[test]
    fn numbers_that_overflow_are_rejected() {
        let mut codes = BitWriter::default();
        [u64::MAX, 0].into_iter().for_each(|gap| codes.put_code(gap, Code::rice(plain_bits(2))));
        let bytes = [vec![2], codes.finish()].concat();
        let refused = decode_sorted(&bytes, 2).unwrap_err();
        assert!(matches!(refused, FileError::InvalidField { field: "the gap to a fingerprint", .. }), "{refused}");
    }

    #[test]
    fn the_limit_on_numbers_is_enforced() {
        let bytes = encoded(&fingerprints(100));
        assert_eq!(decode_sorted(&bytes, 100).unwrap().0.len(), 100);
        let refused = decode_sorted(&bytes, 99).unwrap_err();
        assert!(matches!(refused, FileError::InvalidField { field: "the number of fingerprints", value: 100 }));
    }

    #[test]
    fn a_count_that_the_bytes_cannot_hold_allocates_nothing() {
        for count in [100, 1 << 30, COUNT_MAX] {
            let mut bytes = Vec::new();
            varint::put(count, &mut bytes);
            bytes.extend([0xff; 100]);
            assert!(matches!(decode_sorted(&bytes, usize::MAX), Err(FileError::Truncated)), "{count}");
        }
        let mut bytes = Vec::new();
        varint::put(COUNT_MAX + 1, &mut bytes);
        assert!(matches!(decode_sorted(&bytes, usize::MAX), Err(FileError::InvalidField { .. })));
    }

    #[test]
    #[should_panic(expected = "the numbers must be strictly ascending")]
    fn duplicate_numbers_are_rejected() {
        encode_sorted(&[1, 1], &mut Vec::new());
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "the test prints its figures")]
    fn fingerprints_take_hardly_more_than_their_entropy() {
        for (count, ratio_max) in [(1u64, 1.26), (10, 1.03), (1_000, 1.005), (100_000, 1.001)] {
            let bytes = encoded(&fingerprints(count)).len() as f64 / count as f64;
            // log2 of 2^64 choose count, by Stirling's formula.
            let n = count as f64;
            let entropy =
                (64.0 + (1.0 - n.ln()) / 2f64.ln() - (2.0 * std::f64::consts::PI * n).log2() / (2.0 * n)) / 8.0;
            println!("{count}: {bytes:.3} bytes each, {:.4} of the entropy", bytes / entropy);
            assert!(bytes <= entropy * ratio_max, "{count}: {bytes} bytes, but the entropy is {entropy:.2}");
        }
    }
}
