//! The logs of a shelf as files in a folder.
//!
//! A log is a file; its path names the chain. Segments of our own chains are written and synced before the journal
//! records that they are sealed. So after a crash, a log may be longer than the chain's frontier, but never shorter.
//! Segments of other servers are written without a sync. If a crash removes the end of such a log, the log is no longer
//! forwarded; nothing else depends on it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bruit_engine::exchange::{Chain, INCARNATIONS_MAX, MEMBERS_MAX, Origin};

use super::{Logs, ShelfError};
use crate::heads::HEADS_BYTES_MAX;
use crate::transport::paths;

/// Permissions of folders: only their owner may read them, because the logs of a cluster contain every claim.
const FOLDER_MODE: u32 = 0o700;
/// Permissions of files, for the same reason.
const FILE_MODE: u32 = 0o600;

/// Number of names in the path of a log.
const PATH_PARTS: usize = 5;

/// The folder of signed heads.
const HEADS: &str = "heads";
/// Name of the file into which new heads are written before it is renamed.
const UNFINISHED: &str = "unfinished";
/// Name of a file written to test whether the folder is writable.
const PROBE: &str = "probe";
/// Size of the probe file: a page, because full file systems may still accept a few bytes.
const PROBE_BYTES: usize = 4096;
/// Maximum number of heads files to read: two for each incarnation of each server, because some heads are stored in two
/// versions.
const HEADS_FILES_MAX: usize = 2 * (MEMBERS_MAX + 2) * INCARNATIONS_MAX;

/// A folder of logs.
#[derive(Debug)]
pub struct LogFolder {
    directory: PathBuf,
}

impl LogFolder {
    /// Opens the folder, which is created if it does not exist.
    ///
    /// # Errors
    /// An I/O error if it cannot be created.
    pub fn open(directory: &Path) -> io::Result<Self> {
        make_folder(directory)?;
        Ok(Self::at(directory))
    }

    /// Returns a folder that may be missing; all operations fail until it exists.
    #[must_use]
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Returns the paths of all files at the depth of logs.
    fn files(&self) -> io::Result<Vec<String>> {
        let mut paths = vec![String::new()];
        for _ in 0..PATH_PARTS {
            let mut deeper = Vec::new();
            for path in paths {
                // A file instead of a directory, or a directory removed meanwhile, contains no logs.
                let Ok(entries) = fs::read_dir(self.directory.join(&path)) else { continue };
                for entry in entries {
                    let Ok(name) = entry?.file_name().into_string() else { continue };
                    deeper.push(if path.is_empty() { name } else { format!("{path}/{name}") });
                }
            }
            paths = deeper;
        }
        Ok(paths)
    }

    /// Syncs the directories above a new file, so that it survives a crash.
    fn sync_directories(&self, path: &Path) -> io::Result<()> {
        for above in path.ancestors().skip(1) {
            File::open(above)?.sync_all()?;
            if above == self.directory {
                break;
            }
        }
        Ok(())
    }
}

impl Logs for LogFolder {
    fn check(&self) -> io::Result<()> {
        make_folder(&self.directory)?;
        let probe = self.directory.join(PROBE);
        let written = write(&probe, &[0; PROBE_BYTES]);
        let removed = fs::remove_file(&probe);
        written.and(removed)
    }

    fn put(&self, chain: &Chain, offset: u64, segment: &[u8], sync: bool) -> Result<(), ShelfError> {
        let path = self.directory.join(paths::log(chain));
        let failed = |source| ShelfError::Io { log: path.display().to_string(), source };
        let (mut file, is_new) = open_log(&path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if length < offset {
            return Err(ShelfError::Gap { log: path.display().to_string(), length, offset });
        }
        write_at(&mut file, offset, length, segment, sync).map_err(failed)?;
        if is_new && sync {
            self.sync_directories(&path).map_err(failed)?;
        }
        Ok(())
    }

    fn read(&self, chain: &Chain, offset: u64, end: u64, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let mut file = match File::open(self.directory.join(paths::log(chain))) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = end.saturating_sub(offset).min(bytes_max as u64);
        let mut bytes = Vec::new();
        if length == 0 {
            return Ok(Some(bytes));
        }
        file.seek(SeekFrom::Start(offset))?;
        file.take(length).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn put_heads(&self, origin: &Origin, is_public: bool, bytes: &[u8]) -> io::Result<()> {
        let folder = self.directory.join(HEADS);
        make_folder(&folder)?;
        let books = if is_public { "public" } else { "all" };
        let name = format!("{}-{books}", heads_name(origin));
        let unfinished = folder.join(UNFINISHED);
        // Write without a sync, because heads change every second. Only a crash of the system can lose the last heads;
        // a crash of the process cannot.
        write(&unfinished, bytes)?;
        fs::rename(unfinished, folder.join(name))
    }

    fn heads(&self) -> io::Result<Vec<Vec<u8>>> {
        let Ok(entries) = fs::read_dir(self.directory.join(HEADS)) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for entry in entries.take(HEADS_FILES_MAX) {
            let path = entry?.path();
            if fs::metadata(&path)?.len() <= HEADS_BYTES_MAX as u64 {
                all.push(fs::read(path)?);
            }
        }
        Ok(all)
    }

    fn tidy_heads(&self, keep: &dyn Fn(&Origin) -> bool) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(self.directory.join(HEADS)) else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let origin = entry.file_name().to_str().and_then(origin_of);
            if origin.is_some_and(|origin| !keep(&origin)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn length(&self, chain: &Chain) -> io::Result<u64> {
        match fs::metadata(self.directory.join(paths::log(chain))) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, chain: &Chain) -> io::Result<()> {
        match fs::remove_file(self.directory.join(paths::log(chain))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn tidy(&self, keep: &dyn Fn(&Chain) -> bool) -> io::Result<usize> {
        let mut removed = 0;
        for path in self.files()? {
            let is_over = paths::chain(&path).is_some_and(|chain| !keep(&chain));
            if is_over {
                let file = self.directory.join(&path);
                fs::remove_file(&file)?;
                removed += 1;
                // Stops at the first directory that is not empty.
                let above = file.ancestors().skip(1).take_while(|path| *path != self.directory);
                above.map(fs::remove_dir).take_while(Result::is_ok).for_each(drop);
            }
        }
        Ok(removed)
    }
}

/// Returns the name of the file for an origin's heads.
fn heads_name(origin: &Origin) -> String {
    format!("{}-{}", paths::digits(&origin.key), origin.incarnation)
}

/// Returns the origin whose heads are in a file of this name.
fn origin_of(name: &str) -> Option<Origin> {
    let mut parts = name.split('-');
    let key = paths::bytes(parts.next()?, 32)?.try_into().ok()?;
    Some(Origin { key, incarnation: parts.next()?.parse().ok()? })
}

/// Creates a folder and its missing parents, for the server alone.
fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

/// Writes a complete file, for the server alone.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().create(true).truncate(true).write(true).mode(FILE_MODE).open(path)?.write_all(bytes)
}

/// Opens a log, creating it if necessary. The bool is true if it is new.
fn open_log(path: &Path) -> io::Result<(File, bool)> {
    let is_new = !path.exists();
    if let Some(directory) = path.parent().filter(|_| is_new) {
        make_folder(directory)?;
    }
    Ok((OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(FILE_MODE).open(path)?, is_new))
}

fn write_at(file: &mut File, offset: u64, length: u64, segment: &[u8], sync: bool) -> io::Result<()> {
    if length > offset {
        file.set_len(offset)?;
    }
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(segment)?;
    if sync { file.sync_data() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use bruit_engine::exchange::Book;

    use super::*;

    fn chain(generation: u64) -> Chain {
        Chain { origin: Origin { key: [0xab; 32], incarnation: 7 }, book: Book::Listed, generation }
    }

    #[test]
    fn bytes_left_by_a_crash_are_cut_off_and_a_gap_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = LogFolder::open(&directory.path().join("shelf")).unwrap();
        assert_eq!(shelf.read(&chain(1), 0, 100, 100).unwrap(), None);
        shelf.put(&chain(1), 0, b"first", true).unwrap();
        shelf.put(&chain(1), 5, b"never sealed", true).unwrap();
        shelf.put(&chain(1), 5, b"second", true).unwrap();
        assert_eq!(shelf.read(&chain(1), 0, 100, 100).unwrap().unwrap(), b"firstsecond");
        assert_eq!(shelf.read(&chain(1), 3, 9, 100).unwrap().unwrap(), b"stseco");
        assert_eq!(shelf.read(&chain(1), 3, 100, 2).unwrap().unwrap(), b"st");
        assert!(shelf.read(&chain(1), 90, 100, 2).unwrap().unwrap().is_empty());
        let gap = shelf.put(&chain(1), 12, b"third", false);
        assert!(matches!(gap, Err(ShelfError::Gap { length: 11, offset: 12, .. })));
        assert_eq!(shelf.length(&chain(1)).unwrap(), 11);
    }

    #[test]
    fn a_shelf_that_is_no_folder_fails_its_check_until_it_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("shelf");
        fs::write(&place, b"in the way").unwrap();
        let shelf = LogFolder::at(&place);
        assert!(shelf.check().is_err() && shelf.put(&chain(1), 0, b"x", true).is_err());
        fs::remove_file(&place).unwrap();
        shelf.check().unwrap();
        shelf.put(&chain(1), 0, b"x", true).unwrap();
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1, "the probe is gone");
    }

    #[test]
    fn everything_on_the_shelf_is_for_the_server_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let shelf = LogFolder::open(&directory.path().join("shelf")).unwrap();
        shelf.put(&chain(1), 0, b"log", false).unwrap();
        shelf.put_heads(&chain(1).origin, true, b"heads").unwrap();
        let (mut folders, mut modes) = (vec![directory.path().to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let metadata = entry.metadata().unwrap();
                modes.push((metadata.is_dir(), metadata.permissions().mode() & 0o777));
                folders.extend(metadata.is_dir().then(|| entry.path()));
            }
        }
        assert!(modes.iter().all(|mode| [(true, 0o700), (false, 0o600)].contains(mode)), "{modes:?}");
        assert_eq!(modes.iter().filter(|(is_folder, _)| !is_folder).count(), 2);
    }

    #[test]
    fn expired_logs_are_removed_with_their_directories_and_other_files_stay() {
        let directory = tempfile::tempdir().unwrap();
        let shelf = LogFolder::open(directory.path()).unwrap();
        for generation in 1..=3 {
            shelf.put(&chain(generation), 0, b"log", false).unwrap();
        }
        fs::write(directory.path().join("notes"), b"mine").unwrap();
        assert_eq!(shelf.tidy(&|chain| chain.generation > 1).unwrap(), 1);
        assert_eq!((shelf.length(&chain(1)).unwrap(), shelf.length(&chain(2)).unwrap()), (0, 3));
        assert_eq!(shelf.tidy(&|_| false).unwrap(), 2);
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["notes"]);
    }
}
