//! The running store: a state machine shared by many threads. Confirmed events survive a crash. Under
//! [`Durability::Relaxed`], a crash of the system may lose the events that were confirmed within the last `window`.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use crate::directory::Lock;
use crate::disk::{Disk, SystemDisk};
use crate::gate::Gate;
use crate::journal::JOURNAL_FILE_BYTES;
use crate::machine::Machine;
use crate::queue::{Completion, Job, Queue, SnapshotError, SubmitError, frame};
use crate::recover::{self, OpenError, Recovery};
use crate::writer::Writer;

/// Default number of journal bytes between two snapshots.
pub const SNAPSHOT_AFTER_BYTES: u64 = 256 << 20;

/// The durability setting, which decides when submitted events are confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Events are confirmed when they are on disk.
    #[default]
    Strict,
    /// Events are confirmed before they are on disk. A system crash (but not a crash of the process) may lose events
    /// that were confirmed within the last `window`.
    Relaxed {
        /// Maximum time until events are on disk.
        window: Duration,
    },
}

/// The settings of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The durability setting, which decides when submitted events are confirmed.
    pub durability: Durability,
    /// Length at which a journal file is full.
    pub journal_file_bytes: u64,
    /// Number of journal bytes between two snapshots.
    pub snapshot_after_bytes: u64,
    /// True if closing the store takes a snapshot, so that the next opening has nothing to replay.
    pub snapshot_on_close: bool,
    /// The file system to write to.
    pub disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Strict,
            journal_file_bytes: JOURNAL_FILE_BYTES,
            snapshot_after_bytes: SNAPSHOT_AFTER_BYTES,
            snapshot_on_close: true,
            disk: Arc::new(SystemDisk),
        }
    }
}

/// The condition of a store.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The sequence of the last applied event.
    pub sequence: u64,
    /// The sequence up to which the journal is known to be on disk.
    pub durable: u64,
    /// Number of records (group commits) written since opening.
    pub records: u64,
    /// Number of journal bytes written since opening.
    pub journal_bytes: u64,
    /// Number of journal files.
    pub journal_files: usize,
    /// The sequences of the intact snapshots.
    pub snapshots: Vec<u64>,
    /// Modification time of the newest snapshot.
    pub snapshot_written: Option<SystemTime>,
    /// Number of events queued for the writer.
    pub waiting_events: usize,
    /// The time at which the write in progress started, if there is one.
    pub writing_since: Option<Instant>,
    /// The reason why the store no longer accepts events; `None` if it accepts them.
    pub poisoned: Option<Arc<io::Error>>,
    /// The error of the last snapshot, if it failed.
    pub snapshot_failure: Option<Arc<io::Error>>,
}

/// State shared by the threads.
pub(crate) struct SharedState<M: Machine> {
    pub(crate) machine: Gate<M>,
    pub(crate) queue: Queue<M>,
    status: Mutex<Status>,
}

impl<M: Machine> SharedState<M> {
    /// Reads or changes the status. A poisoned lock is ignored: every change leaves the status consistent.
    pub(crate) fn status<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A machine whose events are persisted in a directory. See the [crate](crate).
///
/// Dropping the store closes it, as [`close`](Self::close) does.
pub struct Store<M: Machine> {
    shared: Arc<SharedState<M>>,
    writer: Option<JoinHandle<()>>,
    recovery: Recovery,
    _lock: Lock,
}

impl<M: Machine> Store<M> {
    /// Opens the store in `directory`, which is created if it does not exist.
    ///
    /// `make` returns the machine without events; it is called while the directory is locked. `progress` is called
    /// after each record with the number of journal bytes read since the last call.
    ///
    /// # Errors
    /// [`OpenError`] if the store is in use, damaged or of another realm, or cannot be read or written. Nothing is
    /// changed in that case, except that temporary files and a torn tail may have been removed.
    pub fn open(
        directory: &Path,
        options: &Options,
        make: impl FnOnce() -> Result<M, OpenError>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, OpenError> {
        let lock = recover::prepare(directory, &*options.disk)?;
        let recovered = recover::recover(directory, options, make, progress)?;
        let shared = Arc::new(SharedState {
            machine: Gate::new(recovered.machine),
            queue: Queue::new(),
            status: Mutex::new(Status::default()),
        });
        let start = recovered.start;
        let spawned = Writer::new(directory.to_owned(), options.clone(), start, Arc::clone(&shared))
            .and_then(|writer| thread::Builder::new().name("bruit-writer".into()).spawn(move || writer.run()));
        let writer = spawned.map_err(|source| OpenError::io("start the writer of", directory, source))?;
        Ok(Self { shared, writer: Some(writer), recovery: recovered.report, _lock: lock })
    }

    /// Returns the report on opening.
    #[must_use]
    pub const fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Calls `question` with the machine. Many threads may do so at once. A short question does not delay others.
    ///
    /// The question must not call [`check`](Self::check), [`submit`](Self::submit), [`snapshot`](Self::snapshot) or
    /// [`close`](Self::close): the inner call may wait for the writer, which in turn waits for the question to end.
    pub fn check<T>(&self, question: impl FnOnce(&M) -> T) -> T {
        question(&self.shared.machine.read())
    }

    /// Submits events, and waits until they are persisted and applied. Either all or none of them are persisted.
    ///
    /// # Errors
    /// [`SubmitError`] if the events were not persisted.
    pub fn submit(&self, events: Vec<M::Event>) -> Result<Vec<M::Outcome>, SubmitError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.submit_with(events, move |result| drop(sender.send(result)));
        receiver.recv().unwrap_or(Err(SubmitError::Closed))
    }

    /// Submits events without waiting. `completion` is called exactly once. Usually it is called on the writer's or
    /// applier's thread, so it must be quick and must not panic. If the events are refused before they are queued, it
    /// is called at once on this thread.
    pub fn submit_with(
        &self,
        events: Vec<M::Event>,
        completion: impl FnOnce(Result<Vec<M::Outcome>, SubmitError>) + Send + 'static,
    ) {
        let completion = Completion::new(completion);
        if events.is_empty() {
            return completion.answer(Ok(Vec::new()));
        }
        match frame::<M>(&events) {
            Ok(framed) => self.shared.queue.push(Job { events, framed, completion }),
            Err(error) => completion.answer(Err(error)),
        }
    }

    /// Takes a snapshot of everything confirmed so far, and waits until it is on disk. Returns its sequence.
    ///
    /// # Errors
    /// [`SnapshotError`] if it could not be written.
    pub fn snapshot(&self) -> Result<u64, SnapshotError> {
        let (sender, receiver) = mpsc::channel();
        if !self.shared.queue.request_snapshot(sender) {
            return Err(SnapshotError::Closed);
        }
        receiver.recv().unwrap_or(Err(SnapshotError::Closed))
    }

    /// Returns the current condition of the store.
    #[must_use]
    pub fn status(&self) -> Status {
        let waiting_events = self.shared.queue.waiting_events();
        Status { waiting_events, ..self.shared.status(|status| status.clone()) }
    }

    /// Processes all submitted events, takes a last snapshot if so configured, and stops. Returns the final status.
    #[must_use]
    pub fn close(mut self) -> Status {
        self.stop();
        self.status()
    }

    fn stop(&mut self) {
        self.shared.queue.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the store panicked");
        }
    }
}

impl<M: Machine> Drop for Store<M> {
    fn drop(&mut self) {
        self.stop();
    }
}
