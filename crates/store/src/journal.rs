//! Writing the journal. Records are appended to the last journal file; when it is full, a new file begins.
//!
//! After a failed write the file is truncated to its old length, and the next write may succeed. After a failed sync,
//! the contents of the file are unknown, because the system may have dropped the dirty pages. The journal is then
//! poisoned until the store is opened again.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::directory::{TEMPORARY_PREFIX, journal_file_name};
use crate::disk::{Disk, DiskFile, remove_if_there};
use crate::header::{HEADER_BYTES, Header, Kind};
use crate::record::RecordBuilder;

/// Default length at which a journal file is full.
pub const JOURNAL_FILE_BYTES: u64 = 64 << 20;

/// The reason why nothing was appended.
#[derive(Clone, Debug)]
pub(crate) enum JournalError {
    /// The write failed, perhaps because the disk is full. A retry may succeed.
    Write(Arc<io::Error>),
    /// A sync failed.
    Poisoned(Arc<io::Error>),
}

/// The journal, open for appending.
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    realm: [u8; 16],
    journal_file_bytes: u64,
    /// The first sequence of each journal file. The last file is open for writing.
    journal_files: Vec<u64>,
    file: Box<dyn DiskFile>,
    seed: u64,
    length: u64,
    next: u64,
    durable: u64,
    written_bytes: u64,
    poison: Option<Arc<io::Error>>,
}

/// The position at which a journal continues.
pub(crate) struct Resume {
    pub(crate) realm: [u8; 16],
    pub(crate) journal_files: Vec<u64>,
    /// The length of the last journal file.
    pub(crate) length: u64,
    /// The next sequence.
    pub(crate) next: u64,
}

impl Journal {
    /// Opens the journal for appending. Creates a journal file if there is none to continue.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        journal_file_bytes: u64,
        resume: Resume,
        begin_file: bool,
    ) -> io::Result<Self> {
        let Resume { realm, mut journal_files, length, next } = resume;
        if begin_file {
            begin(&*disk, &directory, Header { kind: Kind::Journal, realm, sequence: next })?;
            journal_files.retain(|&first| first != next);
            journal_files.push(next);
        }
        let first = journal_files.last().copied().unwrap_or(next);
        let mut file = disk.append(&directory.join(journal_file_name(first)))?;
        // Recovered records may never have been synced, because the process was killed or durability was relaxed.
        file.sync()?;
        Ok(Self {
            seed: Header { kind: Kind::Journal, realm, sequence: first }.seed(),
            length: if begin_file { HEADER_BYTES as u64 } else { length },
            durable: next - 1,
            written_bytes: 0,
            poison: None,
            disk,
            directory,
            realm,
            journal_file_bytes,
            journal_files,
            file,
            next,
        })
    }

    /// Returns the last sequence written.
    pub(crate) const fn last(&self) -> u64 {
        self.next - 1
    }

    /// Returns the last sequence known to be on disk.
    pub(crate) const fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns the number of bytes appended since the store was opened.
    pub(crate) const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    pub(crate) const fn journal_files(&self) -> usize {
        self.journal_files.len()
    }

    pub(crate) const fn poison(&self) -> Option<&Arc<io::Error>> {
        self.poison.as_ref()
    }

    /// Appends a record, and waits for the disk if `sync` is true. On failure, nothing is appended, except that a
    /// failed sync may leave the record in the file.
    pub(crate) fn append(&mut self, record: &mut RecordBuilder, sync: bool) -> Result<(), JournalError> {
        self.check_poison()?;
        self.make_room()?;
        let bytes = record.finish(self.next, self.durable, self.seed);
        let (before, written) = (self.length, bytes.len() as u64);
        if let Err(error) = self.file.write_all(bytes) {
            return Err(self.undo_write(before, error));
        }
        self.length += written;
        self.written_bytes += written;
        self.next += u64::from(record.events());
        if sync && let Err(error) = self.sync() {
            self.undo_append(before, record.events());
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

    /// Removes the journal files that contain no event after `sequence`.
    pub(crate) fn remove_up_to(&mut self, sequence: u64) -> io::Result<()> {
        while let [first, second, ..] = *self.journal_files.as_slice()
            && second <= sequence.saturating_add(1)
        {
            remove_if_there(&*self.disk, &self.directory.join(journal_file_name(first)))?;
            self.journal_files.remove(0);
        }
        Ok(())
    }

    fn check_poison(&self) -> Result<(), JournalError> {
        self.poison.clone().map_or(Ok(()), |error| Err(JournalError::Poisoned(error)))
    }

    /// Begins a new journal file if the last one is full. The old file is completely on disk before the new one exists.
    fn make_room(&mut self) -> Result<(), JournalError> {
        if self.length < self.journal_file_bytes || self.length <= HEADER_BYTES as u64 {
            return Ok(());
        }
        self.sync()?;
        let header = Header { kind: Kind::Journal, realm: self.realm, sequence: self.next };
        let begun = begin(&*self.disk, &self.directory, header);
        let opened = begun.and_then(|()| self.disk.append(&self.directory.join(journal_file_name(self.next))));
        self.file = opened.map_err(|error| JournalError::Write(Arc::new(error)))?;
        self.journal_files.push(self.next);
        self.seed = header.seed();
        self.length = HEADER_BYTES as u64;
        Ok(())
    }

    /// Truncates the file after a failed write, as if the write had not been attempted.
    fn undo_write(&mut self, length: u64, error: io::Error) -> JournalError {
        match self.file.set_len(length) {
            Ok(()) => JournalError::Write(Arc::new(error)),
            Err(error) => self.fail(error),
        }
    }

    /// Truncates the file after a failed sync, because the record was refused and should not be recovered later.
    fn undo_append(&mut self, length: u64, events: u32) {
        self.next -= u64::from(events);
        if self.file.set_len(length).is_err() {
            tracing::warn!(
                "failed to remove a refused record from the journal; it may reappear when the store is next opened"
            );
        }
    }

    fn fail(&mut self, error: io::Error) -> JournalError {
        tracing::error!(%error, "the journal is unreliable; the store accepts no events until it is opened again");
        let error = Arc::new(error);
        self.poison = Some(Arc::clone(&error));
        JournalError::Poisoned(error)
    }
}

/// Creates an empty journal file. The file gets its final name only when it is completely on disk.
fn begin(disk: &dyn Disk, directory: &std::path::Path, header: Header) -> io::Result<()> {
    let name = journal_file_name(header.sequence);
    let temporary = directory.join(format!("{TEMPORARY_PREFIX}{name}"));
    let mut file = disk.create(&temporary)?;
    file.write_all(&header.encode())?;
    file.sync()?;
    disk.rename(&temporary, &directory.join(name))?;
    disk.sync_directory(directory)
}
