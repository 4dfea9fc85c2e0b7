//! The writer thread, the only one that changes the journal.
//!
//! In each round, the writer takes the queued jobs, admits their events, writes one record and syncs once. Meanwhile
//! the next batch accumulates in the queue. Then the writer applies the events and answers, or hands this work to the
//! [`applier`](crate::applier) while it writes the next batch. Between rounds the writer copies a slice of a running
//! snapshot. It locks the machine for one short slice at a time, and lets waiting readers in between slices.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Instant, SystemTime};

use crate::applier::{AbandonGuard, Applier, Batch};
use crate::background::{self, Chunk, Task};
use crate::directory::{Listing, snapshot_name};
use crate::disk::remove_if_there;
use crate::gate::Gate;
use crate::header::{Header, Kind};
use crate::journal::{Journal, JournalError};
use crate::machine::Machine;
use crate::queue::{Finished, Job, Request, SnapshotError, SubmitError, Wait, Work};
use crate::record::RecordBuilder;
use crate::store::{Durability, Options, SharedState};

/// Number of bytes of a snapshot that are copied under one lock.
const SNAPSHOT_SLICE_BYTES: usize = 256 << 10;

/// Number of bytes of a snapshot that are copied for each event applied while the snapshot runs. This ratio bounds the
/// machine's log of overwritten state. For example, a state of 256 MiB is copied within 4096 events.
const SNAPSHOT_BYTES_PER_EVENT: usize = 64 << 10;

/// Maximum size of the machine's log of overwritten state. While the log is larger, the writer copies the snapshot and
/// writes no events. A single event can overwrite much data, such as a tick that clears old lines.
const SNAPSHOT_LOGGED_BYTES_MAX: usize = 4 << 20;

/// Number of snapshots to keep: the newest, and one to fall back to.
const SNAPSHOTS_KEPT: usize = 2;

/// The initial state of the writer.
pub(crate) struct Start {
    pub(crate) journal: Journal,
    pub(crate) realm: [u8; 16],
    /// The sequences of intact snapshots.
    pub(crate) snapshots: Vec<u64>,
    /// Number of journal bytes after the newest snapshot.
    pub(crate) replayed_bytes: u64,
}

/// The state of the thread.
pub(crate) struct Writer<M: Machine> {
    shared: Arc<SharedState<M>>,
    directory: PathBuf,
    options: Options,
    realm: [u8; 16],
    journal: Journal,
    record: RecordBuilder,
    records: u64,
    /// Time of the oldest write that is not yet synced.
    unsynced_since: Option<Instant>,
    applier: Applier<M>,
    running: Option<RunningSnapshot>,
    /// Callers that wait for the next snapshot.
    requests: Vec<Request>,
    snapshots: Vec<u64>,
    /// Modification time of the newest snapshot.
    snapshot_written: Option<SystemTime>,
    /// Number of journal bytes at the last snapshot, counted as [`Journal::written_bytes`] plus the replayed bytes.
    snapshot_at_bytes: u64,
    replayed_bytes: u64,
}

/// A running snapshot.
struct RunningSnapshot {
    chunks: SyncSender<Chunk>,
    /// A piece that the snapshot thread could not accept yet.
    pending: Option<Chunk>,
    /// True if the machine has returned its last piece.
    complete: bool,
    requests: Vec<Request>,
}

impl<M: Machine> Writer<M> {
    pub(crate) fn new(
        directory: PathBuf,
        options: Options,
        start: Start,
        shared: Arc<SharedState<M>>,
    ) -> io::Result<Self> {
        let snapshot_written = written(&directory, &start.snapshots);
        let writer = Self {
            applier: Applier::start(&shared)?,
            shared,
            directory,
            options,
            realm: start.realm,
            journal: start.journal,
            record: RecordBuilder::default(),
            records: 0,
            unsynced_since: None,
            running: None,
            requests: Vec::new(),
            snapshots: start.snapshots,
            snapshot_written,
            snapshot_at_bytes: 0,
            replayed_bytes: start.replayed_bytes,
        };
        writer.shared.status(|status| status.sequence = writer.journal.last());
        writer.publish();
        Ok(writer)
    }

    pub(crate) fn run(mut self) {
        let _abandon = AbandonGuard(Arc::clone(&self.shared));
        loop {
            let Work { jobs, requests, finished, closing } = self.shared.queue.take(&self.next_wait());
            let events = if jobs.is_empty() { 0 } else { self.commit(jobs) };
            self.requests.extend(requests);
            if self.shared.queue.is_abandoned() {
                return self.give_up(finished);
            }
            self.finish_snapshot(finished);
            self.sync_if_due();
            self.advance_snapshot(events);
            self.begin_snapshot_if_due();
            self.publish();
            if closing {
                break;
            }
        }
        self.shut_down();
    }

    /// Returns how long to wait for work.
    fn next_wait(&self) -> Wait {
        if self.running.as_ref().is_some_and(|running| !running.complete && running.pending.is_none()) {
            return Wait::Poll;
        }
        match (self.options.durability, self.unsynced_since) {
            (Durability::Relaxed { window }, Some(since)) => {
                since.checked_add(window).map_or(Wait::Forever, Wait::Until)
            }
            _ => Wait::Forever,
        }
    }

    /// Runs one round. Returns the number of applied events.
    fn commit(&mut self, jobs: Vec<Job<M>>) -> usize {
        let batch = Batch::admit(jobs, &self.shared, &mut self.record);
        if let Err(error) = self.write() {
            let error = match error {
                JournalError::Write(error) => SubmitError::Write(error),
                JournalError::Poisoned(error) => SubmitError::Poisoned(error),
            };
            batch.fail(&error);
            return 0;
        }
        self.publish();
        // If jobs are queued, hand the batch over, so that the disk does not idle. While a snapshot runs, apply the
        // batch here, because the size of the machine's log is needed after each batch.
        let later = self.running.is_none() && self.shared.queue.waiting_events() > 0;
        self.applier.apply(batch.written(self.journal.last()), later, &self.shared);
        self.record.events() as usize
    }

    fn write(&mut self) -> Result<(), JournalError> {
        if self.record.events() == 0 {
            return Ok(());
        }
        let strict = self.options.durability == Durability::Strict;
        self.shared.status(|status| status.writing_since = Some(Instant::now()));
        let appended = self.journal.append(&mut self.record, strict);
        self.shared.status(|status| status.writing_since = None);
        appended?;
        self.records += 1;
        if !strict {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    fn sync_if_due(&mut self) {
        let Durability::Relaxed { window } = self.options.durability else { return };
        if self.unsynced_since.is_some_and(|since| since.elapsed() >= window) {
            self.sync();
        }
    }

    /// Syncs the writes delayed by relaxed durability. A failure poisons the journal.
    fn sync(&mut self) {
        if self.unsynced_since.take().is_some() {
            self.shared.status(|status| status.writing_since = Some(Instant::now()));
            let _ = self.journal.sync();
            self.shared.status(|status| status.writing_since = None);
        }
    }

    /// Copies the part of the snapshot that is due for this round's events. If there were no events, copies one slice,
    /// provided that the snapshot thread can accept it. Copies more while the machine's log is too large.
    fn advance_snapshot(&mut self, events: usize) {
        if events == 0 {
            return self.copy_if_room();
        }
        let mut owed = events.saturating_mul(SNAPSHOT_BYTES_PER_EVENT);
        while (owed > 0 || self.is_log_too_large()) && self.copy_slice() {
            owed = owed.saturating_sub(SNAPSHOT_SLICE_BYTES);
        }
    }

    fn is_log_too_large(&self) -> bool {
        let is_copying = self.running.as_ref().is_some_and(|running| !running.complete);
        is_copying && self.shared.machine.read().logged_bytes() > SNAPSHOT_LOGGED_BYTES_MAX
    }

    fn copy_if_room(&mut self) {
        let Some(running) = &mut self.running else { return };
        if running.pending.is_none() && !running.complete {
            running.take_from(&self.shared.machine);
        }
        running.send_pending(false);
    }

    /// Copies a slice and waits until the snapshot thread accepts it. Returns false if there is nothing to copy.
    fn copy_slice(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        running.send_pending(true);
        let taken = !running.complete && running.take_from(&self.shared.machine);
        running.send_pending(true);
        taken
    }

    fn begin_snapshot_if_due(&mut self) {
        let bytes = self.replayed_bytes + self.journal.written_bytes();
        let due = bytes - self.snapshot_at_bytes >= self.options.snapshot_after_bytes;
        if self.running.is_none() && (due || !self.requests.is_empty()) && self.may_snapshot() {
            self.snapshot_at_bytes = bytes;
            self.begin_snapshot();
        }
    }

    /// Waits until all events in the journal are applied. Then returns true if the machine allows a snapshot.
    fn may_snapshot(&mut self) -> bool {
        self.applier.drain() && self.shared.machine.read().may_snapshot()
    }

    /// Begins a snapshot once everything in the journal is applied, because the snapshot claims to contain all of it.
    fn begin_snapshot(&mut self) {
        if !self.applier.drain() {
            return;
        }
        let requests = std::mem::take(&mut self.requests);
        let sequence = self.journal.last();
        if self.snapshots.last() == Some(&sequence) {
            return answer(requests, &Ok(sequence));
        }
        match self.start_snapshot(sequence) {
            Ok(chunks) => {
                let pending = Some(Chunk { bytes: self.first_bytes(), last: false });
                self.running = Some(RunningSnapshot { chunks, pending, complete: false, requests });
                self.copy_if_room();
            }
            Err(error) => self.snapshot_failed(requests, error),
        }
    }

    fn first_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // No other thread changes the machine, so no event comes between the two calls.
        self.shared.machine.read().snapshot_start(&mut bytes);
        if let Some(mut machine) = self.shared.machine.write() {
            machine.begin_snapshot(&mut bytes);
        }
        bytes
    }

    /// Starts the snapshot thread after a sync. A snapshot with later events than the journal on disk would leave a gap
    /// in the journal.
    fn start_snapshot(&mut self, sequence: u64) -> Result<SyncSender<Chunk>, Arc<io::Error>> {
        if self.journal.durable() < sequence {
            self.unsynced_since = None;
            self.shared.status(|status| status.writing_since = Some(Instant::now()));
            let synced = self.journal.sync();
            self.shared.status(|status| status.writing_since = None);
            synced.map_err(|error| match error {
                JournalError::Write(error) | JournalError::Poisoned(error) => error,
            })?;
        }
        let header = Header { kind: Kind::Snapshot, realm: self.realm, sequence };
        let task = Task { disk: Arc::clone(&self.options.disk), directory: self.directory.clone(), header };
        background::start(task, &self.shared).map_err(Arc::new)
    }

    /// Handles the result of the snapshot thread, if there is one.
    fn finish_snapshot(&mut self, finished: Option<Finished>) {
        let Some(finished) = finished else { return };
        let Some(mut running) = self.running.take() else { return };
        // Even if the thread failed early, the machine must finish its snapshot to free its log.
        while !running.complete && running.take_from(&self.shared.machine) {}
        match finished {
            Ok(sequence) => {
                self.snapshots.retain(|&older| older < sequence);
                self.snapshots.push(sequence);
                self.snapshot_written = written(&self.directory, &self.snapshots);
                self.shared.status(|status| status.snapshot_failure = None);
                self.remove_obsolete();
                self.publish();
                answer(running.requests, &Ok(sequence));
            }
            Err(error) => self.snapshot_failed(running.requests, error),
        }
    }

    fn snapshot_failed(&self, requests: Vec<Request>, error: Arc<io::Error>) {
        tracing::warn!(%error, "failed to write a snapshot; the journal grows until one succeeds");
        self.shared.status(|status| status.snapshot_failure = Some(Arc::clone(&error)));
        answer(requests, &Err(SnapshotError::Failed(error)));
    }

    /// Keeps the two newest intact snapshots and removes all others. Also removes the journal files that the older of
    /// the two covers.
    fn remove_obsolete(&mut self) {
        while self.snapshots.len() > SNAPSHOTS_KEPT {
            self.snapshots.remove(0);
        }
        if let Err(error) = self.remove_files() {
            tracing::warn!(%error, "failed to remove files that are no longer needed");
        }
    }

    fn remove_files(&mut self) -> io::Result<()> {
        let disk = Arc::clone(&self.options.disk);
        for sequence in Listing::read(&self.directory)?.snapshots {
            if !self.snapshots.contains(&sequence) {
                remove_if_there(&*disk, &self.directory.join(snapshot_name(sequence)))?;
            }
        }
        if let [older, _] = *self.snapshots.as_slice() {
            self.journal.remove_up_to(older)?;
        }
        disk.sync_directory(&self.directory)
    }

    fn shut_down(&mut self) {
        if !self.applier.drain() {
            return self.give_up(None);
        }
        self.sync();
        self.complete_snapshot();
        if (self.options.snapshot_on_close || !self.requests.is_empty()) && self.may_snapshot() {
            self.begin_snapshot();
            self.complete_snapshot();
        }
        self.publish();
    }

    /// Stops without a snapshot after a panic, because some events are in the journal but not in the machine. Waits for
    /// a running snapshot, so that it ends before the directory's lock is released.
    fn give_up(&mut self, finished: Option<Finished>) {
        self.sync();
        self.requests.clear();
        if self.running.take().is_some() && finished.is_none() {
            let _ = self.shared.queue.wait_for_snapshot();
        }
        self.publish();
    }

    /// Completes a running snapshot.
    fn complete_snapshot(&mut self) {
        while self.copy_slice() {}
        if self.running.is_some() {
            let finished = self.shared.queue.wait_for_snapshot();
            self.finish_snapshot(Some(finished));
        }
    }

    fn publish(&self) {
        self.shared.status(|status| {
            status.durable = self.journal.durable();
            status.records = self.records;
            status.journal_bytes = self.journal.written_bytes();
            status.journal_files = self.journal.journal_files();
            status.snapshots.clone_from(&self.snapshots);
            status.snapshot_written = self.snapshot_written;
            // Does not overwrite an error that a panicked thread has set.
            if let Some(error) = self.journal.poison() {
                status.poisoned = Some(Arc::clone(error));
            }
        });
    }
}

impl RunningSnapshot {
    /// Takes the next slice from the machine. Returns false if there is no slice because a thread panicked while
    /// changing the machine.
    fn take_from<M: Machine>(&mut self, machine: &Gate<M>) -> bool {
        let Some(mut machine) = machine.write() else { return false };
        let mut bytes = Vec::with_capacity(SNAPSHOT_SLICE_BYTES);
        self.complete = machine.continue_snapshot(SNAPSHOT_SLICE_BYTES, &mut bytes);
        self.pending = Some(Chunk { bytes, last: self.complete });
        true
    }

    /// Sends the pending slice if the channel has space or `wait` is set. If the thread is gone, its result is already
    /// queued.
    fn send_pending(&mut self, wait: bool) {
        let Some(chunk) = self.pending.take() else { return };
        if wait {
            let _ = self.chunks.send(chunk);
        } else if let Err(TrySendError::Full(chunk)) = self.chunks.try_send(chunk) {
            self.pending = Some(chunk);
        }
    }
}

/// Returns the modification time of the newest of `snapshots`.
fn written(directory: &Path, snapshots: &[u64]) -> Option<SystemTime> {
    let newest = snapshots.iter().max()?;
    std::fs::metadata(directory.join(snapshot_name(*newest))).and_then(|file| file.modified()).ok()
}

fn answer(requests: Vec<Request>, result: &Result<u64, SnapshotError>) {
    // If sending fails, the caller is no longer waiting.
    requests.into_iter().for_each(|request| drop(request.send(result.clone())));
}
