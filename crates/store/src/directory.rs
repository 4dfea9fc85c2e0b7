//! The names of the files in a store's directory and beside them, and the lock on the directory.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::private;
use crate::format::SEQUENCE_MAX;
use crate::founding::FOUNDING_FILE;

/// The file that the one opener holds a lock on.
pub(crate) const LOCK_NAME: &str = "lock";

/// What files are called that are not complete yet.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

/// What parts are called that a repair has cut off.
pub(crate) const CUT_PREFIX: &str = "cut-";

/// The file of the server's identity key.
pub const NODE_KEY_FILE: &str = "node.key";

/// The file of the server's key pair for encrypted rspamd clients.
pub const FUZZY_KEY_FILE: &str = "fuzzy.key";

/// The file of the administrator's token.
pub const ADMIN_TOKEN_FILE: &str = "admin.token";

/// The folder of the logs that other servers read.
pub const SHELF_FOLDER: &str = "shelf";

/// The file of a local replica, in the default place of `bruit replica`.
const REPLICA_FILE: &str = "replica";

/// A folder that exists if the directory is the root of a file system.
const LOST_AND_FOUND: &str = "lost+found";

/// Everything that may be beside a store, or in its directory before it is founded.
const BESIDE: [&str; 6] = [NODE_KEY_FILE, FUZZY_KEY_FILE, ADMIN_TOKEN_FILE, SHELF_FOLDER, REPLICA_FILE, LOST_AND_FOUND];

/// The name of the segment whose first event has this sequence.
pub(crate) fn segment_name(first: u64) -> String {
    format!("journal-{first:020}.bruit")
}

/// The name of the snapshot that holds all events up to this sequence.
pub(crate) fn snapshot_name(sequence: u64) -> String {
    format!("snapshot-{sequence:020}.bruit")
}

/// What is in a directory, by the names alone. Numbers ascend.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) segments: Vec<u64>,
    pub(crate) snapshots: Vec<u64>,
    pub(crate) temporary: Vec<String>,
    /// What a repair has cut off.
    pub(crate) cut: Vec<String>,
    /// Files that neither the store nor the program keeps here.
    pub(crate) others: Vec<String>,
}

impl Listing {
    pub(crate) fn read(directory: &Path) -> io::Result<Self> {
        let mut listing = Self::default();
        for entry in fs::read_dir(directory)? {
            listing.add(entry?.file_name().to_string_lossy().into_owned());
        }
        listing.segments.sort_unstable();
        listing.snapshots.sort_unstable();
        for names in [&mut listing.temporary, &mut listing.cut, &mut listing.others] {
            names.sort_unstable();
        }
        Ok(listing)
    }

    fn add(&mut self, name: String) {
        // The first event is 1; a snapshot of none is possible.
        if let Some(first) = number(&name, "journal-").filter(|&first| first > 0) {
            self.segments.push(first);
        } else if let Some(sequence) = number(&name, "snapshot-") {
            self.snapshots.push(sequence);
        } else if is_temporary(&name) {
            self.temporary.push(name);
        } else if name.starts_with(CUT_PREFIX) {
            self.cut.push(name);
        } else if name != LOCK_NAME && name != FOUNDING_FILE && !is_beside(&name) {
            self.others.push(name);
        }
    }

    /// Returns true if there is anything that only the founding file makes readable.
    pub(crate) const fn has_data(&self) -> bool {
        !self.segments.is_empty() || !self.snapshots.is_empty()
    }
}

/// Returns true if the program keeps a file of this name beside a store. An unfinished key file counts.
fn is_beside(name: &str) -> bool {
    let is_unfinished_key = || {
        let keys = [NODE_KEY_FILE, FUZZY_KEY_FILE, ADMIN_TOKEN_FILE];
        name.ends_with(".new")
            && keys.iter().any(|key| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
    };
    BESIDE.contains(&name) || is_unfinished_key()
}

/// Whether something that may lie beside a store has permissions of its own: mail users may read a replica.
pub(crate) fn is_left_to_its_owner(name: &str) -> bool {
    [REPLICA_FILE, LOST_AND_FOUND].contains(&name)
}

/// Whether this is the name of something that the store itself was writing: what others call so is not ours to remove.
fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY_PREFIX).is_some_and(|finished| {
        number(finished, "journal-").is_some()
            || number(finished, "snapshot-").is_some()
            || finished == FOUNDING_FILE
            || finished.starts_with(CUT_PREFIX)
    })
}

/// A path as a shell reads it: in quotes if it has anything but plain characters.
#[must_use]
pub fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        path.into()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// The number in a name: twenty digits, as we write them.
fn number(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(".bruit")?;
    let well_formed = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    well_formed.then(|| digits.parse().ok()).flatten().filter(|&number| number <= SEQUENCE_MAX)
}

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else has it.
    #[error("{} is in use by another process: only one may write to a store", directory.display())]
    Held {
        /// The directory.
        directory: PathBuf,
    },
    /// The system refused.
    #[error("failed to lock {}", directory.display())]
    Io {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The right to write to a directory, until dropped. A process that dies gives it back.
///
/// Two locks, as the file can be removed by a tidy person while it is held: the directory cannot.
#[derive(Debug)]
#[expect(dead_code, reason = "the locks are held as long as the files are open")]
pub(crate) struct Lock {
    file: File,
    /// None where directories cannot be locked: on some systems, and on some network file systems.
    directory: Option<File>,
}

impl Lock {
    pub(crate) fn take(directory: &Path) -> Result<Self, LockError> {
        let io = |source| LockError::Io { directory: directory.to_owned(), source };
        let held = || LockError::Held { directory: directory.to_owned() };
        let path = directory.join(LOCK_NAME);
        let file = private().create(true).truncate(false).write(true).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held()),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let directory = File::open(directory).map_err(TryLockError::Error);
        match directory.and_then(|directory| directory.try_lock().map(|()| directory)) {
            Ok(directory) => Ok(Self { file, directory: Some(directory) }),
            Err(TryLockError::WouldBlock) => Err(held()),
            Err(TryLockError::Error(_)) => Ok(Self { file, directory: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_others_are_taken() {
        let mut listing = Listing::default();
        for name in [
            segment_name(SEQUENCE_MAX),
            snapshot_name(0),
            "lock".into(),
            "realm.bruit".into(),
            format!(".tmp-{}", segment_name(1)),
            format!(".tmp-{}", snapshot_name(1)),
            ".tmp-realm.bruit".into(),
            ".tmp-cut-48-y".into(),
            "cut-y".into(),
            "node.key".into(),
            "node.key.4711.new".into(),
            "fuzzy.key".into(),
            "fuzzy.key.new".into(),
            "shelf".into(),
            "replica".into(),
            "lost+found".into(),
        ] {
            listing.add(name);
        }
        let beyond = snapshot_name(SEQUENCE_MAX + 1);
        let strange = [
            "journal-1.bruit",
            "node.key.bak",
            "node.keyring.new",
            "shelf.tar",
            "journal-+0000000000000000001.bruit",
            "snapshot-99999999999999999999.bruit",
            "journal-00000000000000000000.bruit",
            ".tmp-x",
            ".tmp-journal-1.bruit",
            &beyond,
        ];
        strange.iter().for_each(|&name| listing.add(name.into()));
        assert_eq!((listing.segments, listing.snapshots), (vec![SEQUENCE_MAX], vec![0]));
        assert_eq!((listing.temporary.len(), listing.cut.len()), (4, 1));
        assert_eq!(listing.others, strange);
    }

    #[test]
    fn a_directory_is_held_even_if_the_file_of_its_lock_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        assert!(matches!(Lock::take(folder.path()), Err(LockError::Held { .. })));
        fs::remove_file(folder.path().join(LOCK_NAME)).unwrap();
        assert!(matches!(Lock::take(folder.path()), Err(LockError::Held { .. })));
        drop(lock);
        Lock::take(folder.path()).unwrap();
    }

    #[test]
    fn a_path_is_quoted_if_a_shell_would_cut_it() {
        for (path, expected) in
            [("/var/lib/bruit", "/var/lib/bruit"), ("my store", "'my store'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
