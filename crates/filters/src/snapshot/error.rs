//! Errors when restoring a structure from a snapshot.

use std::io;

use crate::OutOfMemory;

/// The reason why a structure cannot be restored from a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// Reading the input failed.
    #[error("failed to read the snapshot")]
    Io(#[source] io::Error),
    /// The input ends before the end of the snapshot.
    #[error("the snapshot is truncated")]
    Truncated,
    /// The input does not start with the magic number of a snapshot.
    #[error("not a snapshot of a filter")]
    NotASnapshot,
    /// The snapshot has a later version than this code supports.
    #[error("unsupported snapshot version {found}")]
    UnknownVersion {
        /// Version of the snapshot.
        found: u8,
    },
    /// The snapshot belongs to another kind of structure.
    #[error("snapshot of kind {found}, expected kind {expected}")]
    OtherKind {
        /// Kind of the requested structure.
        expected: u8,
        /// Kind of the snapshot.
        found: u8,
    },
    /// The structure needs more memory than the caller allows.
    #[error("the snapshot has {lines} lines of 64 bytes, but the limit is {limit_bytes} bytes")]
    TooLarge {
        /// Lines of the structure.
        lines: u64,
        /// Limit set by the caller.
        limit_bytes: u64,
    },
    /// The structure is valid, but its memory cannot be allocated.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A field has a value that is invalid in every structure.
    #[error("{what} has the invalid value {value}")]
    OutOfRange {
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        value: u64,
    },
}

impl From<io::Error> for RestoreError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<OutOfMemory>() {
            Ok(error) => Self::OutOfMemory(error),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Self::Truncated,
            Err(error) => Self::Io(error),
        }
    }
}
