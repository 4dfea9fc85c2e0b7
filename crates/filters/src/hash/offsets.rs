//! A hash family for tests, with predictable positions.

use super::HashFamily;
use crate::Mismatch;
use crate::mismatch::ensure_equal;

/// A hash family in which key x hits the cell x + d, modulo the number of cells, for each offset d.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) cells: u64,
    pub(crate) offsets: Vec<u64>,
}

impl HashFamily for Offsets {
    type Key = u64;

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        self.offsets.len() as u32
    }

    fn positions(&self, key: &u64) -> impl Iterator<Item = u64> {
        self.offsets.iter().map(move |offset| (key + offset) % self.cells)
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of cells", &self.cells, &other.cells)?;
        self.offsets.iter().zip(&other.offsets).try_for_each(|(ours, theirs)| ensure_equal("an offset", ours, theirs))
    }
}
