//! A directory looked at: every checksum, every sequence, and nothing touched.
//!
//! No lock is taken, so a store in use can be looked at as well; what it is writing at that moment counts as torn.

use std::io;
use std::path::{Path, PathBuf};

use bruit_engine::codec::Malformed;

use crate::directory::{Listing, segment_name, snapshot_name};
use crate::format::HeaderFault;
use crate::founding::Founding;
use crate::recover::{Input, is_of_the_system, open_as_it_is};
use crate::segment::{Record, SegmentReader, Snapshots, Step, is_damage};
use crate::snapshot::SnapshotReader;

/// Into how many classes events are sorted by size: class *n* has those of 2^(n−1) to 2^n − 1 bytes.
pub const SIZE_CLASSES: usize = 18;

/// Why a directory could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {}", path.display())]
pub struct SurveyError {
    /// What could not be read.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Who sees the events as a survey passes them. This is the place for what needs a machine to be understood.
pub trait Observer {
    /// One event; an error makes its segment faulty.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no event.
    fn event(&mut self, sequence: u64, bytes: &[u8]) -> Result<(), Malformed> {
        let _ = (sequence, bytes);
        Ok(())
    }

    /// So many bytes more of the files were read.
    fn progress(&mut self, bytes: u64) {
        let _ = bytes;
    }
}

/// Looks at nothing.
impl Observer for () {}

/// What is in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The realm of the founding, or else of the first file that tells one.
    pub realm: Option<[u8; 16]>,
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotSurvey>,
    /// The segments of the journal, oldest first.
    pub segments: Vec<SegmentSurvey>,
    /// Sequences that are in no segment though later ones are.
    pub missing: Vec<Missing>,
    /// How many events have which size, see [`SIZE_CLASSES`].
    pub event_sizes: [u64; SIZE_CLASSES],
    /// Files that were never finished; opening the store removes them.
    pub temporary: Vec<String>,
    /// What repairs have cut off.
    pub cut: Vec<String>,
    /// Files that are not the store's.
    pub others: Vec<String>,
    /// Files that were removed before they could be read, as a store in use does: what is missing then may not be.
    pub went: Vec<String>,
}

/// What is wrong with a file; reads well behind its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// Its bytes have changed.
    #[error("is damaged: {0}")]
    Damaged(String),
    /// It is of another store.
    #[error("belongs to another realm")]
    OtherRealm,
    /// The system refuses, or the file is of a later version; nothing is known to be wrong with it.
    #[error("cannot be read: {0}")]
    Unreadable(String),
}

impl From<io::Error> for FileFault {
    fn from(error: io::Error) -> Self {
        if is_of_the_system(&error) { Self::Unreadable(error.to_string()) } else { Self::Damaged(error.to_string()) }
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

/// One snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSurvey {
    /// Its name.
    pub file: String,
    /// The last event it holds.
    pub sequence: u64,
    /// The length of the file.
    pub bytes: u64,
    /// How many bytes of state are in it, as far as it is sound.
    pub state_bytes: u64,
    /// In how many blocks.
    pub blocks: u32,
    /// What is wrong with it.
    pub fault: Option<FileFault>,
}

/// One segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSurvey {
    /// Its name.
    pub file: String,
    /// The sequence of its first event.
    pub first: u64,
    /// The sequence that would come next: the last one is before it.
    pub next: u64,
    /// The length of the file.
    pub bytes: u64,
    /// How many sound records it has, before any fault.
    pub records: u64,
    /// How many bytes of events are in them.
    pub event_bytes: u64,
    /// How many bytes of an unfinished write are at its end.
    pub torn_bytes: u64,
    /// What is wrong with it.
    pub fault: Option<SegmentFault>,
}

impl SegmentSurvey {
    /// How many events it has, before any fault.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.next - self.first
    }
}

/// What is wrong with a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFault {
    /// Where the bad record begins.
    pub offset: u64,
    /// What is wrong.
    pub fault: FileFault,
}

/// A gap in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The first missing sequence.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// Whether a sound snapshot holds them: then nothing is lost.
    pub in_snapshot: bool,
}

impl Survey {
    /// The newest snapshot without a fault, by its sequence.
    #[must_use]
    pub fn newest_sound_snapshot(&self) -> Option<u64> {
        self.snapshots.iter().rev().find(|snapshot| snapshot.fault.is_none()).map(|snapshot| snapshot.sequence)
    }

    /// The sequence of the last event that is held.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        let journal = self.segments.last().map_or(0, |segment| segment.next - 1);
        journal.max(self.newest_sound_snapshot().unwrap_or(0))
    }
}

/// How many bytes [`survey`] will read, for a progress bar.
///
/// # Errors
/// [`SurveyError`] if the directory cannot be listed.
pub fn total_bytes(directory: &Path) -> Result<u64, SurveyError> {
    let listing = list(directory)?;
    let segments = listing.segments.iter().map(|&first| segment_name(first));
    let names = segments.chain(listing.snapshots.iter().map(|&sequence| snapshot_name(sequence)));
    Ok(names.filter_map(|name| directory.join(name).metadata().ok()).map(|metadata| metadata.len()).sum())
}

/// Reads everything in a directory and changes nothing.
///
/// # Errors
/// [`SurveyError`] if the system refuses. Whatever is wrong with what was read is in the [`Survey`].
pub fn survey(directory: &Path, observer: &mut dyn Observer) -> Result<Survey, SurveyError> {
    let listing = list(directory)?;
    // What is wrong with the founding is for whoever reads it to tell.
    let realm = Founding::read(directory).ok().flatten().map(|founding| founding.realm.id().0);
    let mut surveyor = Surveyor { directory, observer, newest: 0, survey: Survey { realm, ..Survey::default() } };
    for &sequence in &listing.snapshots {
        surveyor.snapshot(sequence)?;
    }
    let newest = ours(&surveyor.survey.snapshots).map(|snapshot| snapshot.sequence).max().unwrap_or(0);
    surveyor.newest = newest;
    let last = listing.segments.last().copied();
    for &first in &listing.segments {
        surveyor.segment(first, Some(first) == last)?;
    }
    let Survey { segments, snapshots, .. } = &surveyor.survey;
    let missing = gaps(segments, snapshots, newest, surveyor.survey.newest_sound_snapshot());
    let Listing { temporary, cut, others, .. } = listing;
    Ok(Survey { missing, temporary, cut, others, ..surveyor.survey })
}

fn list(directory: &Path) -> Result<Listing, SurveyError> {
    Listing::read(directory).map_err(|source| SurveyError { path: directory.to_owned(), source })
}

/// The sequences that are in no segment: between two, before the first, and those that only a snapshot proves.
fn gaps(segments: &[SegmentSurvey], snapshots: &[SnapshotSurvey], newest: u64, sound: Option<u64>) -> Vec<Missing> {
    // Before the oldest snapshot nothing is needed.
    let mut due = ours(snapshots).next().map_or(1, |snapshot| snapshot.sequence.saturating_add(1));
    if ours(snapshots).all(|snapshot| snapshot.fault.is_some()) {
        due = 1;
    }
    let mut missing = Vec::new();
    let mut miss = |first: u64, last: u64| {
        let in_snapshot = sound.is_some_and(|sequence| last <= sequence);
        missing.push(Missing { first, last, in_snapshot });
    };
    // What is behind the fault of a segment is damaged, not missing.
    let mut after_fault = false;
    for segment in segments {
        if segment.first > due && !after_fault {
            miss(due, segment.first - 1);
        }
        after_fault = segment.fault.is_some();
        due = due.max(segment.next);
    }
    if due <= newest && !after_fault {
        miss(due, newest);
    }
    missing
}

/// The snapshots that are not of another realm.
fn ours(snapshots: &[SnapshotSurvey]) -> impl Iterator<Item = &SnapshotSurvey> {
    snapshots.iter().filter(|snapshot| snapshot.fault != Some(FileFault::OtherRealm))
}

struct Surveyor<'a> {
    directory: &'a Path,
    observer: &'a mut dyn Observer,
    /// The sequence of the newest snapshot, sound or not.
    newest: u64,
    survey: Survey,
}

impl Surveyor<'_> {
    /// What is known of the snapshots, once all were looked at.
    fn snapshots(&self) -> Snapshots {
        Snapshots { newest: self.newest, sound: self.survey.newest_sound_snapshot().unwrap_or(0) }
    }

    fn open(&mut self, file: &str) -> Result<Option<(Input, u64)>, SurveyError> {
        let path = self.directory.join(file);
        match open_as_it_is(&path) {
            Ok(opened) => Ok(Some(opened)),
            // A store in use removes what it needs no longer.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.survey.went.push(file.to_owned());
                Ok(None)
            }
            Err(source) => Err(SurveyError { path, source }),
        }
    }

    /// Whether a file belongs to the realm of those before it.
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
            return Err(FileFault::Damaged(format!("the header says that it holds event {sequence}")));
        }
        let checked = reader.check(|bytes| self.observer.progress(bytes));
        (found.blocks, found.state_bytes) = reader.read_so_far();
        Ok(checked?)
    }

    fn segment(&mut self, first: u64, is_last: bool) -> Result<(), SurveyError> {
        let file = segment_name(first);
        let Some((input, bytes)) = self.open(&file)? else { return Ok(()) };
        let mut found = SegmentSurvey { file, first, next: first, bytes, ..SegmentSurvey::default() };
        found.fault = self
            .segment_fault(input, &mut found, is_last)
            .unwrap_or_else(|source| Some(SegmentFault { offset: 0, fault: source.into() }));
        self.survey.segments.push(found);
        Ok(())
    }

    fn segment_fault(
        &mut self,
        input: Input,
        found: &mut SegmentSurvey,
        is_last: bool,
    ) -> io::Result<Option<SegmentFault>> {
        let whole_file = |fault| Ok(Some(SegmentFault { offset: 0, fault }));
        let mut reader = match SegmentReader::open(input)? {
            Ok(reader) => reader,
            Err(fault) => return whole_file(fault.into()),
        };
        if self.is_other_realm(reader.header().realm) {
            return whole_file(FileFault::OtherRealm);
        }
        let sequence = reader.header().sequence;
        if sequence != found.first {
            return whole_file(FileFault::Damaged(format!("the header says that event {sequence} is its first")));
        }
        let damaged = |offset, reason| Ok(Some(SegmentFault { offset, fault: FileFault::Damaged(reason) }));
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

    fn record(&mut self, record: &Record<'_>, found: &mut SegmentSurvey) -> Result<(), Malformed> {
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
