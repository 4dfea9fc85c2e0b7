//! The administrator's token: a file in the data directory, which the server makes at its first start.
//!
//! Whoever can read the file administers the server. A new token takes its place when the file is removed and the server started or
//! sent SIGHUP.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use bruit_engine::trust::Standing;
use bruit_store::ADMIN_TOKEN_FILE;

use crate::audit::audit_local;
use crate::config::{TOKEN_BYTES_MIN, Token, sha256};

/// Random bytes of a token, which are written as hexadecimal digits.
const RANDOM_BYTES: usize = 32;

/// The longest file that is read: a token, and some blanks.
const FILE_BYTES_MAX: u64 = 4_096;

/// The hash of the administrator's token, once there is one.
#[derive(Debug, Default)]
pub(crate) struct AdminToken {
    sha256: RwLock<Option<[u8; 32]>>,
}

/// Why there is no administrator's token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminTokenError {
    /// The file can be neither read nor made.
    #[error("failed to read or make {}", .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// It holds something else.
    #[error(
        "the first line of {} is no token of {TOKEN_BYTES_MIN} or more characters: remove the file, and a new one is made at the next start or SIGHUP",
        .0.display()
    )]
    Text(PathBuf),
}

impl AdminToken {
    /// Takes the token of a data directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`AdminTokenError`]; then the token before stays in force.
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

    /// Whether this is the hash of the token.
    pub(crate) fn is(&self, sha256: &[u8; 32]) -> bool {
        *self.sha256.read().unwrap_or_else(PoisonError::into_inner) == Some(*sha256)
    }

    /// The token as one of the configuration's.
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
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than a token"));
    }
    fs::read_to_string(file)
}

/// Makes a token. It is on disk before it is in force.
fn make(directory: &Path, file: &Path) -> io::Result<String> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let unfinished = directory.join(format!("{ADMIN_TOKEN_FILE}.new"));
    // What is left of an earlier try, or a link that somebody put there, is removed and never followed.
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
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
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
