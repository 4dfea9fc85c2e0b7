//! This server's identity key, which is stored in the data directory and created at the first start.

use std::io;
use std::path::Path;

use bruit_federation::keys::NodeKey;
use bruit_federation::keys::file::KeyFileError;
use bruit_store::NODE_KEY_FILE;

/// Loads or creates the server's own key.
///
/// # Errors
/// Returns [`KeyFileError`]. A file with other contents is not overwritten.
pub(crate) fn own(directory: &Path) -> Result<NodeKey, KeyFileError> {
    let file = directory.join(NODE_KEY_FILE);
    match NodeKey::read_file(&file) {
        Err(error) if error.is_missing() => make(&file),
        result => result,
    }
}

fn make(file: &Path) -> Result<NodeKey, KeyFileError> {
    let mut random = [0; 32];
    let failed = |error| KeyFileError::Create { file: file.to_owned(), source: io::Error::other(error) };
    getrandom::fill(&mut random).map_err(failed)?;
    let key = NodeKey::generate(random);
    key.create_file(file)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = own(folder.path()).unwrap();
        assert_eq!(own(folder.path()).unwrap().public(), first.public());
        let other = tempfile::tempdir().unwrap();
        assert_ne!(own(other.path()).unwrap().public(), first.public());
    }

    #[test]
    fn a_file_that_holds_no_key_is_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(NODE_KEY_FILE);
        std::fs::write(&file, "not a key").unwrap();
        assert!(own(folder.path()).unwrap_err().to_string().contains(NODE_KEY_FILE));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "not a key");
    }
}
