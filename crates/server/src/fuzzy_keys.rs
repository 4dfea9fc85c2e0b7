//! Key pairs of rspamd's fuzzy storage: the server's own, which is kept in the data directory, and those of accounts.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bruit_protocols::fuzzy::{KeyId, KeyTextError, Keypair};
use bruit_store::FUZZY_KEY_FILE;

use crate::config::{AccountSecret, AccountSettings};

/// Maximum length of a key file. It contains a key and some white space.
const KEY_FILE_BYTES_MAX: u64 = 256;

/// The key pairs of accounts, by key ID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyring {
    pairs: HashMap<KeyId, Keypair>,
}

/// The reason why the server's own key pair cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file can be neither read nor created.
    #[error("failed to read or create {}", .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file does not contain a key.
    #[error("{} does not contain a key: restore it, or remove it and give the new public key to all clients", .file.display())]
    Text {
        /// The file.
        file: PathBuf,
        /// The reason.
        #[source]
        source: KeyTextError,
    },
}

impl Keyring {
    /// Collects the key pairs of accounts. Invalid secrets are skipped here, because registration rejects them.
    pub(crate) fn of(accounts: &[AccountSettings]) -> Self {
        let secrets = accounts.iter().filter_map(|account| match &account.secret {
            AccountSecret::KeyPair(secret, _) => Keypair::from_secret_text(secret).ok(),
            _ => None,
        });
        Self { pairs: secrets.map(|pair| (pair.public().id(), pair)).collect() }
    }

    /// Returns the key pair with the ID in a request.
    pub(crate) fn get(&self, id: &KeyId) -> Option<&Keypair> {
        self.pairs.get(id)
    }
}

/// Returns the public key for this private key.
pub(crate) fn public_key(secret: &str) -> Option<[u8; 32]> {
    Keypair::from_secret_text(secret).ok().map(|pair| pair.public().0)
}

/// Loads the server's own key pair, or creates it at the first start.
///
/// # Errors
/// Returns [`KeyFileError`] if the file cannot be read or created, or does not contain a key.
pub(crate) fn own(directory: &Path) -> Result<Keypair, KeyFileError> {
    let file = directory.join(FUZZY_KEY_FILE);
    let failed = |source| KeyFileError::Io { file: file.clone(), source };
    match read(&file) {
        Ok(text) => {
            Keypair::from_secret_text(text.trim()).map_err(|source| KeyFileError::Text { file: file.clone(), source })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(directory, &file).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

fn read(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.len() > KEY_FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too long for a key"));
    }
    fs::read_to_string(file)
}

/// Creates a key pair and syncs it to disk before announcing it. If an announced key were lost, its clients would
/// receive no replies.
fn make(directory: &Path, file: &Path) -> io::Result<Keypair> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let pair = Keypair::from_secret(secret);
    let unfinished = directory.join(format!("{FUZZY_KEY_FILE}.new"));
    let mut options = OpenOptions::new();
    let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    writeln!(out, "{}", pair.secret_text())?;
    out.sync_all()?;
    fs::rename(&unfinished, file)?;
    File::open(directory)?.sync_all()?;
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_pair_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let first = own(folder.path()).unwrap();
        assert_eq!(own(folder.path()).unwrap().public(), first.public());
        let other = tempfile::tempdir().unwrap();
        assert_ne!(own(other.path()).unwrap().public(), first.public());
        let mode = fs::metadata(folder.path().join(FUZZY_KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_file_that_holds_no_key_is_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FUZZY_KEY_FILE);
        for text in ["", "not a key", &"y".repeat(KEY_FILE_BYTES_MAX as usize + 1)] {
            fs::write(&file, text).unwrap();
            let error = own(folder.path()).unwrap_err().to_string();
            assert!(error.contains(FUZZY_KEY_FILE), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn the_longest_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pair = Keypair::from_secret([7; 32]);
        let text = format!("{:<1$}", pair.secret_text(), KEY_FILE_BYTES_MAX as usize);
        fs::write(folder.path().join(FUZZY_KEY_FILE), text).unwrap();
        assert_eq!(own(folder.path()).unwrap().public(), pair.public());
    }
}
