//! The queue of the writer thread: submitted events, requests for snapshots, and results of the snapshot thread.
//!
//! The queue is bounded. Events that do not fit are refused at once, so memory does not grow with traffic.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bruit_engine::codec::Malformed;

use crate::machine::Machine;
use crate::record::{EVENT_BYTES_MAX, RECORD_BYTES_MAX, put_event};

/// Maximum number of queued events.
pub const QUEUE_EVENTS_MAX: usize = 1 << 16;

/// Maximum number of bytes of queued events.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;

/// The reason why events were not accepted. It applies to all events submitted together.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The queue is full.
    #[error("too many events are queued for the disk; try again later")]
    Busy,
    /// The store is closed.
    ///
    /// If the store was closed because one of its threads panicked (see [`Status::poisoned`](crate::Status::poisoned)),
    /// the submitted events may or may not be present when it is opened again.
    #[error("the store is closed")]
    Closed,
    /// An event is larger than [`EVENT_BYTES_MAX`].
    #[error("an event is {bytes} bytes long; the maximum is {EVENT_BYTES_MAX}")]
    EventTooLarge {
        /// Length of the event in bytes.
        bytes: usize,
    },
    /// The events together are larger than [`RECORD_BYTES_MAX`].
    #[error("the events are {bytes} bytes long in total; the maximum is {RECORD_BYTES_MAX}")]
    TooLarge {
        /// Total length of the events in bytes.
        bytes: usize,
    },
    /// An event cannot be decoded from its own encoding. In the journal, it would prevent the store from being opened.
    #[error("an event cannot be decoded from its own encoding")]
    Unreadable(#[source] Malformed),
    /// The write failed. Nothing was stored, and a retry may succeed.
    #[error("failed to write to the journal (is the disk full?)")]
    Write(#[source] Arc<io::Error>),
    /// A sync failed. The store accepts no more events until it is opened again.
    ///
    /// The submitted events may or may not be present when it is opened again.
    #[error("failed to sync the journal; the store accepts no events until it is opened again")]
    Poisoned(#[source] Arc<io::Error>),
}

/// The reason why a snapshot was not taken.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A disk operation failed. The store keeps running with the snapshots it has.
    #[error("failed to write the snapshot")]
    Failed(#[source] Arc<io::Error>),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// The callback that receives the outcomes. The callback is called exactly once, even if the completion is dropped.
pub(crate) struct Completion<O>(Option<Answer<O>>);

/// The function that a [`Completion`] calls.
type Answer<O> = Box<dyn FnOnce(Result<Vec<O>, SubmitError>) + Send>;

impl<O> Completion<O> {
    pub(crate) fn new(answer: impl FnOnce(Result<Vec<O>, SubmitError>) + Send + 'static) -> Self {
        Self(Some(Box::new(answer)))
    }

    pub(crate) fn answer(mut self, result: Result<Vec<O>, SubmitError>) {
        if let Some(answer) = self.0.take() {
            answer(result);
        }
    }
}

impl<O> Drop for Completion<O> {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take() {
            answer(Err(SubmitError::Closed));
        }
    }
}

/// Events submitted together, encoded on the submitter's thread.
pub(crate) struct Job<M: Machine> {
    pub(crate) events: Vec<M::Event>,
    /// The events as encoded in a record.
    pub(crate) framed: Vec<u8>,
    pub(crate) completion: Completion<M::Outcome>,
}

/// Encodes events as in a record, and verifies that they can be decoded again.
pub(crate) fn frame<M: Machine>(events: &[M::Event]) -> Result<Vec<u8>, SubmitError> {
    let mut framed = Vec::new();
    for event in events {
        let bytes = put_event(&mut framed, |out| M::encode(event, out));
        if bytes > EVENT_BYTES_MAX {
            return Err(SubmitError::EventTooLarge { bytes });
        }
        if framed.len() > RECORD_BYTES_MAX {
            return Err(SubmitError::TooLarge { bytes: framed.len() });
        }
        let encoded = framed.split_at(framed.len() - bytes).1;
        M::check_encoded(event, encoded).map_err(SubmitError::Unreadable)?;
    }
    Ok(framed)
}

/// The reply channel of a caller that waits for a snapshot.
pub(crate) type Request = Sender<Result<u64, SnapshotError>>;

/// The result of a snapshot: its sequence, or the error.
pub(crate) type Finished = Result<u64, Arc<io::Error>>;

/// The time to wait for work.
pub(crate) enum Wait {
    /// Do not wait.
    Poll,
    /// Wait until there is work.
    Forever,
    /// Wait until this time.
    Until(Instant),
}

/// Work taken from the queue.
pub(crate) struct Work<M: Machine> {
    /// Jobs that fit into one record.
    pub(crate) jobs: Vec<Job<M>>,
    pub(crate) requests: Vec<Request>,
    pub(crate) finished: Option<Finished>,
    /// True if the queue is closed and no jobs are left after these.
    pub(crate) closing: bool,
}

/// The queue of the writer thread.
pub(crate) struct Queue<M: Machine> {
    state: Mutex<State<M>>,
    ready: Condvar,
}

struct State<M: Machine> {
    jobs: VecDeque<Job<M>>,
    events: usize,
    bytes: usize,
    requests: Vec<Request>,
    finished: Option<Finished>,
    /// True if the snapshot thread can accept another piece.
    woken: bool,
    closed: bool,
    /// True if a thread panicked: events on disk may be missing from the machine.
    abandoned: bool,
}

impl<M: Machine> Queue<M> {
    pub(crate) fn new() -> Self {
        let state = State {
            jobs: VecDeque::new(),
            events: 0,
            bytes: 0,
            requests: Vec::new(),
            finished: None,
            woken: false,
            closed: false,
            abandoned: false,
        };
        Self { state: Mutex::new(state), ready: Condvar::new() }
    }

    /// Locks the state. A poisoned lock is ignored, because no code here panics between related changes.
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job, or refuses it at once.
    pub(crate) fn push(&self, job: Job<M>) {
        if let Some((job, error)) = self.try_push(job) {
            // This is done outside the lock, because the callback may submit again.
            job.completion.answer(Err(error));
        }
    }

    fn try_push(&self, job: Job<M>) -> Option<(Job<M>, SubmitError)> {
        let mut state = self.lock();
        if state.closed {
            return Some((job, SubmitError::Closed));
        }
        let (events, bytes) = (state.events + job.events.len(), state.bytes + job.framed.len());
        // An empty queue accepts a job of any size, so that no job is refused forever.
        if !state.jobs.is_empty() && (events > QUEUE_EVENTS_MAX || bytes > QUEUE_BYTES_MAX) {
            return Some((job, SubmitError::Busy));
        }
        (state.events, state.bytes) = (events, bytes);
        state.jobs.push_back(job);
        self.ready.notify_one();
        None
    }

    /// Returns the number of queued events.
    pub(crate) fn waiting_events(&self) -> usize {
        self.lock().events
    }

    /// Requests a snapshot. Returns false if the queue is closed, so that none will be taken.
    pub(crate) fn request_snapshot(&self, request: Request) -> bool {
        self.change(|state| {
            let open = !state.closed;
            if open {
                state.requests.push(request);
            }
            open
        })
    }

    /// Records that the snapshot thread can accept another piece, and wakes the writer.
    pub(crate) fn wake(&self) {
        self.change(|state| state.woken = true);
    }

    /// Records the result of the snapshot thread, and wakes the writer.
    pub(crate) fn finish_snapshot(&self, finished: Finished) {
        self.change(|state| state.finished = Some(finished));
    }

    /// Closes the queue to new work; queued jobs are still processed.
    pub(crate) fn close(&self) {
        self.change(|state| state.closed = true);
    }

    /// Closes the queue after a panic and answers all waiting callers.
    pub(crate) fn abandon(&self) {
        let (jobs, requests) = self.change(|state| {
            (state.closed, state.abandoned) = (true, true);
            (state.events, state.bytes) = (0, 0);
            (std::mem::take(&mut state.jobs), std::mem::take(&mut state.requests))
        });
        drop((jobs, requests));
    }

    /// Returns true if a thread has panicked.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    fn change<T>(&self, change: impl FnOnce(&mut State<M>) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        self.ready.notify_all();
        result
    }

    /// Takes queued work, with as many jobs as fit into one record.
    pub(crate) fn take(&self, wait: &Wait) -> Work<M> {
        let mut state = self.lock();
        while !state.has_work() {
            let (again, in_time) = self.wait(state, wait);
            state = again;
            if !in_time {
                break;
            }
        }
        state.woken = false;
        Work {
            jobs: state.take_jobs(),
            requests: std::mem::take(&mut state.requests),
            finished: state.finished.take(),
            closing: state.closed && state.jobs.is_empty(),
        }
    }

    /// Waits for a change of the state. Returns false on timeout.
    fn wait<'a>(&self, state: MutexGuard<'a, State<M>>, wait: &Wait) -> (MutexGuard<'a, State<M>>, bool) {
        match wait {
            Wait::Poll => (state, false),
            Wait::Forever => (self.ready.wait(state).unwrap_or_else(PoisonError::into_inner), true),
            Wait::Until(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let waited = self.ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
                (waited.0, !waited.1.timed_out())
            }
        }
    }

    /// Waits for the result of the snapshot thread.
    pub(crate) fn wait_for_snapshot(&self) -> Finished {
        let mut state = self.lock();
        loop {
            if let Some(finished) = state.finished.take() {
                return finished;
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<M: Machine> State<M> {
    fn has_work(&self) -> bool {
        !self.jobs.is_empty() || !self.requests.is_empty() || self.finished.is_some() || self.woken || self.closed
    }

    fn take_jobs(&mut self) -> Vec<Job<M>> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(job) = self.jobs.pop_front_if(|job| bytes + job.framed.len() <= RECORD_BYTES_MAX) {
            bytes += job.framed.len();
            self.events -= job.events.len();
            taken.push(job);
        }
        self.bytes -= bytes;
        taken
    }
}
