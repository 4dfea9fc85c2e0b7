//! From a directory to a machine: the newest sound snapshot, then the events behind it.
//!
//! Nothing is skipped in silence. A damaged snapshot is named in the [`Recovery`], and the one before is taken; damage or
//! a gap in the journal stops the recovery with an error that says where, and what to do.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Take};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bruit_engine::NotEnoughMemory;
use bruit_engine::codec::Malformed;

use crate::directory::{Listing, Lock, LockError, quoted, segment_name, snapshot_name};
use crate::disk::{Disk, create_private_directory};
use crate::format::{Header, HeaderFault};
use crate::founding::FOUNDING_FILE;
use crate::journal::{Journal, Resume};
use crate::machine::{Machine, RestoreError};
use crate::segment::{Record, SegmentReader, Snapshots, Step, is_damage};
use crate::snapshot::SnapshotReader;
use crate::store::Options;
use crate::writer::Start;

/// How much is read at a time.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// How often [`peek`] begins anew when the store's owner removed files meanwhile.
pub const PEEKS_MAX: u32 = 5;

/// A file, up to the length it had when it was opened.
pub(crate) type Input = BufReader<Take<File>>;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it, or it could not be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The system refused.
    #[error("failed to {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file belongs to another realm, while others belong to this one.
    #[error(
        "{file} belongs to another realm than {FOUNDING_FILE} and other files of this store: move it to another directory, and \
         keep it; nothing was changed"
    )]
    OtherRealm {
        /// The file.
        file: String,
    },
    /// All files belong to another realm, so the founding file is the wrong one.
    #[error(
        "{FOUNDING_FILE} does not belong to the other files in {}: it is of another realm than all of them; restore the {FOUNDING_FILE} \
         of this store from a backup and leave the other files where they are; nothing was changed",
        directory.display()
    )]
    WrongFounding {
        /// The directory.
        directory: PathBuf,
    },
    /// A file was written by a later program.
    #[error("{file} has version {version} of the format, which this program does not read")]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// There is no clearinghouse, and something else is where one was to be founded.
    #[error(
        "{} holds no store, and is not empty (it has {file}): no store is founded there; check the path, or name an empty directory",
        directory.display()
    )]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
        /// One of the files.
        file: String,
    },
    /// The owner of the store removed files while they were being read, again and again.
    #[error("files were removed while {} was being read: try again", directory.display())]
    FilesWent {
        /// The directory.
        directory: PathBuf,
    },
    /// There is a journal or a snapshot, but no founding file.
    #[error(
        "{FOUNDING_FILE} is missing from {dir}: the journal and snapshots there cannot be read without it; restore it from any backup of \
         this store, or from another server of the same realm (`bruit keys realm {file} --server URL`); nothing was changed",
        dir = directory.display(),
        file = quoted(&directory.join(FOUNDING_FILE))
    )]
    FoundingMissing {
        /// The directory.
        directory: PathBuf,
    },
    /// What the clearinghouse was founded as cannot be read.
    #[error(
        "{file} {reason}; journal and snapshots cannot be read without it: restore it from any backup of this store; nothing was \
         changed"
    )]
    Founding {
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal is damaged where it was safe on disk.
    #[error(
        "{file} is damaged at byte {offset}: {reason}; restore a backup, or cut off \
         everything after the damage: `bruit store repair {} --segment {file} --cut-after {offset}`",
        quoted(directory)
    )]
    Damaged {
        /// The directory.
        directory: PathBuf,
        /// The segment.
        file: String,
        /// Where the bad record begins.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Events are missing, between two files or at the end.
    #[error(
        "events {first} to {last} are missing before {file}{}; restore a backup, or move {file} and the segments after \
         it to another directory, which loses everything after event {}",
        because(damaged),
        first - 1
    )]
    Missing {
        /// The first missing sequence.
        first: u64,
        /// The last one.
        last: u64,
        /// The file that needs them: the segment behind the gap, or a damaged snapshot that held them.
        file: String,
        /// Snapshots that are damaged; one of them may have held the events.
        damaged: Vec<String>,
    },
    /// A snapshot is sound, but not of this clearinghouse or not for this program.
    #[error(
        "{file} cannot be used with this version of bruit and this {FOUNDING_FILE}; run the version that wrote it, or restore the \
         {FOUNDING_FILE} that belongs to it; nothing was changed"
    )]
    Unlike {
        /// The snapshot.
        file: String,
        /// How it differs.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is not enough memory to found a store.
    #[error("{missing}; lower `memory` in the configuration; nothing was founded")]
    TooLarge {
        /// The missing memory and its purpose.
        missing: NotEnoughMemory,
    },
    /// There is not enough memory for an existing store.
    #[error(
        "{missing}; this store needs the memory budget it has: free memory, or raise the limit of the process (`ulimit -v`, \
         `LimitAS=`, `MemoryMax=`); nothing was changed"
    )]
    Memory {
        /// The missing memory and its purpose.
        missing: String,
    },
    /// A sound record holds an event that the machine does not know.
    #[error(
        "event {sequence}, in the record at byte {offset} of {file}, cannot be read; run the version of bruit that \
         wrote it, or cut it off with everything after it: `bruit store repair DIR --segment {file} --cut-after {offset}`"
    )]
    Event {
        /// The segment.
        file: String,
        /// Where its record begins.
        offset: u64,
        /// Its sequence.
        sequence: u64,
        /// Why.
        source: Malformed,
    },
}

/// Why events are missing, as far as damaged snapshots are the cause.
fn because(damaged: &[String]) -> String {
    if damaged.is_empty() { String::new() } else { format!(" (damaged: {})", damaged.join(", ")) }
}

impl OpenError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// What opening a store found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The snapshot that was restored, by its sequence; none if the journal began at the beginning.
    pub snapshot: Option<u64>,
    /// Newer snapshots that could not be.
    pub damaged: Vec<DamagedSnapshot>,
    /// How many events were replayed behind it.
    pub replayed_events: u64,
    /// How many bytes of records they were in.
    pub replayed_bytes: u64,
    /// How many bytes of an unfinished write were left out at the end. Nothing in them was ever confirmed, or the snapshot
    /// holds it.
    pub torn_bytes: u64,
    /// The sequence of the last event.
    pub sequence: u64,
    /// The last event of the journal, if the snapshot holds later ones. A copy made while the server ran may be so;
    /// otherwise the last segment is gone, and with it whatever came after the snapshot.
    pub journal_ends: Option<u64>,
}

/// A snapshot that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSnapshot {
    /// Its file.
    pub file: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Recovery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for DamagedSnapshot { file, reason } in &self.damaged {
            writeln!(formatter, "{file} is damaged ({reason}): fell back to the one before")?;
        }
        match self.snapshot {
            Some(sequence) => write!(formatter, "restored {}", snapshot_name(sequence))?,
            None => write!(formatter, "began without a snapshot")?,
        }
        write!(formatter, ", replayed {} events", self.replayed_events)?;
        if self.torn_bytes > 0 {
            write!(
                formatter,
                ", left out {} bytes of an unfinished write that was never confirmed or is in the snapshot",
                self.torn_bytes
            )?;
        }
        write!(formatter, ", at event {}", self.sequence)?;
        self.journal_ends.map_or(Ok(()), |last| {
            write!(
                formatter,
                "\nthe journal ends with event {last}, before the snapshot: unless this is a copy, a file is gone"
            )
        })
    }
}

/// A machine as it was, and where the writer goes on.
pub(crate) struct Recovered<M> {
    pub(crate) machine: M,
    pub(crate) start: Start,
    pub(crate) report: Recovery,
}

/// Makes the directory if need be, locks it, and removes what was never finished.
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

/// Restores and replays. The directory is locked by the caller.
pub(crate) fn recover<M: Machine>(
    directory: &Path,
    options: &Options,
    make: impl FnOnce() -> Result<M, OpenError>,
    progress: &mut dyn FnMut(u64),
) -> Result<Recovered<M>, OpenError> {
    let listing = list(directory)?;
    let (replay, end) = Replay::of(directory, &listing, make()?, progress)?;
    let (resume, begin) = replay.resume(listing.segments, end, &*options.disk)?;
    let Replay { machine, realm, report, .. } = replay;
    let disk = Arc::clone(&options.disk);
    let journal = Journal::open(disk, directory.to_owned(), options.segment_bytes, resume, begin)
        .map_err(|source| OpenError::io("begin the journal in", directory, source))?;
    let snapshots = report.snapshot.into_iter().collect();
    let start = Start { journal, realm, snapshots, replayed_bytes: report.replayed_bytes };
    Ok(Recovered { machine, start, report })
}

/// The machine in `directory`, as opening the store would find it, without a lock and without changing anything: a torn
/// tail is left out, not cut off. The store may be in use. `make` gives the machine without any event, and `progress` hears
/// how many bytes more of the journal were read.
///
/// # Errors
/// [`OpenError`] if opening would fail, but for a store in use.
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
        // A store in use removes what it needs no longer, which looks like damage to whoever was about to read it.
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

/// Opens a file to read what it has now, and tells how much that is. What its owner appends meanwhile is not read, so that
/// an unfinished write is never followed by anything.
pub(crate) fn open_as_it_is(path: &Path) -> io::Result<(Input, u64)> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    Ok((BufReader::with_capacity(READ_BYTES, file.take(bytes)), bytes))
}

/// The machine of the newest snapshot that is whole; those that are not go into the report.
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

/// Restores one snapshot. The inner error is the reason why it is damaged; one that the system does not let us read is not.
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
        return Ok(Err(format!("the header says that it holds event {}", header.sequence)));
    }
    let restored = empty.restore(&mut reader).and_then(|machine| Ok(reader.finish().map(|()| machine)?));
    match restored {
        Ok(machine) => Ok(Ok(machine)),
        Err(RestoreError::Read(error)) if is_of_the_system(&error) => Err(io(error)),
        Err(RestoreError::Read(error)) => Ok(Err(error.to_string())),
        Err(RestoreError::Memory(source)) => Err(OpenError::Memory { missing: source.to_string() }),
        Err(RestoreError::Unlike(source)) => Err(OpenError::Unlike { file: name_of(path), source }),
        Err(RestoreError::State(error)) => Ok(Err(format!("sound, but not a state: {error}"))),
    }
}

/// Whether the system refused, rather than that we do not like what it gave us: our own errors have no number.
pub(crate) fn is_of_the_system(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}

/// A later version is an error of its own: falling back would throw away what a newer program kept.
fn header_fault(path: &Path, fault: HeaderFault) -> Result<String, OpenError> {
    match fault {
        HeaderFault::Version(version) => Err(OpenError::Version { file: name_of(path), version }),
        other => Ok(other.to_string()),
    }
}

fn check_realm(path: &Path, header: &Header, realm: [u8; 16]) -> Result<(), OpenError> {
    if realm == header.realm { Ok(()) } else { Err(OpenError::OtherRealm { file: name_of(path) }) }
}

/// Returns true if no file belongs to the realm, as far as the headers can be read.
fn is_all_foreign(directory: &Path, listing: &Listing, realm: [u8; 16]) -> bool {
    let open = |name: String| open_as_it_is(&directory.join(name)).ok().map(|(input, _)| input);
    let snapshots = listing.snapshots.iter().filter_map(|&sequence| {
        let reader = SnapshotReader::open(open(snapshot_name(sequence))?).ok()?.ok()?;
        Some(reader.header().realm)
    });
    let segments = listing.segments.iter().filter_map(|&first| {
        let reader = SegmentReader::open(open(segment_name(first))?).ok()?.ok()?;
        Some(reader.header().realm)
    });
    snapshots.chain(segments).all(|found| found != realm)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The machine on its way through the journal.
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

/// Where the last segment ends.
#[derive(Clone, Copy)]
struct End {
    /// The sequence that would come next in it.
    next: u64,
    offset: u64,
    torn_bytes: u64,
}

impl<'a, M: Machine> Replay<'a, M> {
    /// The machine with everything that is listed, and where the last segment ends. Changes nothing.
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
        let end = replay.run(&listing.segments)?;
        replay.report.torn_bytes = end.map_or(0, |end| end.torn_bytes);
        Ok((replay, end))
    }

    /// Applies everything from `next` on. Where the last segment ends, if there is one.
    fn run(&mut self, segments: &[u64]) -> Result<Option<End>, OpenError> {
        let start = segments.partition_point(|&first| first <= self.next).saturating_sub(1);
        let needed = segments.get(start..).unwrap_or_default();
        let mut end: Option<End> = None;
        for (place, &first) in needed.iter().enumerate() {
            let due = end.map_or(self.next, |end| end.next.max(self.next));
            if first > due {
                return Err(self.missing(due, first - 1, segment_name(first)));
            }
            if let Some(end) = end.filter(|end| first < end.next) {
                let reason = format!("the segment begins with event {first} where {} is due", end.next);
                return Err(self.damaged(first, 0, reason));
            }
            end = Some(self.segment(first, place + 1 == needed.len())?);
        }
        let newest = self.snapshots.newest;
        if self.next <= newest {
            return Err(self.missing(self.next, newest, snapshot_name(newest)));
        }
        self.note_early_end(end);
        self.report.sequence = self.next - 1;
        Ok(end)
    }

    /// When a snapshot is written, the journal is on disk up to it and beyond.
    fn note_early_end(&mut self, end: Option<End>) {
        let last = end.map_or(0, |end| end.next - 1);
        if self.report.snapshot.is_some_and(|sequence| last < sequence) {
            tracing::warn!(last, "the journal ends before the snapshot: unless this is a copy, a file is gone");
            self.report.journal_ends = Some(last);
        }
    }

    fn missing(&self, first: u64, last: u64, file: String) -> OpenError {
        let damaged = self.report.damaged.iter().map(|snapshot| snapshot.file.clone()).collect();
        OpenError::Missing { first, last, file, damaged }
    }

    fn damaged(&self, first: u64, offset: u64, reason: String) -> OpenError {
        OpenError::Damaged { directory: self.directory.to_owned(), file: segment_name(first), offset, reason }
    }

    fn segment(&mut self, first: u64, is_last: bool) -> Result<End, OpenError> {
        let path = self.directory.join(segment_name(first));
        let io = |source| OpenError::io("read", &path, source);
        let (input, length) = open_as_it_is(&path).map_err(io)?;
        let opened = SegmentReader::open(input).map_err(io)?;
        let mut reader = match opened {
            Ok(reader) => reader,
            Err(fault) => return Err(self.damaged(first, 0, header_fault(&path, fault)?)),
        };
        check_realm(&path, reader.header(), self.realm)?;
        if reader.header().sequence != first {
            let reason = format!("the header says that event {} is its first", reader.header().sequence);
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

    /// Cuts a torn tail, and tells where the journal goes on; true if with a new segment, as the last one ends before
    /// the snapshot does.
    fn resume(&self, segments: Vec<u64>, end: Option<End>, disk: &dyn Disk) -> Result<(Resume, bool), OpenError> {
        if let Some((end, last)) = end.zip(segments.last()).filter(|(end, _)| end.torn_bytes > 0) {
            let path = self.directory.join(segment_name(*last));
            let cut = disk.append(&path).and_then(|mut file| file.set_len(end.offset).and_then(|()| file.sync()));
            cut.map_err(|source| OpenError::io("cut the torn end of", &path, source))?;
        }
        let begin = end.is_none_or(|end| end.next != self.next);
        let length = end.map_or(0, |end| end.offset);
        Ok((Resume { realm: self.realm, segments, length, next: self.next }, begin))
    }
}
