//! IDs of messages, computed with a secret key. A retry of a message has the same ID, so the server counts it once.
//! Without the key, an ID reveals nothing about sender, recipients and text.
//!
//! The key can be kept in a file, so that retries are recognised after a restart. The file has 32 hexadecimal digits.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use bruit_filters::{Fingerprint, FingerprintKey};

/// Maximum length of a key file. A longer file is invalid.
const KEY_FILE_BYTES_MAX: u64 = 64;

/// The ID of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity(Fingerprint);

/// The secret key.
pub(crate) struct IdentityKey(FingerprintKey);

impl IdentityKey {
    /// Creates a random key.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(FingerprintKey::new(bytes)))
    }

    /// Reads the key in a file, or creates the file with a random key.
    ///
    /// # Errors
    /// If the file can be neither read nor created, or has no key.
    pub(crate) fn open(file: &Path) -> io::Result<Self> {
        match Self::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::random()?.create(file)?;
                // If another process was faster, this is its key.
                Self::read(file)
            }
            read => read,
        }
    }

    fn read(file: &Path) -> io::Result<Self> {
        let mut text = String::new();
        fs::File::open(file)?.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text)?;
        let digits = text.trim_end();
        let is_key = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(digits, 16).ok().filter(|_| is_key);
        let number = number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "expected 32 hex digits"))?;
        Ok(Self(FingerprintKey::new(number.to_be_bytes())))
    }

    /// Creates a file with this key, unless it exists. After a crash, the file is complete or absent.
    fn create(&self, file: &Path) -> io::Result<()> {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".new-{}", std::process::id()));
        let unfinished = Path::new(&name);
        let write = || {
            let mut written =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(unfinished)?;
            writeln!(written, "{:032x}", u128::from_be_bytes(*self.0.as_bytes()))?;
            written.sync_all()?;
            match fs::hard_link(unfinished, file) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        };
        let result = write();
        // Ignore errors: nothing depends on this file.
        let _ = fs::remove_file(unfinished);
        result
    }

    /// Returns the ID of a message. `recipients` is a sum of [hashes](Self::hash).
    pub(crate) fn identity(&self, sender: &[u8], recipients: u64, message: &[u8]) -> Identity {
        let message = self.0.fingerprint(message);
        let numbers = [recipients, message.high(), message.low()].map(u64::to_le_bytes);
        // The numbers have a fixed length and come first, so no two messages give the same bytes.
        Identity(self.0.fingerprint(&[numbers.as_flattened(), sender].concat()))
    }

    /// Returns a keyed hash of any bytes, such as a recipient's address.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        self.0.fingerprint(bytes).high()
    }
}

impl std::fmt::Display for Identity {
    /// Writes the ID as 32 hexadecimal digits, like the ID of a report.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:016x}{:016x}", self.0.high(), self.0.low())
    }
}

#[cfg(test)]
impl IdentityKey {
    /// A key for tests.
    pub(crate) fn fixed() -> Self {
        Self(FingerprintKey::new([7; 16]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key was once new at each start, so a retry after a restart counted again.
    #[test]
    fn a_key_in_a_file_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("retry.key");
        let id = || IdentityKey::open(&file).unwrap().identity(b"a@b", 7, b"text");
        let first = id();
        assert_eq!(first, id());
        IdentityKey::fixed().create(&file).unwrap();
        assert_eq!(first, id(), "an existing key is kept");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!((mode & 0o777, fs::read_dir(folder.path()).unwrap().count()), (0o600, 1));
        for damaged in ["", "+0123456789abcdef0123456789abcde", &"0".repeat(33)] {
            fs::write(&file, damaged).unwrap();
            let kind = IdentityKey::open(&file).map(drop).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidData, "{damaged}");
        }
    }

    #[test]
    fn an_identity_depends_on_every_part_and_on_the_key() {
        let [key, other] = [1, 2].map(|byte| IdentityKey(FingerprintKey::new([byte; 16])));
        let first = key.identity(b"a@b", 7, b"text");
        assert_eq!(first, key.identity(b"a@b", 7, b"text"));
        assert_eq!(first.to_string().len(), 32);
        for different in [
            key.identity(b"a@c", 7, b"text"),
            key.identity(b"a@b", 8, b"text"),
            key.identity(b"a@b", 7, b"texts"),
            key.identity(b"a@btext", 7, b""),
            other.identity(b"a@b", 7, b"text"),
        ] {
            assert_ne!(first, different);
        }
    }
}
