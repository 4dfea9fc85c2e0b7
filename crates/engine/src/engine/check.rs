//! Checks: questions that change nothing.
//!
//! Most signatures were never reported. For them a check is the two lines of the first stage of the spam ring and a probe
//! of the nursery's index and of the whitelist; only what one of these knows is looked at closely.

use bruit_filters::Fingerprint;
use bruit_filters::owners::Votes;
use bruit_filters::ring::{Generations, StagedScratch};
use bruit_signatures::bruit::Features;

use super::Engine;
use crate::replicas::Scratch as ReplicaScratch;
use crate::shingles::{Digest, Match, SHINGLES};
use crate::spam::Entry;
use crate::trust::{Assessment, Level, Policy};
use crate::verdict::{CONFIDENCE_LISTED, CONFIDENCE_OWN, Kind, Reason, Verdict};

/// The memory of checks, kept from one to the next.
#[derive(Debug, Default)]
pub struct CheckScratch {
    listed: Vec<Generations>,
    staged: StagedScratch,
    replicas: ReplicaScratch,
    votes: Votes,
}

/// A text that a message is a near replica of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundText {
    /// What it is called in the books.
    pub fingerprint: Fingerprint,
    /// Whether it is of the current generation. If not, a report of the message should store its text again, under the same
    /// name, so that what is still sent does not age.
    pub is_current: bool,
}

impl Engine {
    /// What is thought of one signature, with claims counted under `flag`.
    #[must_use]
    pub fn check(&self, fingerprint: &Fingerprint, flag: u8) -> Verdict {
        let listed = self.spam.listed.check(fingerprint);
        if self.is_unknown(fingerprint, listed) { Verdict::default() } else { self.verdict(fingerprint, listed, flag) }
    }

    /// Writes what is thought of `fingerprints[i]` to `verdicts[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn check_batch(
        &self,
        fingerprints: &[Fingerprint],
        flag: u8,
        verdicts: &mut [Verdict],
        scratch: &mut CheckScratch,
    ) {
        assert_eq!(fingerprints.len(), verdicts.len(), "one verdict per signature");
        scratch.listed.resize(fingerprints.len(), Generations::default());
        self.spam.listed.check_batch(fingerprints, &mut scratch.listed, &mut scratch.staged);
        for ((fingerprint, &listed), verdict) in fingerprints.iter().zip(&scratch.listed).zip(verdicts) {
            *verdict = Verdict::default();
            if !self.is_unknown(fingerprint, listed) {
                *verdict = self.verdict(fingerprint, listed, flag);
            }
        }
    }

    /// Writes the recipients of `fingerprints[i]` over the window to `totals[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn bulk_totals(&self, fingerprints: &[Fingerprint], totals: &mut [u32]) {
        self.bulk.totals(fingerprints, totals);
    }

    /// What is thought of a signature of the bulk book, if `threshold` recipients make a message bulk.
    #[must_use]
    pub fn check_bulk(&self, fingerprint: &Fingerprint, threshold: u32) -> Verdict {
        if self.whitelist.contains(fingerprint).is_some() {
            return Verdict { kind: Kind::Ham, reason: Reason::Whitelisted, ..Verdict::default() };
        }
        let bulk_count = self.bulk.total(fingerprint);
        let (kind, reason) = match bulk_count >= threshold {
            true => (Kind::Bulk, Reason::ManyRecipients),
            false => (Kind::Unknown, Reason::NotReported),
        };
        Verdict { kind, reason, bulk_count, ..Verdict::default() }
    }

    /// The oldest report that a message of this text is a near replica of: what a report of the message is about.
    pub fn find_text(&self, features: &Features, scratch: &mut CheckScratch) -> Option<FoundText> {
        let owners = self.replicas.check(features, &mut scratch.replicas);
        let found = |owner| {
            let fingerprint = self.replicas.fingerprint_of(owner)?;
            Some(FoundText { fingerprint, is_current: self.replicas.is_current(owner) })
        };
        owners.into_iter().find_map(found)
    }

    /// What is thought of the reports that a message is a near replica of: the verdict of the one most surely spam.
    pub fn check_text(&self, features: &Features, scratch: &mut CheckScratch) -> Verdict {
        let owners = self.replicas.check(features, &mut scratch.replicas);
        let names = owners.into_iter().filter_map(|owner| self.replicas.fingerprint_of(owner));
        let verdicts = names.map(|name| self.check(&name, 0));
        verdicts.max_by_key(|verdict| (verdict.kind == Kind::Spam, verdict.confidence)).unwrap_or_default()
    }

    /// The record that a text with shingles matches, and what is thought of that.
    pub fn check_shingles(
        &self,
        digest: &Digest,
        shingles: Option<&[u64; SHINGLES]>,
        scratch: &mut CheckScratch,
    ) -> Option<(Match, Verdict)> {
        let found = self.shingles.check(digest, shingles, &mut scratch.votes)?;
        Some((found, self.check(&self.shingles.fingerprint_of(&found.record), 0)))
    }

    /// Whether no structure but the counts knows a signature.
    #[inline(always)]
    fn is_unknown(&self, fingerprint: &Fingerprint, listed: Generations) -> bool {
        listed.is_empty() && !self.trust.knows(fingerprint) && self.whitelist.contains(fingerprint).is_none()
    }

    #[inline(never)]
    fn verdict(&self, fingerprint: &Fingerprint, listed: Generations, flag: u8) -> Verdict {
        let entry = Entry { listed, ..self.spam.entry(fingerprint) };
        let assessment = self.trust.assess(fingerprint);
        let is_whitelisted = self.whitelist.contains(fingerprint).is_some();
        let (kind, reason, confidence) = judge(self.trust.policy(), is_whitelisted, &entry, assessment.as_ref());
        let counts = self.spam.counts(flag, fingerprint);
        Verdict { kind, reason, confidence, counts, bulk_count: 0, generations: listed }
    }
}

/// The one place where a verdict of the spam book is made.
fn judge(policy: &Policy, is_whitelisted: bool, entry: &Entry, assessment: Option<&Assessment>) -> (Kind, Reason, u8) {
    let confidence = assessment.map_or(0, |assessment| assessment.confidence(policy));
    if is_whitelisted {
        return (Kind::Ham, Reason::Whitelisted, 0);
    }
    if entry.is_spam() {
        return match assessment.map(|assessment| assessment.evidence) {
            Some(own) if own.own_reports > 0 => (Kind::Spam, Reason::OwnReports, confidence.max(CONFIDENCE_OWN)),
            Some(known) if known.level == Level::Block => (Kind::Spam, Reason::Evidence, confidence),
            _ => (Kind::Spam, Reason::Listed, CONFIDENCE_LISTED),
        };
    }
    if entry.is_revoked() {
        return (Kind::Ham, Reason::Revoked, 0);
    }
    match assessment.map(|assessment| assessment.evidence.level) {
        Some(Level::Suspect | Level::Block) => (Kind::Unknown, Reason::Suspected, confidence),
        Some(Level::Unknown) | None => (Kind::Unknown, Reason::NotReported, 0),
    }
}
