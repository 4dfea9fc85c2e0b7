//! Why bytes are not a filter or a delta.

use std::fmt;
use std::io;

use super::HistoryError;
use crate::Mismatch;

/// What a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The header.
    Header,
    /// The key section: its key has another id than the header says.
    Key,
    /// The array and the spill section.
    Array,
    /// What follows the header of a delta.
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

/// Why an encoding was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It starts otherwise than a filter file.
    #[error("not a filter file")]
    NotAFilter,
    /// It starts otherwise than a delta.
    #[error("not a delta")]
    NotADelta,
    /// It starts otherwise than a map file.
    #[error("not a map file")]
    NotAMap,
    /// A delta stands where a filter is wanted.
    #[error("a delta, not a filter file")]
    Delta,
    /// A filter stands where a delta is wanted.
    #[error("a filter file, not a delta")]
    Filter,
    /// It was written by a later version of the format.
    #[error("format version {version} is not supported, only up to {supported}")]
    UnsupportedVersion {
        /// What it says.
        version: u16,
        /// What is known here.
        supported: u16,
    },
    /// It ends too early.
    #[error("truncated: it ends too early")]
    Truncated,
    /// It goes on after its end.
    #[error("bytes follow its end")]
    TrailingBytes,
    /// A checksum does not match.
    #[error("damaged: the checksum of the {part} does not match")]
    Damaged {
        /// What was checked.
        part: Part,
    },
    /// A field holds what no writer puts there.
    #[error("invalid: {field} cannot be {value}")]
    InvalidField {
        /// Which.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// The array would take more than the caller allows.
    #[error("too large: the array takes {bytes} bytes and {limit_bytes} are allowed")]
    TooLarge {
        /// What the header asks for.
        bytes: u64,
        /// What the caller allows.
        limit_bytes: u64,
    },
    /// It is sound, and not like the filter it should be joined with.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// It is sound and alike, and its counts must not be added.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl FileError {
    /// [`InvalidField`](Self::InvalidField).
    pub(crate) fn invalid(field: &'static str, value: impl Into<u64>) -> Self {
        Self::InvalidField { field, value: value.into() }
    }
}
