//! Why there is no delta, or why it does not fit.

use std::io;

use crate::Mismatch;
use crate::file::{FileError, HistoryError};

/// Why no delta can be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The base cannot be read.
    #[error("the base: {0}")]
    Base(#[source] FileError),
    /// The target cannot be read.
    #[error("the target: {0}")]
    Target(#[source] FileError),
    /// They are not states of one filter.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// They are not an earlier and a later state of one site's own filter.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A cell is lower than before.
    #[error("keys were removed since the base, and a difference can only add; send the whole filter")]
    Shrunk,
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why a delta cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The base cannot be read.
    #[error("the base: {0}")]
    Base(#[source] FileError),
    /// The delta cannot be read.
    #[error("the delta: {0}")]
    Delta(#[source] FileError),
    /// It is a delta of another filter.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// It was applied before, comes too early, or belongs to another filter.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// It is a delta of this filter in another state.
    #[error("the delta starts from another state of this filter (checksum {wanted:08x}, and this is {found:08x})")]
    WrongBase {
        /// The checksum of the base it was made from.
        wanted: u32,
        /// The checksum of what it should be applied to.
        found: u32,
    },
    /// The result is not the target that the delta was made for.
    #[error("the delta does not lead to its target (checksum {wanted:08x}, and the result is {found:08x})")]
    WrongTarget {
        /// The checksum of the target.
        wanted: u32,
        /// The checksum of the result.
        found: u32,
    },
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}
