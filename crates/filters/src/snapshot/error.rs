//! Why a structure cannot be made from bytes.

use std::io;

use crate::OutOfMemory;

/// Bytes that are no snapshot, or none of the structure wanted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The input could not be read.
    #[error("failed to read the snapshot")]
    Io(#[source] io::Error),
    /// The input ends before the snapshot does.
    #[error("the snapshot ends too early")]
    Truncated,
    /// The input starts with something else.
    #[error("this is no snapshot of a filter")]
    NotASnapshot,
    /// A snapshot of a later version than this.
    #[error("the snapshot has version {found}, which this program does not know")]
    UnknownVersion {
        /// Its version.
        found: u8,
    },
    /// A snapshot of another structure.
    #[error("the snapshot is of kind {found}, not {expected}")]
    OtherKind {
        /// The kind of the structure wanted.
        expected: u8,
        /// The kind of the snapshot.
        found: u8,
    },
    /// The structure would take more than the caller allows.
    #[error("the snapshot has {lines} lines of 64 bytes, and only {limit_bytes} bytes are allowed")]
    TooLarge {
        /// Lines of the structure.
        lines: u64,
        /// What was allowed.
        limit_bytes: u64,
    },
    /// The structure is valid, but its memory cannot be allocated.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A number that no structure has.
    #[error("{what} has the impossible value {value}")]
    OutOfRange {
        /// What the number is.
        what: &'static str,
        /// What it says.
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
