//! The modes of files in a store's directory: they hold secrets and what people reported, so they are for their owner alone.
//!
//! Everything that is written gets its mode when it is made. This is for what an older program, a backup or an operator left
//! behind. Files that are not ours are not touched.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::directory::{Listing, SHELF_FOLDER, is_left_to_its_owner};

/// Mode bits of anybody but the owner.
const OTHERS: u32 = 0o077;

/// Mode bits that let others put files into a directory, or replace them.
const WRITABLE: u32 = 0o022;

/// How deep the folders of logs go: origin, incarnation, book.
const DEPTH_MAX: usize = 8;

/// A file of ours whose mode was wider than it should be.
#[derive(Debug)]
pub struct Exposed {
    /// Which.
    pub path: PathBuf,
    /// The mode it had.
    pub mode: u32,
    /// Whether it is now for its owner alone.
    pub tightened: io::Result<()>,
}

/// Takes away what others may do with files of ours in a store's directory. What was found to be too wide.
///
/// # Errors
/// What the system says if the directory cannot be read.
pub fn tighten(directory: &Path) -> io::Result<Vec<Exposed>> {
    let listing = Listing::read(directory)?;
    let mut exposed = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if listing.others.contains(&name) || is_left_to_its_owner(&name) {
            continue;
        }
        tighten_one(&entry.path(), &mut exposed);
        if name == SHELF_FOLDER {
            tighten_below(&entry.path(), DEPTH_MAX, &mut exposed);
        }
    }
    Ok(exposed)
}

/// The mode of a directory, if users other than its owner may put files into it.
///
/// # Errors
/// What the system says if the directory cannot be looked at.
pub fn writable_mode(directory: &Path) -> io::Result<Option<u32>> {
    let mode = mode_of(&fs::metadata(directory)?);
    Ok((mode & WRITABLE != 0).then_some(mode))
}

fn tighten_below(folder: &Path, depth: usize, exposed: &mut Vec<Exposed>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    // A folder that is gone meanwhile, or cannot be read, has its own way of being noticed.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        tighten_one(&entry.path(), exposed);
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            tighten_below(&entry.path(), depth, exposed);
        }
    }
}

/// Links are not followed: what they lead to is not ours.
fn tighten_one(path: &Path, exposed: &mut Vec<Exposed>) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let mode = mode_of(&metadata);
    if (metadata.is_file() || metadata.is_dir()) && mode & OTHERS != 0 {
        let tightened = fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS));
        exposed.push(Exposed { path: path.to_owned(), mode, tightened });
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
        assert_eq!([mode(&at("notes")), mode(&at("replica"))], [0o644; 2], "not ours, or for others to read");
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
