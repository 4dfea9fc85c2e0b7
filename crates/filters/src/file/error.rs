//! Errors when reading filters and deltas.

use std::fmt;
use std::io;

use super::HistoryError;
use crate::{CreateError, Mismatch, OutOfMemory};

/// The part of a file or a delta that a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The header.
    Header,
    /// The key section; damaged if the id of its key differs from the id in the header.
    Key,
    /// The array and the spill section.
    Array,
    /// Everything after the header of a delta.
    Changes,
    /// The history of a file, or the step of a delta.
    History,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Key => "key",
            Self::Array => "array",
            Self::Changes => "changes",
            Self::History => "history",
        })
    }
}

/// The reason why a filter, a delta or a map could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The input does not start with the magic number of a filter file.
    #[error("not a filter file")]
    NotAFilter,
    /// The input does not start with the magic number of a delta.
    #[error("not a delta")]
    NotADelta,
    /// The input does not start with the magic number of a map file.
    #[error("not a map file")]
    NotAMap,
    /// The input is a delta, but a filter was expected.
    #[error("expected a filter file, found a delta")]
    Delta,
    /// The input is a filter, but a delta was expected.
    #[error("expected a delta, found a filter file")]
    Filter,
    /// The input has a later version of the format.
    #[error("unsupported format version {version} (latest supported: {supported})")]
    UnsupportedVersion {
        /// Version of the input.
        version: u16,
        /// Latest supported version.
        supported: u16,
    },
    /// The input is truncated.
    #[error("truncated: unexpected end of input")]
    Truncated,
    /// Bytes follow the end of the encoding.
    #[error("unexpected bytes after the end")]
    TrailingBytes,
    /// A checksum does not match.
    #[error("damaged: the checksum of the {part} does not match")]
    Damaged {
        /// Part with the wrong checksum.
        part: Part,
    },
    /// A field has a value that no writer produces.
    #[error("invalid: {field} cannot be {value}")]
    InvalidField {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
    },
    /// The origins in the history are not in ascending order, or one of them occurs twice.
    #[error("invalid: the origins in the history must be in ascending order, without duplicates")]
    UnsortedOrigins,
    /// The array needs more memory than the limit of the caller.
    #[error("too large: the array has {bytes} bytes, but the limit is {limit_bytes}")]
    TooLarge {
        /// Size according to the header.
        bytes: u64,
        /// Limit set by the caller.
        limit_bytes: u64,
    },
    /// The file is valid, but its parameters differ from those of the filter to merge with.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The file is valid and has the same parameters, but its history does not allow adding its counts.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The parameters in the header do not describe a filter.
    #[error("invalid: {0}")]
    InvalidShape(CreateError),
    /// The memory cannot be allocated.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<CreateError> for FileError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::OutOfMemory(error) => Self::OutOfMemory(error),
            error => Self::InvalidShape(error),
        }
    }
}

impl FileError {
    /// Returns [`InvalidField`](Self::InvalidField).
    #[doc(hidden)]
    pub fn invalid(field: &'static str, value: impl Into<u64>) -> Self {
        Self::InvalidField { field, value: value.into() }
    }
}
