//! The administrator's token, which is a file in the data directory and is created at the first start.
//!
//! Anyone who can read the file can administer the server. To replace the token, remove the file and restart the server
//! or send it SIGHUP.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use bruit_engine::trust::Standing;
use bruit_signatures::hex;
use bruit_store::ADMIN_TOKEN_FILE;

use crate::audit::audit_local;
use crate::config::{TOKEN_BYTES_MIN, Token, sha256};

/// Number of random bytes in a token. They are written in hexadecimal.
const RANDOM_BYTES: usize = 32;

/// Maximum length of the file. It contains a token and some white space.
const FILE_BYTES_MAX: u64 = 4_096;

/// The hash of the administrator's token, once it is loaded.
#[derive(Debug, Default)]
pub(crate) struct AdminToken {
    sha256: RwLock<Option<[u8; 32]>>,
}

/// The reason why the administrator's token cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminTokenError {
    /// The file can be neither read nor created.
    #[error("failed to read or create {}", .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file does not contain a token.
    #[error(
        "{} does not begin with a token of at least {TOKEN_BYTES_MIN} characters: to create a new token, remove the file, then restart the server or send it SIGHUP",
        .0.display()
    )]
    Text(PathBuf),
}

impl AdminToken {
    /// Loads the token from the data directory, or creates it if the file does not exist.
    ///
    /// # Errors
    /// Returns [`AdminTokenError`]. The previous token then remains valid.
    pub(crate) fn load(&self, directory: &Path) -> Result<(), AdminTokenError> {
        let file = directory.join(ADMIN_TOKEN_FILE);
        let failed = |source| AdminTokenError::Io { file: file.clone(), source };
        let text = match read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(directory, &file),
            result => result,
        };
        let text = text.map_err(failed)?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.len() < TOKEN_BYTES_MIN {
            return Err(AdminTokenError::Text(file));
        }
        *self.sha256.write().unwrap_or_else(PoisonError::into_inner) = Some(sha256(token.as_bytes()));
        Ok(())
    }

    /// Returns true if `sha256` is the hash of the token.
    pub(crate) fn is(&self, sha256: &[u8; 32]) -> bool {
        self.hash() == Some(*sha256)
    }

    /// Returns the hash of the token, once it is loaded.
    pub(crate) fn hash(&self) -> Option<[u8; 32]> {
        *self.sha256.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the [`Token`] that stands for the administrator's token. It grants an administrator's rights.
    pub(crate) fn as_token(sha256: [u8; 32]) -> Token {
        Token {
            name: ADMIN_TOKEN_FILE.to_owned(),
            sha256,
            standing: Standing::Own,
            admin: true,
            monitor: true,
            replica: true,
            reporters: false,
        }
    }
}

fn read(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too long for a token"));
    }
    fs::read_to_string(file)
}

/// Creates a token and syncs it to disk before it becomes valid.
fn make(directory: &Path, file: &Path) -> io::Result<String> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let token = hex::text(&random);
    let unfinished = directory.join(format!("{ADMIN_TOKEN_FILE}.new"));
    // Remove the file that an interrupted attempt may have left. A symbolic link planted here is removed, not followed.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    writeln!(out, "{token}")?;
    out.sync_all()?;
    fs::rename(&unfinished, file)?;
    File::open(directory)?.sync_all()?;
    audit_local("admin_token.make", &file.display().to_string());
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner_alone_and_anew_when_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(ADMIN_TOKEN_FILE);
        let admin = AdminToken::default();
        assert!(!admin.is(&sha256(b"")));
        admin.load(folder.path()).unwrap();
        let hash = || sha256(fs::read_to_string(&file).unwrap().trim().as_bytes());
        let first = hash();
        assert!(admin.is(&first) && first != sha256(b""));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        admin.load(folder.path()).unwrap();
        assert!(admin.is(&first));
        fs::remove_file(&file).unwrap();
        admin.load(folder.path()).unwrap();
        assert!(!admin.is(&first) && admin.is(&hash()));
    }

    #[test]
    fn a_file_without_a_token_is_named_and_kept_and_the_token_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(ADMIN_TOKEN_FILE);
        let admin = AdminToken::default();
        fs::write(&file, "a-token-by-hand-1\n").unwrap();
        admin.load(folder.path()).unwrap();
        for text in ["", "short", "\nsecond-line-is-not-read", &"x".repeat(FILE_BYTES_MAX as usize + 1)] {
            fs::write(&file, text).unwrap();
            assert!(admin.load(folder.path()).unwrap_err().to_string().contains(ADMIN_TOKEN_FILE), "{text}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert!(admin.is(&sha256(b"a-token-by-hand-1")));
        }
    }
}
