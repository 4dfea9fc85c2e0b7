//! The positions of a key in the one-line layout: a line of 512 bits, and k positions in it.
//!
//! Stored files depend on this definition, and every kernel must agree with it:
//!
//! - The leading bits of the fingerprint select the line.
//! - ⌈k/2⌉ positions lie in the first half of the line and ⌊k/2⌋ in the second. A position is one byte, and a half is
//!   one AVX2 register. If k is at most 8, one mixed word provides all positions. If k is 9 to 16, two words do.
//! - If a position equals another one in the same half, it is moved by a constant that depends on its index. At k = 6,
//!   this reduces the keys with a repeated position from one in 43 to about one in 10,000, and saves 0.25 % of the
//!   bits.
//!
//! If positions could be anywhere in the line, a filter would need 0.1 % fewer bits at a false-positive rate of 1 %,
//! and 0.4 % fewer at a rate of 0.1 % (computed in `tests/sizing.rs`). But an insert would need twice as many shifts.

use crate::Fingerprint;
use crate::hash::{MULTIPLIER_A, MULTIPLIER_B, leading_bits, mix, reduce};
use crate::lines::LINE_WORDS;

/// Maximum number of positions of a key in a line. More positions would help only at rates below 10^-6, where two lines
/// are better than one.
pub const ONE_LINE_HASHES_MAX: u32 = 16;

/// Maximum number of positions in one half.
pub(crate) const HALF_HASHES_MAX: usize = ONE_LINE_HASHES_MAX as usize / 2;

/// Bits in half a line.
pub(crate) const HALF_BITS: u32 = 256;

/// Displacement of a repeated position, by its index. All displacements differ, so that two moved positions do not
/// collide again.
pub(crate) const DISPLACEMENTS: [u8; HALF_HASHES_MAX] = [0x1d, 0x3b, 0x57, 0x75, 0x93, 0xb1, 0xcf, 0xed];

/// Returns the numbers of positions in the first and in the second half, k in total.
#[inline]
pub(crate) const fn split(k: u32) -> (usize, usize) {
    (k.div_ceil(2) as usize, k as usize / 2)
}

/// Returns the line of a key among `lines`, selected by the leading bits of its fingerprint.
#[inline(always)]
pub(crate) fn line_of(lead: u64, lines: usize) -> usize {
    reduce(lead, lines as u64) as usize
}

/// Returns the words whose bytes are the raw positions. If k is at most 8, the low half of the first word contains the
/// positions in the first half of the line, and the high half of that word those in the second half. If k is above 8,
/// each half of the line has its own word.
#[inline(always)]
pub(crate) fn position_words(lead: u64, k: u32) -> (u64, u64) {
    let first = mix(lead, MULTIPLIER_A);
    if k <= 8 { (first, first >> 32) } else { (first, mix(lead, MULTIPLIER_B)) }
}

/// Returns the `count` positions within one half that are derived from the bytes of `word`.
fn half_positions(word: u64, count: usize, rotations: usize) -> impl Iterator<Item = u8> {
    let raw = word.to_le_bytes();
    (0..count).map(move |i| {
        let repeated = (1..=rotations).map(|d| (i + d) % count).any(|other| other != i && raw[other] == raw[i]);
        raw[i] ^ if repeated { DISPLACEMENTS[i] } else { 0 }
    })
}

/// Returns a mask of the k positions of a key in its line.
pub(crate) fn mask(lead: u64, k: u32) -> [u64; LINE_WORDS] {
    let mut mask = [0u64; LINE_WORDS];
    let (low_count, high_count) = split(k);
    let (low, high) = position_words(lead, k);
    let rotations = low_count / 2;
    for position in half_positions(low, low_count, rotations) {
        mask[usize::from(position) / 64] |= 1 << (position % 64);
    }
    for position in half_positions(high, high_count, rotations) {
        mask[LINE_WORDS / 2 + usize::from(position) / 64] |= 1 << (position % 64);
    }
    mask
}

/// Returns a mask of the leading fingerprint bits that a filter uses.
#[inline]
pub(crate) fn lead_mask(fingerprint_bits: u32) -> u64 {
    leading_bits(Fingerprint::new(u64::MAX, 0), fingerprint_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(count: u64) -> impl Iterator<Item = u64> {
        (1..=count).map(|i| mix(i, MULTIPLIER_B).wrapping_mul(MULTIPLIER_A))
    }

    #[test]
    fn positions_are_split_over_the_halves_and_nearly_always_distinct() {
        for k in 1..=ONE_LINE_HASHES_MAX {
            let (low, high) = split(k);
            let mut repeated = 0;
            for lead in leads(20_000) {
                let mask = mask(lead, k);
                let ones = |words: &[u64]| words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
                assert!(ones(&mask[..4]) <= low && ones(&mask[4..]) <= high);
                repeated += usize::from(ones(&mask) < k as usize);
            }
            // Without the displacement, one key in ten would repeat a position at k = 16.
            assert!(repeated < 20_000 / 100, "k = {k}: {repeated} keys with a repeated position");
        }
    }

    #[test]
    fn every_bit_of_a_line_is_reached_equally_often() {
        let mut hits = [0u32; 512];
        for lead in leads(100_000) {
            let mask = mask(lead, 6);
            for (bit, hits) in hits.iter_mut().enumerate() {
                *hits += (mask[bit / 64] >> (bit % 64)) as u32 & 1;
            }
        }
        let expected = 100_000.0 * 6.0 / 512.0;
        let chi_square: f64 = hits.iter().map(|&hits| (f64::from(hits) - expected).powi(2) / expected).sum();
        // 511 degrees of freedom: mean 511, standard deviation 32.
        assert!((chi_square - 511.0).abs() < 5.0 * 32.0, "chi square {chi_square}");
    }
}
