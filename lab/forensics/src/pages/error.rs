//! Errors in directories of pages and in single pages.

use std::io;
use std::path::{Path, PathBuf};

use super::{KIND_BYTES_MAX, PAGES_MAX, SECONDS_MAX, Span};

/// An error in a directory of pages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagesError {
    /// The directory does not exist, or has files but no marker.
    #[error("{} is not a directory of pages", folder.display())]
    NoPages {
        /// The directory.
        folder: PathBuf,
    },
    /// The directory has pages of another kind.
    #[error("{} has {found} pages, expected {wanted} pages", folder.display())]
    OtherKind {
        /// The directory.
        folder: PathBuf,
        /// Kind named by the marker.
        found: String,
        /// Expected kind.
        wanted: String,
    },
    /// Another program is writing to the directory.
    #[error("another program is writing to {}", folder.display())]
    InUse {
        /// The directory.
        folder: PathBuf,
    },
    /// The directory was opened for reading.
    #[error("{} was opened for reading", folder.display())]
    ReadOnly {
        /// The directory.
        folder: PathBuf,
    },
    /// The directory has too many pages.
    #[error("{} has more than {PAGES_MAX} pages", folder.display())]
    TooMany {
        /// The directory.
        folder: PathBuf,
    },
    /// The name of the kind is invalid.
    #[error("invalid kind {0:?}: expected 1 to {KIND_BYTES_MAX} lower-case letters and dashes")]
    Kind(String),
    /// A span ends before it begins, or after the last possible second.
    #[error("invalid span from second {} to {}: ends before it begins, or after second {SECONDS_MAX}", .0.from, .0.to)]
    Span(Span),
    /// A page is larger than the limit for all pages.
    #[error(
        "a page needs {bytes} bytes, but all pages together may use only {bytes_max}: \
         allow more disk space or smaller pages"
    )]
    TooLarge {
        /// Disk usage of the page.
        bytes: u64,
        /// Limit for all pages.
        bytes_max: u64,
    },
    /// The page was removed to free space for another page.
    #[error("{} no longer exists", page.display())]
    Gone {
        /// The page.
        page: PathBuf,
    },
    /// A page cannot be read.
    #[error("{} {cause}", page.display())]
    Page {
        /// The page.
        page: PathBuf,
        /// The cause.
        #[source]
        cause: PageError,
    },
    /// A system call failed.
    #[error("failed to {action} {}: {cause}", path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// File or directory of the operation.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
}

impl PagesError {
    pub(super) fn io(action: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), cause }
    }
}

/// An error in the content of a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The magic bytes are missing.
    #[error("is not a page file")]
    NoPage,
    /// The format version is not supported.
    #[error("uses format version {0}, which is not supported")]
    UnsupportedVersion(u16),
    /// The span in the page is not the span in its name.
    #[error("covers a different span than its file name says")]
    OtherSpan,
    /// The page is longer than the caller's limit.
    #[error("is {bytes} bytes long, over the limit of {limit}")]
    TooLarge {
        /// Length in the header.
        bytes: u64,
        /// The caller's limit.
        limit: u64,
    },
    /// The length of the content differs from the length in the header.
    #[error("is longer or shorter than its header says")]
    Length,
    /// The checksum does not match.
    #[error("is damaged: the checksum does not match")]
    Damaged,
    /// A system call failed.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}
