//! Insert and check of the membership ring: dispatch, and the portable form that defines the result.

use super::{Path, is_cached, pipelined, prefetch_line};
use crate::Fingerprint;
use crate::bloom::pattern::lead_mask;
use crate::lines::Line;
use crate::ring::membership::{lanes_with, lines_of, masks_of};

/// The parameters of a ring that a kernel needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    lead_mask: u64,
}

impl Shape {
    pub(crate) fn new(fingerprint_bits: u32) -> Self {
        Self { lead_mask: lead_mask(fingerprint_bits) }
    }

    /// Returns the bits of a fingerprint that determine the positions of its key.
    #[inline(always)]
    pub(crate) fn lead(&self, key: &Fingerprint) -> u64 {
        key.high() & self.lead_mask
    }

    /// Returns the lines of `key`.
    #[inline(always)]
    pub(crate) fn locate(&self, lines: &[Line], key: &Fingerprint) -> [usize; 2] {
        lines_of(self.lead(key), lines.len())
    }

    /// Sets the bits of `key` in one lane of its lines. Returns the number of bits that were not set before.
    #[inline(always)]
    pub(crate) fn set(&self, lines: &mut [Line], lane: usize, key: &Fingerprint, places: [usize; 2]) -> u64 {
        let mut fresh = 0;
        for (place, mask) in places.into_iter().zip(masks_of(self.lead(key))) {
            let word = &mut lines[place].0[lane];
            fresh += (mask & !*word).count_ones();
            *word |= mask;
        }
        fresh.into()
    }
}

/// Prefetches both lines of a key.
#[inline(always)]
pub(crate) fn fetch(lines: &[Line], places: [usize; 2]) {
    prefetch_line(lines, places[0]);
    prefetch_line(lines, places[1]);
}

/// Sets the bits of every key in one lane. Returns the number of bits that were not set before.
#[expect(unsafe_code, reason = "calls code that needs AVX2")]
pub(crate) fn insert(path: Path, shape: Shape, lines: &mut [Line], lane: usize, keys: &[Fingerprint]) -> u64 {
    match path {
        Path::Portable => insert_portable(shape, lines, lane, keys),
        // SAFETY: the path proves that the processor has AVX2 and POPCNT.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { super::avx2::ring::insert(shape, lines, lane, keys) },
    }
}

fn insert_portable(shape: Shape, lines: &mut [Line], lane: usize, keys: &[Fingerprint]) -> u64 {
    let (cached, mut fresh) = (is_cached(lines), 0);
    let work = |lines: &mut &mut [Line], _, key: &Fingerprint, places| fresh += shape.set(lines, lane, key, places);
    let locate = |lines: &&mut [Line], key: &Fingerprint| shape.locate(lines, key);
    pipelined(lines, keys, cached, locate, |lines, places| fetch(lines, places), work);
    fresh
}

/// Calls `found` with the index of each key and the lanes that contain it, one bit each.
#[expect(unsafe_code, reason = "calls code that needs AVX2")]
pub(crate) fn check(path: Path, shape: Shape, lines: &[Line], keys: &[Fingerprint], found: impl FnMut(usize, u8)) {
    match path {
        Path::Portable => check_portable(shape, lines, keys, found),
        // SAFETY: the path proves that the processor has AVX2.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { super::avx2::ring::check(shape, lines, keys, found) },
    }
}

fn check_portable(shape: Shape, lines: &[Line], keys: &[Fingerprint], mut found: impl FnMut(usize, u8)) {
    let work = |lines: &mut &[Line], i: usize, key: &Fingerprint, places: [usize; 2]| {
        let masks = masks_of(shape.lead(key));
        found(i, lanes_with(&lines[places[0]], masks[0]) & lanes_with(&lines[places[1]], masks[1]));
    };
    let locate = |lines: &&[Line], key: &Fingerprint| shape.locate(lines, key);
    pipelined(lines, keys, is_cached(lines), locate, |lines, places| fetch(lines, places), work);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn every_path_finds_the_same_lanes() {
        let shape = Shape::new(45);
        let keys = test_keys(0, 4000);
        let mut lines = vec![Line::default(); 300];
        for (lane, keys) in keys.chunks(500).enumerate() {
            let mut again = lines.clone();
            let fresh = [Path::Portable, Path::best()].map(|path| insert(path, shape, &mut again, lane, keys));
            assert_eq!((insert(Path::best(), shape, &mut lines, lane, keys), 0), (fresh[0], fresh[1]));
            assert_eq!(lines, again);
        }
        let sets = [Path::Portable, Path::best()].map(|path| {
            let mut sets = vec![0; keys.len()];
            check(path, shape, &lines, &keys, |i, set| sets[i] = set);
            sets
        });
        assert_eq!(sets[0], sets[1]);
        assert!(sets[0].iter().enumerate().all(|(i, set)| set >> (i / 500) & 1 == 1));
    }
}
