//! A read-only check of all checksums and sequences in a store's directory.
//!
//! No lock is needed, so a store in use can be checked. A write in progress counts as a torn tail.

use std::io;
use std::path::{Path, PathBuf};

use bruit_engine::codec::Malformed;

use crate::directory::{Listing, journal_file_name, snapshot_name};
use crate::founding::Founding;
use crate::header::HeaderFault;
use crate::journal_file::{JournalFileReader, Record, Snapshots, Step, is_damage};
use crate::recover::{Input, is_os_error, open_as_it_is};
use crate::snapshot::SnapshotReader;

/// Number of size classes of events. Class *n* contains events of 2^(n−1) to 2^n − 1 bytes.
pub const SIZE_CLASSES: usize = 18;

/// The reason why a directory could not be surveyed.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {}", path.display())]
pub struct SurveyError {
    /// The path that could not be read.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

/// A visitor of the events that a survey reads, for checks that need to decode them.
pub trait Observer {
    /// Visits one event. If this returns an error, the event's journal file is reported as faulty.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not an event.
    fn event(&mut self, sequence: u64, bytes: &[u8]) -> Result<(), Malformed> {
        let _ = (sequence, bytes);
        Ok(())
    }

    /// Called with the number of bytes read since the last call.
    fn progress(&mut self, bytes: u64) {
        let _ = bytes;
    }
}

/// Ignores all events.
impl Observer for () {}

/// The contents of a directory and their faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The realm of the founding file, or else of the first file with a readable header.
    pub realm: Option<[u8; 16]>,
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotSurvey>,
    /// The journal files, oldest first.
    pub journal_files: Vec<JournalFileSurvey>,
    /// Gaps: sequences that are in no journal file although later ones are.
    pub missing: Vec<MissingEvents>,
    /// Number of events in each size class; see [`SIZE_CLASSES`].
    pub event_sizes: [u64; SIZE_CLASSES],
    /// Incomplete files, which opening the store removes.
    pub temporary: Vec<String>,
    /// Files that repairs have cut off.
    pub cut: Vec<String>,
    /// Files that do not belong to the store.
    pub others: Vec<String>,
    /// Files that were removed during the survey, for example by the server that uses the store. Events in these files
    /// may be reported as missing by mistake.
    pub went: Vec<String>,
}

/// A fault of a file. Its text follows the name of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// The contents of the file are corrupt.
    #[error("is damaged: {0}")]
    Damaged(String),
    /// The file belongs to another store.
    #[error("belongs to another realm")]
    OtherRealm,
    /// The file cannot be read, or has a later version. Its contents may be intact.
    #[error("cannot be read: {0}")]
    Unreadable(String),
}

impl From<io::Error> for FileFault {
    fn from(error: io::Error) -> Self {
        if is_os_error(&error) { Self::Unreadable(error.to_string()) } else { Self::Damaged(error.to_string()) }
    }
}

impl From<HeaderFault> for FileFault {
    fn from(fault: HeaderFault) -> Self {
        match fault {
            HeaderFault::Version(_) => Self::Unreadable(fault.to_string()),
            other => Self::Damaged(other.to_string()),
        }
    }
}

/// The survey of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSurvey {
    /// Name of the file.
    pub file: String,
    /// The last event in the snapshot.
    pub sequence: u64,
    /// The length of the file.
    pub bytes: u64,
    /// Number of bytes of state in the intact blocks.
    pub state_bytes: u64,
    /// Number of intact blocks.
    pub blocks: u32,
    /// The fault of the file, if any.
    pub fault: Option<FileFault>,
}

/// The survey of a journal file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalFileSurvey {
    /// Name of the file.
    pub file: String,
    /// The sequence of the first event in the file.
    pub first: u64,
    /// The sequence after the last event in the file.
    pub next: u64,
    /// The length of the file.
    pub bytes: u64,
    /// Number of intact records before any fault.
    pub records: u64,
    /// Number of bytes of events in the intact records.
    pub event_bytes: u64,
    /// Number of bytes of an unfinished write at the end of the file.
    pub torn_bytes: u64,
    /// The fault of the file, if any.
    pub fault: Option<JournalFileFault>,
}

impl JournalFileSurvey {
    /// Returns the number of intact events in the file, before any fault.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.next - self.first
    }
}

/// The fault of a journal file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFileFault {
    /// The offset of the bad record.
    pub offset: u64,
    /// The fault.
    pub fault: FileFault,
}

/// A gap in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingEvents {
    /// The first missing sequence.
    pub first: u64,
    /// The last missing sequence.
    pub last: u64,
    /// True if an intact snapshot contains the missing events, so that nothing is lost.
    pub in_snapshot: bool,
}

impl Survey {
    /// Returns the sequence of the newest snapshot without a fault.
    #[must_use]
    pub fn newest_sound_snapshot(&self) -> Option<u64> {
        self.snapshots.iter().rev().find(|snapshot| snapshot.fault.is_none()).map(|snapshot| snapshot.sequence)
    }

    /// Returns the sequence of the last event in the store.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        let journal = self.journal_files.last().map_or(0, |journal_file| journal_file.next - 1);
        journal.max(self.newest_sound_snapshot().unwrap_or(0))
    }
}

/// Returns the number of bytes that [`survey`] will read, for a progress bar.
///
/// # Errors
/// [`SurveyError`] if the directory cannot be listed.
pub fn total_bytes(directory: &Path) -> Result<u64, SurveyError> {
    let listing = list(directory)?;
    let journal_files = listing.journal_files.iter().map(|&first| journal_file_name(first));
    let names = journal_files.chain(listing.snapshots.iter().map(|&sequence| snapshot_name(sequence)));
    Ok(names.filter_map(|name| directory.join(name).metadata().ok()).map(|metadata| metadata.len()).sum())
}

/// Reads and checks everything in a directory, and changes nothing.
///
/// # Errors
/// [`SurveyError`] if the directory cannot be read. Faults of the files are in the [`Survey`].
pub fn survey(directory: &Path, observer: &mut dyn Observer) -> Result<Survey, SurveyError> {
    let listing = list(directory)?;
    // A fault of the founding file is reported by the code that needs the file.
    let realm = Founding::read(directory).ok().flatten().map(|founding| founding.realm.id().0);
    let mut surveyor = Surveyor { directory, observer, newest: 0, survey: Survey { realm, ..Survey::default() } };
    for &sequence in &listing.snapshots {
        surveyor.snapshot(sequence)?;
    }
    let newest = ours(&surveyor.survey.snapshots).map(|snapshot| snapshot.sequence).max().unwrap_or(0);
    surveyor.newest = newest;
    let last = listing.journal_files.last().copied();
    for &first in &listing.journal_files {
        surveyor.journal_file(first, Some(first) == last)?;
    }
    let Survey { journal_files, snapshots, .. } = &surveyor.survey;
    let missing = gaps(journal_files, snapshots, newest, surveyor.survey.newest_sound_snapshot());
    let Listing { temporary, cut, others, .. } = listing;
    Ok(Survey { missing, temporary, cut, others, ..surveyor.survey })
}

fn list(directory: &Path) -> Result<Listing, SurveyError> {
    Listing::read(directory).map_err(|source| SurveyError { path: directory.to_owned(), source })
}

/// Returns the sequences that are in no journal file: those between two files, those before the first file, and those
/// whose existence only a snapshot proves.
fn gaps(
    journal_files: &[JournalFileSurvey],
    snapshots: &[SnapshotSurvey],
    newest: u64,
    sound: Option<u64>,
) -> Vec<MissingEvents> {
    // Events before the oldest snapshot are not needed.
    let mut due = ours(snapshots).next().map_or(1, |snapshot| snapshot.sequence.saturating_add(1));
    if ours(snapshots).all(|snapshot| snapshot.fault.is_some()) {
        due = 1;
    }
    let mut missing = Vec::new();
    let mut miss = |first: u64, last: u64| {
        let in_snapshot = sound.is_some_and(|sequence| last <= sequence);
        missing.push(MissingEvents { first, last, in_snapshot });
    };
    // Events after the fault of a journal file are damaged, not missing.
    let mut after_fault = false;
    for journal_file in journal_files {
        if journal_file.first > due && !after_fault {
            miss(due, journal_file.first - 1);
        }
        after_fault = journal_file.fault.is_some();
        due = due.max(journal_file.next);
    }
    if due <= newest && !after_fault {
        miss(due, newest);
    }
    missing
}

/// Returns the snapshots that do not belong to another realm.
fn ours(snapshots: &[SnapshotSurvey]) -> impl Iterator<Item = &SnapshotSurvey> {
    snapshots.iter().filter(|snapshot| snapshot.fault != Some(FileFault::OtherRealm))
}

struct Surveyor<'a> {
    directory: &'a Path,
    observer: &'a mut dyn Observer,
    /// The sequence of the newest snapshot, intact or not.
    newest: u64,
    survey: Survey,
}

impl Surveyor<'_> {
    /// Returns the sequences of the newest snapshots. All snapshots must have been checked before.
    fn snapshots(&self) -> Snapshots {
        Snapshots { newest: self.newest, sound: self.survey.newest_sound_snapshot().unwrap_or(0) }
    }

    fn open(&mut self, file: &str) -> Result<Option<(Input, u64)>, SurveyError> {
        let path = self.directory.join(file);
        match open_as_it_is(&path) {
            Ok(opened) => Ok(Some(opened)),
            // A store in use removes obsolete files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.survey.went.push(file.to_owned());
                Ok(None)
            }
            Err(source) => Err(SurveyError { path, source }),
        }
    }

    /// Returns true if a file belongs to a different realm from the files before it.
    fn is_other_realm(&mut self, realm: [u8; 16]) -> bool {
        *self.survey.realm.get_or_insert(realm) != realm
    }

    fn snapshot(&mut self, sequence: u64) -> Result<(), SurveyError> {
        let file = snapshot_name(sequence);
        let Some((input, bytes)) = self.open(&file)? else { return Ok(()) };
        let mut found = SnapshotSurvey { file, sequence, bytes, ..SnapshotSurvey::default() };
        found.fault = self.snapshot_fault(input, &mut found).err();
        self.survey.snapshots.push(found);
        Ok(())
    }

    fn snapshot_fault(&mut self, input: Input, found: &mut SnapshotSurvey) -> Result<(), FileFault> {
        let mut reader = SnapshotReader::open(input)??;
        if self.is_other_realm(reader.header().realm) {
            return Err(FileFault::OtherRealm);
        }
        let sequence = reader.header().sequence;
        if sequence != found.sequence {
            return Err(FileFault::Damaged(format!(
                "its header names event {sequence}, which differs from the file name"
            )));
        }
        let checked = reader.check(|bytes| self.observer.progress(bytes));
        (found.blocks, found.state_bytes) = reader.read_so_far();
        Ok(checked?)
    }

    fn journal_file(&mut self, first: u64, is_last: bool) -> Result<(), SurveyError> {
        let file = journal_file_name(first);
        let Some((input, bytes)) = self.open(&file)? else { return Ok(()) };
        let mut found = JournalFileSurvey { file, first, next: first, bytes, ..JournalFileSurvey::default() };
        found.fault = self
            .journal_file_fault(input, &mut found, is_last)
            .unwrap_or_else(|source| Some(JournalFileFault { offset: 0, fault: source.into() }));
        self.survey.journal_files.push(found);
        Ok(())
    }

    fn journal_file_fault(
        &mut self,
        input: Input,
        found: &mut JournalFileSurvey,
        is_last: bool,
    ) -> io::Result<Option<JournalFileFault>> {
        let whole_file = |fault| Ok(Some(JournalFileFault { offset: 0, fault }));
        let mut reader = match JournalFileReader::open(input)? {
            Ok(reader) => reader,
            Err(fault) => return whole_file(fault.into()),
        };
        if self.is_other_realm(reader.header().realm) {
            return whole_file(FileFault::OtherRealm);
        }
        let sequence = reader.header().sequence;
        if sequence != found.first {
            return whole_file(FileFault::Damaged(format!(
                "its header names event {sequence} as the first, which differs from the file name"
            )));
        }
        let damaged = |offset, reason| Ok(Some(JournalFileFault { offset, fault: FileFault::Damaged(reason) }));
        loop {
            let offset = reader.offset();
            let fault = match reader.step()? {
                Step::End => return Ok(None),
                Step::Bad(fault) => fault,
                Step::Record(record) => match self.record(&record, found) {
                    Ok(()) => continue,
                    Err(error) => return damaged(offset, error.to_string()),
                },
            };
            if is_last && !is_damage(&mut reader, fault, self.snapshots())? {
                found.torn_bytes = found.bytes.saturating_sub(offset);
                return Ok(None);
            }
            return damaged(offset, fault.to_string());
        }
    }

    fn record(&mut self, record: &Record<'_>, found: &mut JournalFileSurvey) -> Result<(), Malformed> {
        for (sequence, bytes) in record.events() {
            self.observer.event(sequence, bytes)?;
            let class = (usize::BITS - bytes.len().leading_zeros()) as usize;
            if let Some(count) = self.survey.event_sizes.get_mut(class) {
                *count += 1;
            }
            found.event_bytes += bytes.len() as u64;
        }
        found.records += 1;
        found.next = record.header.last() + 1;
        self.observer.progress(record.header.record_bytes());
        Ok(())
    }
}
