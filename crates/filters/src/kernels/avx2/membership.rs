//! Check and insert of the one-line layout.
//!
//! Positions are bytes of one register: the positions in the first half of the line begin at byte 0, those in the
//! second half at byte `HIGH_FROM`. A check spreads them to 32-bit lanes, selects the word of each position by a
//! permutation of the line, and tests the bit. An insert computes the mask of the line in registers, because k separate
//! stores to a line would wait for each other. To set one position, the insert shifts the number 1 in all words at the
//! same time. The shift count is in range only in the word that contains the position, so the other words become zero.

use std::arch::x86_64::*;

use super::{Halves, bytes, load, store};
use crate::Fingerprint;
use crate::bloom::pattern::{DISPLACEMENTS, position_words, split};
use crate::kernels::by_line;
use crate::kernels::membership::{Shape, TestLine, with_constant_k};
use crate::lines::Line;

#[target_feature(enable = "avx2")]
pub(crate) fn contains(shape: Shape, lines: &[Line], keys: &[Fingerprint], found: &mut [bool]) {
    with_constant_k!(shape.k, contains_k(shape, lines, keys, found));
}

/// Returns the test of one line for k positions.
pub(crate) fn test_line(k: u32) -> TestLine {
    const fn test<const K: u32>() -> TestLine {
        test_line_k::<K>
    }
    with_constant_k!(k, test())
}

#[target_feature(enable = "avx2")]
pub(crate) fn insert(shape: Shape, lines: &mut [Line], keys: &[Fingerprint]) {
    with_constant_k!(shape.k, insert_k(shape, lines, keys));
}

#[target_feature(enable = "avx2")]
fn contains_k<const K: u32>(shape: Shape, lines: &[Line], keys: &[Fingerprint], found: &mut [bool]) {
    let pattern = Pattern::<K>::new();
    let work = |lines: &mut &[Line], i: usize, key: &Fingerprint, place: u32| {
        found[i] = pattern.all_set(load(&lines[place as usize]), pattern.positions(shape.lead(key)));
    };
    by_line(lines, keys, |lines, key| shape.locate(lines, key), work);
}

#[target_feature(enable = "avx2")]
fn test_line_k<const K: u32>(line: &Line, lead: u64) -> bool {
    let pattern = Pattern::<K>::new();
    pattern.all_set(load(line), pattern.positions(lead))
}

#[target_feature(enable = "avx2")]
fn insert_k<const K: u32>(shape: Shape, lines: &mut [Line], keys: &[Fingerprint]) {
    let pattern = Pattern::<K>::new();
    let work = |lines: &mut &mut [Line], _, key: &Fingerprint, place: u32| {
        let (low, high) = pattern.mask(pattern.positions(shape.lead(key)));
        let line = &mut lines[place as usize];
        let old = load(line);
        store(line, (_mm256_or_si256(old.0, low), _mm256_or_si256(old.1, high)));
    };
    by_line(lines, keys, |lines, key| shape.locate(lines, key), work);
}

/// The constants of a loop for one k.
struct Pattern<const K: u32> {
    /// For each rotation, the byte to compare each position with.
    partners: [__m128i; 4],
    displacements: __m128i,
    /// A one in the 32-bit lane of every position in use, for the first and the second half.
    active: Halves,
}

impl<const K: u32> Pattern<K> {
    const LOW: usize = split(K).0;
    const HIGH: usize = split(K).1;
    /// Number of rotations needed to compare every pair of positions in a half.
    const ROTATIONS: usize = Self::LOW / 2;
    /// True if all positions fit in one mixed word, and therefore in one register of 32-bit lanes.
    const ONE_WORD: bool = K <= 8;
    /// First byte of the positions of the second half.
    const HIGH_FROM: usize = if Self::ONE_WORD { 4 } else { 8 };

    /// For each rotation, the byte to compare each position with. The bytes are precomputed, because computing them
    /// takes longer than a single check.
    const PARTNERS: [[u8; 16]; 4] = [Self::partners(1), Self::partners(2), Self::partners(3), Self::partners(4)];
    const DISPLACEMENTS: [u8; 16] = Self::displacements();

    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Self {
        let [first, second, third, fourth] = const { Self::PARTNERS };
        Self {
            partners: [bytes(first), bytes(second), bytes(third), bytes(fourth)],
            displacements: bytes(const { Self::DISPLACEMENTS }),
            active: if Self::ONE_WORD {
                let both = Self::lanes([Self::LOW, Self::HIGH], 4);
                (both, both)
            } else {
                (Self::lanes([Self::LOW, 0], 8), Self::lanes([Self::HIGH, 0], 8))
            },
        }
    }

    /// Returns the byte to compare each position with at one rotation.
    const fn partners(rotation: usize) -> [u8; 16] {
        let mut partners = [0x80; 16];
        let mut i = 0;
        while i < Self::LOW {
            partners[i] = ((i + rotation) % Self::LOW) as u8;
            if i < Self::HIGH {
                partners[Self::HIGH_FROM + i] = (Self::HIGH_FROM + (i + rotation) % Self::HIGH) as u8;
            }
            i += 1;
        }
        partners
    }

    /// Returns the displacement of each position. A position that is alone in its half is compared with itself and not
    /// moved.
    const fn displacements() -> [u8; 16] {
        let mut displacements = [0; 16];
        let mut i = 0;
        while i < Self::LOW {
            if Self::LOW > 1 {
                displacements[i] = DISPLACEMENTS[i];
            }
            if i < Self::HIGH && Self::HIGH > 1 {
                displacements[Self::HIGH_FROM + i] = DISPLACEMENTS[i];
            }
            i += 1;
        }
        displacements
    }

    /// Returns a register with a one in the first `counts[0]` lanes, and in the `counts[1]` lanes that begin at lane
    /// `width`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn lanes(counts: [usize; 2], width: usize) -> __m256i {
        let lane = |i: usize| i32::from(i % width < counts[i / width]);
        _mm256_setr_epi32(lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn positions(&self, lead: u64) -> __m128i {
        let (low, high) = position_words(lead, K);
        let raw = _mm_set_epi64x(if Self::ONE_WORD { 0 } else { high as i64 }, low as i64);
        let mut repeated = _mm_setzero_si128();
        for partners in &self.partners[..Self::ROTATIONS] {
            repeated = _mm_or_si128(repeated, _mm_cmpeq_epi8(raw, _mm_shuffle_epi8(raw, *partners)));
        }
        _mm_xor_si128(raw, _mm_and_si128(repeated, self.displacements))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn all_set(&self, line: Halves, positions: __m128i) -> bool {
        let low = _mm256_cvtepu8_epi32(positions);
        if Self::ONE_WORD {
            let word = _mm256_srli_epi32::<5>(low);
            let words = _mm256_blend_epi32::<0xf0>(
                _mm256_permutevar8x32_epi32(line.0, word),
                _mm256_permutevar8x32_epi32(line.1, word),
            );
            return Self::bits_set(words, low, self.active.0);
        }
        let high = _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(positions));
        let low_words = _mm256_permutevar8x32_epi32(line.0, _mm256_srli_epi32::<5>(low));
        let high_words = _mm256_permutevar8x32_epi32(line.1, _mm256_srli_epi32::<5>(high));
        Self::bits_set(low_words, low, self.active.0) & Self::bits_set(high_words, high, self.active.1)
    }

    /// Returns true if every active lane has the bit of its position set in its word.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bits_set(words: __m256i, positions: __m256i, active: __m256i) -> bool {
        let bits = _mm256_sllv_epi32(active, _mm256_and_si256(positions, _mm256_set1_epi32(31)));
        _mm256_testc_si256(words, bits) != 0
    }

    /// Returns a mask of the positions in the line.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask(&self, positions: __m128i) -> Halves {
        let low = Self::by_word(positions);
        let high = if Self::ONE_WORD { low } else { Self::by_word(_mm_srli_si128::<8>(positions)) };
        (Self::half_mask(low, 0, Self::LOW), Self::half_mask(high, Self::HIGH_FROM % 8, Self::HIGH))
    }

    /// Returns eight positions relative to the start of each word of a half. The result is below 64 only in the word
    /// that contains the position.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn by_word(positions: __m128i) -> __m256i {
        let word_starts =
            [0, 0x4040_4040_4040_4040_u64, 0x8080_8080_8080_8080, 0xc0c0_c0c0_c0c0_c0c0].map(|w| w as i64);
        let [a, b, c, d] = word_starts;
        _mm256_xor_si256(_mm256_broadcastq_epi64(positions), _mm256_setr_epi64x(a, b, c, d))
    }

    /// Returns the mask of `count` positions of one half. The first position is byte `first` of each word.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn half_mask(by_word: __m256i, first: usize, count: usize) -> __m256i {
        let one = _mm256_set1_epi64x(1);
        let mut mask = _mm256_setzero_si256();
        for i in first as i64..(first + count) as i64 {
            // Moves byte i of each word to its lowest byte, with zeros above. A shuffle works within each half of a
            // register, which contains two words.
            let byte = 0x8080_8080_8080_8000_u64 as i64 | i;
            let shift = _mm256_shuffle_epi8(by_word, _mm256_setr_epi64x(byte, byte + 8, byte, byte + 8));
            // A shift by 64 or more gives 0.
            mask = _mm256_or_si256(mask, _mm256_sllv_epi64(one, shift));
        }
        mask
    }
}
