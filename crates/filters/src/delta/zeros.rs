//! Zeros of a base that become ones. Gaps are counted in zeros, one word at a time.

use super::bits::{BitReader, Code};
use crate::file::FileError;

/// Appends to `gaps` the number of zeros of the base between successive zeros that become ones. Returns false if a one
/// becomes a zero; `gaps` is invalid in that case.
///
/// Zeros beyond the last cell need no special treatment: they never change, so no gap includes them.
pub(super) fn find_gaps(base: &[u64], target: &[u64], gaps: &mut Vec<u32>) -> bool {
    let (mut gap, mut lost) = (0, 0);
    for (&base, &target) in base.iter().zip(target) {
        lost |= base & !target;
        let zeros = !base;
        let mut new = target & zeros;
        let mut passed = 0;
        while new != 0 {
            let before = (zeros & ((new & new.wrapping_neg()) - 1)).count_ones();
            gaps.push(gap + before - passed);
            gap = 0;
            passed = before + 1;
            new &= new - 1;
        }
        gap += zeros.count_ones() - passed;
    }
    lost == 0
}

/// Sets `count` zeros of `words` at the positions given by the codes.
pub(super) fn set_zeros(words: &mut [u64], count: u32, code: Code, codes: &mut BitReader) -> Result<(), FileError> {
    let mut words = words.iter_mut();
    let (mut word, mut zeros) = (&mut 0, Ones::default());
    // Number of zeros of the word that were already counted.
    let mut rank = 0;
    for _ in 0..count {
        rank += codes.take_code(code)?.min(GAP_MAX);
        while rank >= zeros.count() {
            rank -= zeros.count();
            let next = words.next().ok_or_else(|| FileError::invalid("the gap to a zero", rank))?;
            zeros = Ones::new(!*next);
            word = next;
        }
        *word |= 1 << zeros.select(rank);
        rank += 1;
    }
    Ok(())
}

/// Maximum gap. A longer gap would end after the end of every block.
const GAP_MAX: u64 = 1 << 32;

/// A word, prepared for finding its n-th set bit.
///
/// The algorithm is from Sebastiano Vigna, *Broadword implementation of rank/select queries* (2008), with a table for
/// the last byte.
#[derive(Clone, Copy, Default)]
struct Ones {
    word: u64,
    /// Byte i: the number of set bits in bytes 0 to i.
    sums: u64,
}

/// A word with the value 1 in each byte.
const UNITS: u64 = 0x0101_0101_0101_0101;

impl Ones {
    #[inline]
    const fn new(word: u64) -> Self {
        let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
        let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
        let bytes = (fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
        Self { word, sums: bytes.wrapping_mul(UNITS) }
    }

    #[inline]
    const fn count(self) -> u64 {
        self.sums >> 56
    }

    /// Returns the position of the set bit with index `rank`, counted from 0. The word must have more than `rank` set
    /// bits.
    #[inline]
    fn select(self, rank: u64) -> u32 {
        const TOPS: u64 = UNITS << 7;
        // Sets the top bit of each byte that ends before the set bit to find.
        let before = (((rank * UNITS) | TOPS) - self.sums) & TOPS;
        let shift = ((before >> 7).wrapping_mul(UNITS) >> 56) as u32 * 8;
        let in_byte = rank.wrapping_sub(self.sums << 8 >> shift) as usize % 8;
        let byte = (self.word >> shift) as u8;
        shift + u32::from(SELECT_IN_BYTE[usize::from(byte)][in_byte])
    }
}

/// For each byte value, the positions of its set bits.
const SELECT_IN_BYTE: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut rank) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][rank] = bit as u8;
                rank += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn select_finds_every_one(word: u64) {
            let ones = (0..64).filter(|bit| word >> bit & 1 == 1);
            for (rank, bit) in ones.enumerate() {
                prop_assert_eq!(Ones::new(word).select(rank as u64), bit);
            }
        }
    }

    #[test]
    fn gaps_count_zeros_only() {
        let mut gaps = Vec::new();
        // The base has zeros at 0, 2, 4 and at all positions starting with 64; the target sets 2, 64 and 66.
        let (base, target) = ([!0b10101, 0], [!0b10001, 0b101]);
        assert!(find_gaps(&base, &target, &mut gaps));
        assert_eq!(gaps, [1, 1, 1]);
        assert!(!find_gaps(&target, &base, &mut gaps), "in the other direction, ones become zeros");
    }
}
