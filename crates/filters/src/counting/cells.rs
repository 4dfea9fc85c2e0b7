//! Cells: arrays of small numbers, and their packed form.
//!
//! Packed cells leave no gaps: cell i consists of the w bits that begin at bit i·w, counted from the least significant
//! bit of word 0. A cell of odd width may begin in one word and end in the next. Finding a cell needs no division, and
//! no bit is wasted. For w = 1, 2, 4, 8 and 16 no cell is split, so whole words can be merged.

use std::fmt;

use super::ShapeError;
use crate::kernels::{is_cached, merge, prefetch_line};
use crate::lines::{LINE_BITS, LINE_BYTES, Lines};
use crate::mismatch::ensure_equal;
use crate::{Mismatch, OutOfMemory};

/// Maximum width of a cell, in bits.
pub const CELL_BITS_MAX: u32 = 16;

/// An array of small numbers, initially zero, that holds the counts of a [`CountingFilter`](super::CountingFilter).
///
/// Two implementations with equal shape and contents return equal results for every method.
#[expect(clippy::len_without_is_empty, reason = "an array of cells keeps its size")]
pub trait Cells: Clone + PartialEq + fmt::Debug {
    /// Returns m, the number of cells.
    fn len(&self) -> u64;

    /// Returns w, the width of a cell in bits.
    fn bits(&self) -> u32;

    /// Returns the value of `cell`.
    ///
    /// # Panics
    /// Panics if `cell` is out of range.
    fn get(&self, cell: u64) -> u32;

    /// Sets `cell` to `value`.
    ///
    /// # Panics
    /// Panics if `cell` is out of range, or if `value` is above the [`top`](Self::top).
    fn set(&mut self, cell: u64, value: u32);

    /// Returns an array of the same shape with all cells zero.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    fn zeroed(&self) -> Result<Self, OutOfMemory>
    where
        Self: Sized;

    /// Returns true if the array is too small for [`fetch`](Self::fetch) to have a benefit.
    fn is_cached(&self) -> bool {
        true
    }

    /// Prefetches `cell`, which may be out of range.
    fn fetch(&self, _cell: u64) {}

    /// Checks that `other` has the same shape.
    ///
    /// # Errors
    /// [`Mismatch`] with the first parameter that differs.
    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch>;

    /// Returns the largest value of a cell, 2^w − 1.
    fn top(&self) -> u32 {
        u32::MAX >> (u32::BITS - self.bits())
    }

    /// Adds `amount` to `cell`, saturating at the [`top`](Self::top).
    ///
    /// # Panics
    /// Panics if `cell` is out of range.
    fn add(&mut self, cell: u64, amount: u32) {
        self.set(cell, self.get(cell).saturating_add(amount).min(self.top()));
    }

    /// Returns the values of all cells, in order.
    fn values(&self) -> impl Iterator<Item = u32> {
        (0..self.len()).map(|cell| self.get(cell))
    }

    /// Adds `other` cell by cell, saturating at the [`top`](Self::top).
    ///
    /// # Errors
    /// [`Mismatch`] if the shapes differ; nothing is changed in that case.
    fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.merge_all(&[other])
    }

    /// Adds all `others` cell by cell, saturating at the [`top`](Self::top).
    ///
    /// # Errors
    /// [`Mismatch`] if any shape differs; nothing is changed in that case.
    fn merge_all(&mut self, others: &[&Self]) -> Result<(), Mismatch> {
        others.iter().try_for_each(|other| self.ensure_same(other))?;
        for other in others {
            add_each(self, other);
        }
        Ok(())
    }
}

/// Adds the non-zero cells of `source`, one at a time.
fn add_each<C: Cells>(target: &mut C, source: &C) {
    for (cell, amount) in (0..).zip(source.values()) {
        if amount > 0 {
            target.add(cell, amount);
        }
    }
}

/// An array of m cells of w bits each, packed without gaps.
///
/// ```
/// use bruit_filters::counting::{Cells, PackedCells};
///
/// let mut ours = PackedCells::new(1000, 4)?;
/// ours.set(7, 9);
/// let mut theirs = ours.clone();
/// theirs.add(8, 1);
/// ours.merge(&theirs)?;
/// assert_eq!((ours.get(7), ours.get(8)), (15, 1), "9 + 9 saturates at the top of four bits");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedCells {
    cells: u64,
    bits: u32,
    lines: Lines,
}

impl PackedCells {
    /// Creates `cells` cells of `bits` bits, all zero.
    ///
    /// # Errors
    /// Fails if `bits` is outside `1..=`[`CELL_BITS_MAX`], or if the memory cannot be allocated.
    pub fn new(cells: u64, bits: u32) -> Result<Self, ShapeError> {
        if !(1..=CELL_BITS_MAX).contains(&bits) {
            return Err(ShapeError::CellBits { bits });
        }
        let total_bits = cells.checked_mul(u64::from(bits)).ok_or(OutOfMemory { bytes: u64::MAX })?;
        Ok(Self { cells, bits, lines: Lines::for_bits(total_bits)? })
    }

    /// Returns the memory of the cells in bytes. It is a whole number of cache lines.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        (self.lines.len() * LINE_BYTES) as u64
    }

    pub(crate) const fn lines(&self) -> &Lines {
        &self.lines
    }

    pub(crate) const fn lines_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }

    /// Panics if `cell` is out of range. Without this check, the padding of the last line would be read as cells.
    #[inline]
    fn ensure_cell(&self, cell: u64) {
        assert!(cell < self.cells, "cell {cell} of {}", self.cells);
    }

    /// Adds the cells packed in `words` to the cells of this array, starting at word `start`, where a cell must begin.
    pub(crate) fn add_packed(&mut self, start: usize, words: &[u64]) {
        if let Some(add_words) = merge::whole_words(self.bits) {
            return merge::add_sources(&mut self.lines.words_mut()[start..][..words.len()], &[words], add_words);
        }
        let width = u64::from(self.bits);
        let first = start as u64 * 64 / width;
        let count = (words.len() as u64 * 64 / width).min(self.cells - first);
        for cell in 0..count {
            self.add(first + cell, cell_at(words, self.bits, cell));
        }
    }
}

/// Returns the word and the bit at which `cell` begins among packed cells of `bits` bits.
#[inline]
const fn place(cell: u64, bits: u32) -> (usize, u32) {
    let bit = cell * bits as u64;
    ((bit / 64) as usize, (bit % 64) as u32)
}

/// Returns the value of `cell` in `words`, an array of packed cells of `bits` bits.
#[inline]
pub(crate) fn cell_at(words: &[u64], bits: u32, cell: u64) -> u32 {
    let (word, shift) = place(cell, bits);
    let mut value = words[word] >> shift;
    if shift + bits > 64 {
        value |= words[word + 1] << (64 - shift);
    }
    value as u32 & (u32::MAX >> (u32::BITS - bits))
}

/// Sets `cell` to `value` in `words`, an array of packed cells of `bits` bits. The value must fit in a cell.
#[inline]
pub(crate) fn set_cell_at(words: &mut [u64], bits: u32, cell: u64, value: u32) {
    let (word, shift) = place(cell, bits);
    let top = u64::MAX >> (64 - bits);
    words[word] = words[word] & !(top << shift) | u64::from(value) << shift;
    if shift + bits > 64 {
        let kept = 64 - shift;
        words[word + 1] = words[word + 1] & !(top >> kept) | u64::from(value) >> kept;
    }
}

impl Cells for PackedCells {
    #[inline]
    fn len(&self) -> u64 {
        self.cells
    }

    #[inline]
    fn bits(&self) -> u32 {
        self.bits
    }

    #[inline]
    fn get(&self, cell: u64) -> u32 {
        self.ensure_cell(cell);
        cell_at(self.lines.words(), self.bits, cell)
    }

    #[inline]
    fn set(&mut self, cell: u64, value: u32) {
        assert!(value <= self.top(), "{value} in a cell of {} bits", self.bits);
        self.ensure_cell(cell);
        set_cell_at(self.lines.words_mut(), self.bits, cell, value);
    }

    fn is_cached(&self) -> bool {
        is_cached(&self.lines)
    }

    fn fetch(&self, cell: u64) {
        let bit = cell.wrapping_mul(u64::from(self.bits));
        prefetch_line(&self.lines, (bit / LINE_BITS) as usize);
    }

    fn zeroed(&self) -> Result<Self, OutOfMemory> {
        Ok(Self { cells: self.cells, bits: self.bits, lines: Lines::new(self.lines.len())? })
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of cells m", &self.cells, &other.cells)?;
        ensure_equal("the cell width in bits", &self.bits, &other.bits)
    }

    fn merge_all(&mut self, others: &[&Self]) -> Result<(), Mismatch> {
        others.iter().try_for_each(|other| self.ensure_same(other))?;
        if let Some(add_words) = merge::whole_words(self.bits) {
            let sources: Vec<_> = others.iter().map(|other| other.lines.words()).collect();
            merge::add_sources(self.lines.words_mut(), &sources, add_words);
        } else {
            others.iter().for_each(|other| add_each(self, other));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn filled(bits: u32, values: &[u32]) -> PackedCells {
        let mut cells = PackedCells::new(values.len() as u64, bits).unwrap();
        for (cell, &value) in (0..).zip(values) {
            cells.set(cell, value & cells.top());
        }
        cells
    }

    #[test]
    fn widths_outside_one_to_sixteen_are_refused() {
        for bits in [0, CELL_BITS_MAX + 1, u32::MAX] {
            assert_eq!(PackedCells::new(10, bits), Err(ShapeError::CellBits { bits }));
        }
    }

    #[test]
    fn cells_are_packed_without_gaps() {
        for bits in 1..=CELL_BITS_MAX {
            let cells = PackedCells::new(512, bits).unwrap();
            assert_eq!(cells.allocated_bytes(), u64::from(bits) * 64);
        }
    }

    #[test]
    #[should_panic(expected = "cell 3 of 3")]
    fn padding_is_not_a_cell() {
        PackedCells::new(3, 4).unwrap().get(3);
    }

    #[test]
    #[should_panic(expected = "16 in a cell of 4 bits")]
    fn a_value_above_the_top_is_not_stored() {
        PackedCells::new(3, 4).unwrap().set(0, 16);
    }

    #[test]
    fn an_unlike_shape_changes_nothing() {
        let mut ours = filled(4, &[1, 2, 3]);
        let (like, narrow, short) = (filled(4, &[1, 1, 1]), filled(3, &[1, 2, 3]), filled(4, &[1, 2]));
        assert_eq!(ours.merge_all(&[&like, &narrow]).unwrap_err().what, "the cell width in bits");
        assert_eq!(ours.merge_all(&[&like, &short]).unwrap_err().what, "the number of cells m");
        assert_eq!(ours, filled(4, &[1, 2, 3]));
    }

    #[test]
    fn many_sources_over_many_blocks_merge_as_cell_by_cell() {
        // The last block is short, and the value of a cell depends on its block.
        let sources = [3, 5, 7].map(|period| {
            let cells = 16 * merge::STEP_WORDS as u32 * 5 / 2 + 3;
            filled(4, &(0..cells).map(|cell| cell / 1000 % period).collect::<Vec<_>>())
        });
        let [mut at_once, b, c] = sources;
        let mut in_turn = at_once.clone();
        at_once.merge_all(&[&b, &c, &b]).unwrap();
        [&b, &c, &b].into_iter().for_each(|other| add_each(&mut in_turn, other));
        assert!(at_once == in_turn);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn cells_keep_what_was_set(bits in 1..=CELL_BITS_MAX, writes in vec((0..100usize, any::<u32>()), 0..300)) {
            let mut cells = PackedCells::new(100, bits).unwrap();
            let mut model = vec![0; 100];
            for (cell, value) in writes {
                model[cell] = value & cells.top();
                cells.set(cell as u64, model[cell]);
            }
            prop_assert_eq!(cells.values().collect::<Vec<_>>(), model);
        }

        #[test]
        fn every_width_merges_by_saturating_addition(pairs in vec(any::<(u32, u32)>(), 0..300)) {
            let (left, right): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
            for bits in 1..=CELL_BITS_MAX {
                let (mut ours, theirs) = (filled(bits, &left), filled(bits, &right));
                let sums: Vec<u32> =
                    ours.values().zip(theirs.values()).map(|(a, b)| (a + b).min(ours.top())).collect();
                let mut cell_by_cell = ours.clone();
                add_each(&mut cell_by_cell, &theirs);
                ours.merge(&theirs).unwrap();
                prop_assert_eq!(ours.values().collect::<Vec<_>>(), sums);
                prop_assert_eq!(ours, cell_by_cell);
            }
        }
    }
}
