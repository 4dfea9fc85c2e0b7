//! Pairs of filters, as in the paper: a spam filter, and a second filter with the revoked keys.

use std::path::{Path, PathBuf};

use bruit_filters::file::FilterFile;

use super::storage::read;
use bruit_console::Failure;
use bruit_console::files::bad_file;

/// Returns the path of the revocation filter of the spam filter `path`.
pub(super) fn revoked_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".revoked");
    name.into()
}

/// Returns the path of the revocation filter, or an error if it does not exist.
pub(super) fn existing_revoked(path: &Path) -> Result<PathBuf, Failure> {
    let revoked = revoked_path(path);
    if revoked.exists() {
        return Ok(revoked);
    }
    Err(bad_file(path, format!("no revocation filter {}; create both with --pair", revoked.display())))
}

/// Reads the revocation filter of `spam`. Both filters must have the same key.
pub(super) fn read_revoked(spam: &FilterFile, path: &Path) -> Result<FilterFile, Failure> {
    let revoked_path = existing_revoked(path)?;
    let revoked = read(&revoked_path)?;
    if revoked.header.key_id != spam.header.key_id {
        return Err(bad_file(&revoked_path, format!("its key differs from that of {}", path.display())));
    }
    Ok(revoked)
}
