//! Follows directories: reads new files as they appear, until Ctrl-C.
//!
//! Directories are polled once a second. Polling needs no system service, works on every file system, and is fast
//! enough for rotated captures and for mail. Files that exist at the start count as new, unless they are in the list of
//! files already recorded. In a Maildir, `new` and `cur` are polled; in other directories, subdirectories are ignored.
//! An unreadable directory is reported and retried.
//!
//! A file that changes after it was read is read again from its beginning: rotation reuses names, and reading twice is
//! better than missing data.

mod taken;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub(crate) use taken::RecordedFiles;
use taken::Stamp;

use crate::stop;
use bruit_console::Failure;
use bruit_console::terminal::complain;

/// Polling interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of consecutive polls in which a file must be unchanged before [`Complete::ByRotation`] treats it as complete.
/// A newer file alone proves nothing, because two programs may write to one directory.
const QUIET_LOOKS: u32 = 3;

/// Rule that decides when a file is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complete {
    /// A file is complete as soon as it exists: mail is moved into its directory atomically.
    AtOnce,
    /// A file is complete once a newer file exists (as with `tcpdump -G` or `-C`) and the file itself has not changed
    /// for a while. After Ctrl-C, the newest file is complete, too.
    ByRotation,
}

/// Result of one poll in [`for_each`].
#[derive(Debug)]
pub(crate) enum News<'n> {
    /// A new, complete file.
    File(&'n Path),
    /// All new files have been passed on. Sent once a second.
    Idle,
}

/// Calls `work` with every file that appears in `folders`, oldest first, until Ctrl-C. Then calls `work` with the
/// remaining files.
pub(crate) fn for_each(
    folders: &[PathBuf],
    complete: Complete,
    mut work: impl FnMut(News<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for_each_since(RecordedFiles::default(), folders, complete, |news, _| work(news)).map(drop)
}

/// Like [`for_each`], but skips the files in the list `taken`. `work` also receives this list as it grows, and the
/// final list is returned.
pub(crate) fn for_each_since(
    taken: RecordedFiles,
    folders: &[PathBuf],
    complete: Complete,
    mut work: impl FnMut(News<'_>, &RecordedFiles) -> Result<(), Failure>,
) -> Result<RecordedFiles, Failure> {
    stop::watch()?;
    let mut follower = Follower::new(folders, taken)?;
    let mut is_asked = false;
    while !is_asked {
        for file in follower.look(complete) {
            if stop::is_over() {
                break;
            }
            work(News::File(&file.path), &follower.taken)?;
            follower.taken.insert(file.stamp);
        }
        work(News::Idle, &follower.taken)?;
        is_asked = stop::wait(INTERVAL);
    }
    for file in follower.look(Complete::AtOnce).into_iter().take_while(|_| !stop::is_late()) {
        work(News::File(&file.path), &follower.taken)?;
        follower.taken.insert(file.stamp);
    }
    if stop::is_late() {
        complain("stopped before all files were read; the next run reads the rest");
    }
    Ok(follower.taken)
}

/// Directories, and the files in them that have been returned.
#[derive(Debug)]
struct Follower {
    folders: Vec<PathBuf>,
    taken: RecordedFiles,
    /// Number of consecutive polls in which a file was unchanged.
    looks: BTreeMap<Stamp, u32>,
    /// Last error that was reported for the directories.
    reported_fault: Option<String>,
}

/// A file in a directory.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchedFile {
    modified: SystemTime,
    path: PathBuf,
    stamp: Stamp,
}

impl Follower {
    fn new(folders: &[PathBuf], taken: RecordedFiles) -> Result<Self, Failure> {
        if let Some(other) = folders.iter().find(|folder| !folder.is_dir()) {
            return Err(Failure::BadInput(format!("{}: only directories can be followed", other.display())));
        }
        let folders = folders.iter().flat_map(|folder| parts(folder)).collect();
        Ok(Self { folders, taken, looks: BTreeMap::new(), reported_fault: None })
    }

    /// Returns complete files that have not been returned before, oldest first.
    fn look(&mut self, complete: Complete) -> Vec<WatchedFile> {
        let mut there = BTreeMap::new();
        let mut ready = Vec::new();
        let mut fault = None;
        for folder in &self.folders {
            let mut found = files(folder).unwrap_or_else(|error| {
                fault = Some(format!("{}: {error}", folder.display()));
                Vec::new()
            });
            there.extend(found.iter().map(|file| (file.stamp, self.looks.get(&file.stamp).unwrap_or(&0) + 1)));
            if complete == Complete::ByRotation {
                found.pop();
                found.retain(|file| there.get(&file.stamp).is_some_and(|looks| *looks >= QUIET_LOOKS));
            }
            ready.extend(found);
        }
        if fault.is_none() {
            self.taken.retain(|stamp| there.contains_key(stamp));
        }
        self.looks = there;
        self.tell(fault);
        ready.sort();
        // A message that moves during the poll is found in both places.
        let mut given = BTreeSet::new();
        ready.retain(|file| !self.taken.contains(&file.stamp) && given.insert(file.stamp));
        ready
    }

    /// Reports an unreadable directory, once.
    fn tell(&mut self, fault: Option<String>) {
        if let Some(line) = fault.as_ref().filter(|line| self.reported_fault.as_ref() != Some(line)) {
            complain(line);
        }
        self.reported_fault = fault;
    }
}

/// Returns the directories that contain the files: two for a Maildir.
fn parts(folder: &Path) -> Vec<PathBuf> {
    // Messages move from `new` to `cur`, so polling in this order misses none.
    let parts = ["new", "cur"].map(|name| folder.join(name));
    if parts.iter().all(|part| part.is_dir()) { parts.to_vec() } else { vec![folder.to_owned()] }
}

/// Returns the files of a directory, oldest first. Hidden files are skipped, because they may be incomplete.
fn files(folder: &Path) -> io::Result<Vec<WatchedFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        match fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_file() && !is_hidden => {
                files.push(WatchedFile {
                    modified: metadata.modified()?,
                    path: entry.path(),
                    stamp: Stamp::of(&metadata),
                });
            }
            Ok(_) => {}
            // The file was moved during the poll.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder with files, each one second newer than the one before.
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

    fn follower(folder: &tempfile::TempDir) -> Follower {
        Follower::new(&[folder.path().to_owned()], RecordedFiles::default()).unwrap()
    }

    fn look(follower: &mut Follower, complete: Complete) -> Vec<String> {
        let found = follower.look(complete);
        let take = |file: WatchedFile| {
            follower.taken.insert(file.stamp);
            file.path.file_name().unwrap().to_string_lossy().into_owned()
        };
        found.into_iter().map(take).collect()
    }

    /// Returns the files that are complete once nothing has changed for long enough.
    fn look_for_long(follower: &mut Follower) -> Vec<String> {
        (0..QUIET_LOOKS).flat_map(|_| look(follower, Complete::ByRotation)).collect()
    }

    #[test]
    fn files_are_given_once_and_oldest_first() {
        let folder = folder(&["b", "a", ".hidden", "inner/c"]);
        let mut follower = follower(&folder);
        assert_eq!(look(&mut follower, Complete::AtOnce), ["b", "a"]);
        add(folder.path(), "0", 10);
        assert_eq!(look(&mut follower, Complete::AtOnce), ["0"]);
        assert!(look(&mut follower, Complete::AtOnce).is_empty());
    }

    #[test]
    fn a_capture_is_complete_when_the_next_one_begins() {
        let folder = folder(&["1", "2"]);
        let mut follower = follower(&folder);
        assert_eq!(look_for_long(&mut follower), ["1"]);
        assert!(look_for_long(&mut follower).is_empty());
        add(folder.path(), "3", 10);
        assert_eq!(look_for_long(&mut follower), ["2"]);
        assert_eq!(look(&mut follower, Complete::AtOnce), ["3"], "at the end, the last one");
    }

    #[test]
    fn a_capture_that_is_still_written_to_is_waited_for() {
        let folder = folder(&["1", "2"]);
        let mut follower = follower(&folder);
        for second in 0..10 {
            // Two programs are writing, one to each file.
            add(folder.path(), "1", 100 + second);
            add(folder.path(), "2", 101 + second);
            assert!(look(&mut follower, Complete::ByRotation).is_empty());
        }
        assert_eq!(look_for_long(&mut follower), ["1"]);
    }

    #[test]
    fn a_name_that_is_used_again_is_taken_again() {
        let folder = folder(&["0", "1", "2"]);
        let mut follower = follower(&folder);
        assert_eq!(look_for_long(&mut follower), ["0", "1"]);
        // Simulate the wrap-around of `tcpdump -C 100 -W 3`.
        add(folder.path(), "0", 10);
        assert_eq!(look_for_long(&mut follower), ["2"]);
        add(folder.path(), "1", 11);
        assert_eq!(look_for_long(&mut follower), ["0"]);
        assert_eq!(look(&mut follower, Complete::AtOnce), ["1"]);
    }

    #[test]
    fn what_grows_after_it_was_taken_is_taken_again() {
        let folder = folder(&["1", "2"]);
        let mut follower = follower(&folder);
        assert_eq!(look_for_long(&mut follower), ["1"]);
        fs::write(folder.path().join("1"), "more").unwrap();
        add(folder.path(), "3", 4_000_000_000);
        assert_eq!(look_for_long(&mut follower), ["2", "1"]);
    }

    #[test]
    fn mail_that_is_read_is_not_new_again() {
        let folder = folder(&["new/1.a", "cur/0.b:2,S", "tmp/2.c"]);
        let mut follower = follower(&folder);
        // Simulate a move between two polls.
        fs::hard_link(folder.path().join("new/1.a"), folder.path().join("cur/1.a:2,")).unwrap();
        assert_eq!(look(&mut follower, Complete::AtOnce), ["1.a:2,", "0.b:2,S"]);
        fs::rename(folder.path().join("new/1.a"), folder.path().join("cur/1.a:2,")).unwrap();
        fs::rename(folder.path().join("cur/0.b:2,S"), folder.path().join("cur/0.b:2,RS")).unwrap();
        assert!(look(&mut follower, Complete::AtOnce).is_empty());
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let folder = folder(&["1", "2"]);
        let mut follower = follower(&folder);
        look(&mut follower, Complete::AtOnce);
        fs::remove_file(folder.path().join("1")).unwrap();
        look(&mut follower, Complete::AtOnce);
        assert_eq!(follower.taken.len(), 1);
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_looked_at_again_and_nothing_is_forgotten() {
        let outer = folder(&["inner/1"]);
        let (inner, away) = (outer.path().join("inner"), outer.path().join("away"));
        let mut follower = Follower::new(std::slice::from_ref(&inner), RecordedFiles::default()).unwrap();
        assert_eq!(look(&mut follower, Complete::AtOnce), ["1"]);
        fs::rename(&inner, &away).unwrap();
        assert!(look(&mut follower, Complete::AtOnce).is_empty());
        assert!(follower.reported_fault.as_ref().is_some_and(|line| line.contains("inner: ")));
        fs::rename(&away, &inner).unwrap();
        add(&inner, "2", 5);
        assert_eq!(look(&mut follower, Complete::AtOnce), ["2"]);
        assert_eq!(follower.reported_fault, None);
    }

    #[test]
    fn what_a_list_has_is_not_taken_again() {
        let folder = folder(&["1", "2"]);
        let list = folder.path().join(".list");
        let mut first = follower(&folder);
        look(&mut first, Complete::AtOnce);
        first.taken.save(&list).unwrap();
        add(folder.path(), "3", 9);
        let taken = RecordedFiles::load(&list).unwrap();
        let mut second = Follower::new(&[folder.path().to_owned()], taken).unwrap();
        assert_eq!(look(&mut second, Complete::AtOnce), ["3"]);
    }

    #[test]
    fn only_directories_can_be_followed() {
        let folder = folder(&["1"]);
        let refused = Follower::new(&[folder.path().join("1")], RecordedFiles::default()).unwrap_err();
        assert!(refused.line().unwrap().ends_with("1: only directories can be followed"));
    }
}
