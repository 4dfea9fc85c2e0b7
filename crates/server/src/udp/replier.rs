//! The thread that sends the replies to changes once the changes are on disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use bruit_engine::Outcome;
use bruit_federation::describe;
use bruit_filters::Fingerprint;
use bruit_store::SubmitError;

use super::socket::{BATCH, Outbox};
use super::{CompletedBatch, Datagrams, SocketState, SubmittedChange, refusal_of};
use crate::log::Line;
use crate::metrics::{Disposition, Tally};

/// Sends the replies to changes. Ends when all workers have ended and every change is answered.
pub(super) struct Replier<P: Datagrams> {
    shared: SocketState,
    completed: Receiver<CompletedBatch<P::Pending>>,
    outbox: Outbox,
}

impl<P: Datagrams> Replier<P> {
    pub(super) fn new(shared: SocketState, completed: Receiver<CompletedBatch<P::Pending>>) -> Self {
        Self { shared, completed, outbox: Outbox::new() }
    }

    pub(super) fn run(mut self) {
        while let Ok(completed) = self.completed.recv() {
            self.answer(completed);
            // Send all replies that are already available in one batch.
            while self.outbox.len() < BATCH
                && let Ok(completed) = self.completed.try_recv()
            {
                self.answer(completed);
            }
            self.outbox.send(&self.shared.socket);
        }
    }

    fn answer(&mut self, completed: CompletedBatch<P::Pending>) {
        let CompletedBatch { changes, counts, result, received } = completed;
        let count = changes.len() + counts.len();
        let mut tally = Tally::default();
        self.shared.service.note(&result);
        self.settle(&counts, &result);
        match result {
            Ok(outcomes) => self.answer_all(changes, outcomes, &mut tally),
            Err(error) => changes.into_iter().for_each(|change| self.fail(change, &error, &mut tally)),
        }
        self.shared.under_way.fetch_sub(count, Ordering::Relaxed);
        let metrics = self.shared.service.metrics.of(P::PROTOCOL);
        metrics.add(&tally, received.elapsed());
    }

    /// Remembers which checks were counted. If counting failed, the check may be counted when it is repeated.
    fn settle(&self, counts: &[Fingerprint], result: &Result<Vec<Outcome>, SubmitError>) {
        for (at, request) in counts.iter().enumerate() {
            match result.as_ref().ok().and_then(|outcomes| outcomes.get(at)) {
                None | Some(Outcome::Refused(_)) => self.shared.duplicates.forget(*request),
                Some(outcome) => self.shared.duplicates.answer(*request, &Arc::from([outcome.clone()])),
            }
        }
    }

    fn answer_all(&mut self, changes: Vec<SubmittedChange<P::Pending>>, outcomes: Vec<Outcome>, tally: &mut Tally) {
        let mut outcomes = outcomes.into_iter();
        for change in changes {
            let own: Arc<[Outcome]> = outcomes.by_ref().take(change.events).collect();
            self.shared.duplicates.answer(change.request, &own);
            let answered = P::answer_change(&self.shared.service, &change.waiting, Ok(&own), self.outbox.space());
            self.reply(&change, answered, tally);
            write_line::<P>(change, answered, || refusal_of(&own).map(|refusal| refusal.to_string()));
        }
    }

    /// Records that a change could not be written, and allows a retry.
    fn fail(&mut self, change: SubmittedChange<P::Pending>, error: &SubmitError, tally: &mut Tally) {
        self.shared.duplicates.forget(change.request);
        let answered = P::answer_change(&self.shared.service, &change.waiting, Err(error), self.outbox.space());
        self.reply(&change, answered, tally);
        write_line::<P>(change, answered, || Some(describe(error)));
    }

    /// Queues a reply. A reply to a source outside own networks may be up to twice as long as the request, because the
    /// limits on claims prevent amplification. A longer reply is dropped.
    fn reply(&mut self, change: &SubmittedChange<P::Pending>, answered: Disposition, tally: &mut Tally) {
        let written = self.outbox.written();
        let is_allowed = change.bytes_max.is_none_or(|bytes| written <= 2 * bytes);
        if written == 0 || !is_allowed {
            self.outbox.discard();
        } else {
            self.outbox.finish(&change.peer);
        }
        tally.count(answered);
    }
}

/// Logs an answered change if requests are logged.
fn write_line<P: Datagrams>(
    change: SubmittedChange<P::Pending>,
    answered: Disposition,
    reason: impl FnOnce() -> Option<String>,
) {
    if let Some(described) = change.described {
        let from = change.peer.address.ip().to_canonical();
        Line { protocol: P::PROTOCOL, from, described: *described, answered, reason: reason(), judged: Vec::new() }
            .write();
    }
}
