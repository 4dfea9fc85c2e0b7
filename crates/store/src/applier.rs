//! The applying thread: applies batches that are on disk while the writer brings the next one there.
//!
//! Batches are applied in the order in which they were written. The writer hands one over only if another waits already;
//! alone, it applies it itself, which spares two changes of threads. Before it does, and before it begins a snapshot, it
//! waits until everything handed over is applied.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::machine::Machine;
use crate::queue::{Completion, Job};
use crate::record::{EVENT_OVERHEAD_BYTES, RecordBuilder};
use crate::store::Shared;

/// How many events are applied before others get the lock. An event takes the engine about half a microsecond.
const APPLY_SLICE_EVENTS: usize = 64;

/// Batches that wait for the thread at most, beside the one it applies.
const BATCHES_WAITING: usize = 1;

/// Events that were written together.
pub(crate) struct Batch<M: Machine> {
    jobs: Vec<Admitted<M>>,
    /// The sequence of the last of them.
    last: u64,
}

/// A job whose events were asked about.
struct Admitted<M: Machine> {
    events: Vec<M::Event>,
    /// `None` until applied; refused events have theirs from the beginning.
    outcomes: Vec<Option<M::Outcome>>,
    completion: Completion<M::Outcome>,
}

/// The writer's end of the thread.
pub(crate) struct Applier<M: Machine> {
    batches: Option<SyncSender<Batch<M>>>,
    done: Receiver<()>,
    /// Batches handed over and not known to be done.
    under_way: usize,
    /// The thread panicked, and what it was handed was not applied.
    dead: bool,
    thread: Option<JoinHandle<()>>,
}

impl<M: Machine> Applier<M> {
    pub(crate) fn start(shared: &Arc<Shared<M>>) -> io::Result<Self> {
        let (batches, waiting) = sync_channel(BATCHES_WAITING);
        let (finished, done) = sync_channel(BATCHES_WAITING + 2);
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name("bruit-applier".into()).spawn(move || {
            let _abandon = Abandon(Arc::clone(&shared));
            while let Ok(batch) = waiting.recv() {
                Batch::apply(batch, &shared);
                // A writer that has gone needs no news.
                let _ = finished.send(());
            }
        })?;
        Ok(Self { batches: Some(batches), done, under_way: 0, dead: false, thread: Some(thread) })
    }

    /// Applies a batch behind all before it, and answers: at once, or later if `later`. Not if the thread has died: a
    /// batch must not be applied without those before it.
    pub(crate) fn apply(&mut self, batch: Batch<M>, later: bool, shared: &Shared<M>) {
        if !later {
            if self.drain() {
                batch.apply(shared);
            }
            return;
        }
        while self.under_way > BATCHES_WAITING && !self.dead {
            self.wait_for_one();
        }
        match self.batches.as_ref().map(|batches| batches.send(batch)) {
            Some(Ok(())) => self.under_way += 1,
            Some(Err(_)) | None => self.dead = true,
        }
    }

    /// Waits until everything handed over is applied; false if that will never be, as the thread has died.
    pub(crate) fn drain(&mut self) -> bool {
        while self.under_way > 0 && !self.dead {
            self.wait_for_one();
        }
        !self.dead
    }

    fn wait_for_one(&mut self) {
        match self.done.recv() {
            Ok(()) => self.under_way -= 1,
            Err(_) => self.dead = true,
        }
    }
}

impl<M: Machine> Drop for Applier<M> {
    fn drop(&mut self) {
        self.batches = None;
        // Its panic has been printed, and all who waited were told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Tells all who wait, should a thread ever panic, and lets nothing more be accepted.
pub(crate) struct Abandon<M: Machine>(pub(crate) Arc<Shared<M>>);

impl<M: Machine> Drop for Abandon<M> {
    fn drop(&mut self) {
        if thread::panicking() {
            let error = Arc::new(io::Error::other("a thread of the store panicked"));
            self.0.status(|status| status.poisoned = Some(error));
            self.0.queue.abandon();
        }
    }
}

impl<M: Machine> Batch<M> {
    /// Asks the machine about each event, and puts those it takes into the record.
    pub(crate) fn admit(jobs: Vec<Job<M>>, shared: &Shared<M>, record: &mut RecordBuilder) -> Self {
        record.clear();
        let machine = shared.machine.read();
        Self { jobs: jobs.into_iter().map(|job| Admitted::new(job, &machine, record)).collect(), last: 0 }
    }

    /// The batch, written up to the sequence `last`.
    pub(crate) fn written(self, last: u64) -> Self {
        Self { last, ..self }
    }

    /// Tells everyone that nothing was done.
    pub(crate) fn fail(self, error: &crate::SubmitError) {
        self.jobs.into_iter().for_each(|job| job.completion.answer(Err(error.clone())));
    }

    fn apply(mut self, shared: &Shared<M>) {
        let mut waiting: Vec<_> = self.jobs.iter_mut().flat_map(Admitted::waiting).collect();
        for slice in waiting.chunks_mut(APPLY_SLICE_EVENTS) {
            let Some(mut machine) = shared.machine.write() else { return };
            slice.iter().for_each(|(event, _)| machine.prefetch(event));
            slice.iter_mut().for_each(|(event, outcome)| **outcome = Some(machine.apply(event)));
        }
        // Before the answers, so that whoever has one sees itself counted.
        shared.status(|status| status.sequence = self.last);
        self.jobs.into_iter().for_each(Admitted::answer);
    }
}

impl<M: Machine> Admitted<M> {
    fn new(job: Job<M>, machine: &M, record: &mut RecordBuilder) -> Self {
        let Job { events, framed, completion } = job;
        let mut rest = framed.as_slice();
        let outcomes = events.iter().map(|event| {
            let framed = split_framed(&mut rest);
            match machine.admit(event) {
                Ok(()) => {
                    record.push(framed);
                    None
                }
                Err(outcome) => Some(outcome),
            }
        });
        Self { outcomes: outcomes.collect(), events, completion }
    }

    /// The events that were not refused, and where their outcomes belong.
    fn waiting(&mut self) -> impl Iterator<Item = (&M::Event, &mut Option<M::Outcome>)> {
        self.events.iter().zip(&mut self.outcomes).filter(|(_, outcome)| outcome.is_none())
    }

    fn answer(self) {
        self.completion.answer(Ok(self.outcomes.into_iter().flatten().collect()));
    }
}

/// The next event with its length in front.
fn split_framed<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = rest.first_chunk().map_or(0, |field| u32::from_le_bytes(*field) as usize);
    let (event, behind) = rest.split_at(EVENT_OVERHEAD_BYTES + length);
    *rest = behind;
    event
}
