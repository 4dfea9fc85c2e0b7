//! The messages that are known to be in the Junk folders of a Maildir, stored in one file for each Maildir.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// Maximum length of a file name.
const NAME_BYTES_MAX: usize = 240;

/// File in the folder of the state files that a process locks while it runs.
const LOCK: &str = ".lock";

/// Prefix of files that are being written.
const TEMPORARY: &str = ".tmp-";

/// Locks the folder of the state files until the result is dropped. Without the lock, two processes could overwrite
/// each other's state and make claims twice.
///
/// # Errors
/// If another process has locked it, or if the lock cannot be created.
pub(super) fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let named = || path.display().to_string();
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.with_context(named)?;
    match file.try_lock() {
        Ok(()) => {
            remove_temporary(folder).with_context(|| folder.display().to_string())?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => bail!("{}: in use by another bruit watch", folder.display()),
        Err(TryLockError::Error(error)) => Err(error).with_context(named),
    }
}

/// Removes temporary files left behind by a crash.
fn remove_temporary(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The known state of a Maildir.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// The messages, by their names without flags.
    pub(super) messages: BTreeMap<String, Record>,
}

/// A message in a Junk folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) inode: u64,
    /// Length of the file. For a message that was there before the first start, it is 0 until the message has been
    /// read.
    pub(super) bytes: u64,
    /// Signature of the message's contents, unless the message could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exact: Option<String>,
    /// Time at which the message was first seen, in seconds since 1970.
    pub(super) since: u64,
}

/// The state file of a Maildir.
#[derive(Debug)]
pub(super) struct StateFile(PathBuf);

impl Record {
    /// Returns true if both records may describe the same message. Unknown contents agree with any contents.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        (self.bytes == 0 || self.bytes == other.bytes) && (self.exact.is_none() || self.exact == other.exact)
    }
}

impl StateFile {
    /// Returns the file in `folder` for the Maildir at `root`.
    pub(super) fn of(folder: &Path, root: &Path) -> Result<Self> {
        let name = root.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        ensure!(name.len() <= NAME_BYTES_MAX, "{}: the path is too long for a state file", root.display());
        Ok(Self(folder.join(format!("{name}.json"))))
    }

    /// Reads the state. Returns `None` at the first start, and if the file is damaged.
    pub(super) fn read(&self) -> Result<Option<State>> {
        let bytes = match fs::read(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.with_context(|| self.0.display().to_string())?,
        };
        let state = serde_json::from_slice(&bytes);
        if let Err(error) = &state {
            tracing::warn!(file = %self.0.display(), %error, "state file damaged; treating messages in Junk as known");
        }
        Ok(state.ok())
    }

    /// Replaces the state. After a crash, the file has either the old or the new contents.
    pub(super) fn write(&self, state: &State) -> Result<()> {
        let folder = self.0.parent().unwrap_or_else(|| Path::new("."));
        let write = || -> io::Result<()> {
            // The name is random, so that no other process writes to the same file.
            let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder)?;
            file.write_all(&serde_json::to_vec(state)?)?;
            file.as_file().sync_data()?;
            file.persist(&self.0)?;
            File::open(folder)?.sync_all()
        };
        write().with_context(|| self.0.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_a_restart_and_a_damaged_one_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = StateFile::of(folder.path(), Path::new("/home/ann/Maildir")).unwrap();
        assert!(file.read().unwrap().is_none());
        let record = Record { inode: 7, bytes: 100, exact: Some("00ff".into()), since: 5 };
        let state = State { messages: [("1.x".to_owned(), record)].into() };
        file.write(&state).unwrap();
        assert_eq!(file.read().unwrap().unwrap().messages, state.messages);
        let other = StateFile::of(folder.path(), Path::new("/home/ann%2FMaildir")).unwrap();
        assert!(other.read().unwrap().is_none(), "another Maildir");
        fs::write(&file.0, "{\"messages\":").unwrap();
        assert!(file.read().unwrap().is_none());
        assert!(StateFile::of(folder.path(), Path::new(&"x".repeat(300))).is_err());
    }

    #[test]
    fn one_process_uses_a_folder_and_removes_what_a_crash_left() {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join(".tmp-1");
        fs::write(&temporary, "{").unwrap();
        let first = lock(folder.path()).unwrap();
        assert!(!temporary.exists());
        let error = lock(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("in use by another bruit watch"), "{error}");
        let file = StateFile::of(folder.path(), Path::new("/home/ann/Maildir")).unwrap();
        file.write(&State::default()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the lock and the state");
        drop(first);
        lock(folder.path()).unwrap();
    }
}
