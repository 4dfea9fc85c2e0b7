//! The file of a server's key: a text file that only its owner may read, created once and never overwritten.
//!
//! Lines that begin with `#` are comments, and the only other line contains the secret as 64 hexadecimal digits. A
//! server that loses its key becomes unknown to all others.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bruit_signatures::hex;

use super::{KEY_BYTES, NodeKey};

/// Maximum length of a key file, including an operator's comments.
pub const KEY_FILE_BYTES_MAX: u64 = 4_096;

/// Permission bits of everyone but the owner.
const OTHERS_MODE: u32 = 0o077;

/// The reason why a key file could not be read or created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("failed to read the key file {}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file cannot be created, perhaps because it already exists.
    #[error("failed to create the key file {}", .file.display())]
    Create {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file does not contain a key.
    #[error("{} does not contain a secret key: expected 64 hex digits; restore the file, or remove it and give all peers the new key", .file.display())]
    Text {
        /// The file.
        file: PathBuf,
    },
}

impl KeyFileError {
    /// Returns true if the file does not exist, so that it may be created.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl NodeKey {
    /// Reads the key in a file. If others may read the file, logs a warning.
    ///
    /// # Errors
    /// [`KeyFileError::Read`] or [`KeyFileError::Text`].
    pub fn read_file(file: &Path) -> Result<Self, KeyFileError> {
        let text = read(file).map_err(|source| KeyFileError::Read { file: file.to_owned(), source })?;
        secret(&text).map(Self::generate).ok_or_else(|| KeyFileError::Text { file: file.to_owned() })
    }

    /// Writes the key to a new file. It is completely on disk when this returns.
    ///
    /// # Errors
    /// [`KeyFileError::Create`], for example if the file already exists.
    pub fn create_file(&self, file: &Path) -> Result<(), KeyFileError> {
        let text = format!(
            "# The secret key of a Bruit server: never give it away. Its public key, which others need:\n# {}\n{}\n",
            self.public(),
            self.seed().map(|byte| format!("{byte:02x}")).concat(),
        );
        create(file, &text).map_err(|source| KeyFileError::Create { file: file.to_owned(), source })
    }
}

fn read(file: &Path) -> io::Result<String> {
    let opened = File::open(file)?;
    if is_exposed(&opened.metadata()?) {
        tracing::warn!(file = %file.display(), "other users may read this secret key: set its permissions to 0600");
    }
    let mut text = String::new();
    let read = opened.take(KEY_FILE_BYTES_MAX + 1).read_to_string(&mut text)? as u64;
    if read > KEY_FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than a key and its comments"));
    }
    Ok(text)
}

fn is_exposed(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & OTHERS_MODE != 0
}

/// Parses the one line that is not a comment.
fn secret(text: &str) -> Option<[u8; KEY_BYTES]> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let secret = lines.next().and_then(hex::read);
    secret.filter(|_| lines.next().is_none())
}

/// Creates the file by linking the finished file to its name, which fails if the name exists: no reader sees half a
/// key, and no key is overwritten.
fn create(file: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(format!(".{}.new", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let made = write(&unfinished, text).and_then(|()| fs::hard_link(&unfinished, file));
    let removed = fs::remove_file(&unfinished);
    made.and(removed)?;
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.key");
        (folder, file)
    }

    #[test]
    fn a_key_is_read_as_written_and_is_for_its_owner_alone() {
        let (folder, file) = folder();
        let key = NodeKey::generate([7; 32]);
        key.create_file(&file).unwrap();
        assert_eq!(NodeKey::read_file(&file).unwrap().seed(), key.seed());
        assert!(!is_exposed(&fs::metadata(&file).unwrap()));
        assert!(fs::read_to_string(&file).unwrap().contains(&key.public().to_string()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(is_exposed(&fs::metadata(&file).unwrap()));
    }

    #[test]
    fn a_key_is_never_overwritten() {
        let (folder, file) = folder();
        NodeKey::generate([7; 32]).create_file(&file).unwrap();
        let error = NodeKey::generate([8; 32]).create_file(&file).unwrap_err();
        assert!(error.to_string().contains("node.key"), "{error}");
        assert_eq!(NodeKey::read_file(&file).unwrap().seed(), &[7; 32]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_missing_file_is_told_from_one_that_holds_no_key() {
        let (_folder, file) = folder();
        assert!(NodeKey::read_file(&file).unwrap_err().is_missing());
        let digits = "ab".repeat(32);
        for text in ["", "# only a comment", "not a key", &digits[..63], &format!("{digits}\n{digits}")] {
            fs::write(&file, text).unwrap();
            let error = NodeKey::read_file(&file).unwrap_err();
            assert!(matches!(error, KeyFileError::Text { .. }) && !error.is_missing(), "{text}");
            assert!(error.to_string().contains("node.key"), "{error}");
        }
    }

    #[test]
    fn the_longest_file_is_read_and_no_longer_one() {
        let (_folder, file) = folder();
        let text = format!("{:<1$}", "ab".repeat(32), KEY_FILE_BYTES_MAX as usize);
        fs::write(&file, &text).unwrap();
        assert_eq!(NodeKey::read_file(&file).unwrap().seed(), &[0xab; 32]);
        fs::write(&file, text + " ").unwrap();
        assert!(matches!(NodeKey::read_file(&file), Err(KeyFileError::Read { .. })));
    }
}
