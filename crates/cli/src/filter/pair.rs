//! The paper's pair: a spam filter, and beside it the filter of what was revoked.

use std::path::{Path, PathBuf};

use bruit_filters::file::FilterFile;

use super::storage::{read, wrong};
use crate::failure::Failure;

/// Where the revocation filter of the spam filter `path` is.
pub(super) fn revoked_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".revoked");
    name.into()
}

/// The same, if it exists.
pub(super) fn existing_revoked(path: &Path) -> Result<PathBuf, Failure> {
    let revoked = revoked_path(path);
    if revoked.exists() {
        return Ok(revoked);
    }
    Err(wrong(path, format!("it has no revocation filter {}; create both with --pair", revoked.display())))
}

/// Reads the revocation filter of `spam`, which has to hash keys the same way.
pub(super) fn read_revoked(spam: &FilterFile, path: &Path) -> Result<FilterFile, Failure> {
    let revoked_path = existing_revoked(path)?;
    let revoked = read(&revoked_path)?;
    if revoked.header.key_id != spam.header.key_id {
        return Err(wrong(&revoked_path, format!("it has another key than {}", path.display())));
    }
    Ok(revoked)
}
