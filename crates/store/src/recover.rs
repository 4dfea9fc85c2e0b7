//! Recovery: restores a machine from the newest intact snapshot in a directory and the events after it.
//!
//! Nothing is skipped silently. A damaged snapshot is listed in the [`Recovery`], and the previous one is used. If
//! there is damage or a gap in the journal, the recovery stops with an error that names the place and the remedy.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Take};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bruit_engine::NotEnoughMemory;
use bruit_engine::codec::Malformed;

use crate::directory::{Listing, Lock, LockError, journal_file_name, quoted, snapshot_name};
use crate::disk::{Disk, create_private_directory};
use crate::founding::FOUNDING_FILE;
use crate::header::{Header, HeaderFault};
use crate::journal::{Journal, Resume};
use crate::journal_file::{JournalFileReader, Record, Snapshots, Step, is_damage};
use crate::machine::{Machine, RestoreError};
use crate::snapshot::SnapshotReader;
use crate::store::Options;
use crate::writer::Start;

/// Bytes per read.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// Maximum number of attempts of [`peek`] while the process that owns the store removes files.
pub const PEEKS_MAX: u32 = 5;

/// A file, limited to the length that it had when it was opened.
pub(crate) type Input = BufReader<Take<File>>;

/// The reason why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory is locked by another process, or locking failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// An I/O operation failed.
    #[error("failed to {action} {}", path.display())]
    Io {
        /// The operation, such as "read".
        action: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// One file belongs to a different realm from the founding file and the other files.
    #[error(
        "{file} belongs to a different realm from {FOUNDING_FILE} and the other files of this store; move it to \
         another directory and keep it; nothing was changed"
    )]
    OtherRealm {
        /// The file.
        file: String,
    },
    /// All files belong to another realm, so the founding file is the wrong one.
    #[error(
        "{FOUNDING_FILE} belongs to a different realm from all other files in {}; restore the {FOUNDING_FILE} of this \
         store from a backup and leave the other files where they are; nothing was changed",
        directory.display()
    )]
    WrongFounding {
        /// The directory.
        directory: PathBuf,
    },
    /// A file was written by a later program.
    #[error("{file} has format version {version}, which this program cannot read")]
    Version {
        /// The file.
        file: String,
        /// Version of the file.
        version: u32,
    },
    /// The directory contains other files but no clearinghouse, so no clearinghouse is founded there.
    #[error(
        "{} contains {file}, which is not part of a store; no store was created; check the path, or use an empty \
         directory",
        directory.display()
    )]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
        /// One of the files.
        file: String,
    },
    /// The process that owns the store kept removing files while they were being read.
    #[error("files were removed while {} was being read; try again", directory.display())]
    FilesWent {
        /// The directory.
        directory: PathBuf,
    },
    /// There is a journal or a snapshot, but no founding file.
    #[error(
        "{FOUNDING_FILE} is missing from {dir}: the journal and the snapshots there cannot be read without it; \
         restore it from any backup of this store, or from another server of the same realm (`bruit keys realm {file} \
         --server URL`); nothing was changed",
        dir = directory.display(),
        file = quoted(&directory.join(FOUNDING_FILE))
    )]
    FoundingMissing {
        /// The directory.
        directory: PathBuf,
    },
    /// The founding file cannot be read.
    #[error(
        "{file} {reason}; the journal and the snapshots cannot be read without it; restore it from any backup of this \
         store; nothing was changed"
    )]
    Founding {
        /// The file.
        file: &'static str,
        /// The fault.
        reason: String,
    },
    /// The journal is damaged in a part that was already safe on disk.
    #[error(
        "{file} is damaged at byte {offset}: {reason}; restore a backup, or cut off \
         everything after the damage: `bruit store repair {} --segment {file} --cut-after {offset}`",
        quoted(directory)
    )]
    Damaged {
        /// The directory.
        directory: PathBuf,
        /// The journal file.
        file: String,
        /// The offset of the bad record.
        offset: u64,
        /// The fault.
        reason: String,
    },
    /// Events are missing between two files or at the end.
    #[error(
        "events {first} to {last} are missing before {file}{}; restore a backup, or move {file} and the journal files \
         after it to another directory, which loses everything after event {}",
        because(damaged),
        first - 1
    )]
    Missing {
        /// The first missing sequence.
        first: u64,
        /// The last missing sequence.
        last: u64,
        /// The file that depends on the missing events: the journal file after the gap, or a damaged snapshot that
        /// contained them.
        file: String,
        /// Damaged snapshots, one of which may have contained the events.
        damaged: Vec<String>,
    },
    /// A snapshot is intact, but belongs to another clearinghouse or another version of the program.
    #[error(
        "{file} cannot be used with this version of bruit and this {FOUNDING_FILE}; run the version that wrote it, or \
         restore the {FOUNDING_FILE} that belongs to it; nothing was changed"
    )]
    Unlike {
        /// The snapshot.
        file: String,
        /// The difference.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is not enough memory to found a store.
    #[error("{missing}; lower `memory` in the configuration; no store was created")]
    TooLarge {
        /// The memory that could not be allocated, and its purpose.
        missing: NotEnoughMemory,
    },
    /// There is not enough memory for an existing store.
    #[error(
        "{missing}; an existing store needs its whole memory budget: free memory, or raise the limit of the process \
         (`ulimit -v`, `LimitAS=`, `MemoryMax=`); nothing was changed"
    )]
    Memory {
        /// The memory that could not be allocated, and its purpose.
        missing: String,
    },
    /// An intact record contains an event that the machine cannot decode.
    #[error(
        "event {sequence}, in the record at byte {offset} of {file}, cannot be read; run the version of bruit that \
         wrote this event, or delete the event and everything after it: `bruit store repair DIR --segment {file} \
         --cut-after {offset}`"
    )]
    Event {
        /// The journal file.
        file: String,
        /// The offset of the event's record.
        offset: u64,
        /// The sequence of the event.
        sequence: u64,
        /// The cause.
        source: Malformed,
    },
}

/// Returns the part of an error message that lists damaged snapshots; empty if there are none.
fn because(damaged: &[String]) -> String {
    if damaged.is_empty() { String::new() } else { format!(" (damaged: {})", damaged.join(", ")) }
}

impl OpenError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// A report on opening a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The sequence of the restored snapshot; `None` if the journal was replayed from its beginning.
    pub snapshot: Option<u64>,
    /// Newer snapshots that could not be restored.
    pub damaged: Vec<DamagedSnapshot>,
    /// Number of events replayed after the snapshot.
    pub replayed_events: u64,
    /// Number of bytes in the records of the replayed events.
    pub replayed_bytes: u64,
    /// Number of bytes of an unfinished write that were dropped at the end. The events in these bytes were never
    /// confirmed, or are in the snapshot.
    pub torn_bytes: u64,
    /// The sequence of the last event.
    pub sequence: u64,
    /// The last event of the journal, if the snapshot contains later events. This is normal in a copy made while the
    /// server ran. In any other directory, the last journal file is missing, and with it all events after the snapshot.
    pub journal_ends: Option<u64>,
}

/// A snapshot that was skipped because of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSnapshot {
    /// File name of the snapshot.
    pub file: String,
    /// The fault.
    pub reason: String,
}

impl fmt::Display for Recovery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for DamagedSnapshot { file, reason } in &self.damaged {
            writeln!(formatter, "{file} is damaged ({reason}); used the previous snapshot instead")?;
        }
        match self.snapshot {
            Some(sequence) => write!(formatter, "restored {}", snapshot_name(sequence))?,
            None => write!(formatter, "started without a snapshot")?,
        }
        write!(formatter, ", replayed {} events", self.replayed_events)?;
        if self.torn_bytes > 0 {
            write!(
                formatter,
                ", dropped {} bytes of an unfinished write (never confirmed, or already in the snapshot)",
                self.torn_bytes
            )?;
        }
        write!(formatter, ", at event {}", self.sequence)?;
        self.journal_ends.map_or(Ok(()), |last| {
            write!(
                formatter,
                "\nthe journal ends with event {last}, before the snapshot; unless this is a copy, a journal file is \
                 missing"
            )
        })
    }
}

/// A recovered machine, and the position at which the writer continues.
pub(crate) struct RecoveredStore<M> {
    pub(crate) machine: M,
    pub(crate) start: Start,
    pub(crate) report: Recovery,
}

/// Creates the directory if necessary, locks it, and removes temporary files.
pub(crate) fn prepare(directory: &Path, disk: &dyn Disk) -> Result<Lock, OpenError> {
    if !directory.is_dir() {
        create_private_directory(directory).map_err(|source| OpenError::io("create", directory, source))?;
        let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| Path::new("."));
        disk.sync_directory(parent).map_err(|source| OpenError::io("sync", parent, source))?;
    }
    let lock = Lock::take(directory)?;
    for name in list(directory)?.temporary {
        let path = directory.join(name);
        if path.is_dir() {
            continue;
        }
        disk.remove(&path).map_err(|source| OpenError::io("remove", &path, source))?;
    }
    Ok(lock)
}

/// Restores a snapshot and replays the journal. The caller holds the directory's lock.
pub(crate) fn recover<M: Machine>(
    directory: &Path,
    options: &Options,
    make: impl FnOnce() -> Result<M, OpenError>,
    progress: &mut dyn FnMut(u64),
) -> Result<RecoveredStore<M>, OpenError> {
    let listing = list(directory)?;
    let (replay, end) = Replay::of(directory, &listing, make()?, progress)?;
    let (resume, begin) = replay.resume(listing.journal_files, end, &*options.disk)?;
    let Replay { machine, realm, report, .. } = replay;
    let disk = Arc::clone(&options.disk);
    let journal = Journal::open(disk, directory.to_owned(), options.journal_file_bytes, resume, begin)
        .map_err(|source| OpenError::io("begin the journal in", directory, source))?;
    let snapshots = report.snapshot.into_iter().collect();
    let start = Start { journal, realm, snapshots, replayed_bytes: report.replayed_bytes };
    Ok(RecoveredStore { machine, start, report })
}

/// Returns the machine in `directory` as opening the store would recover it, but takes no lock and changes nothing. A
/// torn tail is ignored, not cut off. The store may be in use. `make` returns the machine without events, and
/// `progress` is called with the number of journal bytes read since the last call.
///
/// # Errors
/// [`OpenError`] for any reason why opening would fail, except that the store is in use.
pub fn peek<M: Machine>(
    directory: &Path,
    make: impl Fn() -> Result<M, OpenError>,
    progress: &mut dyn FnMut(u64),
) -> Result<(M, Recovery), OpenError> {
    let mut tries = 1;
    loop {
        let listing = list(directory)?;
        let replayed = Replay::of(directory, &listing, make()?, progress);
        let is_whole = replayed.as_ref().is_ok_and(|(replay, _)| replay.report.damaged.is_empty());
        // A store in use removes obsolete files. To a reader that has already listed them, this looks like damage.
        if is_whole || list(directory)? == listing {
            return replayed.map(|(replay, _)| (replay.machine, replay.report));
        }
        if tries == PEEKS_MAX {
            return Err(OpenError::FilesWent { directory: directory.to_owned() });
        }
        tries += 1;
    }
}

fn list(directory: &Path) -> Result<Listing, OpenError> {
    Listing::read(directory).map_err(|source| OpenError::io("list", directory, source))
}

/// Opens a file for reading its current contents, and returns their length. Bytes appended later are not read, so
/// nothing can follow an unfinished write.
pub(crate) fn open_as_it_is(path: &Path) -> io::Result<(Input, u64)> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    Ok((BufReader::with_capacity(READ_BYTES, file.take(bytes)), bytes))
}

/// Returns the machine of the newest intact snapshot, and adds damaged snapshots to the report.
fn newest_sound<M: Machine>(
    directory: &Path,
    listing: &Listing,
    empty: &M,
    report: &mut Recovery,
) -> Result<Option<M>, OpenError> {
    for &sequence in listing.snapshots.iter().rev() {
        let file = snapshot_name(sequence);
        match restore(&directory.join(&file), sequence, empty)? {
            Ok(machine) => {
                report.snapshot = Some(sequence);
                return Ok(Some(machine));
            }
            Err(reason) => {
                tracing::warn!(file, reason, "a snapshot is damaged");
                report.damaged.push(DamagedSnapshot { file, reason });
            }
        }
    }
    Ok(None)
}

/// Restores one snapshot. The inner error is the reason why the snapshot is damaged. If the file cannot be read, the
/// error is an outer one.
fn restore<M: Machine>(path: &Path, sequence: u64, empty: &M) -> Result<Result<M, String>, OpenError> {
    let io = |source| OpenError::io("read", path, source);
    let opened = open_as_it_is(path).and_then(|(input, _)| SnapshotReader::open(input));
    let mut reader = match opened.map_err(io)? {
        Ok(reader) => reader,
        Err(fault) => return header_fault(path, fault).map(Err),
    };
    let header = *reader.header();
    check_realm(path, &header, empty.realm())?;
    if header.sequence != sequence {
        return Ok(Err(format!("the header names event {}, which differs from the file name", header.sequence)));
    }
    let restored = empty.restore(&mut reader).and_then(|machine| Ok(reader.finish().map(|()| machine)?));
    match restored {
        Ok(machine) => Ok(Ok(machine)),
        Err(RestoreError::Read(error)) if is_os_error(&error) => Err(io(error)),
        Err(RestoreError::Read(error)) => Ok(Err(error.to_string())),
        Err(RestoreError::Memory(source)) => Err(OpenError::Memory { missing: source.to_string() }),
        Err(RestoreError::Unlike(source)) => Err(OpenError::Unlike { file: name_of(path), source }),
        Err(RestoreError::State(error)) => {
            Ok(Err(format!("its blocks are intact, but the state in them is invalid: {error}")))
        }
    }
}

/// Returns true if the operating system reported the error. Errors about the contents have no OS error number.
pub(crate) fn is_os_error(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}

/// Converts a header fault. A later version is an outer error, because falling back to an older snapshot would lose
/// data of a newer program.
fn header_fault(path: &Path, fault: HeaderFault) -> Result<String, OpenError> {
    match fault {
        HeaderFault::Version(version) => Err(OpenError::Version { file: name_of(path), version }),
        other => Ok(other.to_string()),
    }
}

fn check_realm(path: &Path, header: &Header, realm: [u8; 16]) -> Result<(), OpenError> {
    if realm == header.realm { Ok(()) } else { Err(OpenError::OtherRealm { file: name_of(path) }) }
}

/// Returns true if none of the files with a readable header belongs to the realm.
fn is_all_foreign(directory: &Path, listing: &Listing, realm: [u8; 16]) -> bool {
    let open = |name: String| open_as_it_is(&directory.join(name)).ok().map(|(input, _)| input);
    let snapshots = listing.snapshots.iter().filter_map(|&sequence| {
        let reader = SnapshotReader::open(open(snapshot_name(sequence))?).ok()?.ok()?;
        Some(reader.header().realm)
    });
    let journal_files = listing.journal_files.iter().filter_map(|&first| {
        let reader = JournalFileReader::open(open(journal_file_name(first))?).ok()?.ok()?;
        Some(reader.header().realm)
    });
    snapshots.chain(journal_files).all(|found| found != realm)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A machine during the replay of the journal.
struct Replay<'a, M> {
    directory: &'a Path,
    machine: M,
    realm: [u8; 16],
    /// The sequence of the next event to apply.
    next: u64,
    snapshots: Snapshots,
    report: Recovery,
    progress: &'a mut dyn FnMut(u64),
}

/// The end of the last journal file.
#[derive(Clone, Copy)]
struct End {
    /// The sequence of the next event to append to the file.
    next: u64,
    offset: u64,
    torn_bytes: u64,
}

impl<'a, M: Machine> Replay<'a, M> {
    /// Recovers the machine from the listed files. Also returns the end of the last journal file. Changes nothing on
    /// disk.
    fn of(
        directory: &'a Path,
        listing: &Listing,
        empty: M,
        progress: &'a mut dyn FnMut(u64),
    ) -> Result<(Self, Option<End>), OpenError> {
        let realm = empty.realm();
        Self::of_files(directory, listing, empty, progress).map_err(|error| match error {
            OpenError::OtherRealm { .. } if is_all_foreign(directory, listing, realm) => {
                OpenError::WrongFounding { directory: directory.to_owned() }
            }
            error => error,
        })
    }

    fn of_files(
        directory: &'a Path,
        listing: &Listing,
        empty: M,
        progress: &'a mut dyn FnMut(u64),
    ) -> Result<(Self, Option<End>), OpenError> {
        let mut report = Recovery::default();
        let realm = empty.realm();
        let machine = newest_sound(directory, listing, &empty, &mut report)?.unwrap_or(empty);
        let next = report.snapshot.map_or(1, |sequence| sequence + 1);
        let newest = listing.snapshots.last().copied().unwrap_or(0);
        let snapshots = Snapshots { newest, sound: report.snapshot.unwrap_or(0) };
        let mut replay = Self { directory, machine, realm, next, snapshots, report, progress };
        let end = replay.run(&listing.journal_files)?;
        replay.report.torn_bytes = end.map_or(0, |end| end.torn_bytes);
        Ok((replay, end))
    }

    /// Applies all events, starting with `next`. Returns the end of the last journal file, if there is one.
    fn run(&mut self, journal_files: &[u64]) -> Result<Option<End>, OpenError> {
        let start = journal_files.partition_point(|&first| first <= self.next).saturating_sub(1);
        let needed = journal_files.get(start..).unwrap_or_default();
        let mut end: Option<End> = None;
        for (place, &first) in needed.iter().enumerate() {
            let due = end.map_or(self.next, |end| end.next.max(self.next));
            if first > due {
                return Err(self.missing(due, first - 1, journal_file_name(first)));
            }
            if let Some(end) = end.filter(|end| first < end.next) {
                let reason = format!("the file begins with event {first}, expected {}", end.next);
                return Err(self.damaged(first, 0, reason));
            }
            end = Some(self.journal_file(first, place + 1 == needed.len())?);
        }
        let newest = self.snapshots.newest;
        if self.next <= newest {
            return Err(self.missing(self.next, newest, snapshot_name(newest)));
        }
        self.note_early_end(end);
        self.report.sequence = self.next - 1;
        Ok(end)
    }

    /// Records in the report that the journal ends before the snapshot. This is unusual, because a snapshot is started
    /// only after the journal is on disk.
    fn note_early_end(&mut self, end: Option<End>) {
        let last = end.map_or(0, |end| end.next - 1);
        if self.report.snapshot.is_some_and(|sequence| last < sequence) {
            tracing::warn!(
                last,
                "the journal ends before the snapshot; unless this is a copy, a journal file is missing"
            );
            self.report.journal_ends = Some(last);
        }
    }

    fn missing(&self, first: u64, last: u64, file: String) -> OpenError {
        let damaged = self.report.damaged.iter().map(|snapshot| snapshot.file.clone()).collect();
        OpenError::Missing { first, last, file, damaged }
    }

    fn damaged(&self, first: u64, offset: u64, reason: String) -> OpenError {
        OpenError::Damaged { directory: self.directory.to_owned(), file: journal_file_name(first), offset, reason }
    }

    fn journal_file(&mut self, first: u64, is_last: bool) -> Result<End, OpenError> {
        let path = self.directory.join(journal_file_name(first));
        let io = |source| OpenError::io("read", &path, source);
        let (input, length) = open_as_it_is(&path).map_err(io)?;
        let opened = JournalFileReader::open(input).map_err(io)?;
        let mut reader = match opened {
            Ok(reader) => reader,
            Err(fault) => return Err(self.damaged(first, 0, header_fault(&path, fault)?)),
        };
        check_realm(&path, reader.header(), self.realm)?;
        if reader.header().sequence != first {
            let reason = format!(
                "its header names event {} as the first, which differs from the file name",
                reader.header().sequence
            );
            return Err(self.damaged(first, 0, reason));
        }
        let fault = loop {
            let offset = reader.offset();
            match reader.step().map_err(io)? {
                Step::Record(record) => self.record(&record, &path, offset)?,
                Step::End => break None,
                Step::Bad(fault) => break Some(fault),
            }
        };
        let (next, offset) = (reader.next(), reader.offset());
        let Some(fault) = fault else { return Ok(End { next, offset, torn_bytes: 0 }) };
        if !is_last || is_damage(&mut reader, fault, self.snapshots).map_err(io)? {
            return Err(self.damaged(first, offset, fault.to_string()));
        }
        let torn_bytes = length.saturating_sub(offset);
        tracing::info!(file = name_of(&path), offset, torn_bytes, %fault, "the journal ends with an unfinished write");
        Ok(End { next, offset, torn_bytes })
    }

    fn record(&mut self, record: &Record<'_>, path: &Path, offset: u64) -> Result<(), OpenError> {
        let next = self.next;
        for (sequence, bytes) in record.events().filter(|(sequence, _)| *sequence >= next) {
            let unreadable = |source| OpenError::Event { file: name_of(path), offset, sequence, source };
            let event = M::decode(bytes).map_err(unreadable)?;
            self.machine.apply(&event);
            self.report.replayed_events += 1;
            self.next = sequence + 1;
        }
        if record.header.last() >= next {
            self.report.replayed_bytes += record.header.record_bytes();
        }
        (self.progress)(record.header.record_bytes());
        Ok(())
    }

    /// Cuts a torn tail, and returns the position at which the journal continues. The bool is true if the journal
    /// continues in a new file, because the last one ends before the snapshot.
    fn resume(&self, journal_files: Vec<u64>, end: Option<End>, disk: &dyn Disk) -> Result<(Resume, bool), OpenError> {
        if let Some((end, last)) = end.zip(journal_files.last()).filter(|(end, _)| end.torn_bytes > 0) {
            let path = self.directory.join(journal_file_name(*last));
            let cut = disk.append(&path).and_then(|mut file| file.set_len(end.offset).and_then(|()| file.sync()));
            cut.map_err(|source| OpenError::io("cut the torn end of", &path, source))?;
        }
        let begin = end.is_none_or(|end| end.next != self.next);
        let length = end.map_or(0, |end| end.offset);
        Ok((Resume { realm: self.realm, journal_files, length, next: self.next }, begin))
    }
}
