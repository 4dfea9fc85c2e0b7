//! The shapes that counting filters refuse to take.

use super::{CELL_BITS_MAX, CHUNK_CELLS_MAX, HASHES_MAX, HIGH_BITS_MAX, LOW_BITS_MAX};

/// Why a counting filter, or its cells, cannot have the shape asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A cell width outside `1..=`[`CELL_BITS_MAX`].
    #[error("cells have 1 to {CELL_BITS_MAX} bits, not {bits}")]
    CellBits {
        /// What was asked for.
        bits: u32,
    },
    /// A number of hash functions outside `1..=`[`HASHES_MAX`].
    #[error("a counting filter has 1 to {HASHES_MAX} hash functions, not {hashes}")]
    Hashes {
        /// What was asked for.
        hashes: u32,
    },
    /// The hash family and the cells disagree about m.
    #[error("the hash family reaches {reached} cells and there are {cells}")]
    CellCount {
        /// m of the hash family.
        reached: u64,
        /// m of the cells.
        cells: u64,
    },
    /// A number of low bits outside `1..=`[`LOW_BITS_MAX`].
    #[error("a base cell keeps 1 to {LOW_BITS_MAX} bits of a count, not {bits}")]
    LowBits {
        /// What was asked for.
        bits: u32,
    },
    /// A number of high bits outside `1..=`[`HIGH_BITS_MAX`].
    #[error("a table keeps 1 to {HIGH_BITS_MAX} bits of a count, not {bits}")]
    HighBits {
        /// What was asked for.
        bits: u32,
    },
    /// No chunk at all, or chunks of more than [`CHUNK_CELLS_MAX`] cells.
    #[error("{chunks} chunks do not divide {cells} cells into chunks of 1 to {CHUNK_CELLS_MAX}")]
    Chunks {
        /// N.
        chunks: u64,
        /// m.
        cells: u64,
    },
}
