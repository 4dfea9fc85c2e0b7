//! The classical counting filter: one array of m cells, in which a key has k positions anywhere.
//!
//! After any sequence of insertions and merges, [`count`](CountingFilter::count) is never below the number of
//! insertions, except that counts saturate at the top of a cell. Two kinds of misuse break this guarantee: removing
//! keys that were never inserted, and computing refined deltas of a filter into which several servers insert. See
//! [`CountingFilter::remove`] and [`CountingFilter::delta_since`].
//!
//! An insertion first reads all k cells and then writes each one from the values read. If two positions of a key
//! coincide, the same number is written twice, so the cell changes only once. This implements the paper's heuristic H2
//! for both extensions, without comparing positions.

use std::collections::BTreeMap;
use std::fmt;

use super::{Cells, PackedCells, ShapeError};
use crate::Mismatch;
use crate::hash::HashFamily;
use crate::kernels::{Step, look_ahead};
use crate::mismatch::ensure_equal;

/// Maximum number of hash functions. The cells of one key are held in an array of this size.
pub const HASHES_MAX: u32 = 64;

/// Maximum number of hash functions for which a smaller array is used.
const HASHES_FEW: u32 = 8;

/// The rule for raising the k cells of an inserted key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Raises every cell by one (Fan et al.). Keys can be removed, and the order of insertions does not matter.
    Intuitive,
    /// Raises only the cells at the minimum: the paper's heuristic H1, also known as conservative update.
    ///
    /// No cell is higher than with the intuitive extension. The price is that keys cannot be removed, and that deltas
    /// need care: see [`CountingFilter::delta_since`].
    Refined,
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Intuitive => "intuitive",
            Self::Refined => "refined",
        })
    }
}

/// Counts insertions of keys in m cells, using the hash family `H`.
///
/// ```
/// use bruit_filters::counting::{CountingFilter, Extension};
/// use bruit_filters::hash::FingerprintHash;
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([7; 16]);
/// let hash = FingerprintHash::new(10_000, 4, 48, key.id()).unwrap();
/// let mut ours = CountingFilter::new(hash, Extension::Refined, 4)?;
/// let mut theirs = ours.clone();
///
/// let pills = key.fingerprint(b"cheap pills");
/// ours.insert(&pills);
/// theirs.insert_many(&pills, 5);
/// ours.merge(&theirs)?;
/// assert_eq!(ours.count(&pills), 6);
///
/// ours.insert_many(&pills, 1000);
/// assert_eq!(ours.count(&pills), 15, "cells of four bits saturate at 15");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountingFilter<H, C = PackedCells> {
    hash: H,
    extension: Extension,
    cells: C,
}

impl<H: HashFamily> CountingFilter<H> {
    /// Creates an empty filter with packed cells of `cell_bits` bits.
    ///
    /// # Errors
    /// Fails if `cell_bits` is outside `1..=`[`CELL_BITS_MAX`](super::CELL_BITS_MAX), or if `hash` has more than
    /// [`HASHES_MAX`] functions.
    pub fn new(hash: H, extension: Extension, cell_bits: u32) -> Result<Self, ShapeError> {
        let cells = PackedCells::new(hash.cells(), cell_bits)?;
        Self::with_cells(hash, extension, cells)
    }
}

impl<H: HashFamily, C: Cells> CountingFilter<H, C> {
    /// Creates a filter from the given cells. The filter is empty if all cells are zero.
    ///
    /// # Errors
    /// Fails if the number of cells differs from that of `hash`, or if `hash` has more than [`HASHES_MAX`] functions.
    pub fn with_cells(hash: H, extension: Extension, cells: C) -> Result<Self, ShapeError> {
        if !(1..=HASHES_MAX).contains(&hash.hashes()) {
            return Err(ShapeError::Hashes { hashes: hash.hashes() });
        }
        if hash.cells() != cells.len() {
            return Err(ShapeError::CellCount { reached: hash.cells(), cells: cells.len() });
        }
        Ok(Self { hash, extension, cells })
    }

    /// Returns the hash family.
    #[must_use]
    pub const fn hash(&self) -> &H {
        &self.hash
    }

    /// Returns the rule for raising the cells of an inserted key.
    #[must_use]
    pub const fn extension(&self) -> Extension {
        self.extension
    }

    /// Returns the cells.
    #[must_use]
    pub const fn cells(&self) -> &C {
        &self.cells
    }

    pub(crate) const fn cells_mut(&mut self) -> &mut C {
        &mut self.cells
    }

    /// Counts one insertion of `key`.
    #[inline]
    pub fn insert(&mut self, key: &H::Key) {
        self.insert_many(key, 1);
    }

    /// Counts `times` insertions of `key` in a row.
    #[inline]
    pub fn insert_many(&mut self, key: &H::Key, times: u32) {
        let top = self.cells.top();
        let raise = |value: u32| value.saturating_add(times).min(top);
        match self.extension {
            Extension::Intuitive => self.change(key, |value, _| raise(value)),
            Extension::Refined => self.change(key, |value, least| value.max(raise(least))),
        }
    }

    /// Counts one insertion of each of `keys`, in order.
    pub fn insert_batch(&mut self, keys: &[H::Key]) {
        let (cached, hashes) = (self.cells.is_cached(), self.hash.hashes() as usize);
        look_ahead(keys, cached, hashes, |step, _, key| match step {
            Step::Fetch => self.fetch(key),
            Step::Work => self.insert(key),
        });
    }

    /// Returns an upper bound on the number of insertions of `key`: the minimum of its k cells.
    ///
    /// The count is never too low, except that counts saturate at the top of a cell. A key that was never inserted has
    /// a count above 0 if other keys have raised all its cells.
    #[inline]
    #[must_use]
    pub fn count(&self, key: &H::Key) -> u32 {
        let values = self.hash.positions(key).map(|position| self.cells.get(position));
        values.min().expect("a filter has at least one hash function")
    }

    /// Sets `found[i]` to the count of `keys[i]`.
    ///
    /// # Panics
    /// Panics if the two slices differ in length.
    pub fn count_batch(&self, keys: &[H::Key], found: &mut [u32]) {
        assert_eq!(keys.len(), found.len(), "the slices differ in length");
        let (cached, hashes) = (self.cells.is_cached(), self.hash.hashes() as usize);
        look_ahead(keys, cached, hashes, |step, i, key| match step {
            Step::Fetch => self.fetch(key),
            Step::Work => found[i] = self.count(key),
        });
    }

    /// Prefetches the cells of `key`.
    fn fetch(&self, key: &H::Key) {
        self.hash.positions(key).for_each(|position| self.cells.fetch(position));
    }

    /// Undoes one earlier insertion of `key`.
    ///
    /// A cell at the top stays there, because its true value may be higher: lowering it could make the counts of other
    /// keys too low. Cells of one bit are therefore never lowered.
    ///
    /// Removing a key that was never inserted fails if any of its cells is 0. If other keys have raised all its cells,
    /// the mistake goes undetected and makes the counts of those keys too low by one. Remove only keys that were
    /// inserted.
    ///
    /// # Errors
    /// [`RemoveError`]; nothing is changed in that case.
    pub fn remove(&mut self, key: &H::Key) -> Result<(), RemoveError> {
        if self.extension == Extension::Refined {
            return Err(RemoveError::Refined);
        }
        if self.count(key) == 0 {
            return Err(RemoveError::NeverInserted);
        }
        let top = self.cells.top();
        self.change(key, |value, _| if value == top { top } else { value - 1 });
        Ok(())
    }

    /// Adds `other` cell by cell. The result counts the insertions of both filters.
    ///
    /// No count is too low, and none is higher than in an intuitive filter that received all insertions. With the
    /// refined extension, a count can be above *or below* the count in a single refined filter that received all
    /// insertions.
    ///
    /// # Errors
    /// [`Mismatch`] if hash family, extension or cells differ; nothing is changed in that case.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.merge_all(&[other])
    }

    /// Adds all `others` cell by cell, in one pass over this filter.
    ///
    /// # Errors
    /// [`Mismatch`] if hash family, extension or cells differ; nothing is changed in that case.
    pub fn merge_all(&mut self, others: &[&Self]) -> Result<(), Mismatch> {
        others.iter().try_for_each(|other| self.ensure_same(other))?;
        let cells: Vec<&C> = others.iter().map(|other| &other.cells).collect();
        self.cells.merge_all(&cells)
    }

    /// Checks that `other` can be merged with this filter.
    ///
    /// # Errors
    /// [`Mismatch`] if hash family, extension or cells differ.
    pub fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        self.hash.ensure_same(&other.hash)?;
        ensure_equal("the extension", &self.extension, &other.extension)?;
        self.cells.ensure_same(&other.cells)
    }

    /// Returns the number of cells with each value, for all values that occur.
    #[must_use]
    pub fn histogram(&self) -> BTreeMap<u32, u64> {
        let mut histogram = BTreeMap::new();
        for value in self.cells.values() {
            *histogram.entry(value).or_default() += 1;
        }
        histogram
    }

    /// Replaces the value of each of the key's cells by `change(value, minimum)`, where `minimum` is the lowest of
    /// these values.
    #[inline]
    fn change(&mut self, key: &H::Key, change: impl Fn(u32, u32) -> u32) {
        if self.hash.hashes() <= HASHES_FEW {
            self.change_within::<{ HASHES_FEW as usize }>(key, change);
        } else {
            self.change_within::<{ HASHES_MAX as usize }>(key, change);
        }
    }

    #[inline]
    fn change_within<const N: usize>(&mut self, key: &H::Key, change: impl Fn(u32, u32) -> u32) {
        let mut read = [(0, 0); N];
        let (mut hits, mut least) = (0, u32::MAX);
        for (slot, position) in read.iter_mut().zip(self.hash.positions(key)) {
            let value = self.cells.get(position);
            *slot = (position, value);
            least = least.min(value);
            hits += 1;
        }
        for &(position, value) in &read[..hits] {
            let changed = change(value, least);
            if changed != value {
                self.cells.set(position, changed);
            }
        }
    }
}

/// The error returned by [`CountingFilter::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// The refined extension does not record which cells an insertion raised.
    #[error("the refined extension cannot remove keys")]
    Refined,
    /// A cell of the key is 0.
    #[error("the key was never inserted")]
    NeverInserted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Offsets;

    /// A hash family that maps key x to cell x of 100 for every function, so that all k positions coincide.
    fn coinciding(hashes: usize) -> Offsets {
        Offsets { cells: 100, offsets: vec![0; hashes] }
    }

    fn filter(extension: Extension, cell_bits: u32) -> CountingFilter<Offsets> {
        let hash = Offsets { cells: 100, offsets: vec![0, 1] };
        CountingFilter::new(hash, extension, cell_bits).unwrap()
    }

    #[test]
    fn a_cell_hit_twice_by_one_key_moves_once() {
        for extension in [Extension::Intuitive, Extension::Refined] {
            let mut filter = CountingFilter::new(coinciding(3), extension, 8).unwrap();
            filter.insert(&5);
            filter.insert_many(&5, 10);
            assert_eq!(filter.cells().get(5), 11, "{extension}");
        }
        let mut filter = CountingFilter::new(coinciding(3), Extension::Intuitive, 8).unwrap();
        filter.insert_many(&5, 10);
        filter.remove(&5).unwrap();
        assert_eq!(filter.count(&5), 9);
    }

    #[test]
    fn the_number_of_hash_functions_is_bounded() {
        for hashes in [1, 8, 9, 64] {
            let mut filter = CountingFilter::new(coinciding(hashes), Extension::Intuitive, 4).unwrap();
            filter.insert(&5);
            assert_eq!(filter.count(&5), 1);
        }
        let refused = CountingFilter::new(coinciding(65), Extension::Intuitive, 4);
        assert_eq!(refused, Err(ShapeError::Hashes { hashes: 65 }));
    }

    #[test]
    fn all_hash_functions_are_used() {
        let hash = Offsets { cells: 100, offsets: (0..64).collect() };
        let mut filter = CountingFilter::new(hash, Extension::Intuitive, 4).unwrap();
        filter.insert(&0);
        assert_eq!(filter.histogram(), BTreeMap::from([(0, 36), (1, 64)]));
    }

    #[test]
    fn hash_family_and_cells_have_to_agree() {
        let cells = PackedCells::new(99, 4).unwrap();
        let refused = CountingFilter::with_cells(coinciding(1), Extension::Refined, cells);
        assert_eq!(refused, Err(ShapeError::CellCount { reached: 100, cells: 99 }));
    }

    #[test]
    fn counts_saturate_at_the_top() {
        let mut filter = filter(Extension::Intuitive, 4);
        filter.insert_many(&7, 14);
        filter.insert(&7);
        assert_eq!(filter.count(&7), 15);
        filter.insert_many(&7, u32::MAX);
        assert_eq!(filter.count(&7), 15);
        filter.remove(&7).unwrap();
        assert_eq!(filter.count(&7), 15, "a cell at the top is never lowered");
    }

    #[test]
    fn a_saturated_cell_does_not_keep_the_others_from_being_lowered() {
        let mut filter = filter(Extension::Intuitive, 4);
        // Key 6 hits cells 6 and 7, key 7 hits 7 and 8.
        filter.insert_many(&6, 20);
        filter.insert_many(&7, 3);
        filter.remove(&7).unwrap();
        assert_eq!([6, 7, 8].map(|cell| filter.cells().get(cell)), [15, 15, 2]);
    }

    #[test]
    fn the_refined_extension_removes_nothing() {
        let mut filter = filter(Extension::Refined, 4);
        filter.insert(&7);
        assert_eq!(filter.remove(&7), Err(RemoveError::Refined));
        assert_eq!(filter.count(&7), 1);
    }

    #[test]
    fn removing_what_was_never_inserted_is_refused_where_it_can_be_seen() {
        let mut filter = filter(Extension::Intuitive, 4);
        filter.insert(&6);
        let before = filter.clone();
        // Key 7 hits cell 7, which is 1, and cell 8, which is 0.
        assert_eq!(filter.remove(&7), Err(RemoveError::NeverInserted));
        assert_eq!(filter, before);
    }

    #[test]
    fn removing_what_was_never_inserted_under_counts_where_it_cannot_be_seen() {
        let mut filter = filter(Extension::Intuitive, 4);
        filter.insert_batch(&[6, 8]);
        // Key 7 hits cells 7 and 8, both raised by other keys.
        assert_eq!(filter.remove(&7), Ok(()));
        assert_eq!([6, 8].map(|key| filter.count(&key)), [0, 0]);
    }

    #[test]
    fn filters_with_different_parameters_report_the_difference() {
        let mut ours = filter(Extension::Refined, 4);
        ours.insert(&7);
        let before = ours.clone();
        let other_hash = CountingFilter::new(coinciding(2), Extension::Refined, 4).unwrap();
        let others = [
            (filter(Extension::Intuitive, 4), "the extension"),
            (filter(Extension::Refined, 5), "the cell width in bits"),
            (other_hash, "an offset"),
        ];
        for (theirs, what) in &others {
            assert_eq!(ours.merge_all(&[&before, theirs]).unwrap_err().what, *what);
            assert_eq!(ours, before);
        }
    }

    #[test]
    fn many_filters_merge_as_one_after_the_other() {
        let mut parts = [1, 2, 3].map(|_| filter(Extension::Refined, 4));
        for (part, keys) in parts.iter_mut().zip([[1, 2], [2, 3], [2, 2]]) {
            part.insert_batch(&keys);
        }
        let [mut at_once, b, c] = parts;
        let mut in_turn = at_once.clone();
        at_once.merge_all(&[&b, &c]).unwrap();
        in_turn.merge(&b).unwrap();
        in_turn.merge(&c).unwrap();
        assert_eq!(at_once, in_turn);
        assert_eq!(at_once.count(&2), 4);
    }

    #[test]
    fn a_run_counts_as_so_many_single_insertions() {
        for extension in [Extension::Intuitive, Extension::Refined] {
            let (mut run, mut singly) = (filter(extension, 4), filter(extension, 4));
            for (key, times) in [(5, 3), (6, 2), (7, 9), (6, 4), (5, 0), (7, 20)] {
                run.insert_many(&key, times);
                (0..times).for_each(|_| singly.insert(&key));
            }
            assert_eq!(run, singly, "{extension}");
        }
    }
}
