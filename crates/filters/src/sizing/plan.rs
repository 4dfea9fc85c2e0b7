//! The inverse problem: what to build for n keys and a wanted rate, or n keys and a memory budget.

use super::bloom::{best_hashes, classical_cells_for_rate, classical_rate, compression_rate};
use super::counting::{counting_line_rate, counting_lines_for_rate};
use super::error::{SizingError, ensure_keys};
use super::fingerprint_bits::{fingerprint_bits, shared_fingerprint_rate};
use super::one_line::{LINE_BITS, LINE_BYTES, one_line_best_hashes, one_line_for_rate, one_line_rate};
use crate::counting::CELL_BITS_MAX;
use crate::counting::rows::CELLS_PER_KEY;
use crate::hash::FINGERPRINT_BITS_MAX;

/// Largest filter a plan describes: 1 PiB.
pub const BYTES_MAX: u64 = 1 << 50;
/// Bits of a cell in a [`CountingPlan`].
pub const CELL_BITS: u32 = 4;
/// Memory the one-line counting layout is usually given: 32 bits, that is eight cells, per key.
pub const COUNTING_BITS_PER_KEY: u64 = 32;

/// Up to 2^53 cells an `f64` counts each one.
pub(super) const CELLS_MAX: u64 = BYTES_MAX * 8;

const WORD_BYTES: u64 = 8;
/// Cells of one line of the counting layout.
const LINE_CELLS: u64 = (LINE_BITS / CELL_BITS) as u64;

/// Where a key's positions may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Anywhere: the fewest bits, k cache misses.
    Classical,
    /// In one line of 512 bits: a few per cent more bits, one cache miss.
    OneLine,
}

/// What a plan has to meet.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Goal {
    /// At most this false-positive rate, in the least memory.
    Rate(f64),
    /// At most this many bytes, with the lowest rate.
    Memory(u64),
}

/// A filter for membership.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MembershipPlan {
    /// Where positions lie.
    pub layout: Layout,
    /// m, whole words or whole lines of one-bit cells.
    pub cells: u64,
    /// k.
    pub hashes: u32,
    /// Memory of the cells.
    pub bytes: u64,
    /// Bits of memory for each of the n keys.
    pub bits_per_key: f64,
    /// The rate that n keys will show.
    pub false_positive_rate: f64,
    /// How many times smaller than n signatures of 160 bits.
    pub compression_rate: f64,
    /// Leading bits of a fingerprint to look at.
    pub fingerprint_bits: u32,
}

impl MembershipPlan {
    /// The smallest filter, or the most accurate, that meets `goal` for `keys` keys.
    ///
    /// # Errors
    /// [`SizingError`] for no keys, a rate outside (0, 1), a budget below one word or line, or more than a PiB.
    pub fn new(layout: Layout, keys: u64, goal: Goal) -> Result<Self, SizingError> {
        ensure_keys(keys)?;
        let goal = without_shared_fingerprints(keys, goal)?;
        match layout {
            Layout::Classical => classical_membership(keys, goal),
            Layout::OneLine => one_line_membership(keys, goal),
        }
    }

    /// Lines of the one-line layout; `None` for the classical one.
    #[must_use]
    pub fn lines(&self) -> Option<u64> {
        (self.layout == Layout::OneLine).then_some(self.bytes / LINE_BYTES)
    }

    fn from_size(layout: Layout, keys: u64, bytes: u64, hashes: u32, rate: f64) -> Self {
        let rate = with_shared_fingerprints(keys, rate);
        Self {
            layout,
            cells: bytes * 8,
            hashes,
            bytes,
            bits_per_key: bits_per_key(keys, bytes),
            false_positive_rate: rate,
            compression_rate: compression_rate(keys, bytes * 8),
            fingerprint_bits: fingerprint_bits(keys, rate),
        }
    }
}

/// What all 64 bits of a fingerprint leave of a rate: below n / 2^64 keys cannot be told apart. (Where fewer bits are
/// looked at, they are chosen so that this adds less than a thousandth.)
fn with_shared_fingerprints(keys: u64, rate: f64) -> f64 {
    (rate + shared_fingerprint_rate(keys, FINGERPRINT_BITS_MAX)).min(1.0)
}

/// The goal that is left for the bits of the filter.
fn without_shared_fingerprints(keys: u64, goal: Goal) -> Result<Goal, SizingError> {
    let least = shared_fingerprint_rate(keys, FINGERPRINT_BITS_MAX);
    match goal {
        Goal::Rate(rate) if rate > 0.0 && rate <= least => Err(SizingError::RateOutOfReach { rate, least }),
        Goal::Rate(rate) if rate > 0.0 && rate < 1.0 => Ok(Goal::Rate(rate - least)),
        goal => Ok(goal),
    }
}

fn classical_membership(keys: u64, goal: Goal) -> Result<MembershipPlan, SizingError> {
    let (bytes, hashes) = classical_size(keys, goal, 1)?;
    let rate = classical_rate(keys, bytes * 8, hashes);
    Ok(MembershipPlan::from_size(Layout::Classical, keys, bytes, hashes, rate))
}

fn one_line_membership(keys: u64, goal: Goal) -> Result<MembershipPlan, SizingError> {
    let (lines, hashes, rate) = match goal {
        Goal::Rate(wanted) => {
            let size = one_line_for_rate(keys, wanted)?;
            (size.lines, size.hashes, one_line_rate(keys, size.lines, size.hashes))
        }
        Goal::Memory(bytes) => {
            let lines = whole_units(bytes, LINE_BYTES)?;
            let (hashes, rate) = one_line_best_hashes(keys, lines);
            (lines, hashes, rate)
        }
    };
    Ok(MembershipPlan::from_size(Layout::OneLine, keys, lines * LINE_BYTES, hashes, rate))
}

/// A filter for counts, in cells of [`CELL_BITS`] bits unless another width is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CountingPlan {
    /// Where positions lie.
    pub layout: Layout,
    /// m, the number of cells.
    pub cells: u64,
    /// Bits of each cell.
    pub cell_bits: u32,
    /// k.
    pub hashes: u32,
    /// Memory of the cells.
    pub bytes: u64,
    /// Bits of memory for each of the n keys.
    pub bits_per_key: f64,
    /// The rate at which a key never inserted reads a count above 0.
    pub false_positive_rate: f64,
    /// How many times smaller than n signatures of 160 bits, without their counts.
    pub compression_rate: f64,
    /// Leading bits of a fingerprint to look at; one-line counts look at all of it.
    pub fingerprint_bits: u32,
}

impl CountingPlan {
    /// The smallest filter, or the most accurate, that meets `goal` for `keys` keys.
    ///
    /// # Errors
    /// [`SizingError`] for no keys, a rate outside (0, 1), a budget below one word or line, or more than a PiB.
    pub fn new(layout: Layout, keys: u64, goal: Goal) -> Result<Self, SizingError> {
        ensure_keys(keys)?;
        match layout {
            Layout::Classical => classical_counting(keys, goal, CELL_BITS),
            Layout::OneLine => one_line_counting(keys, goal),
        }
    }

    /// The classical layout in cells of `cell_bits` bits.
    ///
    /// # Errors
    /// [`SizingError`] for cells of no width or of more than [`CELL_BITS_MAX`] bits, and as [`new`](Self::new).
    pub fn classical(keys: u64, goal: Goal, cell_bits: u32) -> Result<Self, SizingError> {
        ensure_keys(keys)?;
        if !(1..=CELL_BITS_MAX).contains(&cell_bits) {
            return Err(SizingError::CellBits { bits: cell_bits });
        }
        classical_counting(keys, goal, cell_bits)
    }

    /// The one-line layout at its usual [`COUNTING_BITS_PER_KEY`].
    ///
    /// # Errors
    /// [`SizingError`] for no keys, or more than a PiB.
    pub fn usual(keys: u64) -> Result<Self, SizingError> {
        let keys_per_line = u64::from(LINE_BITS) / COUNTING_BITS_PER_KEY;
        let bytes = keys.div_ceil(keys_per_line).checked_mul(LINE_BYTES).ok_or(SizingError::TooLarge)?;
        Self::new(Layout::OneLine, keys, Goal::Memory(bytes))
    }

    fn from_size(layout: Layout, keys: u64, bytes: u64, cell_bits: u32, hashes: u32, rate: f64) -> Self {
        Self {
            layout,
            cells: bytes * 8 / u64::from(cell_bits),
            cell_bits,
            hashes,
            bytes,
            bits_per_key: bits_per_key(keys, bytes),
            false_positive_rate: rate,
            compression_rate: compression_rate(keys, bytes * 8),
            fingerprint_bits: fingerprint_bits(keys, rate),
        }
    }

    /// Lines of the one-line layout; `None` for the classical one.
    #[must_use]
    pub fn lines(&self) -> Option<u64> {
        (self.layout == Layout::OneLine).then_some(self.cells / LINE_CELLS)
    }
}

fn classical_counting(keys: u64, goal: Goal, cell_bits: u32) -> Result<CountingPlan, SizingError> {
    let (bytes, hashes) = classical_size(keys, goal, cell_bits)?;
    let rate = classical_rate(keys, bytes * 8 / u64::from(cell_bits), hashes);
    Ok(CountingPlan::from_size(Layout::Classical, keys, bytes, cell_bits, hashes, rate))
}

fn one_line_counting(keys: u64, goal: Goal) -> Result<CountingPlan, SizingError> {
    let lines = match goal {
        Goal::Rate(wanted) => counting_lines_for_rate(keys, wanted)?,
        Goal::Memory(bytes) => whole_units(bytes, LINE_BYTES)?,
    };
    let rate = counting_line_rate(keys, lines, 1);
    let plan = CountingPlan::from_size(Layout::OneLine, keys, lines * LINE_BYTES, CELL_BITS, CELLS_PER_KEY, rate);
    Ok(CountingPlan { fingerprint_bits: FINGERPRINT_BITS_MAX, ..plan })
}

/// Bytes in whole words, and k, for cells of `cell_bits` anywhere.
fn classical_size(keys: u64, goal: Goal, cell_bits: u32) -> Result<(u64, u32), SizingError> {
    match goal {
        Goal::Rate(wanted) => {
            let (cells, hashes) = classical_cells_for_rate(keys, wanted)?;
            let bits = cells.checked_mul(u64::from(cell_bits)).ok_or(SizingError::TooLarge)?;
            let bytes = bits.div_ceil(8 * WORD_BYTES) * WORD_BYTES;
            if bytes > BYTES_MAX { Err(SizingError::TooLarge) } else { Ok((bytes, hashes)) }
        }
        Goal::Memory(bytes) => {
            let bytes = whole_units(bytes, WORD_BYTES)? * WORD_BYTES;
            Ok((bytes, best_hashes(keys, bytes * 8 / u64::from(cell_bits))))
        }
    }
}

/// How many units of `unit_bytes` a budget holds: at least one, at most a PiB.
fn whole_units(bytes: u64, unit_bytes: u64) -> Result<u64, SizingError> {
    if bytes < unit_bytes {
        Err(SizingError::TooSmall { bytes, bytes_min: unit_bytes })
    } else if bytes > BYTES_MAX {
        Err(SizingError::TooLarge)
    } else {
        Ok(bytes / unit_bytes)
    }
}

fn bits_per_key(keys: u64, bytes: u64) -> f64 {
    bytes as f64 * 8.0 / keys as f64
}
