//! Tests of file modes. Only the owner may read a server's files, regardless of the umask and the mode of the
//! directory.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use common::start_in;
use nix::sys::stat::{Mode, umask};

/// Returns every file and folder below a directory, with its mode.
fn modes(directory: &Path) -> Vec<(String, bool, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let metadata = entry.metadata().unwrap();
        found.push((entry.path().display().to_string(), metadata.is_dir(), metadata.permissions().mode() & 0o777));
        if metadata.is_dir() {
            found.extend(modes(&entry.path()));
        }
    }
    found
}

fn assert_private(directory: &Path) {
    let modes = modes(directory);
    let open: Vec<_> = modes.iter().filter(|(_, is_dir, mode)| *mode != if *is_dir { 0o700 } else { 0o600 }).collect();
    assert!(open.is_empty(), "{open:?}");
    for name in ["realm.bruit", "node.key", "fuzzy.key", "lock", "shelf", "journal-"] {
        assert!(modes.iter().any(|(path, ..)| path.contains(name)), "{name} is missing");
    }
}

#[test]
fn everything_in_the_data_directory_is_private_and_becomes_so_again() {
    umask(Mode::empty());
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    assert!(start_in(folder.path(), "").stop().poisoned.is_none());
    assert_private(folder.path());
    for (path, is_dir, _) in modes(folder.path()) {
        fs::set_permissions(path, Permissions::from_mode(if is_dir { 0o755 } else { 0o644 })).unwrap();
    }
    let notes = folder.path().join("notes");
    fs::write(&notes, "the operator's").unwrap();
    assert!(start_in(folder.path(), "").stop().poisoned.is_none());
    assert_eq!(
        fs::metadata(&notes).unwrap().permissions().mode() & 0o777,
        0o666,
        "a file that is not the server's keeps its mode"
    );
    fs::remove_file(notes).unwrap();
    assert_private(folder.path());
}
