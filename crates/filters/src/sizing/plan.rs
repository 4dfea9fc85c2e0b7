//! Plans: the layout and size of a filter for n keys and a required rate, or for n keys and a memory limit.

use super::bloom::{best_hashes, classical_cells_for_rate, classical_rate, compression_rate};
use super::counting::{counting_line_rate, counting_lines_for_rate};
use super::error::{SizingError, ensure_keys};
use super::fingerprint_bits::{fingerprint_bits, shared_fingerprint_rate};
use super::one_line::{LINE_BITS, LINE_BYTES, one_line_best_hashes, one_line_for_rate, one_line_rate};
use crate::counting::CELL_BITS_MAX;
use crate::counting::rows::CELLS_PER_KEY;
use crate::hash::FINGERPRINT_BITS_MAX;

/// Largest filter that a plan can describe: 1 PiB.
pub const BYTES_MAX: u64 = 1 << 50;
/// Bits of a cell in a [`CountingPlan`].
pub const CELL_BITS: u32 = 4;
/// Usual memory of the one-line counting layout per key: 32 bits, which is eight cells.
const COUNTING_BITS_PER_KEY: u64 = 32;

/// Maximum number of cells: 2^53, up to which an `f64` represents every whole number exactly.
pub(super) const CELLS_MAX: u64 = BYTES_MAX * 8;

const WORD_BYTES: u64 = 8;
/// Cells of one line of the counting layout.
const LINE_CELLS: u64 = (LINE_BITS / CELL_BITS) as u64;

/// The arrangement of a key's positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Positions anywhere in the filter. Needs the fewest bits, but has k cache misses.
    Classical,
    /// All positions in one line of 512 bits. Needs a few per cent more bits, but has one cache miss.
    OneLine,
}

/// The requirement for a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Goal {
    /// At most this false-positive rate, with as little memory as possible.
    Rate(f64),
    /// At most this many bytes, with the lowest possible rate.
    Memory(u64),
}

/// The size of a membership filter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MembershipPlan {
    /// Arrangement of positions.
    pub layout: Layout,
    /// m, the number of bits, in whole words or whole lines.
    pub cells: u64,
    /// k, the number of positions per key.
    pub hashes: u32,
    /// Memory of the cells in bytes.
    pub bytes: u64,
    /// Bits of memory for each of the n keys.
    pub bits_per_key: f64,
    /// False-positive rate with n keys.
    pub false_positive_rate: f64,
    /// Size of n signatures of 160 bits, relative to the filter.
    pub compression_rate: f64,
    /// Number of leading fingerprint bits to use.
    pub fingerprint_bits: u32,
}

impl MembershipPlan {
    /// Computes the smallest or the most accurate filter that meets `goal` for `keys` keys.
    ///
    /// # Errors
    /// [`SizingError`] if there are no keys, if the rate is outside (0, 1), or if the memory is less than one word or
    /// line, or more than a PiB.
    pub fn new(layout: Layout, keys: u64, goal: Goal) -> Result<Self, SizingError> {
        ensure_keys(keys)?;
        let goal = without_shared_fingerprints(keys, goal)?;
        match layout {
            Layout::Classical => classical_membership(keys, goal),
            Layout::OneLine => one_line_membership(keys, goal),
        }
    }

    /// Returns the number of lines, or `None` for the classical layout.
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

/// Adds the rate at which keys share all 64 bits of a fingerprint, n / 2^64. (If a filter uses fewer bits, it uses
/// enough of them: truncation increases the rate by less than a thousandth.)
fn with_shared_fingerprints(keys: u64, rate: f64) -> f64 {
    (rate + shared_fingerprint_rate(keys, FINGERPRINT_BITS_MAX)).min(1.0)
}

/// Returns the goal for the bits of the filter, without the rate of shared fingerprints.
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

/// The size of a counting filter, with cells of [`CELL_BITS`] bits unless another width is requested.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CountingPlan {
    /// Arrangement of positions.
    pub layout: Layout,
    /// m, the number of cells.
    pub cells: u64,
    /// Bits of each cell.
    pub cell_bits: u32,
    /// k, the number of positions per key.
    pub hashes: u32,
    /// Memory of the cells in bytes.
    pub bytes: u64,
    /// Bits of memory for each of the n keys.
    pub bits_per_key: f64,
    /// Probability that a key that was never inserted has a count above 0.
    pub false_positive_rate: f64,
    /// Size of n signatures of 160 bits without their counts, relative to the filter.
    pub compression_rate: f64,
    /// Number of leading fingerprint bits to use; one-line counts use all of them.
    pub fingerprint_bits: u32,
}

impl CountingPlan {
    /// Computes the smallest or the most accurate filter that meets `goal` for `keys` keys.
    ///
    /// # Errors
    /// [`SizingError`] if there are no keys, if the rate is outside (0, 1), or if the memory is less than one word or
    /// line, or more than a PiB.
    pub fn new(layout: Layout, keys: u64, goal: Goal) -> Result<Self, SizingError> {
        ensure_keys(keys)?;
        match layout {
            Layout::Classical => classical_counting(keys, goal, CELL_BITS),
            Layout::OneLine => one_line_counting(keys, goal),
        }
    }

    /// Computes a filter of the classical layout with cells of `cell_bits` bits.
    ///
    /// # Errors
    /// [`SizingError`] if `cell_bits` is 0 or above [`CELL_BITS_MAX`], and in the cases of [`new`](Self::new).
    pub fn classical(keys: u64, goal: Goal, cell_bits: u32) -> Result<Self, SizingError> {
        ensure_keys(keys)?;
        if !(1..=CELL_BITS_MAX).contains(&cell_bits) {
            return Err(SizingError::CellBits { bits: cell_bits });
        }
        classical_counting(keys, goal, cell_bits)
    }

    /// Computes a filter of the one-line layout with the usual 32 bits per key.
    ///
    /// # Errors
    /// [`SizingError`] if there are no keys, or if the filter exceeds a PiB.
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

    /// Returns the number of lines, or `None` for the classical layout.
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

/// Returns the memory in bytes (whole words), and k, for cells of `cell_bits` bits in the classical layout.
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

/// Returns the number of whole units of `unit_bytes` in `bytes`. Fails if `bytes` is less than a unit or more than a
/// PiB.
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
