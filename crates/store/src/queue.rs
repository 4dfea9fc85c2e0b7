//! What waits for the writer thread: submits, requests for snapshots, news of the snapshot thread.
//!
//! Bounded: a submit that does not fit is refused at once, so that memory never grows with traffic.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bruit_engine::codec::Malformed;

use crate::machine::Machine;
use crate::record::{EVENT_BYTES_MAX, RECORD_BYTES_MAX, put_event};

/// The most events that wait.
pub const QUEUE_EVENTS_MAX: usize = 1 << 16;

/// The most bytes of events that wait.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Why events were not accepted. None of those submitted together was.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Too many events wait already.
    #[error("too many events wait for the disk: try again")]
    Busy,
    /// The store is closed.
    ///
    /// If it closed because one of its threads panicked, which [`Status::poisoned`](crate::Status::poisoned) tells, it is not
    /// known whether these events are there when it is opened again.
    #[error("the store is closed")]
    Closed,
    /// An event is larger than [`EVENT_BYTES_MAX`].
    #[error("an event has {bytes} bytes, more than {EVENT_BYTES_MAX}")]
    EventTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The events together are larger than [`RECORD_BYTES_MAX`].
    #[error("the events have {bytes} bytes together, more than {RECORD_BYTES_MAX}")]
    TooLarge {
        /// Their length.
        bytes: usize,
    },
    /// An event does not read back from its own bytes: once in the journal, it would keep the store from being opened.
    #[error("an event could not be read back from the journal")]
    Unreadable(#[source] Malformed),
    /// The disk refused; nothing was kept, and a later try may succeed.
    #[error("failed to write to the journal (is the disk full?)")]
    Write(#[source] Arc<io::Error>),
    /// The disk failed to keep what it took: nothing is accepted until the store is opened again.
    ///
    /// Whether these events are there then is not known.
    #[error("the disk failed under the journal: nothing is accepted until the store is opened again")]
    Poisoned(#[source] Arc<io::Error>),
}

/// Why there is no snapshot.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The disk refused. The store goes on, with the snapshots it has.
    #[error("failed to write the snapshot")]
    Failed(#[source] Arc<io::Error>),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// Who gets the outcomes. Called exactly once, also if it is dropped.
pub(crate) struct Completion<O>(Option<Answer<O>>);

/// What a [`Completion`] calls.
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

/// Events submitted together, encoded by whoever submitted them.
pub(crate) struct Job<M: Machine> {
    pub(crate) events: Vec<M::Event>,
    /// The events as they will be in a record.
    pub(crate) framed: Vec<u8>,
    pub(crate) completion: Completion<M::Outcome>,
}

/// Encodes events as they will be in a record, and makes sure that they can be read from there.
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
        M::decode(encoded).map_err(SubmitError::Unreadable)?;
    }
    Ok(framed)
}

/// Somebody who waits for a snapshot.
pub(crate) type Request = Sender<Result<u64, SnapshotError>>;

/// How a snapshot ended: its sequence.
pub(crate) type Finished = Result<u64, Arc<io::Error>>;

/// How long to wait for work.
pub(crate) enum Wait {
    /// Not at all.
    Poll,
    /// Until there is some.
    Forever,
    /// Until then at most.
    Until(Instant),
}

/// What was waiting.
pub(crate) struct Work<M: Machine> {
    /// At most what fits one record.
    pub(crate) jobs: Vec<Job<M>>,
    pub(crate) requests: Vec<Request>,
    pub(crate) finished: Option<Finished>,
    /// Nothing will follow these jobs.
    pub(crate) closing: bool,
}

/// The queue before the writer thread.
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
    /// The snapshot thread has room again.
    woken: bool,
    closed: bool,
    /// A thread panicked: what is on disk may not be in the machine.
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

    /// Nothing here panics half-way, so a poisoned state is a good one.
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a job wait, or answers it at once.
    pub(crate) fn push(&self, job: Job<M>) {
        if let Some((job, error)) = self.try_push(job) {
            // Not under the lock: the answer may submit again.
            job.completion.answer(Err(error));
        }
    }

    fn try_push(&self, job: Job<M>) -> Option<(Job<M>, SubmitError)> {
        let mut state = self.lock();
        if state.closed {
            return Some((job, SubmitError::Closed));
        }
        let (events, bytes) = (state.events + job.events.len(), state.bytes + job.framed.len());
        // An empty queue takes any job, so that none is refused for ever.
        if !state.jobs.is_empty() && (events > QUEUE_EVENTS_MAX || bytes > QUEUE_BYTES_MAX) {
            return Some((job, SubmitError::Busy));
        }
        (state.events, state.bytes) = (events, bytes);
        state.jobs.push_back(job);
        self.ready.notify_one();
        None
    }

    /// How many events wait.
    pub(crate) fn waiting_events(&self) -> usize {
        self.lock().events
    }

    /// Asks for a snapshot; false if nobody will take one any more.
    pub(crate) fn request_snapshot(&self, request: Request) -> bool {
        self.change(|state| {
            let open = !state.closed;
            if open {
                state.requests.push(request);
            }
            open
        })
    }

    /// The snapshot thread took something and has room again.
    pub(crate) fn wake(&self) {
        self.change(|state| state.woken = true);
    }

    /// The snapshot thread is done.
    pub(crate) fn finish_snapshot(&self, finished: Finished) {
        self.change(|state| state.finished = Some(finished));
    }

    /// Accepts nothing more; what waits is still worked on.
    pub(crate) fn close(&self) {
        self.change(|state| state.closed = true);
    }

    /// Accepts nothing more and tells all who wait: a thread has panicked.
    pub(crate) fn abandon(&self) {
        let (jobs, requests) = self.change(|state| {
            (state.closed, state.abandoned) = (true, true);
            (state.events, state.bytes) = (0, 0);
            (std::mem::take(&mut state.jobs), std::mem::take(&mut state.requests))
        });
        drop((jobs, requests));
    }

    /// Whether a thread has panicked.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    fn change<T>(&self, change: impl FnOnce(&mut State<M>) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        self.ready.notify_all();
        result
    }

    /// Takes what waits, as much as fits one record.
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

    /// Waits for news; false if there is no more time.
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

    /// Waits until the snapshot thread is done.
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
