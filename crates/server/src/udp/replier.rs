//! The thread that answers changes, when they are on disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use bruit_engine::Outcome;
use bruit_filters::Fingerprint;
use bruit_store::SubmitError;

use super::socket::{BATCH, Outbox};
use super::{Completed, Datagrams, Shared, Submitted, refusal_of};
use crate::log::Line;
use crate::metrics::{Answered, Tally};
use crate::service::describe;

/// Answers changes. Ends when no worker is left and everything is answered.
pub(super) struct Replier<P: Datagrams> {
    shared: Shared,
    completed: Receiver<Completed<P::Waiting>>,
    outbox: Outbox,
}

impl<P: Datagrams> Replier<P> {
    pub(super) fn new(shared: Shared, completed: Receiver<Completed<P::Waiting>>) -> Self {
        Self { shared, completed, outbox: Outbox::new() }
    }

    pub(super) fn run(mut self) {
        while let Ok(completed) = self.completed.recv() {
            self.answer(completed);
            // What came meanwhile goes out with it.
            while self.outbox.len() < BATCH
                && let Ok(completed) = self.completed.try_recv()
            {
                self.answer(completed);
            }
            self.outbox.send(&self.shared.socket);
        }
    }

    fn answer(&mut self, completed: Completed<P::Waiting>) {
        let Completed { changes, counts, result, received } = completed;
        let count = changes.len() + counts.len();
        let mut tally = Tally::default();
        self.shared.service.note(&result);
        self.settle(&counts, &result);
        match result {
            Ok(outcomes) => self.answer_all(changes, outcomes, &mut tally),
            Err(error) => changes.into_iter().for_each(|change| self.fail(change, &error, &mut tally)),
        }
        self.shared.under_way.fetch_sub(count, Ordering::Relaxed);
        let metrics = self.shared.service.metrics.of(P::LANGUAGE);
        metrics.add(&tally, received.elapsed());
    }

    /// Remembers which checks were counted; those that failed may be counted when they come again.
    fn settle(&self, counts: &[Fingerprint], result: &Result<Vec<Outcome>, SubmitError>) {
        for (at, request) in counts.iter().enumerate() {
            match result.as_ref().ok().and_then(|outcomes| outcomes.get(at)) {
                None | Some(Outcome::Refused(_)) => self.shared.duplicates.forget(*request),
                Some(outcome) => self.shared.duplicates.answer(*request, &Arc::from([outcome.clone()])),
            }
        }
    }

    fn answer_all(&mut self, changes: Vec<Submitted<P::Waiting>>, outcomes: Vec<Outcome>, tally: &mut Tally) {
        let mut outcomes = outcomes.into_iter();
        for change in changes {
            let own: Arc<[Outcome]> = outcomes.by_ref().take(change.events).collect();
            self.shared.duplicates.answer(change.request, &own);
            let answered = P::answer_change(&self.shared.service, &change.waiting, Ok(&own), self.outbox.space());
            self.reply(&change, answered, tally);
            write_line::<P>(change, answered, || refusal_of(&own).map(|refusal| refusal.to_string()));
        }
    }

    /// Says that a change could not be kept, and lets it be tried again.
    fn fail(&mut self, change: Submitted<P::Waiting>, error: &SubmitError, tally: &mut Tally) {
        self.shared.duplicates.forget(change.request);
        let answered = P::answer_change(&self.shared.service, &change.waiting, Err(error), self.outbox.space());
        self.reply(&change, answered, tally);
        write_line::<P>(change, answered, || Some(describe(error)));
    }

    /// Keeps a reply. Claims are limited, so a few bytes more than a stranger sent are no weapon; many are not given.
    fn reply(&mut self, change: &Submitted<P::Waiting>, answered: Answered, tally: &mut Tally) {
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

/// Logs a change that is answered, if that is wanted.
fn write_line<P: Datagrams>(
    change: Submitted<P::Waiting>,
    answered: Answered,
    reason: impl FnOnce() -> Option<String>,
) {
    if let Some(described) = change.described {
        let from = change.peer.address.ip().to_canonical();
        Line { protocol: P::LANGUAGE, from, described: *described, answered, reason: reason(), judged: Vec::new() }
            .write();
    }
}
