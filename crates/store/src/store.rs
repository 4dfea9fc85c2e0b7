//! The running store: a machine that can be asked by all, and told by all, and that forgets nothing it confirmed.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use crate::directory::Lock;
use crate::disk::{Disk, SystemDisk};
use crate::gate::Gate;
use crate::journal::SEGMENT_BYTES;
use crate::machine::Machine;
use crate::queue::{Completion, Job, Queue, SnapshotError, SubmitError, frame};
use crate::recover::{self, OpenError, Recovery};
use crate::writer::Writer;

/// How much journal is written between two snapshots, unless told.
pub const SNAPSHOT_AFTER_BYTES: u64 = 256 << 20;

/// When a submit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When its events are on disk.
    #[default]
    Strict,
    /// At once. A crash of the machine (not of the process) may lose what was confirmed in the last `window`.
    Relaxed {
        /// How long events may wait for the disk.
        window: Duration,
    },
}

/// How a store works.
#[derive(Clone, Debug)]
pub struct Options {
    /// When a submit is answered.
    pub durability: Durability,
    /// How long a segment of the journal grows.
    pub segment_bytes: u64,
    /// How much journal is written between two snapshots.
    pub snapshot_after_bytes: u64,
    /// Whether closing takes a snapshot, so that the next opening has nothing to replay.
    pub snapshot_on_close: bool,
    /// Where to write.
    pub disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Strict,
            segment_bytes: SEGMENT_BYTES,
            snapshot_after_bytes: SNAPSHOT_AFTER_BYTES,
            snapshot_on_close: true,
            disk: Arc::new(SystemDisk),
        }
    }
}

/// How a store is doing.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The sequence of the last event that was applied.
    pub sequence: u64,
    /// The sequence up to which the journal is on disk for certain.
    pub durable: u64,
    /// How many records were written since opening: group commits.
    pub records: u64,
    /// How many bytes of journal were written since opening.
    pub journal_bytes: u64,
    /// How many segments the journal has.
    pub segments: usize,
    /// The sequences of the sound snapshots that are kept.
    pub snapshots: Vec<u64>,
    /// When the newest of them was written, by the time of its file.
    pub snapshot_written: Option<SystemTime>,
    /// How many events wait for the writer.
    pub waiting_events: usize,
    /// The beginning of the write that is under way, if one is.
    pub writing_since: Option<Instant>,
    /// Why nothing is accepted any more, if so.
    pub poisoned: Option<Arc<io::Error>>,
    /// Why the last snapshot was not taken, if so.
    pub snapshot_failure: Option<Arc<io::Error>>,
}

/// What the threads share.
pub(crate) struct Shared<M: Machine> {
    pub(crate) machine: Gate<M>,
    pub(crate) queue: Queue<M>,
    status: Mutex<Status>,
}

impl<M: Machine> Shared<M> {
    /// Changes or reads the status. Whoever panicked with it left it as good as it was.
    pub(crate) fn status<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A machine whose events are kept in a directory. See the [crate](crate).
///
/// Dropping it closes it, as [`close`](Self::close) does.
pub struct Store<M: Machine> {
    shared: Arc<Shared<M>>,
    writer: Option<JoinHandle<()>>,
    recovery: Recovery,
    _lock: Lock,
}

impl<M: Machine> Store<M> {
    /// Opens the store in `directory`, which is made if it is not there.
    ///
    /// `make` gives the machine without any event; it is called when the directory is locked. `progress` hears, record by
    /// record, how many bytes more of the journal were read.
    ///
    /// # Errors
    /// [`OpenError`] if it is in use, of another realm, damaged, or cannot be read or written. But for temporary files
    /// and a torn tail, nothing is changed then.
    pub fn open(
        directory: &Path,
        options: &Options,
        make: impl FnOnce() -> Result<M, OpenError>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, OpenError> {
        let lock = recover::prepare(directory, &*options.disk)?;
        let recovered = recover::recover(directory, options, make, progress)?;
        let shared = Arc::new(Shared {
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

    /// What opening found.
    #[must_use]
    pub const fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Asks the machine. Many may ask at once; a short question holds up nobody.
    ///
    /// The question must not call [`check`](Self::check), [`submit`](Self::submit), [`snapshot`](Self::snapshot) or
    /// [`close`](Self::close) again: the inner call may wait for the writer, which waits until the question is over.
    pub fn check<T>(&self, question: impl FnOnce(&M) -> T) -> T {
        question(&self.shared.machine.read())
    }

    /// Tells events, and waits until they are kept and applied. All of them are kept, or none.
    ///
    /// # Errors
    /// [`SubmitError`] if they are not.
    pub fn submit(&self, events: Vec<M::Event>) -> Result<Vec<M::Outcome>, SubmitError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.submit_with(events, move |result| drop(sender.send(result)));
        receiver.recv().unwrap_or(Err(SubmitError::Closed))
    }

    /// Tells events without waiting. `completion` is called exactly once: by the writer thread, so it must be quick and
    /// must not panic; or at once by this one, if the events are refused before they wait.
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

    /// Takes a snapshot of everything confirmed so far, and waits until it is on disk. The sequence it holds.
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

    /// How the store is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        let waiting_events = self.shared.queue.waiting_events();
        Status { waiting_events, ..self.shared.status(|status| status.clone()) }
    }

    /// Finishes what was submitted, takes a last snapshot if the options say so, and ends. How it went.
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
