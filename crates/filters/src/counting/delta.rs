//! Differences between two states of a counting filter, which the paper calls delta filters.
//!
//! A delta contains the growth of each cell. Adding the delta to the base yields the target exactly. The deltas of this
//! module exist only in memory; [`crate::delta`] encodes deltas for files.

use super::{Cells, CountingFilter, Extension, PackedCells, ShapeError};
use crate::hash::HashFamily;
use crate::{Mismatch, OutOfMemory};

/// Cell differences between a base and a later state of the same filter. See [`CountingFilter::delta_since`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountingDelta<H, C = PackedCells>(CountingFilter<H, C>);

impl<H: HashFamily, C: Cells> CountingDelta<H, C> {
    /// Creates a delta from received differences.
    ///
    /// # Errors
    /// The same as for [`CountingFilter::with_cells`].
    pub fn with_cells(hash: H, extension: Extension, differences: C) -> Result<Self, ShapeError> {
        CountingFilter::with_cells(hash, extension, differences).map(Self)
    }

    /// Returns the growth of each cell.
    #[must_use]
    pub const fn cells(&self) -> &C {
        self.0.cells()
    }
}

impl<H: HashFamily + Clone, C: Cells> CountingFilter<H, C> {
    /// Returns the delta that turns `base` into this filter: the growth of each cell.
    ///
    /// To exchange counts, each server keeps a filter of **its own** insertions. It sends this filter first, and then
    /// its deltas. Receivers add everything to a merged filter. Do not compute deltas of a merged filter into which
    /// several servers insert. With the refined extension, a server raises only the lowest cells of a key. If several
    /// servers raise the same low cells, the sum of their deltas raises these cells but not the key's other cells, and
    /// the merged filter counts too low.
    ///
    /// ```
    /// use bruit_filters::counting::{CountingFilter, Extension};
    /// use bruit_filters::FingerprintKey;
    /// use bruit_filters::hash::FingerprintHash;
    ///
    /// let key = FingerprintKey::new([7; 16]);
    /// let signature = key.fingerprint(b"42");
    /// let hash = FingerprintHash::new(1000, 2, 40, key.id()).unwrap();
    /// let mut own = CountingFilter::new(hash, Extension::Refined, 6)?;
    /// own.insert(&signature);
    /// let sent = own.clone();
    /// let mut at_the_peer = sent.clone();
    ///
    /// own.insert_many(&signature, 3);
    /// at_the_peer.apply_delta(&own.delta_since(&sent)?)?;
    /// assert_eq!(at_the_peer, own);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the filters differ in their parameters, if a cell is lower in this filter than in `base`, or if there is
    /// not enough memory.
    pub fn delta_since(&self, base: &Self) -> Result<CountingDelta<H, C>, DeltaError> {
        self.ensure_same(base)?;
        let mut differences = self.cells().zeroed()?;
        let values = base.cells().values().zip(self.cells().values());
        for (cell, (before, after)) in (0..).zip(values).filter(|(_, (before, after))| before != after) {
            let growth = after.checked_sub(before).ok_or(DeltaError::Shrunk { cell, before, after })?;
            differences.set(cell, growth);
        }
        let delta = CountingDelta::with_cells(self.hash().clone(), self.extension(), differences);
        Ok(delta.expect("the differences have the shape of the filter"))
    }
}

impl<H: HashFamily, C: Cells> CountingFilter<H, C> {
    /// Adds a delta received from another server. Each cell saturates at its top.
    ///
    /// # Errors
    /// [`Mismatch`] if hash family, extension or cells differ; nothing is changed in that case.
    pub fn apply_delta(&mut self, delta: &CountingDelta<H, C>) -> Result<(), Mismatch> {
        self.merge(&delta.0)
    }
}

/// The error returned by [`CountingFilter::delta_since`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The filters have different parameters, so they are not two states of one filter.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// There is not enough memory for the delta.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A cell is lower than in the base: a key was removed since, or the arguments are swapped.
    #[error("cell {cell} decreased from {before} to {after}, but a delta can only add")]
    Shrunk {
        /// Index of the cell.
        cell: u64,
        /// Value of the cell in the base.
        before: u32,
        /// Value of the cell now.
        after: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Offsets;

    fn filter(extension: Extension) -> CountingFilter<Offsets> {
        let hash = Offsets { cells: 100, offsets: vec![0, 1] };
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
    fn filters_with_different_parameters_have_no_delta() {
        let (ours, theirs) = (filter(Extension::Intuitive), filter(Extension::Refined));
        let Err(DeltaError::Mismatch(mismatch)) = ours.delta_since(&theirs) else { panic!("no mismatch") };
        assert_eq!(mismatch.what, "the extension");
        let delta = theirs.delta_since(&theirs).unwrap();
        assert_eq!(ours.clone().apply_delta(&delta).unwrap_err(), mismatch);
    }
}
