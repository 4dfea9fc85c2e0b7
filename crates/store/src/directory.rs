//! The names of the files in and next to a store, and the lock on its directory.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::private;
use crate::founding::FOUNDING_FILE;
use crate::header::SEQUENCE_MAX;

/// The lock file.
pub(crate) const LOCK_NAME: &str = "lock";

/// Name prefix of incomplete files.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

/// Name prefix of the parts that a repair cut off.
pub(crate) const CUT_PREFIX: &str = "cut-";

/// Name of the file that holds the server's identity key.
pub const NODE_KEY_FILE: &str = "node.key";

/// Name of the file that holds the server's key pair for encrypted rspamd clients.
pub const FUZZY_KEY_FILE: &str = "fuzzy.key";

/// Name of the file that holds the administrator's token.
pub const ADMIN_TOKEN_FILE: &str = "admin.token";

/// Name of the file with the peers that were added while the server ran.
pub const PEERS_FILE: &str = "peers.toml";

/// Name of the folder of logs that other servers read.
pub const SHELF_FOLDER: &str = "shelf";

/// Name of the file with the server's counters over time.
pub const HISTORY_FILE: &str = "history.bruit";

/// Name under which a server keeps a [`HISTORY_FILE`] that it could not read.
pub const DAMAGED_HISTORY_FILE: &str = "history.bruit.damaged";

/// Name of the file with the precision of reporters over time.
pub const PRECISION_FILE: &str = "precision.bruit";

/// Name under which a server keeps a [`PRECISION_FILE`] that it could not read.
pub const DAMAGED_PRECISION_FILE: &str = "precision.bruit.damaged";

/// Name of a local replica's file, at the default path of `bruit replica`.
const REPLICA_FILE: &str = "replica";

/// Name of a folder that may exist if the directory is the root of a file system.
const LOST_AND_FOUND: &str = "lost+found";

/// Names of files that may be in the directory, next to the store's files or before the store is founded.
const NAMES_BESIDE: [&str; 11] = [
    NODE_KEY_FILE,
    FUZZY_KEY_FILE,
    ADMIN_TOKEN_FILE,
    PEERS_FILE,
    HISTORY_FILE,
    DAMAGED_HISTORY_FILE,
    PRECISION_FILE,
    DAMAGED_PRECISION_FILE,
    SHELF_FOLDER,
    REPLICA_FILE,
    LOST_AND_FOUND,
];

/// Returns the name of the journal file whose first event has the sequence `first`.
pub(crate) fn journal_file_name(first: u64) -> String {
    format!("journal-{first:020}.bruit")
}

/// Returns the name of the snapshot that contains all events up to `sequence`.
pub(crate) fn snapshot_name(sequence: u64) -> String {
    format!("snapshot-{sequence:020}.bruit")
}

/// The contents of a directory, determined by file names alone. Numbers are in ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) journal_files: Vec<u64>,
    pub(crate) snapshots: Vec<u64>,
    pub(crate) temporary: Vec<String>,
    /// Files that a repair cut off.
    pub(crate) cut: Vec<String>,
    /// Files that do not belong to the store and may not be present next to it.
    pub(crate) others: Vec<String>,
}

impl Listing {
    pub(crate) fn read(directory: &Path) -> io::Result<Self> {
        let mut listing = Self::default();
        for entry in fs::read_dir(directory)? {
            listing.add(entry?.file_name().to_string_lossy().into_owned());
        }
        listing.journal_files.sort_unstable();
        listing.snapshots.sort_unstable();
        for names in [&mut listing.temporary, &mut listing.cut, &mut listing.others] {
            names.sort_unstable();
        }
        Ok(listing)
    }

    fn add(&mut self, name: String) {
        // The first event is number 1; a snapshot without events has number 0.
        if let Some(first) = number(&name, "journal-").filter(|&first| first > 0) {
            self.journal_files.push(first);
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

    /// Returns true if there are files that cannot be read without the founding file.
    pub(crate) const fn has_data(&self) -> bool {
        !self.journal_files.is_empty() || !self.snapshots.is_empty()
    }
}

/// Returns true if the program keeps a file of this name next to a store's files. This includes files that a crash
/// left unfinished.
fn is_beside(name: &str) -> bool {
    let is_unfinished = || {
        let replaced = [NODE_KEY_FILE, FUZZY_KEY_FILE, ADMIN_TOKEN_FILE, PEERS_FILE];
        name.ends_with(".new")
            && replaced.iter().any(|file| name.strip_prefix(file).is_some_and(|rest| rest.starts_with('.')))
    };
    NAMES_BESIDE.contains(&name) || is_unfinished()
}

/// Returns true if the file may have wider permissions than the store's files. An example is a replica, which mail
/// users may read.
pub(crate) fn has_own_permissions(name: &str) -> bool {
    [REPLICA_FILE, LOST_AND_FOUND].contains(&name)
}

/// Returns true if this is a temporary file of the store. The store must not remove other files with the same prefix.
fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY_PREFIX).is_some_and(|finished| {
        number(finished, "journal-").is_some()
            || number(finished, "snapshot-").is_some()
            || finished == FOUNDING_FILE
            || finished.starts_with(CUT_PREFIX)
    })
}

/// Formats a path for a shell, quoted if it contains anything but plain characters.
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

/// Parses the number in a file name: exactly twenty digits.
fn number(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(".bruit")?;
    let well_formed = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    well_formed.then(|| digits.parse().ok()).flatten().filter(|&number| number <= SEQUENCE_MAX)
}

/// The reason why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{} is in use by another process; only one process may open a store", directory.display())]
    Held {
        /// The directory.
        directory: PathBuf,
    },
    /// An I/O operation failed.
    #[error("failed to lock {}", directory.display())]
    Io {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The lock on a directory. It is released on drop or when the process dies.
///
/// Both a file and the directory itself are locked, because the file may be deleted while it is locked.
#[derive(Debug)]
#[expect(dead_code, reason = "the locks are held as long as the files are open")]
pub(crate) struct Lock {
    file: File,
    /// `None` if directories cannot be locked, as on some systems and network file systems.
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
    fn only_names_as_written_are_read() {
        let mut listing = Listing::default();
        for name in [
            journal_file_name(SEQUENCE_MAX),
            snapshot_name(0),
            "lock".into(),
            "realm.bruit".into(),
            format!(".tmp-{}", journal_file_name(1)),
            format!(".tmp-{}", snapshot_name(1)),
            ".tmp-realm.bruit".into(),
            ".tmp-cut-48-y".into(),
            "cut-y".into(),
            "node.key".into(),
            "node.key.4711.new".into(),
            "fuzzy.key".into(),
            "fuzzy.key.new".into(),
            "peers.toml".into(),
            "peers.toml.new".into(),
            "history.bruit".into(),
            "history.bruit.damaged".into(),
            "precision.bruit".into(),
            "precision.bruit.damaged".into(),
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
        assert_eq!((listing.journal_files, listing.snapshots), (vec![SEQUENCE_MAX], vec![0]));
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
