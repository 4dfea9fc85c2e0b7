//! A directory of pages: one file per span of time, in a bounded amount of disk.
//!
//! Promises that a page is there in full or not at all, that the pages together never take more than the directory was
//! allowed, and that nothing goes without being told: when a new page needs room, the pages that were written first are removed,
//! and [`Written`] names them. The order is that of writing, as what a page is about may be a stranger's word. While a page is
//! written there is one file more: nothing goes before the new page is safe on disk. What the bytes of a page mean is for
//! others to know; a directory has one kind of them, and one that was made for another kind is refused.
//!
//! | in the directory | what it is |
//! |---|---|
//! | `pages.bruit` | the marker: `bruit pages 1 KIND`, a line of text; whoever writes pages holds a lock on it |
//! | `FROM-TO-NUMBER.page` | a page: the first and last second of its span, and its place in the order of writing ([`PageName`]) |
//! | `.page.tmp` | a page that is not finished; gone when the directory is next opened for writing |

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
pub(crate) use open::{Closed, Open};
pub use open::{OPEN_PAGES_MAX, SETTLE_SECONDS};

/// Most pages of a directory: two years of one a minute. Beyond it, those that were written first go, as when the disk is full.
pub const PAGES_MAX: usize = 1 << 20;

/// What a page takes on disk is counted in blocks of this, as file systems give it.
pub const DISK_BLOCK_BYTES: u64 = 4096;

const TEMPORARY: &str = ".page.tmp";

/// The pages of one directory.
#[derive(Debug)]
pub struct Pages {
    folder: PathBuf,
    /// By span, then by number.
    names: Vec<PageName>,
    /// What they may take; nothing is written to a directory that was opened for reading.
    bytes_max: Option<u64>,
    pages_max: usize,
    /// What they take.
    disk_bytes: u64,
    /// Those that went and were not told yet: for a page that could then not be written.
    removed: Vec<PageName>,
    /// Holds the lock of whoever writes.
    _marker: File,
}

/// What came of writing a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The new page.
    pub page: PageName,
    /// Those that had to go for it, in the order in which they were written.
    pub removed: Vec<PageName>,
}

impl Pages {
    /// Opens a directory for writing, and makes it if there is none. Its pages may take `bytes_max` bytes together; if there
    /// are more, the next [`write`](Self::write) removes those that were written first.
    ///
    /// # Errors
    /// [`PagesError`]: it has pages of another kind, files that are no pages, or another program writes to it.
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

    /// Opens a directory for reading, while another program may go on writing to it.
    ///
    /// # Errors
    /// [`PagesError`]: there is none, or it has pages of another kind.
    pub fn open(folder: &Path, kind: &str) -> Result<Self, PagesError> {
        Self::with(folder, marker::open(folder, kind)?, None)
    }

    fn with(folder: &Path, marker: File, bytes_max: Option<u64>) -> Result<Self, PagesError> {
        let names = find(folder)?;
        let disk_bytes = names.iter().map(PageName::disk_bytes).sum();
        let (folder, removed) = (folder.to_owned(), Vec::new());
        Ok(Self { folder, names, bytes_max, pages_max: PAGES_MAX, disk_bytes, removed, _marker: marker })
    }

    /// All pages, by the time at which they begin.
    #[must_use]
    pub fn list(&self) -> &[PageName] {
        &self.names
    }

    /// The pages that have a second in common with `window`.
    pub fn within(&self, window: Span) -> impl Iterator<Item = &PageName> {
        self.names.iter().filter(move |name| name.span.overlaps(window))
    }

    /// What the pages take on disk, in whole blocks of [`DISK_BLOCK_BYTES`].
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// What the pages take that are about `span` or a part of it.
    #[must_use]
    pub fn bytes_of(&self, span: Span) -> u64 {
        let first = self.names.partition_point(|name| name.span.from < span.from);
        let names = self.names.iter().skip(first).take_while(|name| name.span.from <= span.to);
        names.filter(|name| name.span.to <= span.to).map(PageName::disk_bytes).sum()
    }

    /// Whether a page of so many bytes of content can be written to a directory whose pages may take `bytes_max`.
    ///
    /// # Errors
    /// [`PagesError::TooLarge`].
    pub const fn ensure_room(content_bytes: u64, bytes_max: u64) -> Result<(), PagesError> {
        let bytes = on_disk((HEADER_BYTES as u64).saturating_add(content_bytes));
        if bytes > bytes_max { Err(PagesError::TooLarge { bytes, bytes_max }) } else { Ok(()) }
    }

    /// Writes a page: to a temporary file that is synced and then renamed, so that there is never half a page. Pages that have to
    /// go for it are removed in between: when the new one is on disk, and before it counts.
    ///
    /// # Errors
    /// [`PagesError`]: the directory was opened for reading, the page is larger than all pages may be, its span is none, or
    /// the disk refuses. Pages that went before it did are named by [`take_removed`](Self::take_removed) or the next page.
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

    /// The pages that went for one that could then not be written, if they were not told yet.
    pub fn take_removed(&mut self) -> Vec<PageName> {
        std::mem::take(&mut self.removed)
    }

    /// The content of a page of at most `limit` bytes.
    ///
    /// # Errors
    /// [`PagesError`]: it is gone, damaged, of another span than its name says, or longer than `limit`.
    pub fn read(&self, page: &PageName, limit: u64) -> Result<Vec<u8>, PagesError> {
        let path = self.folder.join(page.to_string());
        let mut file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PagesError::Gone { page: path.clone() },
            _ => PagesError::io("open", &path, error),
        })?;
        bytes::read(&mut file, page.span, limit).map_err(|cause| PagesError::Page { page: path, cause })
    }

    /// The number behind all others, which puts a page last in the order of writing. If somebody made a page with the last number
    /// there is, the least that is free: order is lost then, but no page.
    fn next_number(&self, span: Span) -> u32 {
        let last = self.names.iter().map(|name| name.number).max().unwrap_or(0);
        last.checked_add(1).unwrap_or_else(|| {
            let numbers = self.names.iter().filter(|name| name.span == span).map(|name| name.number);
            numbers.fold(1, |free, number| if number == free { free + 1 } else { free })
        })
    }

    /// Removes the pages that were written first until there is room for one of `bytes`.
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

/// What a file of `bytes` takes.
const fn on_disk(bytes: u64) -> u64 {
    bytes.div_ceil(DISK_BLOCK_BYTES).saturating_mul(DISK_BLOCK_BYTES)
}

/// The pages of a directory in order. Other files are none of ours.
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
            // A page that went meanwhile made room for another.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests;
