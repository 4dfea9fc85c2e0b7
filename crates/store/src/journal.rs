//! Writing the journal: records at the end of the last segment, a new segment when that is full.
//!
//! After a failed write the file is cut back and the next one may succeed. After a failed sync nothing is known about the
//! file (the system may have dropped the pages and forgotten): the journal is poisoned, until the store is opened again.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::directory::{TEMPORARY_PREFIX, segment_name};
use crate::disk::{Disk, DiskFile, remove_if_there};
use crate::format::{HEADER_BYTES, Header, Kind};
use crate::record::RecordBuilder;

/// How long a segment grows, unless told.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// Why nothing was appended.
#[derive(Clone, Debug)]
pub(crate) enum JournalError {
    /// The disk refused, perhaps as it is full; a later try may succeed.
    Write(Arc<io::Error>),
    /// The disk failed to keep what it took.
    Poisoned(Arc<io::Error>),
}

/// The open end of the journal.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    realm: [u8; 16],
    segment_bytes: u64,
    /// The first sequences of all segments; the last one is written to.
    segments: Vec<u64>,
    file: Box<dyn DiskFile>,
    seed: u64,
    length: u64,
    next: u64,
    durable: u64,
    written_bytes: u64,
    poison: Option<Arc<io::Error>>,
}

/// Where a journal goes on.
pub(crate) struct Resume {
    pub(crate) realm: [u8; 16],
    pub(crate) segments: Vec<u64>,
    /// The length of the last segment.
    pub(crate) length: u64,
    /// The next sequence.
    pub(crate) next: u64,
}

impl Journal {
    /// Goes on behind what is there; begins a segment if there is none to go on with.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        segment_bytes: u64,
        resume: Resume,
        begin_segment: bool,
    ) -> io::Result<Self> {
        let Resume { realm, mut segments, length, next } = resume;
        if begin_segment {
            begin(&*disk, &directory, Header { kind: Kind::Segment, realm, sequence: next })?;
            segments.retain(|&first| first != next);
            segments.push(next);
        }
        let first = segments.last().copied().unwrap_or(next);
        let mut file = disk.append(&directory.join(segment_name(first)))?;
        // What was read back may never have been synced: by a process that was killed, or under relaxed durability.
        file.sync()?;
        Ok(Self {
            seed: Header { kind: Kind::Segment, realm, sequence: first }.seed(),
            length: if begin_segment { HEADER_BYTES as u64 } else { length },
            durable: next - 1,
            written_bytes: 0,
            poison: None,
            disk,
            directory,
            realm,
            segment_bytes,
            segments,
            file,
            next,
        })
    }

    /// The last sequence that was written.
    pub(crate) const fn last(&self) -> u64 {
        self.next - 1
    }

    /// The last sequence that is on disk for certain.
    pub(crate) const fn durable(&self) -> u64 {
        self.durable
    }

    /// How many bytes were appended since the store was opened.
    pub(crate) const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    pub(crate) const fn segments(&self) -> usize {
        self.segments.len()
    }

    pub(crate) const fn poison(&self) -> Option<&Arc<io::Error>> {
        self.poison.as_ref()
    }

    /// Appends a record, and waits for the disk if `sync`. All or nothing, but for a failed sync, see the module.
    pub(crate) fn append(&mut self, record: &mut RecordBuilder, sync: bool) -> Result<(), JournalError> {
        self.check_poison()?;
        self.make_room()?;
        let bytes = record.finish(self.next, self.durable, self.seed);
        let (before, written) = (self.length, bytes.len() as u64);
        if let Err(error) = self.file.write_all(bytes) {
            return Err(self.cut_back(before, error));
        }
        self.length += written;
        self.written_bytes += written;
        self.next += u64::from(record.events());
        if sync && let Err(error) = self.sync() {
            self.forget_last(before, record.events());
            return Err(error);
        }
        Ok(())
    }

    /// Waits until everything is on disk.
    pub(crate) fn sync(&mut self) -> Result<(), JournalError> {
        self.check_poison()?;
        if let Err(error) = self.file.sync() {
            return Err(self.fail(error));
        }
        self.durable = self.next - 1;
        Ok(())
    }

    /// Removes the segments in which no sequence above `sequence` is.
    pub(crate) fn remove_up_to(&mut self, sequence: u64) -> io::Result<()> {
        while let [first, second, ..] = *self.segments.as_slice()
            && second <= sequence.saturating_add(1)
        {
            remove_if_there(&*self.disk, &self.directory.join(segment_name(first)))?;
            self.segments.remove(0);
        }
        Ok(())
    }

    fn check_poison(&self) -> Result<(), JournalError> {
        self.poison.clone().map_or(Ok(()), |error| Err(JournalError::Poisoned(error)))
    }

    /// Begins a new segment if the last one is full. Everything in the old one is on disk before the new one exists.
    fn make_room(&mut self) -> Result<(), JournalError> {
        if self.length < self.segment_bytes || self.length <= HEADER_BYTES as u64 {
            return Ok(());
        }
        self.sync()?;
        let header = Header { kind: Kind::Segment, realm: self.realm, sequence: self.next };
        let begun = begin(&*self.disk, &self.directory, header);
        let opened = begun.and_then(|()| self.disk.append(&self.directory.join(segment_name(self.next))));
        self.file = opened.map_err(|error| JournalError::Write(Arc::new(error)))?;
        self.segments.push(self.next);
        self.seed = header.seed();
        self.length = HEADER_BYTES as u64;
        Ok(())
    }

    /// After a failed write: as if it had not been tried.
    fn cut_back(&mut self, length: u64, error: io::Error) -> JournalError {
        match self.file.set_len(length) {
            Ok(()) => JournalError::Write(Arc::new(error)),
            Err(error) => self.fail(error),
        }
    }

    /// After a failed sync: the record was refused, so it had better not be there when the store is opened again.
    fn forget_last(&mut self, length: u64, events: u32) {
        self.next -= u64::from(events);
        if self.file.set_len(length).is_err() {
            tracing::warn!("a refused record may be in the journal when the store is opened again");
        }
    }

    fn fail(&mut self, error: io::Error) -> JournalError {
        tracing::error!(%error, "the journal cannot be trusted any more: nothing is accepted until the store is reopened");
        let error = Arc::new(error);
        self.poison = Some(Arc::clone(&error));
        JournalError::Poisoned(error)
    }
}

/// Makes an empty segment: complete on disk before it has its name.
fn begin(disk: &dyn Disk, directory: &std::path::Path, header: Header) -> io::Result<()> {
    let name = segment_name(header.sequence);
    let temporary = directory.join(format!("{TEMPORARY_PREFIX}{name}"));
    let mut file = disk.create(&temporary)?;
    file.write_all(&header.encode())?;
    file.sync()?;
    disk.rename(&temporary, &directory.join(name))?;
    disk.sync_directory(directory)
}
