//! Files and folders of a Maildir.
//!
//! A message is identified by its file name without the flags, which programs append after a colon. A program that
//! moves a message may give it a new name. The file then still has the same inode (Dovecot links the file) or the same
//! contents (other programs copy the message).

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirEntryExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Maximum number of messages in the Junk folders of a Maildir.
pub(super) const JUNK_MESSAGES_MAX: usize = 50_000;

/// Maximum number of folders in a Maildir.
const FOLDERS_MAX: usize = 10_000;

/// Maximum nesting depth of folders.
const DEPTH_MAX: usize = 8;

/// A Maildir to watch.
#[derive(Clone, Debug)]
pub(super) struct Maildir {
    pub(super) root: PathBuf,
    /// Reporter of the claims.
    pub(super) reporter: Option<String>,
}

/// The names of the folders for spam and for deleted mail.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) junk: Vec<String>,
    pub(super) trash: Vec<String>,
}

/// The file of a message.
#[derive(Clone, Debug)]
pub(super) struct MessageFile {
    pub(super) path: PathBuf,
    pub(super) inode: u64,
}

impl MessageFile {
    /// Returns the name without flags.
    pub(super) fn key(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.split_once(':').map_or(name, |(key, _)| key)
    }
}

impl Names {
    /// Returns true if a folder is for spam or for deleted mail, or inside such a folder. Dovecot gives a folder that is
    /// being deleted a name that begins with two dots.
    fn is_special(&self, folder: &str) -> bool {
        if folder.starts_with("..") {
            return true;
        }
        let folder = folder.strip_prefix('.').unwrap_or(folder);
        let is = |name: &String| {
            folder.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.junk.iter().chain(&self.trash).any(is)
    }

    /// Returns true if a folder of the Maildir is for spam.
    pub(super) fn is_junk(&self, folder: &str) -> bool {
        self.junk.iter().any(|name| folder == name || folder.strip_prefix('.') == Some(name))
    }
}

impl Maildir {
    /// Returns the paths that folders for spam may have: `.Junk` in a Maildir++, `Junk` if subfolders are plain
    /// directories.
    pub(super) fn possible_junk_folders(&self, names: &Names) -> Vec<PathBuf> {
        let paths = names.junk.iter().flat_map(|name| [self.root.join(format!(".{name}")), self.root.join(name)]);
        paths.collect()
    }

    /// Returns the folders for spam that exist.
    pub(super) fn junk_folders(&self, names: &Names) -> Vec<PathBuf> {
        let mut paths = self.possible_junk_folders(names);
        paths.retain(|path| may_have_messages(path));
        paths
    }

    /// Returns the messages in the folders for spam, by their names without flags.
    pub(super) fn junk(&self, names: &Names) -> Result<HashMap<String, MessageFile>> {
        let mut messages = HashMap::new();
        for folder in self.junk_folders(names) {
            for_each_message(&folder, |key, _, file| {
                if messages.len() >= JUNK_MESSAGES_MAX {
                    bail!("{} has more than {JUNK_MESSAGES_MAX} messages", folder.display());
                }
                messages.insert(key.to_owned(), file);
                Ok(())
            })?;
        }
        Ok(messages)
    }

    /// Returns all folders except those for spam and for deleted mail. The second value is false if a folder could not
    /// be searched.
    pub(super) fn other_folders(&self, names: &Names) -> Result<(Vec<PathBuf>, bool)> {
        let (mut folders, mut is_complete) = (Vec::new(), true);
        let mut open = vec![(self.root.clone(), 0)];
        while let Some((folder, depth)) = open.pop() {
            let entries = match fs::read_dir(&folder) {
                Err(error) if depth > 0 && error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) if depth > 0 => {
                    is_complete = false;
                    tracing::warn!(folder = %folder.display(), %error, "failed to search a folder");
                    continue;
                }
                entries => entries.with_context(|| folder.display().to_string())?,
            };
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_str().unwrap_or_default();
                let is_folder = !matches!(name, "cur" | "new" | "tmp") && !names.is_special(name);
                if is_folder && depth < DEPTH_MAX && entry.file_type()?.is_dir() {
                    open.push((entry.path(), depth + 1));
                }
            }
            folders.push(folder);
            if folders.len() + open.len() > FOLDERS_MAX {
                bail!("{} has more than {FOLDERS_MAX} folders", self.root.display());
            }
        }
        folders.retain(|folder| may_have_messages(folder));
        Ok((folders, is_complete))
    }
}

/// Returns true if a folder has a directory for messages. Also returns true if this cannot be determined; listing the
/// directory then fails. A link is not such a directory, because it could lead out of the Maildir.
fn may_have_messages(folder: &Path) -> bool {
    let may_be_directory = |path: &Path| match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.is_dir(),
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    };
    may_be_directory(folder) && may_be_directory(&folder.join("cur"))
}

/// Calls `work` with each message of a folder: the name without flags, the flags, and the file.
pub(super) fn for_each_message(
    folder: &Path,
    mut work: impl FnMut(&str, &str, MessageFile) -> Result<()>,
) -> Result<()> {
    for part in ["new", "cur"] {
        let part = folder.join(part);
        if part.is_symlink() {
            continue;
        }
        let entries = match fs::read_dir(&part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.with_context(|| part.display().to_string())?,
        };
        for entry in entries {
            let entry = entry.with_context(|| part.display().to_string())?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            // A link could lead out of the Maildir.
            if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            let (key, flags) = name.split_once(':').unwrap_or((name, ""));
            work(key, flags, MessageFile { path: entry.path(), inode: entry.ino() })?;
        }
    }
    Ok(())
}

/// Returns true if the name of a message was created at `time` or later. `time` is in seconds since 1970. Names begin
/// with the time of creation. A name without a time is treated as new.
pub(super) fn is_made_since(key: &str, time: u64) -> bool {
    let digits = key.split(|character: char| !character.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().map_or(true, |made: u64| made >= time)
}

/// Returns true if the flags mark a message as deleted.
pub(super) fn is_deleted(flags: &str) -> bool {
    flags.strip_prefix("2,").is_some_and(|flags| flags.contains('T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_for_spam_and_deleted_mail_are_known_by_name() {
        let names = Names { junk: vec!["Junk".into(), "Spam".into()], trash: vec!["Trash".into()] };
        assert!([".Junk", "Junk", "Spam"].iter().all(|name| names.is_junk(name)));
        assert!([".Junk.old", ".Trash", ".Junkyard", ".Inbox"].iter().all(|name| !names.is_junk(name)));
        assert!(
            [".Junk", ".Junk.old", "Trash", ".Trash.2025", "..DOVECOT-TRASHED"]
                .iter()
                .all(|name| names.is_special(name))
        );
        assert!([".Junkyard", "", ".Sent"].iter().all(|name| !names.is_special(name)));
    }

    #[test]
    fn names_begin_with_a_time() {
        assert!(is_made_since("1700000000.M1P2.host", 1_700_000_000) && !is_made_since("1700000000.M1", 1_700_000_001));
        assert!(is_made_since("spam", 1) && is_made_since("", 1));
        assert!(is_deleted("2,ST") && !is_deleted("2,S") && !is_deleted("T") && !is_deleted(""));
    }

    #[test]
    fn only_other_folders_are_searched() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["", ".Sent", ".Junk", ".Trash", ".Archive", "Lists/Rust", "Lists/Trash"] {
            fs::create_dir_all(root.path().join(folder).join("cur")).unwrap();
        }
        std::os::unix::fs::symlink(root.path(), root.path().join(".Loop")).unwrap();
        let names = Names { junk: vec!["Junk".into()], trash: vec!["Trash".into()] };
        let maildir = Maildir { root: root.path().to_owned(), reporter: None };
        let (mut found, is_complete) = maildir.other_folders(&names).unwrap();
        assert!(is_complete);
        found.sort();
        let expected = ["", ".Archive", ".Sent", "Lists/Rust"].map(|folder| root.path().join(folder));
        assert_eq!(found, expected);
        assert_eq!(maildir.junk_folders(&names), [root.path().join(".Junk")]);
        std::os::unix::fs::symlink(root.path().join(".Sent"), root.path().join("Junk")).unwrap();
        assert_eq!(maildir.junk_folders(&names), [root.path().join(".Junk")], "a link");
    }
}
