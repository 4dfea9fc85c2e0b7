//! Check and insertion of the membership ring. The eight lanes of a line are the eight words of two registers.

use std::arch::x86_64::*;

use super::{Halves, load};
use crate::Fingerprint;
use crate::kernels::ring::{Shape, fetch};
use crate::kernels::{is_cached, pipelined};
use crate::lines::Line;
use crate::ring::membership::masks_of;

#[target_feature(enable = "avx2")]
pub(crate) fn check(shape: Shape, lines: &[Line], keys: &[Fingerprint], mut found: impl FnMut(usize, u8)) {
    let work = |lines: &mut &[Line], i: usize, key: &Fingerprint, places: [usize; 2]| {
        let masks = masks_of(shape.lead(key));
        let first = words_with(load(&lines[places[0]]), masks[0]);
        let second = words_with(load(&lines[places[1]]), masks[1]);
        found(i, lanes(_mm256_and_si256(first.0, second.0)) | lanes(_mm256_and_si256(first.1, second.1)) << 4);
    };
    let locate = |lines: &&[Line], key: &Fingerprint| shape.locate(lines, key);
    pipelined(lines, keys, is_cached(lines), locate, |lines, places| fetch(lines, places), work);
}

/// Sets the bits of every key in one lane. Returns the number of bits that were not set before.
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn insert(shape: Shape, lines: &mut [Line], lane: usize, keys: &[Fingerprint]) -> u64 {
    let (cached, mut fresh) = (is_cached(lines), 0);
    let work = |lines: &mut &mut [Line], _, key: &Fingerprint, places| fresh += shape.set(lines, lane, key, places);
    let locate = |lines: &&mut [Line], key: &Fingerprint| shape.locate(lines, key);
    pipelined(lines, keys, cached, locate, |lines, places| fetch(lines, places), work);
    fresh
}

/// Sets all bits of every word that has all bits of `mask`, and clears the other words.
#[inline]
#[target_feature(enable = "avx2")]
fn words_with(line: Halves, mask: u64) -> Halves {
    let mask = _mm256_set1_epi64x(mask as i64);
    let with = |half| _mm256_cmpeq_epi64(_mm256_and_si256(half, mask), mask);
    (with(line.0), with(line.1))
}

/// Returns the top bit of each word, as one bit per word.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes(words: __m256i) -> u8 {
    _mm256_movemask_pd(_mm256_castsi256_pd(words)) as u8
}
