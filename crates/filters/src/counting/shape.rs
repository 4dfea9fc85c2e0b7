//! Errors for invalid shapes of counting filters.

use super::{CELL_BITS_MAX, HASHES_MAX};
use crate::OutOfMemory;

/// The reason why the requested shape of a counting filter, or of its cells, is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The cell width is outside `1..=`[`CELL_BITS_MAX`].
    #[error("cells have 1 to {CELL_BITS_MAX} bits, not {bits}")]
    CellBits {
        /// Requested width.
        bits: u32,
    },
    /// The number of hash functions is outside `1..=`[`HASHES_MAX`].
    #[error("a counting filter has 1 to {HASHES_MAX} hash functions, not {hashes}")]
    Hashes {
        /// Requested number.
        hashes: u32,
    },
    /// The hash family and the cells differ in m.
    #[error("the hash family has {reached} cells, but the filter has {cells}")]
    CellCount {
        /// m of the hash family.
        reached: u64,
        /// m of the cells.
        cells: u64,
    },
    /// The memory cannot be allocated.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}
