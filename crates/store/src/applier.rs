//! The applier thread. It applies batches that are already on disk, while the writer writes the next batch.
//!
//! Batches are applied in the order in which they were written. The writer hands a batch over only if another one is
//! already queued. Otherwise it applies the batch itself, which saves two thread switches. Before the writer applies a
//! batch itself or begins a snapshot, it waits until all batches that it handed over are applied.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::machine::Machine;
use crate::queue::{Completion, Job};
use crate::record::{EVENT_OVERHEAD_BYTES, RecordBuilder};
use crate::store::SharedState;

/// Number of events applied before the lock is released. The engine applies an event in about half a microsecond.
const APPLY_SLICE_EVENTS: usize = 64;

/// Maximum number of batches queued for the thread, not counting the one being applied.
const BATCHES_WAITING: usize = 1;

/// Events that were written together.
pub(crate) struct Batch<M: Machine> {
    jobs: Vec<AdmittedJob<M>>,
    /// The sequence of the last event.
    last: u64,
}

/// A job after admission.
struct AdmittedJob<M: Machine> {
    events: Vec<M::Event>,
    /// The outcome of each event. It is `None` until the event is applied, but is set from the start for refused
    /// events.
    outcomes: Vec<Option<M::Outcome>>,
    completion: Completion<M::Outcome>,
}

/// The writer's handle to the applier thread.
pub(crate) struct Applier<M: Machine> {
    batches: Option<SyncSender<Batch<M>>>,
    done: Receiver<()>,
    /// Number of batches handed over and not yet reported as done.
    under_way: usize,
    /// True if the thread panicked. If so, the batches handed to it will not be applied.
    dead: bool,
    thread: Option<JoinHandle<()>>,
}

impl<M: Machine> Applier<M> {
    pub(crate) fn start(shared: &Arc<SharedState<M>>) -> io::Result<Self> {
        let (batches, waiting) = sync_channel(BATCHES_WAITING);
        let (finished, done) = sync_channel(BATCHES_WAITING + 2);
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name("bruit-applier".into()).spawn(move || {
            let _abandon = AbandonGuard(Arc::clone(&shared));
            while let Ok(batch) = waiting.recv() {
                Batch::apply(batch, &shared);
                // This fails only if the writer is gone, which then needs no notification.
                let _ = finished.send(());
            }
        })?;
        Ok(Self { batches: Some(batches), done, under_way: 0, dead: false, thread: Some(thread) })
    }

    /// Applies a batch after all earlier ones and answers its submitters. If `later` is set, the applier thread does
    /// this; otherwise the caller's thread does it at once. Does nothing if the applier thread has died, because a
    /// batch must not be applied without the earlier ones.
    pub(crate) fn apply(&mut self, batch: Batch<M>, later: bool, shared: &SharedState<M>) {
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

    /// Waits until all batches that were handed over are applied. Returns false if the thread has died and will not
    /// apply them.
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
        // The panic message has already been printed, and all waiting submitters were answered.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A guard for a thread. If the thread panics, the guard answers all waiting submitters and makes the queue refuse new
/// work.
pub(crate) struct AbandonGuard<M: Machine>(pub(crate) Arc<SharedState<M>>);

impl<M: Machine> Drop for AbandonGuard<M> {
    fn drop(&mut self) {
        if thread::panicking() {
            let error = Arc::new(io::Error::other("a thread of the store panicked"));
            self.0.status(|status| status.poisoned = Some(error));
            self.0.queue.abandon();
        }
    }
}

impl<M: Machine> Batch<M> {
    /// Admits or refuses each event, and adds the admitted ones to the record.
    pub(crate) fn admit(jobs: Vec<Job<M>>, shared: &SharedState<M>, record: &mut RecordBuilder) -> Self {
        record.clear();
        let machine = shared.machine.read();
        Self { jobs: jobs.into_iter().map(|job| AdmittedJob::new(job, &machine, record)).collect(), last: 0 }
    }

    /// Marks the batch as written and returns it. `last` is the sequence of its last event.
    pub(crate) fn written(self, last: u64) -> Self {
        Self { last, ..self }
    }

    /// Answers every submitter with `error`.
    pub(crate) fn fail(self, error: &crate::SubmitError) {
        self.jobs.into_iter().for_each(|job| job.completion.answer(Err(error.clone())));
    }

    fn apply(mut self, shared: &SharedState<M>) {
        let mut waiting: Vec<_> = self.jobs.iter_mut().flat_map(AdmittedJob::waiting).collect();
        for slice in waiting.chunks_mut(APPLY_SLICE_EVENTS) {
            let Some(mut machine) = shared.machine.write() else { return };
            slice.iter().for_each(|(event, _)| machine.prefetch(event));
            slice.iter_mut().for_each(|(event, outcome)| **outcome = Some(machine.apply(event)));
        }
        // The status is updated before submitters are answered, so that they find their events in the status.
        shared.status(|status| status.sequence = self.last);
        self.jobs.into_iter().for_each(AdmittedJob::answer);
    }
}

impl<M: Machine> AdmittedJob<M> {
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

    /// Returns the admitted events, each with the place for its outcome.
    fn waiting(&mut self) -> impl Iterator<Item = (&M::Event, &mut Option<M::Outcome>)> {
        self.events.iter().zip(&mut self.outcomes).filter(|(_, outcome)| outcome.is_none())
    }

    fn answer(self) {
        self.completion.answer(Ok(self.outcomes.into_iter().flatten().collect()));
    }
}

/// Splits off the next event, with its length prefix.
fn split_framed<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = rest.first_chunk().map_or(0, |field| u32::from_le_bytes(*field) as usize);
    let (event, behind) = rest.split_at(EVENT_OVERHEAD_BYTES + length);
    *rest = behind;
    event
}
