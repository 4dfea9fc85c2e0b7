//! A directory of pages: one file per span of time, within a disk limit.
//!
//! A page is stored completely or not at all, and the pages together never exceed the limit. When a new page needs
//! space, the pages that were written first are removed, and [`Written`] lists them. The order of writing decides, not
//! the spans, because a span may come from untrusted input. While a page is being written, there is one extra file: old
//! pages are removed only after the new page is synced. This module does not interpret the content of a page. A
//! directory contains one kind of page, and opening it as another kind fails.
//!
//! | in the directory | meaning |
//! |---|---|
//! | `pages.bruit` | the marker: a line of text, `bruit pages 1 KIND`; a program that writes pages holds a lock on it |
//! | `FROM-TO-NUMBER.page` | a page: first and last second of its span, place in the order of writing ([`PageName`]) |
//! | `.page.tmp` | an unfinished page; deleted when the directory is next opened for writing |

mod bytes;
mod error;
mod marker;
mod name;
mod open;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub use bytes::{HEADER_BYTES, MAGIC};
pub use error::{PageError, PagesError};
pub use marker::{KIND_BYTES_MAX, kind_of};
pub use name::{PageName, SECONDS_MAX, Span};
pub(crate) use open::{ClosedPage, OpenPages};
pub use open::{OPEN_PAGES_MAX, SETTLE_SECONDS};

/// Maximum number of pages in a directory, reached after two years at one page per minute. Above this number, the pages
/// that were written first are removed, as at the disk limit.
pub const PAGES_MAX: usize = 1 << 20;

/// Block size for computing disk usage. File systems allocate whole blocks.
pub const DISK_BLOCK_BYTES: u64 = 4096;

const TEMPORARY: &str = ".page.tmp";

/// The pages of one directory.
#[derive(Debug)]
pub struct Pages {
    folder: PathBuf,
    /// Sorted by span, then by number.
    names: Vec<PageName>,
    /// Disk limit; `None` if the directory was opened for reading.
    bytes_max: Option<u64>,
    pages_max: usize,
    /// Disk usage.
    disk_bytes: u64,
    /// Pages that were removed, but not reported yet: writing the new page failed after their removal.
    removed: Vec<PageName>,
    /// Holds the writer's lock.
    _marker: File,
}

/// Result of writing a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The new page.
    pub page: PageName,
    /// Pages removed to free space, in the order in which they were written.
    pub removed: Vec<PageName>,
}

impl Pages {
    /// Opens a directory for writing, and creates it if necessary. Its pages may use `bytes_max` bytes in total. If
    /// they use more already, the next [`write`](Self::write) removes the pages that were written first.
    ///
    /// # Errors
    /// [`PagesError`] if the directory has pages of another kind, has files but no marker, or is in use by another
    /// writer.
    pub fn create_or_open(folder: &Path, kind: &str, bytes_max: u64) -> Result<Self, PagesError> {
        let lock = marker::claim(folder, kind)?;
        match fs::remove_file(folder.join(TEMPORARY)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(PagesError::io("remove", &folder.join(TEMPORARY), error));
            }
            _ => {}
        }
        Self::with(folder, lock, Some(bytes_max))
    }

    /// Opens a directory for reading. Another program may be writing to it at the same time.
    ///
    /// # Errors
    /// [`PagesError`] if the directory does not exist or has pages of another kind.
    pub fn open(folder: &Path, kind: &str) -> Result<Self, PagesError> {
        Self::with(folder, marker::open(folder, kind)?, None)
    }

    fn with(folder: &Path, marker: File, bytes_max: Option<u64>) -> Result<Self, PagesError> {
        let names = find(folder)?;
        let disk_bytes = names.iter().map(PageName::disk_bytes).sum();
        let (folder, removed) = (folder.to_owned(), Vec::new());
        Ok(Self { folder, names, bytes_max, pages_max: PAGES_MAX, disk_bytes, removed, _marker: marker })
    }

    /// Returns all pages, sorted by the start of their spans.
    #[must_use]
    pub fn list(&self) -> &[PageName] {
        &self.names
    }

    /// Iterates over the pages that overlap `window`.
    pub fn within(&self, window: Span) -> impl Iterator<Item = &PageName> {
        self.names.iter().filter(move |name| name.span.overlaps(window))
    }

    /// Returns the disk usage of the pages, in whole blocks of [`DISK_BLOCK_BYTES`].
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// Returns the disk usage of the pages whose spans lie within `span`.
    #[must_use]
    pub fn bytes_of(&self, span: Span) -> u64 {
        let first = self.names.partition_point(|name| name.span.from < span.from);
        let names = self.names.iter().skip(first).take_while(|name| name.span.from <= span.to);
        names.filter(|name| name.span.to <= span.to).map(PageName::disk_bytes).sum()
    }

    /// Checks that a page with this much content fits into a directory limited to `bytes_max`.
    ///
    /// # Errors
    /// [`PagesError::TooLarge`].
    pub const fn ensure_room(content_bytes: u64, bytes_max: u64) -> Result<(), PagesError> {
        let bytes = on_disk((HEADER_BYTES as u64).saturating_add(content_bytes));
        if bytes > bytes_max { Err(PagesError::TooLarge { bytes, bytes_max }) } else { Ok(()) }
    }

    /// Writes a page to a temporary file, syncs it and renames it, so that a page is never incomplete. Old pages are
    /// removed between the sync and the rename.
    ///
    /// # Errors
    /// [`PagesError`] if the directory was opened for reading, the page is larger than the limit, its span is invalid,
    /// or writing fails. If pages were removed before the failure, [`take_removed`](Self::take_removed) returns them,
    /// or the next write reports them.
    pub fn write(&mut self, span: Span, content: &[u8]) -> Result<Written, PagesError> {
        let bytes_max = self.bytes_max.ok_or_else(|| PagesError::ReadOnly { folder: self.folder.clone() })?;
        Self::ensure_room(content.len() as u64, bytes_max)?;
        if span.from > span.to || span.to > SECONDS_MAX {
            return Err(PagesError::Span(span));
        }
        let bytes = (HEADER_BYTES + content.len()) as u64;
        let page = PageName { span, number: self.next_number(span), bytes };
        self.write_temporary(span, content)?;
        self.make_room(page.disk_bytes())?;
        self.name_temporary(&page)?;
        self.disk_bytes += page.disk_bytes();
        let at = self.names.partition_point(|name| *name < page);
        self.names.insert(at, page.clone());
        Ok(Written { page, removed: self.take_removed() })
    }

    /// Returns the removed pages that have not been reported yet. They were removed to make room for a page, but writing
    /// that page failed.
    pub fn take_removed(&mut self) -> Vec<PageName> {
        std::mem::take(&mut self.removed)
    }

    /// Reads the content of a page of at most `limit` bytes.
    ///
    /// # Errors
    /// [`PagesError`] if the page was removed, is damaged, is longer than `limit`, or covers a different span than its
    /// name says.
    pub fn read(&self, page: &PageName, limit: u64) -> Result<Vec<u8>, PagesError> {
        let path = self.folder.join(page.to_string());
        let mut file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PagesError::Gone { page: path.clone() },
            _ => PagesError::io("open", &path, error),
        })?;
        bytes::read(&mut file, page.span, limit).map_err(|cause| PagesError::Page { page: path, cause })
    }

    /// Returns the next number in the order of writing. If a page already has the largest possible number, returns the
    /// lowest free number. In that case, the order is lost, but no page is overwritten.
    fn next_number(&self, span: Span) -> u32 {
        let last = self.names.iter().map(|name| name.number).max().unwrap_or(0);
        last.checked_add(1).unwrap_or_else(|| {
            let numbers = self.names.iter().filter(|name| name.span == span).map(|name| name.number);
            numbers.fold(1, |free, number| if number == free { free + 1 } else { free })
        })
    }

    /// Removes pages, oldest writes first, until there is room for `bytes` more.
    fn make_room(&mut self, bytes: u64) -> Result<(), PagesError> {
        let bytes_max = self.bytes_max.unwrap_or(0);
        while self.disk_bytes.saturating_add(bytes) > bytes_max || self.names.len() >= self.pages_max {
            let Some(at) = (0..self.names.len()).min_by_key(|&at| (self.names[at].number, self.names[at].span)) else {
                break;
            };
            let path = self.folder.join(self.names[at].to_string());
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(PagesError::io("remove", &path, error));
                }
                _ => {
                    let page = self.names.remove(at);
                    self.disk_bytes -= page.disk_bytes();
                    self.removed.push(page);
                }
            }
        }
        Ok(())
    }

    fn write_temporary(&self, span: Span, content: &[u8]) -> Result<(), PagesError> {
        let temporary = self.folder.join(TEMPORARY);
        let write = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(&bytes::header(span, content))?;
            file.write_all(content)?;
            file.sync_all()
        };
        write().map_err(|error| PagesError::io("write", &temporary, error))
    }

    fn name_temporary(&self, page: &PageName) -> Result<(), PagesError> {
        let path = self.folder.join(page.to_string());
        let rename = || {
            fs::rename(self.folder.join(TEMPORARY), &path)?;
            File::open(&self.folder)?.sync_all()
        };
        rename().map_err(|error| PagesError::io("write", &path, error))
    }
}

/// Returns the disk usage of a file of `bytes`.
const fn on_disk(bytes: u64) -> u64 {
    bytes.div_ceil(DISK_BLOCK_BYTES).saturating_mul(DISK_BLOCK_BYTES)
}

/// Lists the pages of a directory, sorted by span and number. Other files are ignored.
fn find(folder: &Path) -> Result<Vec<PageName>, PagesError> {
    let cannot = |error| PagesError::io("read", folder, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let Some(page) = entry.file_name().to_str().and_then(PageName::parse) else { continue };
        if names.len() >= PAGES_MAX {
            return Err(PagesError::TooMany { folder: folder.to_owned() });
        }
        match entry.metadata() {
            Ok(metadata) => names.push(PageName { bytes: metadata.len(), ..page }),
            // The page was removed during the listing, to free space for another page.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests;
