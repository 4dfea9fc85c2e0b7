//! Why a directory of pages, or a page, was refused.

use std::io;
use std::path::{Path, PathBuf};

use super::{KIND_BYTES_MAX, PAGES_MAX, SECONDS_MAX, Span};

/// Why a directory of pages, or a page, was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagesError {
    /// It is no directory of pages, and has other things in it or is not there.
    #[error("{} is no directory of pages", folder.display())]
    NoPages {
        /// Which.
        folder: PathBuf,
    },
    /// Its pages are of another kind.
    #[error("{} has pages of the kind {found}, not {wanted}", folder.display())]
    OtherKind {
        /// Which.
        folder: PathBuf,
        /// What its marker says.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// Another program writes to it.
    #[error("another program writes to {}", folder.display())]
    InUse {
        /// Which.
        folder: PathBuf,
    },
    /// It was opened for reading.
    #[error("{} was opened for reading", folder.display())]
    ReadOnly {
        /// Which.
        folder: PathBuf,
    },
    /// It has more pages than are read.
    #[error("{} has more than {PAGES_MAX} pages", folder.display())]
    TooMany {
        /// Which.
        folder: PathBuf,
    },
    /// A kind is a short word.
    #[error("a kind is 1 to {KIND_BYTES_MAX} small letters and dashes, not {0:?}")]
    Kind(String),
    /// A span ends before it begins, or too late.
    #[error("no span goes from second {} to {}: it ends before it begins, or after {SECONDS_MAX}", .0.from, .0.to)]
    Span(Span),
    /// One page would take more than all may.
    #[error(
        "a page may take {bytes} bytes, and all pages together only {bytes_max}: allow more disk, or smaller pages"
    )]
    TooLarge {
        /// What it takes.
        bytes: u64,
        /// What all may take.
        bytes_max: u64,
    },
    /// It made room for another.
    #[error("{} is gone", page.display())]
    Gone {
        /// Which.
        page: PathBuf,
    },
    /// A page cannot be read.
    #[error("{} {cause}", page.display())]
    Page {
        /// Which.
        page: PathBuf,
        /// Why.
        #[source]
        cause: PageError,
    },
    /// The system refused.
    #[error("failed to {action} {}: {cause}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
}

impl PagesError {
    pub(super) fn io(action: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), cause }
    }
}

/// Why bytes are no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// It begins otherwise than a page.
    #[error("is no page")]
    NoPage,
    /// It was written by a later version of the format.
    #[error("has format version {0}, which is not supported")]
    UnsupportedVersion(u16),
    /// It says it is about another time than its name does.
    #[error("is a page of another time")]
    OtherSpan,
    /// It is longer than the caller allows.
    #[error("has {bytes} bytes, and {limit} are allowed")]
    TooLarge {
        /// What its header says.
        bytes: u64,
        /// What the caller allows.
        limit: u64,
    },
    /// It ends too early, or goes on after its end.
    #[error("is longer or shorter than its header says")]
    Length,
    /// The checksum does not match.
    #[error("is damaged: the checksum does not match")]
    Damaged,
    /// The system refused.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}
