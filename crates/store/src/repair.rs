//! Repair of a damaged journal. Everything after the damage is cut off, kept in separate files, and reported.
//!
//! Every step can be repeated, because the part to cut is on disk under its new name before anything is removed.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::directory::{CUT_PREFIX, Listing, Lock, LockError, TEMPORARY_PREFIX, journal_file_name};
use crate::disk::{Disk, SystemDisk};
use crate::founding::FOUNDING_FILE;
use crate::header::{Header, Kind};
use crate::journal_file::{JournalFileReader, Step, last_behind};
use crate::recover::READ_BYTES;
use crate::survey::{Survey, SurveyError, survey};

/// The reason why nothing was cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The store is in use.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The directory could not be read.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// An I/O operation failed.
    #[error("failed to cut {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The directory does not contain a store.
    #[error("{} is not a store directory", directory.display())]
    NoStore {
        /// The directory.
        directory: PathBuf,
    },
    /// The store can be opened as it is. A cut would lose events.
    #[error(
        "the store opens without a cut; a cut in {journal_file} would lose events {first} to {last}; use --force to \
         cut anyway"
    )]
    Needless {
        /// The journal file.
        journal_file: String,
        /// The first event that would be lost.
        first: u64,
        /// The last known event.
        last: u64,
    },
    /// No journal file was named, and none is damaged.
    #[error("no journal file is damaged; name the one to cut")]
    NothingDamaged,
    /// The named journal file does not exist.
    #[error("there is no journal file {journal_file}")]
    NoSuchJournalFile {
        /// The given name.
        journal_file: String,
    },
    /// No record begins at the offset, so a cut there would split a record.
    #[error("no intact record ends at byte {offset} of {journal_file}; the last one before that ends at byte {before}")]
    NoBoundary {
        /// The journal file.
        journal_file: String,
        /// The given offset.
        offset: u64,
        /// The last record boundary before the offset.
        before: u64,
    },
}

/// A report on a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// The journal file that was cut.
    pub journal_file: String,
    /// The offset of the cut.
    pub offset: u64,
    /// The files in the same directory that contain the removed parts.
    pub cut_files: Vec<String>,
    /// Number of bytes removed.
    pub cut_bytes: u64,
    /// The last event still in the journal.
    pub kept_up_to: u64,
    /// The last event found after the cut, or known to have been there.
    pub cut_up_to: Option<u64>,
    /// The first and last event known to be lost. Events after the cut are lost if no intact snapshot contains them.
    pub lost: Option<(u64, u64)>,
    /// True if all lost events are known. They are not all known if the journal ended with unreadable bytes or with a
    /// truncated file.
    pub is_all: bool,
}

/// Cuts `journal_file` (by default the damaged one) at byte `offset`. Everything after the offset, including later
/// journal files, is moved into files whose names begin with `cut-`. With `force`, cuts even if the store could be
/// opened without losing events.
///
/// # Errors
/// [`RepairError`] if the store is in use or needs no cut, or if there is no record boundary at `offset`.
pub fn repair(
    directory: &Path,
    journal_file: Option<&str>,
    offset: u64,
    force: bool,
) -> Result<RepairReport, RepairError> {
    // The survey comes before the lock, which would create a file in a directory without a store.
    let looked = survey(directory, &mut ())?;
    if looked.journal_files.is_empty() && looked.snapshots.is_empty() && !directory.join(FOUNDING_FILE).exists() {
        return Err(RepairError::NoStore { directory: directory.to_owned() });
    }
    choose(&looked, journal_file)?;
    let _lock = Lock::take(directory)?;
    let survey = survey(directory, &mut ())?;
    let first = choose(&survey, journal_file)?;
    let path = directory.join(journal_file_name(first));
    let io = |source| RepairError::Io { path: path.clone(), source };
    let place = Place::find(&path, first, survey.realm, offset).map_err(io)?;
    if place.offset != offset {
        return Err(RepairError::NoBoundary { journal_file: journal_file_name(first), offset, before: place.offset });
    }
    let later: Vec<u64> =
        survey.journal_files.iter().map(|journal_file| journal_file.first).filter(|&other| other > first).collect();
    let (cut_up_to, is_all) = place.known_up_to(directory, &survey, &later).map_err(io)?;
    let safe = place.kept_up_to.max(survey.newest_sound_snapshot().unwrap_or(0));
    let lost = cut_up_to.filter(|&last| last > safe).map(|last| (safe + 1, last));
    if let Some((first_lost, last)) = lost.filter(|_| !force && survey.opens()) {
        return Err(RepairError::Needless { journal_file: journal_file_name(first), first: first_lost, last });
    }
    let cut = Cut { directory, disk: &SystemDisk, files: Vec::new(), bytes: 0 };
    let cut = cut.run(first, offset, &later).map_err(io)?;
    Ok(RepairReport {
        journal_file: journal_file_name(first),
        offset,
        cut_files: cut.files,
        cut_bytes: cut.bytes,
        kept_up_to: place.kept_up_to,
        cut_up_to,
        lost,
        is_all,
    })
}

/// Returns the first sequence of the journal file to cut: the file named `wanted`, or else a damaged one.
fn choose(survey: &Survey, wanted: Option<&str>) -> Result<u64, RepairError> {
    let mut journal_files = survey.journal_files.iter();
    let mut damaged = survey.journal_files.iter().filter(|journal_file| journal_file.fault.is_some());
    let needed =
        survey.journal_files.iter().skip(survey.first_needed()).find(|journal_file| journal_file.fault.is_some());
    let found = match wanted {
        Some(name) => journal_files.find(|journal_file| journal_file.file == name),
        // Damage in files that a snapshot covers does not matter.
        None => needed.or_else(|| damaged.next()),
    };
    found.map(|journal_file| journal_file.first).ok_or_else(|| match wanted {
        Some(name) => RepairError::NoSuchJournalFile { journal_file: name.to_owned() },
        None => RepairError::NothingDamaged,
    })
}

/// A position at which a journal file can be cut.
struct Place {
    offset: u64,
    kept_up_to: u64,
    /// The last known event of the file, if it is after the cut.
    cut_up_to: Option<u64>,
    /// True if the file ends with its last known record.
    is_all: bool,
}

impl Place {
    /// Finds the last possible position up to `wanted`. This may be the beginning of the file, and then none of it is
    /// kept. If the header is damaged, its values are taken from the name of the file and the realm.
    fn find(path: &Path, first: u64, realm: Option<[u8; 16]>, wanted: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut place = Self { offset: 0, kept_up_to: first - 1, cut_up_to: None, is_all: false };
        let mut reader = match JournalFileReader::open(BufReader::with_capacity(READ_BYTES, file))? {
            Ok(mut reader) => {
                place.advance(&mut reader, wanted)?;
                reader
            }
            Err(_) => {
                let Some(realm) = realm else { return Ok(place) };
                let header = Header { kind: Kind::Journal, realm, sequence: first };
                JournalFileReader::assume(BufReader::with_capacity(READ_BYTES, File::open(path)?), header)
            }
        };
        // Find the last event of the intact records, and after that the last event of any valid records behind the
        // damage.
        let read = (reader.next() - 1, reader.offset());
        let (last, end) = last_behind(&mut reader)?.unwrap_or(read).max(read);
        place.cut_up_to = Some(last).filter(|&last| last > place.kept_up_to);
        place.is_all = end == length;
        Ok(place)
    }

    fn advance(&mut self, reader: &mut JournalFileReader<BufReader<File>>, wanted: u64) -> io::Result<()> {
        while reader.offset() <= wanted {
            (self.offset, self.kept_up_to) = (reader.offset(), reader.next() - 1);
            if !matches!(reader.step()?, Step::Record(_)) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the last known event after the cut, in this or a later journal file, and whether it is certainly the
    /// last one.
    fn known_up_to(&self, directory: &Path, survey: &Survey, later: &[u64]) -> io::Result<(Option<u64>, bool)> {
        let Some(&last) = later.last() else { return Ok((self.cut_up_to, self.is_all)) };
        // A journal file is created only when all earlier events are on disk.
        let proven = self.cut_up_to.max(Some(last - 1)).filter(|&last| last > self.kept_up_to);
        let torn = survey.journal_files.last().is_some_and(|journal_file| journal_file.torn_bytes > 0);
        let behind = Self::find(&directory.join(journal_file_name(last)), last, survey.realm, 0)?;
        Ok((proven.max(behind.cut_up_to), behind.is_all || torn))
    }
}

/// A cut in progress.
struct Cut<'a> {
    directory: &'a Path,
    disk: &'a dyn Disk,
    files: Vec<String>,
    bytes: u64,
}

impl Cut<'_> {
    fn run(mut self, first: u64, offset: u64, later: &[u64]) -> io::Result<Self> {
        let path = self.directory.join(journal_file_name(first));
        if offset > 0 && offset < path.metadata()?.len() {
            self.copy_tail(first, offset)?;
        }
        // Move the newest file first, so that an interruption leaves no gap in the journal.
        for &journal_file in later.iter().rev() {
            self.move_away(journal_file)?;
        }
        if offset > 0 {
            let mut file = self.disk.append(&path)?;
            file.set_len(offset)?;
            file.sync()?;
        } else {
            self.move_away(first)?;
        }
        self.disk.sync_directory(self.directory)?;
        self.files.sort_unstable();
        Ok(self)
    }

    /// Copies everything after `offset` into a separate file.
    fn copy_tail(&mut self, first: u64, offset: u64) -> io::Result<()> {
        let mut input = File::open(self.directory.join(journal_file_name(first)))?;
        input.seek(SeekFrom::Start(offset))?;
        let name = self.free_name(&format!("{CUT_PREFIX}{offset}-{}", journal_file_name(first)))?;
        let temporary = self.directory.join(format!("{TEMPORARY_PREFIX}{name}"));
        let mut output = self.disk.create(&temporary)?;
        let mut piece = Vec::new();
        while input.by_ref().take(READ_BYTES as u64).read_to_end(&mut piece)? > 0 {
            output.write_all(&piece)?;
            self.bytes += piece.len() as u64;
            piece.clear();
        }
        output.sync()?;
        self.disk.rename(&temporary, &self.directory.join(&name))?;
        self.disk.sync_directory(self.directory)?;
        self.files.push(name);
        Ok(())
    }

    fn move_away(&mut self, first: u64) -> io::Result<()> {
        let path = self.directory.join(journal_file_name(first));
        let name = self.free_name(&format!("{CUT_PREFIX}{}", journal_file_name(first)))?;
        self.bytes += path.metadata()?.len();
        self.disk.rename(&path, &self.directory.join(&name))?;
        self.disk.sync_directory(self.directory)?;
        self.files.push(name);
        Ok(())
    }

    /// Returns a name that no earlier repair has used.
    fn free_name(&self, wanted: &str) -> io::Result<String> {
        let taken = Listing::read(self.directory)?.cut;
        let names = std::iter::once(wanted.to_owned()).chain((2..).map(|number| format!("{wanted}-{number}")));
        Ok(names.into_iter().find(|name| !taken.contains(name)).unwrap_or_default())
    }
}
