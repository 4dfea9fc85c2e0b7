//! Signatures of many requests that are looked up together.

use std::ops::Range;

use bruit_engine::verdict::Verdict;
use bruit_engine::{CheckScratch, Engine};
use bruit_filters::Fingerprint;

/// Signatures to look up in the spam book and in the bulk book.
#[derive(Default)]
pub(crate) struct Batch {
    spam: Vec<Fingerprint>,
    bulk: Vec<Fingerprint>,
    verdicts: Vec<Verdict>,
    totals: Vec<u32>,
    pub(crate) scratch: CheckScratch,
    /// Where the signatures of the request in hand begin.
    begun: (usize, usize),
}

/// The signatures of one request, by their places in the batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    spam: Range<usize>,
    bulk: Range<usize>,
}

/// What was found of the signatures of one request, in the order they were given.
#[derive(Clone, Copy)]
pub(crate) struct Found<'b> {
    pub(crate) verdicts: &'b [Verdict],
    pub(crate) totals: &'b [u32],
}

impl Batch {
    /// Looks a signature up in the spam book.
    pub(crate) fn check(&mut self, fingerprint: Fingerprint) {
        self.spam.push(fingerprint);
    }

    /// Looks a signature up in the bulk book.
    pub(crate) fn count(&mut self, fingerprint: Fingerprint) {
        self.bulk.push(fingerprint);
    }

    pub(super) fn clear(&mut self) {
        self.spam.clear();
        self.bulk.clear();
    }

    pub(super) fn begin(&mut self) {
        self.begun = (self.spam.len(), self.bulk.len());
    }

    /// The places of what was given since [`begin`](Self::begin).
    pub(super) fn places(&self) -> Places {
        Places { spam: self.begun.0..self.spam.len(), bulk: self.begun.1..self.bulk.len() }
    }

    /// Forgets what was given since [`begin`](Self::begin).
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

    /// The signatures of a request with what is thought of them, for the log.
    pub(super) fn judged(&self, places: &Places) -> impl Iterator<Item = (&Fingerprint, &Verdict)> {
        let of = places.spam.clone();
        let fingerprints = self.spam.get(of.clone()).unwrap_or_default();
        fingerprints.iter().zip(self.verdicts.get(of).unwrap_or_default())
    }

    pub(super) fn found(&self, places: &Places) -> Found<'_> {
        Found {
            verdicts: self.verdicts.get(places.spam.clone()).unwrap_or_default(),
            totals: self.totals.get(places.bulk.clone()).unwrap_or_default(),
        }
    }
}
