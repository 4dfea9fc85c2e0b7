//! Live on a directory: files are taken as they appear there, until Ctrl-C.
//!
//! Directories are looked at once a second. That needs no service of the system, works on every file system, and is soon
//! enough for captures that end by rotation and for mail. What was there at the beginning counts as new. A Maildir is looked at
//! in `new` and `cur`; other directories are not searched for directories in them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;

use crate::failure::Failure;

/// How often directories are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// What a Maildir appends to the name of a message when it is moved or marked.
const MAILDIR_MARKS: &str = ":2,";

/// When a file is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complete {
    /// When it is there: mail is moved into its directory in one step.
    AtOnce,
    /// When a later one is there, as `tcpdump -G` and `-C` leave them; the last one at the end.
    ByRotation,
}

/// What [`for_each`] found, or that it found nothing this time.
#[derive(Debug)]
pub(crate) enum News<'n> {
    /// A file that is complete, and was not there before.
    File(&'n Path),
    /// All is taken for now. Comes once a second.
    Idle,
}

/// Calls `work` with every file that appears in `folders`, oldest first, until Ctrl-C, and then with the last ones.
pub(crate) fn for_each(
    folders: &[PathBuf],
    complete: Complete,
    mut work: impl FnMut(News<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let interrupts = watch_interrupts()?;
    let mut follower = Follower::new(folders)?;
    loop {
        for file in follower.look(complete)? {
            work(News::File(&file))?;
        }
        work(News::Idle)?;
        match interrupts.recv_timeout(INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    follower.look(Complete::AtOnce)?.iter().try_for_each(|file| work(News::File(file)))
}

/// A channel that tells of Ctrl-C.
fn watch_interrupts() -> Result<Receiver<()>, Failure> {
    let (sender, receiver) = mpsc::channel();
    let tell = move || {
        // Nobody listens any more when the end has begun; a second Ctrl-C changes nothing then.
        let _ = sender.send(());
    };
    ctrlc::set_handler(tell).context("failed to watch for Ctrl-C").map_err(Failure::Other)?;
    Ok(receiver)
}

/// Directories, and which of their files were given out.
#[derive(Debug)]
struct Follower {
    folders: Vec<PathBuf>,
    /// By [`identity`]; only those that are still there, so that it does not grow for ever.
    taken: BTreeSet<PathBuf>,
}

impl Follower {
    fn new(folders: &[PathBuf]) -> Result<Self, Failure> {
        if let Some(other) = folders.iter().find(|folder| !folder.is_dir()) {
            return Err(Failure::BadInput(format!("{}: only directories can be followed", other.display())));
        }
        Ok(Self { folders: folders.iter().flat_map(|folder| parts(folder)).collect(), taken: BTreeSet::new() })
    }

    /// The files that are complete and were not given before, oldest first.
    fn look(&mut self, complete: Complete) -> Result<Vec<PathBuf>, Failure> {
        let mut there = BTreeSet::new();
        let mut ready = Vec::new();
        for folder in &self.folders {
            let mut files =
                files(folder).map_err(|error| Failure::BadInput(format!("{}: {error}", folder.display())))?;
            there.extend(files.iter().map(|(_, path)| identity(path)));
            if complete == Complete::ByRotation {
                files.pop();
            }
            ready.extend(files);
        }
        self.taken.retain(|path| there.contains(path));
        ready.sort();
        let taken = &mut self.taken;
        Ok(ready.into_iter().map(|(_, path)| path).filter(|path| taken.insert(identity(path))).collect())
    }
}

/// Where the files of a directory are: in two places if it is a Maildir.
fn parts(folder: &Path) -> Vec<PathBuf> {
    // In the order in which messages move, so that none slips by.
    let parts = ["new", "cur"].map(|name| folder.join(name));
    if parts.iter().all(|part| part.is_dir()) { parts.to_vec() } else { vec![folder.to_owned()] }
}

/// The files right in a directory with the time of their last change, oldest first. Hidden ones are somebody's work in progress.
fn files(folder: &Path) -> io::Result<Vec<(SystemTime, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        match fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_file() && !is_hidden => files.push((metadata.modified()?, entry.path())),
            Ok(_) => {}
            // It was moved on meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    files.sort();
    Ok(files)
}

/// The same for a message of a Maildir before and after it is moved to `cur` and marked.
fn identity(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    match name.split_once(MAILDIR_MARKS) {
        Some((name, _)) if folder.ends_with("cur") => folder.with_file_name("new").join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files, each a second younger than the one before.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        names.iter().zip(0..).for_each(|(name, second)| add(folder.path(), name, second));
        folder
    }

    fn add(folder: &Path, name: &str, second: u64) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = fs::File::create(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second)).unwrap();
    }

    fn look(follower: &mut Follower, complete: Complete) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        follower.look(complete).unwrap().iter().map(name).collect()
    }

    #[test]
    fn files_are_given_once_and_oldest_first() {
        let folder = folder(&["b", "a", ".hidden", "inner/c"]);
        let mut follower = Follower::new(&[folder.path().to_owned()]).unwrap();
        assert_eq!(look(&mut follower, Complete::AtOnce), ["b", "a"]);
        add(folder.path(), "0", 10);
        assert_eq!(look(&mut follower, Complete::AtOnce), ["0"]);
        assert!(look(&mut follower, Complete::AtOnce).is_empty());
    }

    #[test]
    fn a_capture_is_complete_when_the_next_one_begins() {
        let folder = folder(&["1", "2"]);
        let mut follower = Follower::new(&[folder.path().to_owned()]).unwrap();
        assert_eq!(look(&mut follower, Complete::ByRotation), ["1"]);
        assert!(look(&mut follower, Complete::ByRotation).is_empty());
        add(folder.path(), "3", 10);
        assert_eq!(look(&mut follower, Complete::ByRotation), ["2"]);
        assert_eq!(look(&mut follower, Complete::AtOnce), ["3"], "at the end, the last one");
    }

    #[test]
    fn mail_that_is_read_is_not_new_again() {
        let folder = folder(&["new/1.a", "cur/0.b:2,S", "tmp/2.c"]);
        let mut follower = Follower::new(&[folder.path().to_owned()]).unwrap();
        assert_eq!(look(&mut follower, Complete::AtOnce), ["1.a", "0.b:2,S"]);
        fs::rename(folder.path().join("new/1.a"), folder.path().join("cur/1.a:2,")).unwrap();
        fs::rename(folder.path().join("cur/0.b:2,S"), folder.path().join("cur/0.b:2,RS")).unwrap();
        assert!(look(&mut follower, Complete::AtOnce).is_empty());
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let folder = folder(&["1", "2"]);
        let mut follower = Follower::new(&[folder.path().to_owned()]).unwrap();
        look(&mut follower, Complete::AtOnce);
        fs::remove_file(folder.path().join("1")).unwrap();
        look(&mut follower, Complete::AtOnce);
        assert_eq!(follower.taken.len(), 1);
    }

    #[test]
    fn only_directories_can_be_followed() {
        let folder = folder(&["1"]);
        let refused = Follower::new(&[folder.path().join("1")]).unwrap_err();
        assert!(refused.line().unwrap().ends_with("1: only directories can be followed"));
    }
}
