//! What changed in a counting filter between two states: the paper's delta filters.
//!
//! A delta holds, for each cell, how much it grew. Adding it to the base gives the target exactly. In memory only; how
//! a delta is written is not known here.

use super::{Cells, CountingFilter, Extension, PackedCells, ShapeError};
use crate::Mismatch;
use crate::hash::HashFamily;

/// Cell differences between a base and a later state of the same filter. Made by [`CountingFilter::delta_since`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountingDelta<H, C = PackedCells>(CountingFilter<H, C>);

impl<H: HashFamily, C: Cells> CountingDelta<H, C> {
    /// A delta from differences that were received.
    ///
    /// # Errors
    /// As [`CountingFilter::with_cells`].
    pub fn with_cells(hash: H, extension: Extension, differences: C) -> Result<Self, ShapeError> {
        CountingFilter::with_cells(hash, extension, differences).map(Self)
    }

    /// How much each cell grew.
    #[must_use]
    pub const fn cells(&self) -> &C {
        self.0.cells()
    }
}

impl<H: HashFamily + Clone, C: Cells> CountingFilter<H, C> {
    /// What turns `base` into this filter: the growth of each cell.
    ///
    /// To exchange counts, each server keeps a filter of **its own** insertions, sends that filter once and then its
    /// deltas; receivers add everything to a merged filter. Do not take deltas of a merged filter in which several
    /// servers go on inserting: under the refined extension each of them raises the same low cells up to cells that are
    /// high already, the sum raises only the low ones, and the merged filter counts too low.
    ///
    /// ```
    /// use bruit_filters::counting::{CountingFilter, Extension};
    /// use bruit_filters::hash::{Prime, UniversalHash};
    ///
    /// let hash = UniversalHash::new(1000, Prime::Paper, vec![(5, 1), (7, 2)])?;
    /// let mut own = CountingFilter::new(hash, Extension::Refined, 6)?;
    /// own.insert(&42);
    /// let sent = own.clone();
    /// let mut at_the_peer = sent.clone();
    ///
    /// own.insert_many(&42, 3);
    /// at_the_peer.apply_delta(&own.delta_since(&sent)?)?;
    /// assert_eq!(at_the_peer, own);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the filters differ in their parameters, or a cell is lower here than in `base`.
    pub fn delta_since(&self, base: &Self) -> Result<CountingDelta<H, C>, DeltaError> {
        self.ensure_same(base)?;
        let mut differences = self.cells().zeroed();
        let values = base.cells().values().zip(self.cells().values());
        for (cell, (before, after)) in (0..).zip(values).filter(|(_, (before, after))| before != after) {
            let growth = after.checked_sub(before).ok_or(DeltaError::Shrunk { cell, before, after })?;
            differences.set(cell, growth);
        }
        let delta = CountingDelta::with_cells(self.hash().clone(), self.extension(), differences);
        Ok(delta.expect("differences have the shape of what they were taken from"))
    }
}

impl<H: HashFamily, C: Cells> CountingFilter<H, C> {
    /// Adds what changed elsewhere. Each cell ends at its top.
    ///
    /// # Errors
    /// [`Mismatch`] if hash family, extension or cells differ; nothing has changed then.
    pub fn apply_delta(&mut self, delta: &CountingDelta<H, C>) -> Result<(), Mismatch> {
        self.merge(&delta.0)
    }
}

/// Why there is no delta between two filters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// They are not states of one filter.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// Something was removed since the base, or the states were swapped.
    #[error("cell {cell} shrank from {before} to {after}, and a delta only adds")]
    Shrunk {
        /// Its number.
        cell: u64,
        /// What it held in the base.
        before: u32,
        /// What it holds now.
        after: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Prime, UniversalHash};

    fn filter(extension: Extension) -> CountingFilter<UniversalHash> {
        let hash = UniversalHash::new(100, Prime::Paper, vec![(1, 0), (1, 1)]).unwrap();
        CountingFilter::new(hash, extension, 4).unwrap()
    }

    #[test]
    fn base_and_delta_give_the_target_exactly() {
        let mut base = filter(Extension::Refined);
        base.insert_batch(&[1, 2, 3, 50]);
        let mut target = base.clone();
        target.insert_many(&2, 30);
        target.insert(&70);
        let delta = target.delta_since(&base).unwrap();
        assert_eq!([2, 3, 50, 70].map(|cell| delta.cells().get(cell)), [14, 14, 0, 1]);
        base.apply_delta(&delta).unwrap();
        assert_eq!(base, target);
    }

    #[test]
    fn a_cell_that_shrank_has_no_delta() {
        let mut base = filter(Extension::Intuitive);
        base.insert_batch(&[1, 1]);
        let mut target = base.clone();
        target.remove(&1).unwrap();
        let refused = target.delta_since(&base);
        assert_eq!(refused, Err(DeltaError::Shrunk { cell: 1, before: 2, after: 1 }));
    }

    #[test]
    fn unlike_filters_have_no_delta() {
        let (ours, theirs) = (filter(Extension::Intuitive), filter(Extension::Refined));
        let Err(DeltaError::Mismatch(mismatch)) = ours.delta_since(&theirs) else { panic!("no mismatch") };
        assert_eq!(mismatch.what, "the extension");
        let delta = theirs.delta_since(&theirs).unwrap();
        assert_eq!(ours.clone().apply_delta(&delta).unwrap_err(), mismatch);
    }
}
