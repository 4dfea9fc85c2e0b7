//! Check and insert of the one-line layout.
//!
//! Positions are bytes of one register: those of the first half of the line in bytes 0.., those of the second from byte
//! `HIGH_FROM` on. A check spreads them to 32-bit lanes, picks the word of each by a permutation of the line and
//! tests its bit. An insert makes the mask of the line in registers, from shifts whose count is out of range in all
//! words but one, because k separate stores to a line would wait for each other.

use std::arch::x86_64::*;

use super::{Halves, bytes, load, store};
use crate::Fingerprint;
use crate::bloom::pattern::{DISPLACEMENTS, position_words, split};
use crate::kernels::by_line;
use crate::kernels::membership::Shape;
use crate::lines::Line;

/// Calls `$function::<K>` with k as a constant: the loops over positions then unroll.
macro_rules! with_constant_k {
    ($k:expr, $function:ident($($argument:expr),*)) => {
        with_constant_k!(@ $k, $function($($argument),*), 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    (@ $k:expr, $function:ident $arguments:tt, $($constant:literal)*) => {
        match $k {
            $($constant => $function::<$constant> $arguments,)*
            k => unreachable!("a one-line filter has 1 to 16 positions, not {k}"),
        }
    };
}

#[target_feature(enable = "avx2")]
pub(crate) fn contains(shape: Shape, lines: &[Line], keys: &[Fingerprint], found: &mut [bool]) {
    with_constant_k!(shape.k, contains_k(shape, lines, keys, found));
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
    /// For each rotation, the byte that each position is compared with.
    partners: [__m128i; 4],
    displacements: __m128i,
    /// A one in the 32-bit lane of every position that exists, first half and second half.
    active: Halves,
}

impl<const K: u32> Pattern<K> {
    const LOW: usize = split(K).0;
    const HIGH: usize = split(K).1;
    /// Rotations that bring every pair of a half together.
    const ROTATIONS: usize = Self::LOW / 2;
    /// Up to here one mixed word, and so one register of 32-bit lanes, holds all positions.
    const ONE_WORD: bool = K <= 8;
    /// The byte from which on the positions of the second half lie.
    const HIGH_FROM: usize = if Self::ONE_WORD { 4 } else { 8 };

    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Self {
        let mut displacements = [0u8; 16];
        for (half, count) in [(0, Self::LOW), (Self::HIGH_FROM, Self::HIGH)] {
            // A position alone in its half is its own partner, and stays.
            if count > 1 {
                displacements[half..half + count].copy_from_slice(&DISPLACEMENTS[..count]);
            }
        }
        Self {
            partners: std::array::from_fn(|rotation| bytes(Self::partners(rotation + 1))),
            displacements: bytes(displacements),
            active: if Self::ONE_WORD {
                let both = Self::lanes([Self::LOW, Self::HIGH], 4);
                (both, both)
            } else {
                (Self::lanes([Self::LOW, 0], 8), Self::lanes([Self::HIGH, 0], 8))
            },
        }
    }

    /// Which byte each position is compared with at one rotation.
    fn partners(rotation: usize) -> [u8; 16] {
        let mut partners = [0x80; 16];
        for (half, count) in [(0, Self::LOW), (Self::HIGH_FROM, Self::HIGH)] {
            for i in 0..count {
                partners[half + i] = (half + (i + rotation) % count) as u8;
            }
        }
        partners
    }

    /// A one in the first `counts[0]` of `width` lanes and the first `counts[1]` lanes after those.
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

    /// Whether each active lane's word has the bit of its position.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bits_set(words: __m256i, positions: __m256i, active: __m256i) -> bool {
        let bits = _mm256_sllv_epi32(active, _mm256_and_si256(positions, _mm256_set1_epi32(31)));
        _mm256_testc_si256(words, bits) != 0
    }

    /// The positions as a mask over the line.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask(&self, positions: __m128i) -> Halves {
        let low = Self::by_word(positions);
        let high = if Self::ONE_WORD { low } else { Self::by_word(_mm_srli_si128::<8>(positions)) };
        (Self::half_mask(low, 0, Self::LOW), Self::half_mask(high, Self::HIGH_FROM % 8, Self::HIGH))
    }

    /// Eight positions as they look from each word of a half: below 64 in the word that a position lies in.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn by_word(positions: __m128i) -> __m256i {
        let word_starts =
            [0, 0x4040_4040_4040_4040_u64, 0x8080_8080_8080_8080, 0xc0c0_c0c0_c0c0_c0c0].map(|w| w as i64);
        let [a, b, c, d] = word_starts;
        _mm256_xor_si256(_mm256_broadcastq_epi64(positions), _mm256_setr_epi64x(a, b, c, d))
    }

    /// The mask of `count` positions of one half, the first of which is byte `first` of each word.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn half_mask(by_word: __m256i, first: usize, count: usize) -> __m256i {
        let one = _mm256_set1_epi64x(1);
        let mut mask = _mm256_setzero_si256();
        for i in first as i64..(first + count) as i64 {
            // Byte i of each word to its bottom, zero above. Registers are shuffled in halves of two words.
            let byte = 0x8080_8080_8080_8000_u64 as i64 | i;
            let shift = _mm256_shuffle_epi8(by_word, _mm256_setr_epi64x(byte, byte + 8, byte, byte + 8));
            // A shift by 64 or more gives 0.
            mask = _mm256_or_si256(mask, _mm256_sllv_epi64(one, shift));
        }
        mask
    }
}
