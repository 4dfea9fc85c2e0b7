//! A directory of pages: one file per span of time, in a bounded amount of disk.
//!
//! Promises that a page is there in full or not at all, that the pages together never take more than the directory was
//! allowed, and that nothing goes without being told: when a new page needs room, the pages whose spans ended first are removed,
//! and [`Written`] names them. What the bytes of a page mean is for others to know; a directory has one kind of them, and
//! one that was made for another kind is refused.
//!
//! | in the directory | what it is |
//! |---|---|
//! | `pages.bruit` | the marker: `bruit pages 1 KIND`, a line of text; whoever writes pages holds a lock on it |
//! | `FROM-TO-NUMBER.page` | a page: the first and last second of its span, and a number of its own ([`PageName`]) |
//! | `.page.tmp` | a page that is not finished; gone when the directory is next opened for writing |

mod bytes;
mod error;
mod name;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

pub use bytes::{HEADER_BYTES, MAGIC};
pub use error::{PageError, PagesError};
pub use name::{PageName, SECONDS_MAX, Span};

/// Most pages of a directory: two years of one a minute. Beyond it, those that ended first go, as when the disk is full.
pub const PAGES_MAX: usize = 1 << 20;

/// The longest name of a kind.
pub const KIND_BYTES_MAX: usize = 32;

const MARKER: &str = "pages.bruit";
const MARKER_START: &str = "bruit pages 1 ";
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
    /// Holds the lock of whoever writes.
    _marker: File,
}

/// What came of writing a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The new page.
    pub page: PageName,
    /// Those that had to go for it, oldest first.
    pub removed: Vec<PageName>,
}

impl Pages {
    /// Opens a directory for writing, and makes it if there is none. Its pages may take `bytes_max` bytes together; if there
    /// are more, the next [`write`](Self::write) removes the oldest.
    ///
    /// # Errors
    /// [`PagesError`]: it has pages of another kind, files that are no pages, or another program writes to it.
    pub fn create_or_open(folder: &Path, kind: &str, bytes_max: u64) -> Result<Self, PagesError> {
        ensure_kind(kind)?;
        fs::create_dir_all(folder).map_err(|error| PagesError::io("make", folder, error))?;
        let marker = folder.join(MARKER);
        if !marker.exists() {
            make_marker(folder, &marker, kind)?;
        }
        let lock = open_marker(folder, kind)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => PagesError::InUse { folder: folder.to_owned() },
            TryLockError::Error(error) => PagesError::io("lock", &marker, error),
        })?;
        match fs::remove_file(folder.join(TEMPORARY)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(PagesError::io("remove", &folder.join(TEMPORARY), error));
            }
            _ => {}
        }
        let names = find(folder)?;
        Ok(Self { folder: folder.to_owned(), names, bytes_max: Some(bytes_max), pages_max: PAGES_MAX, _marker: lock })
    }

    /// Opens a directory for reading, while another program may go on writing to it.
    ///
    /// # Errors
    /// [`PagesError`]: there is none, or it has pages of another kind.
    pub fn open(folder: &Path, kind: &str) -> Result<Self, PagesError> {
        let marker = open_marker(folder, kind)?;
        let names = find(folder)?;
        Ok(Self { folder: folder.to_owned(), names, bytes_max: None, pages_max: PAGES_MAX, _marker: marker })
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

    /// What the pages take on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.names.iter().map(|name| name.bytes).sum()
    }

    /// Writes a page: to a temporary file that is synced and then renamed, so that there is never half a page. Pages that have to
    /// go for it are removed first, so that the bound holds at every moment.
    ///
    /// # Errors
    /// [`PagesError`]: the directory was opened for reading, the page is larger than all pages may be, its span is none, or
    /// the disk refuses.
    pub fn write(&mut self, span: Span, content: &[u8]) -> Result<Written, PagesError> {
        let bytes_max = self.bytes_max.ok_or_else(|| PagesError::ReadOnly { folder: self.folder.clone() })?;
        if span.from > span.to || span.to > SECONDS_MAX {
            return Err(PagesError::Span(span));
        }
        let bytes = (HEADER_BYTES + content.len()) as u64;
        if bytes > bytes_max {
            return Err(PagesError::TooLarge { bytes, bytes_max });
        }
        let page = PageName { span, number: self.free_number(span), bytes };
        let removed = self.make_room(bytes_max - bytes)?;
        self.write_file(&page, content)?;
        let at = self.names.partition_point(|name| *name < page);
        self.names.insert(at, page.clone());
        Ok(Written { page, removed })
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

    /// The least number, from 1, that no page of `span` has.
    fn free_number(&self, span: Span) -> u32 {
        let numbers = self.names.iter().filter(|name| name.span == span).map(|name| name.number);
        numbers.fold(1, |free, number| if number == free { free + 1 } else { free })
    }

    /// Removes the pages that ended first until the others take `bytes_left` or less.
    fn make_room(&mut self, bytes_left: u64) -> Result<Vec<PageName>, PagesError> {
        let mut removed = Vec::new();
        while self.bytes() > bytes_left || self.names.len() >= self.pages_max {
            let Some(at) = (0..self.names.len()).min_by_key(|&at| (self.names[at].span.to, self.names[at].number))
            else {
                break;
            };
            let path = self.folder.join(self.names[at].to_string());
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(PagesError::io("remove", &path, error));
                }
                _ => removed.push(self.names.remove(at)),
            }
        }
        Ok(removed)
    }

    fn write_file(&self, page: &PageName, content: &[u8]) -> Result<(), PagesError> {
        let (temporary, path) = (self.folder.join(TEMPORARY), self.folder.join(page.to_string()));
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes::header(page.span, content))?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|error| PagesError::io("write", &path, error))
    }
}

fn ensure_kind(kind: &str) -> Result<(), PagesError> {
    let is_plain = kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    if is_plain && (1..=KIND_BYTES_MAX).contains(&kind.len()) { Ok(()) } else { Err(PagesError::Kind(kind.to_owned())) }
}

/// Marks a directory that has nothing in it: whatever else is there belongs to somebody.
fn make_marker(folder: &Path, marker: &Path, kind: &str) -> Result<(), PagesError> {
    let mut entries = fs::read_dir(folder).map_err(|error| PagesError::io("read", folder, error))?;
    if entries.next().is_some() {
        return Err(PagesError::NoPages { folder: folder.to_owned() });
    }
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(marker)?;
        writeln!(file, "{MARKER_START}{kind}")?;
        file.sync_all()
    };
    write().map_err(|error| PagesError::io("write", marker, error))
}

/// Opens the marker, which has to be that of `kind`.
fn open_marker(folder: &Path, kind: &str) -> Result<File, PagesError> {
    let path = folder.join(MARKER);
    let file = File::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => PagesError::NoPages { folder: folder.to_owned() },
        _ => PagesError::io("open", &path, error),
    })?;
    let mut text = Vec::new();
    let longest = MARKER_START.len() + KIND_BYTES_MAX + 1;
    let read = (&file).take(longest as u64 + 1).read_to_end(&mut text);
    read.map_err(|error| PagesError::io("read", &path, error))?;
    let text = String::from_utf8_lossy(&text);
    match text.strip_prefix(MARKER_START).and_then(|rest| rest.strip_suffix('\n')) {
        Some(found) if found == kind => Ok(file),
        Some(found) if ensure_kind(found).is_ok() => {
            Err(PagesError::OtherKind { folder: folder.to_owned(), found: found.to_owned(), wanted: kind.to_owned() })
        }
        _ => Err(PagesError::NoPages { folder: folder.to_owned() }),
    }
}

/// The kind of the pages in a directory.
///
/// # Errors
/// [`PagesError::NoPages`] if it is no directory of pages.
pub fn kind_of(folder: &Path, kinds: &[&'static str]) -> Result<&'static str, PagesError> {
    let mut outcome = Err(PagesError::NoPages { folder: folder.to_owned() });
    for kind in kinds {
        outcome = open_marker(folder, kind).map(|_| *kind);
        if !matches!(outcome, Err(PagesError::OtherKind { .. })) {
            break;
        }
    }
    outcome
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
