//! Errors when computing and applying deltas.

use std::io;

use crate::Mismatch;
use crate::file::{FileError, HistoryError};

/// The reason why a delta cannot be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The base cannot be read.
    #[error("cannot read the base: {0}")]
    Base(#[source] FileError),
    /// The target cannot be read.
    #[error("cannot read the target: {0}")]
    Target(#[source] FileError),
    /// The filters have different parameters, so they are not two states of one filter.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The files are not an earlier and a later state of one site's own filter.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A cell is lower in the target than in the base.
    #[error("keys were removed since the base, but a delta can only add; send the whole filter")]
    Shrunk,
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The reason why a delta cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The base cannot be read.
    #[error("cannot read the base: {0}")]
    Base(#[source] FileError),
    /// The delta cannot be read.
    #[error("cannot read the delta: {0}")]
    Delta(#[source] FileError),
    /// The delta belongs to another filter.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The delta is already applied, out of order, or belongs to another filter.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The delta was computed from another state of this filter.
    #[error("the delta was computed from another state of this filter (checksum {wanted:08x}, found {found:08x})")]
    WrongBase {
        /// Checksum of the base of the delta.
        wanted: u32,
        /// Checksum of the filter that the delta was applied to.
        found: u32,
    },
    /// The result differs from the delta's target.
    #[error("the result is not the target of the delta (checksum {wanted:08x}, found {found:08x})")]
    WrongTarget {
        /// Checksum of the target.
        wanted: u32,
        /// Checksum of the result.
        found: u32,
    },
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}
