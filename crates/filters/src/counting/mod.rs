//! Filters that count: the paper's §4.
//!
//! A cell is a small number instead of a bit. Inserting a key raises its k cells, and the least of them bounds how
//! often the key was inserted: never too low, too high where other keys hit all k. Counts end at the top of a cell,
//! 2^w − 1, and stay there.
//!
//! | type | what it is |
//! |---|---|
//! | [`CountingFilter`] | the classical layout: any m, any k, any hash family, [`Extension::Intuitive`] or [`Refined`] |
//! | [`OneLineCounts`] | the production layout: refined 4-bit cells in one line per key, larger counts in records |
//! | [`CountingDelta`] | cell differences between two states of a filter |
//! | [`Cells`] | what a counting filter asks of its cells |
//! | [`PackedCells`] | cells of 1 to 16 bits, packed without gaps |
//! | [`CompactCounters`] | short cells, with the high bits of the few large counts in tables |
//!
//! [`Refined`]: Extension::Refined

pub(crate) mod cells;
mod classical;
mod compact;
mod delta;
pub(crate) mod one_line;
pub(crate) mod row_merge;
pub(crate) mod rows;
mod shape;
pub(crate) mod spill;

pub use cells::{CELL_BITS_MAX, Cells, PackedCells};
pub use classical::{CountingFilter, Extension, HASHES_MAX, RemoveError};
pub use compact::{CHUNK_CELLS_MAX, CompactCounters, HIGH_BITS_MAX, LOW_BITS_MAX};
pub use delta::{CountingDelta, DeltaError};
pub use one_line::{LINE_CELLS, OneLineCounts};
pub use shape::ShapeError;
