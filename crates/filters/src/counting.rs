//! Counting filters, as in §4 of the paper by Yan and Cho.
//!
//! A cell is a small number instead of a bit. Inserting a key raises its k cells. The minimum of these cells is an
//! upper bound on the number of insertions. It is never too low, but it is too high if other keys have raised all k
//! cells. Counts saturate at the top of a cell, 2^w − 1.
//!
//! | type | description |
//! |---|---|
//! | [`CountingFilter`] | the classical layout: any m, any k, any hash family, [`Extension::Intuitive`] or [`Refined`] |
//! | [`OneLineCounts`] | the production layout: refined 4-bit cells in one line per key, and records for larger counts |
//! | [`CountingDelta`] | cell differences between two states of a filter |
//! | [`Cells`] | the trait for the cells of a counting filter |
//! | [`PackedCells`] | cells of 1 to 16 bits, packed without gaps |
//!
//! [`Refined`]: Extension::Refined

pub(crate) mod cells;
mod classical;
mod delta;
pub(crate) mod one_line;
pub(crate) mod row_merge;
pub(crate) mod rows;
mod shape;
pub(crate) mod spill;

pub use cells::{CELL_BITS_MAX, Cells, PackedCells};
pub use classical::{CountingFilter, Extension, HASHES_MAX, RemoveError};
pub use delta::{CountingDelta, DeltaError};
pub use one_line::{LINE_CELLS, OneLineCounts};
pub use shape::ShapeError;
