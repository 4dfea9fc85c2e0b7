//! The signatures of many requests, looked up together.

use std::ops::Range;

use bruit_engine::event::{By, Event};
use bruit_engine::trust::{Reporter, Standing};
use bruit_engine::verdict::Verdict;
use bruit_engine::{CheckScratch, Engine};
use bruit_filters::Fingerprint;

use super::Request;
use crate::rights::Who;

/// The signatures to look up in the spam book and in the bulk book.
#[derive(Default)]
pub(crate) struct Batch {
    spam: Vec<Fingerprint>,
    bulk: Vec<Fingerprint>,
    verdicts: Vec<Verdict>,
    totals: Vec<u32>,
    pub(crate) scratch: CheckScratch,
    /// The positions in `spam` and `bulk` at which the current request's signatures begin.
    begun: (usize, usize),
    /// The recipients that the current request counts.
    recipients: Option<Recipients>,
}

/// Recipients that a check counts in addition to its lookup.
pub(crate) struct Recipients {
    pub(super) event: Event,
    pub(super) reporter: Reporter,
    /// A keyed hash that is equal for copies of the check.
    pub(super) request: Fingerprint,
}

impl Recipients {
    /// Returns one recipient. Returns `None` for strangers, whose recipients are not counted, and for callers without
    /// the right to report. `identity` is the part of the request, apart from its source, that is the same in all
    /// copies.
    pub(crate) fn one(
        request: &Request<'_>,
        report: Who,
        reporter: Reporter,
        fingerprint: Fingerprint,
        identity: &[u8],
    ) -> Option<Self> {
        if reporter.standing == Standing::Stranger || !report.includes(reporter.standing) {
            return None;
        }
        let by = By { now: request.now, reporter };
        let event = Event::Bulk { by, targets: 1, fingerprints: vec![fingerprint] };
        let identity = [b"count ".as_slice(), identity, request.from.to_string().as_bytes()].concat();
        Some(Self { event, reporter, request: request.service.key.fingerprint(&identity) })
    }
}

/// The positions of one request's signatures in the batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    spam: Range<usize>,
    bulk: Range<usize>,
}

/// The results for the signatures of one request, in the order in which they were added.
#[derive(Clone, Copy)]
pub(crate) struct LookupResults<'b> {
    pub(crate) verdicts: &'b [Verdict],
    pub(crate) totals: &'b [u32],
}

impl Batch {
    /// Adds a signature to look up in the spam book.
    pub(crate) fn check(&mut self, fingerprint: Fingerprint) {
        self.spam.push(fingerprint);
    }

    /// Adds a signature to look up in the bulk book.
    pub(crate) fn count(&mut self, fingerprint: Fingerprint) {
        self.bulk.push(fingerprint);
    }

    /// Sets the recipients to count.
    pub(crate) fn count_recipients(&mut self, recipients: Option<Recipients>) {
        self.recipients = recipients;
    }

    pub(super) fn take_recipients(&mut self) -> Option<Recipients> {
        self.recipients.take()
    }

    pub(super) fn clear(&mut self) {
        self.spam.clear();
        self.bulk.clear();
    }

    pub(super) fn begin(&mut self) {
        self.begun = (self.spam.len(), self.bulk.len());
        self.recipients = None;
    }

    /// Returns the positions of the signatures added since [`begin`](Self::begin).
    pub(super) fn places(&self) -> Places {
        Places { spam: self.begun.0..self.spam.len(), bulk: self.begun.1..self.bulk.len() }
    }

    /// Discards the signatures added since [`begin`](Self::begin).
    pub(super) fn abandon(&mut self) {
        self.spam.truncate(self.begun.0);
        self.bulk.truncate(self.begun.1);
    }

    pub(super) fn look_up(&mut self, engine: &Engine) {
        self.verdicts.resize(self.spam.len(), Verdict::default());
        self.totals.resize(self.bulk.len(), 0);
        engine.check_batch(&self.spam, 0, &mut self.verdicts, &mut self.scratch);
        engine.bulk_totals(&self.bulk, &mut self.totals);
    }

    /// Returns the signatures of a request and their verdicts, for the log.
    pub(super) fn judged(&self, places: &Places) -> impl Iterator<Item = (&Fingerprint, &Verdict)> {
        let of = places.spam.clone();
        let fingerprints = self.spam.get(of.clone()).unwrap_or_default();
        fingerprints.iter().zip(self.verdicts.get(of).unwrap_or_default())
    }

    pub(super) fn found(&self, places: &Places) -> LookupResults<'_> {
        LookupResults {
            verdicts: self.verdicts.get(places.spam.clone()).unwrap_or_default(),
            totals: self.totals.get(places.bulk.clone()).unwrap_or_default(),
        }
    }
}
