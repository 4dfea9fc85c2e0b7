//! Check and insert of the one-line layout: dispatch, and the portable form that defines the result.

use std::fmt;

use super::{Path, by_line};
use crate::Fingerprint;
use crate::bloom::pattern::{lead_mask, line_of, mask};
use crate::lines::Line;

/// Calls `$function::<K>` with k as a constant, so that loops over positions are unrolled.
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
pub(super) use with_constant_k;

/// The parameters of a filter that a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// k, from 1 to 16.
    pub(crate) k: u32,
    /// Mask of the used bits of a fingerprint's high word.
    pub(crate) lead_mask: u64,
}

impl Shape {
    pub(crate) fn new(k: u32, fingerprint_bits: u32) -> Self {
        Self { k, lead_mask: lead_mask(fingerprint_bits) }
    }

    /// Returns the bits of a fingerprint that determine the positions of its key.
    #[inline(always)]
    pub(crate) fn lead(&self, key: &Fingerprint) -> u64 {
        key.high() & self.lead_mask
    }

    /// Returns the line of `key`.
    #[inline(always)]
    pub(crate) fn locate(&self, lines: &[Line], key: &Fingerprint) -> u32 {
        line_of(self.lead(key), lines.len()) as u32
    }
}

/// Sets `found[i]` to true if the filter contains `keys[i]`.
#[expect(unsafe_code, reason = "calls code that needs AVX2")]
pub(crate) fn contains(path: Path, shape: Shape, lines: &[Line], keys: &[Fingerprint], found: &mut [bool]) {
    assert_eq!(keys.len(), found.len(), "the slices differ in length");
    match path {
        Path::Portable => contains_portable(shape, lines, keys, found),
        // SAFETY: the path proves that the processor has AVX2.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { super::avx2::membership::contains(shape, lines, keys, found) },
    }
}

/// The test of a single key: the function for one k and one processor. It is chosen when a filter is created, because
/// choosing it in every check would take longer than the test itself.
#[derive(Clone, Copy)]
pub(crate) struct SingleCheck(TestLine);

/// A function that returns true if all positions that derive from the leading bits of a fingerprint are set in the
/// line.
pub(super) type TestLine = unsafe fn(&Line, u64) -> bool;

impl PartialEq for SingleCheck {
    /// Filters with equal parameters have the same test, so there is nothing to compare. The addresses of the functions
    /// cannot be compared, because one function may have several addresses.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SingleCheck {}

impl fmt::Debug for SingleCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SingleCheck")
    }
}

impl SingleCheck {
    pub(crate) fn new(path: Path, k: u32) -> Self {
        match path {
            Path::Portable => Self(portable_test(k)),
            #[cfg(target_arch = "x86_64")]
            Path::Avx2(_) => Self(super::avx2::membership::test_line(k)),
        }
    }

    /// Returns true if the filter contains `key`. Faster than a batch of one key.
    #[expect(unsafe_code, reason = "calls code that may need AVX2")]
    #[inline]
    pub(crate) fn contains(self, shape: Shape, lines: &[Line], key: &Fingerprint) -> bool {
        let lead = shape.lead(key);
        let line = &lines[line_of(lead, lines.len())];
        // SAFETY: a function that needs AVX2 is chosen only by the path that proves that the processor has it.
        unsafe { (self.0)(line, lead) }
    }
}

/// Sets the positions of every key.
#[expect(unsafe_code, reason = "calls code that needs AVX2")]
pub(crate) fn insert(path: Path, shape: Shape, lines: &mut [Line], keys: &[Fingerprint]) {
    match path {
        Path::Portable => insert_portable(shape, lines, keys),
        // SAFETY: the path proves that the processor has AVX2.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { super::avx2::membership::insert(shape, lines, keys) },
    }
}

fn contains_portable(shape: Shape, lines: &[Line], keys: &[Fingerprint], found: &mut [bool]) {
    let work = |lines: &mut &[Line], i: usize, key: &Fingerprint, place: u32| {
        found[i] = test_line(&lines[place as usize], shape.lead(key), shape.k);
    };
    by_line(lines, keys, |lines, key| shape.locate(lines, key), work);
}

fn portable_test(k: u32) -> TestLine {
    fn test<const K: u32>() -> TestLine {
        |line, lead| test_line(line, lead, K)
    }
    with_constant_k!(k, test())
}

fn test_line(line: &Line, lead: u64, k: u32) -> bool {
    line.0.iter().zip(mask(lead, k)).all(|(word, mask)| word & mask == mask)
}

fn insert_portable(shape: Shape, lines: &mut [Line], keys: &[Fingerprint]) {
    let work = |lines: &mut &mut [Line], _, key: &Fingerprint, place: u32| {
        for (word, mask) in lines[place as usize].0.iter_mut().zip(mask(shape.lead(key), shape.k)) {
            *word |= mask;
        }
    };
    by_line(lines, keys, |lines, key| shape.locate(lines, key), work);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::pattern::ONE_LINE_HASHES_MAX;
    use crate::test_keys;

    #[test]
    fn every_path_sets_and_finds_the_same_bits() {
        for k in 1..=ONE_LINE_HASHES_MAX {
            for fingerprint_bits in [32, 47, 64] {
                let shape = Shape::new(k, fingerprint_bits);
                let (stored, absent) = (test_keys(0, 3000), test_keys(1 << 40, 3000));
                let mut by_path = [Path::Portable, Path::best()].map(|path| {
                    let mut lines = vec![Line::default(); 97];
                    insert(path, shape, &mut lines, &stored);
                    (path, lines)
                });
                assert_eq!(by_path[0].1, by_path[1].1, "k = {k}, {fingerprint_bits} bits");
                for (path, lines) in &mut by_path {
                    let mut found = vec![false; 3000];
                    contains(*path, shape, lines, &stored, &mut found);
                    assert!(found.iter().all(|&found| found));
                }
                let found = by_path.each_ref().map(|(path, lines)| {
                    let mut found = vec![false; 3000];
                    contains(*path, shape, lines, &absent, &mut found);
                    found
                });
                assert_eq!(found[0], found[1], "k = {k}");
                for (path, lines) in &by_path {
                    let check = SingleCheck::new(*path, k);
                    let one_by_one = absent.iter().map(|key| check.contains(shape, lines, key));
                    assert!(one_by_one.eq(found[0].iter().copied()), "k = {k}");
                }
            }
        }
    }
}
