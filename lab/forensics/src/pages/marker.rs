//! The marker of a directory of pages: a line with the kind of the pages.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use super::PagesError;

/// Maximum length of a kind.
pub const KIND_BYTES_MAX: usize = 32;

pub(super) const MARKER: &str = "pages.bruit";
const MARKER_START: &str = "bruit pages 1 ";

/// Opens a directory for writing, and creates it if necessary. The returned file holds the lock.
pub(super) fn claim(folder: &Path, kind: &str) -> Result<File, PagesError> {
    ensure_kind(kind)?;
    // Only the owner has access: pages reveal who communicated with whom, and contain their keys.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| PagesError::io("create", folder, error))?;
    let path = folder.join(MARKER);
    ensure_nothing_else(folder, path.exists())?;
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut marker = open.map_err(|error| PagesError::io("open", &path, error))?;
    marker.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => PagesError::InUse { folder: folder.to_owned() },
        TryLockError::Error(error) => PagesError::io("lock", &path, error),
    })?;
    let line = format!("{MARKER_START}{kind}\n");
    let found = text(&mut marker).map_err(|error| PagesError::io("read", &path, error))?;
    if found.len() < line.len() && line.starts_with(&found) {
        // The marker is new, or empty because a program was interrupted before writing it.
        write(folder, &mut marker, &line).map_err(|error| PagesError::io("write", &path, error))?;
    } else {
        ensure_text(folder, &found, kind)?;
    }
    Ok(marker)
}

/// Opens the marker. Fails if it does not name `kind`.
pub(super) fn open(folder: &Path, kind: &str) -> Result<File, PagesError> {
    let path = folder.join(MARKER);
    let mut marker = File::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => PagesError::NoPages { folder: folder.to_owned() },
        _ => PagesError::io("open", &path, error),
    })?;
    let found = text(&mut marker).map_err(|error| PagesError::io("read", &path, error))?;
    ensure_text(folder, &found, kind)?;
    Ok(marker)
}

/// Returns the kind of the pages in a directory.
///
/// # Errors
/// [`PagesError::NoPages`] if it is not a directory of pages.
pub fn kind_of(folder: &Path, kinds: &[&'static str]) -> Result<&'static str, PagesError> {
    let mut outcome = Err(PagesError::NoPages { folder: folder.to_owned() });
    for kind in kinds {
        outcome = open(folder, kind).map(|_| *kind);
        if !matches!(outcome, Err(PagesError::OtherKind { .. })) {
            break;
        }
    }
    outcome
}

fn ensure_kind(kind: &str) -> Result<(), PagesError> {
    let is_plain = kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    if is_plain && (1..=KIND_BYTES_MAX).contains(&kind.len()) { Ok(()) } else { Err(PagesError::Kind(kind.to_owned())) }
}

/// Rejects a directory that has files but no marker: the files belong to another program.
fn ensure_nothing_else(folder: &Path, is_marked: bool) -> Result<(), PagesError> {
    let mut entries = fs::read_dir(folder).map_err(|error| PagesError::io("read", folder, error))?;
    if !is_marked && entries.next().is_some() {
        return Err(PagesError::NoPages { folder: folder.to_owned() });
    }
    Ok(())
}

fn text(marker: &mut File) -> io::Result<String> {
    let mut text = Vec::new();
    let longest = MARKER_START.len() + KIND_BYTES_MAX + 1;
    marker.take(longest as u64 + 1).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn ensure_text(folder: &Path, found: &str, kind: &str) -> Result<(), PagesError> {
    match found.strip_prefix(MARKER_START).and_then(|rest| rest.strip_suffix('\n')) {
        Some(found) if found == kind => Ok(()),
        Some(found) if ensure_kind(found).is_ok() => {
            Err(PagesError::OtherKind { folder: folder.to_owned(), found: found.to_owned(), wanted: kind.to_owned() })
        }
        _ => Err(PagesError::NoPages { folder: folder.to_owned() }),
    }
}

fn write(folder: &Path, marker: &mut File, line: &str) -> io::Result<()> {
    marker.rewind()?;
    marker.write_all(line.as_bytes())?;
    marker.sync_all()?;
    File::open(folder)?.sync_all()
}
