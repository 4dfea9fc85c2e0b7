//! Permissions of the files in a store's directory. The files contain secrets and reports, so only their owner may read
//! them.
//!
//! The store creates every file with these permissions. This module fixes files left by an older program, a backup or
//! an operator. It does not touch files that do not belong to the store.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::directory::{Listing, SHELF_FOLDER, has_own_permissions};

/// Permission bits of everyone but the owner.
const OTHERS: u32 = 0o077;

/// Permission bits that let others create or replace files in a directory.
const WRITABLE: u32 = 0o022;

/// Maximum depth of folders to search. Log folders have three levels: origin, incarnation and book.
const DEPTH_MAX: usize = 8;

/// A file of the store whose mode is too wide.
#[derive(Debug)]
pub struct ExposedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Mode of the file before it was restricted.
    pub mode: u32,
    /// Result of restricting the file to its owner.
    pub tightened: io::Result<()>,
}

/// Restricts the store's files in a directory to their owner. Returns the files whose mode was too wide.
///
/// # Errors
/// An I/O error if the directory cannot be read.
pub fn tighten(directory: &Path) -> io::Result<Vec<ExposedFile>> {
    let listing = Listing::read(directory)?;
    let mut exposed = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if listing.others.contains(&name) || has_own_permissions(&name) {
            continue;
        }
        tighten_one(&entry.path(), &mut exposed);
        if name == SHELF_FOLDER {
            tighten_below(&entry.path(), DEPTH_MAX, &mut exposed);
        }
    }
    Ok(exposed)
}

/// Returns the mode of a directory if users other than its owner may create files in it.
///
/// # Errors
/// An I/O error if the metadata of the directory cannot be read.
pub fn writable_mode(directory: &Path) -> io::Result<Option<u32>> {
    let mode = mode_of(&fs::metadata(directory)?);
    Ok((mode & WRITABLE != 0).then_some(mode))
}

fn tighten_below(folder: &Path, depth: usize, exposed: &mut Vec<ExposedFile>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    // A folder that has disappeared or cannot be read is reported elsewhere.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        tighten_one(&entry.path(), exposed);
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            tighten_below(&entry.path(), depth, exposed);
        }
    }
}

/// Restricts one file. Does not follow symbolic links, because their targets do not belong to the store.
fn tighten_one(path: &Path, exposed: &mut Vec<ExposedFile>) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let mode = mode_of(&metadata);
    if (metadata.is_file() || metadata.is_dir()) && mode & OTHERS != 0 {
        let tightened = fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS));
        exposed.push(ExposedFile { path: path.to_owned(), mode, tightened });
    }
}

fn mode_of(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn mode(path: &Path) -> u32 {
        mode_of(&fs::symlink_metadata(path).unwrap())
    }

    fn make(path: &Path, mode: u32) {
        fs::write(path, b"").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_of_ours_become_private_and_others_stay_as_they_are() {
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("shelf/ab/1")).unwrap();
        let journal = "journal-00000000000000000001.bruit";
        for name in ["realm.bruit", "node.key", journal, "shelf/ab/1/log", "notes", "replica"] {
            make(&at(name), 0o644);
        }
        make(&at("lock"), 0o600);
        std::os::unix::fs::symlink(at("notes"), at("fuzzy.key")).unwrap();
        let mut found: Vec<_> = tighten(folder.path()).unwrap().into_iter().map(|exposed| exposed.path).collect();
        found.sort();
        let expected = [journal, "node.key", "realm.bruit", "shelf", "shelf/ab", "shelf/ab/1", "shelf/ab/1/log"];
        assert_eq!(found, expected.map(at));
        for name in ["realm.bruit", "node.key", journal, "shelf/ab/1/log"] {
            assert_eq!(mode(&at(name)), 0o600, "{name}");
        }
        assert_eq!([mode(&at("shelf")), mode(&at("shelf/ab/1"))], [0o700; 2]);
        assert_eq!([mode(&at("notes")), mode(&at("replica"))], [0o644; 2], "other files keep their modes");
        assert!(tighten(folder.path()).unwrap().is_empty());
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_known_by_its_mode() {
        let folder = TempDir::new().unwrap();
        for (mode, expected) in [(0o700, None), (0o755, None), (0o775, Some(0o775)), (0o1777, Some(0o1777))] {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(writable_mode(folder.path()).unwrap(), expected);
        }
    }
}
