//! Memory of the process, and space of the data directory on its disk, for the dashboard.

use std::fs;
use std::path::Path;

use crate::disk_space::Space;

/// Maximum number of files that are counted. A data directory has a few dozen files, and one file for each exchanged
/// log.
const FILES_MAX: usize = 10_000;

/// Maximum depth of the subfolders whose files are counted.
const DEPTH_MAX: usize = 4;

/// Memory and disk space. Unreadable values are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Resident memory of the process.
    pub(crate) resident_bytes: Option<u64>,
    /// Size of all files in the data directory.
    pub(crate) stored_bytes: Option<u64>,
    /// Free space on the disk of the data directory.
    pub(crate) free_bytes: Option<u64>,
}

impl Resources {
    /// Reads the current values. `directory` is the data directory.
    pub(crate) fn read(directory: Option<&Path>) -> Self {
        Self {
            resident_bytes: resident_bytes(&fs::read_to_string("/proc/self/status").unwrap_or_default()),
            stored_bytes: directory.map(|directory| stored_bytes(directory, DEPTH_MAX, &mut 0)),
            free_bytes: directory.and_then(Space::of).map(|space| space.free_bytes),
        }
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

fn stored_bytes(folder: &Path, depth: usize, seen: &mut usize) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let mut bytes = 0;
    for entry in entries.flatten() {
        *seen += 1;
        if *seen > FILES_MAX {
            break;
        }
        // Links are not followed.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += if metadata.is_file() { metadata.len() } else { 0 };
        if metadata.is_dir() && depth > 0 {
            bytes += stored_bytes(&entry.path(), depth - 1, seen);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_folders_are_counted_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        fs::write(folder.path().join("a"), [0; 10]).unwrap();
        fs::write(folder.path().join("logs/b"), [0; 5]).unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("root")).unwrap();
        let resources = Resources::read(Some(folder.path()));
        assert_eq!(resources.stored_bytes, Some(15));
        assert!(resources.free_bytes.is_some() && resources.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn unreadable_values_are_missing() {
        assert_eq!(resident_bytes("VmRSS: many"), None);
        let resources = Resources::read(Some(Path::new("/no/such/directory")));
        assert_eq!((resources.stored_bytes, resources.free_bytes), (Some(0), None));
        assert_eq!(Resources::read(None).stored_bytes, None);
    }
}
