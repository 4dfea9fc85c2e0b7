//! Finds the files that contain messages.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use super::STANDARD_INPUT;

/// A source of messages, or an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A file with its name and length.
    File { path: PathBuf, bytes: u64 },
    /// Standard input.
    Standard,
    /// Error message.
    Fault(String),
}

impl Source {
    /// Returns the name of the source for error messages.
    pub(super) fn name(&self) -> &Path {
        match self {
            Self::File { path, .. } => path,
            Self::Standard | Self::Fault(_) => Path::new(STANDARD_INPUT),
        }
    }

    /// Returns the size in bytes, if known.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::File { bytes, .. } => Some(*bytes),
            Self::Standard => None,
            Self::Fault(_) => Some(0),
        }
    }
}

/// Returns the sources in `paths`, in order. Without paths, returns standard input.
pub(super) fn find(paths: &[PathBuf]) -> Vec<Source> {
    if paths.is_empty() {
        return vec![Source::Standard];
    }
    let mut found = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            found.push(Source::Standard);
        } else {
            add(&mut found, path);
        }
    }
    found
}

fn add(found: &mut Vec<Source>, path: &Path) {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => add_folder(found, path),
        Ok(metadata) => found.push(Source::File { path: path.to_owned(), bytes: metadata.len() }),
        Err(error) => found.push(fault(path, &error)),
    }
}

fn fault(path: &Path, error: &io::Error) -> Source {
    Source::Fault(format!("{}: {error}", path.display()))
}

/// Adds the files of a Maildir, or the files of any other folder and its subfolders.
fn add_folder(found: &mut Vec<Source>, folder: &Path) {
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let parts = ["cur", "new"].map(|name| path.join(name));
        if parts.iter().all(|part| part.is_dir()) {
            parts.iter().for_each(|part| add_entries(found, part, &mut Vec::new()));
        } else {
            let mut folders = Vec::new();
            add_entries(found, &path, &mut folders);
            waiting.extend(folders.into_iter().rev());
        }
    }
}

/// Adds the files of a folder in order of their names, and collects its subfolders. Follows links to files, but not
/// links to folders, which may form a cycle.
fn add_entries(found: &mut Vec<Source>, folder: &Path, folders: &mut Vec<PathBuf>) {
    let mut entries = match fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<DirEntry>>>) {
        Ok(entries) => entries,
        Err(error) => return found.push(fault(folder, &error)),
    };
    entries.sort_by_key(DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(path);
            continue;
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => found.push(Source::File { path, bytes: metadata.len() }),
            Ok(_) => {}
            Err(error) => found.push(fault(&path, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns the names of the files found below `root`, relative to it.
    fn names(root: &Path) -> Vec<String> {
        let name = |source: &Source| match source {
            Source::File { path, .. } => path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        };
        find(&[root.to_owned()]).iter().map(name).collect()
    }

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        folder
    }

    #[test]
    fn folders_are_read_in_order_of_names() {
        let folder = folder(&["b", "a/2", "a/1", "c/d/3", "c/0"]);
        assert_eq!(names(folder.path()), ["b", "a/1", "a/2", "c/0", "c/d/3"]);
    }

    #[test]
    fn a_maildir_has_its_messages_in_two_folders() {
        let folder = folder(&["cur/2", "cur/1:2,S", "new/3", "tmp/4", "dovecot.index", "cur/deep/5"]);
        assert_eq!(names(folder.path()), ["cur/1:2,S", "cur/2", "new/3"]);
    }

    #[test]
    fn links_do_not_lead_in_circles() {
        let folder = folder(&["a/1"]);
        symlink(folder.path(), folder.path().join("a/circle")).unwrap();
        symlink(folder.path().join("a/1"), folder.path().join("b")).unwrap();
        assert_eq!(names(folder.path()), ["b", "a/1"]);
    }

    #[test]
    fn what_is_not_there_is_a_fault_among_the_others() {
        let folder = folder(&["1"]);
        symlink("nowhere", folder.path().join("2")).unwrap();
        let found = find(&[folder.path().to_owned(), "-".into(), folder.path().join("3")]);
        assert!(matches!(found[..], [Source::File { .. }, Source::Fault(_), Source::Standard, Source::Fault(_)]));
    }

    #[test]
    fn no_path_is_standard_input() {
        assert_eq!(find(&[]), [Source::Standard]);
    }
}
