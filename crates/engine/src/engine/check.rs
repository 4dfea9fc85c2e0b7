//! Checks: questions that change nothing.
//!
//! Most signatures were never reported. For them a check is the two lines of the first stage of the spam ring and a probe
//! of the nursery's index and of the whitelist; only what one of these knows is looked at closely.

use bruit_filters::Fingerprint;
use bruit_filters::owners::Votes;
use bruit_filters::ring::{Generations, StagedScratch};
use bruit_signatures::Signed;
use bruit_signatures::bruit::{Features, Overlap};

use super::Engine;
use crate::message::files::adjust_verdicts;
use crate::message::recipients::is_counted;
use crate::message::{Evidence, EvidenceSource, PEOPLE_AGREEING, TextEvidence};
use crate::replicas::{Match as TextMatch, Scratch as ReplicaScratch};
use crate::shingles::{Digest, Match, SHINGLES};
use crate::signature::fingerprint_of;
use crate::spam::Entry;
use crate::trust::{Assessment, Level, Policy};
use crate::verdict::{CONFIDENCE_LISTED, Kind, Reason, Verdict, confidence_of_own};
use crate::whitelist::Why;

/// The memory of checks, kept from one to the next.
#[derive(Debug, Default)]
pub struct CheckScratch {
    listed: Vec<Generations>,
    staged: StagedScratch,
    replicas: ReplicaScratch,
    votes: Votes,
}

/// Two texts are the same but for a few words if this much of both agrees, in per cent.
const SAME_PERCENT_MIN: u8 = 90;

/// A text that a message is a near replica of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundText {
    /// What it is called in the books.
    pub fingerprint: Fingerprint,
    /// Whether it is of the current generation. If not, a report of the message should store its text again, under the same
    /// name, so that what is still sent does not age.
    pub is_current: bool,
    /// Whether the two texts are the same but for a few words.
    pub is_same: bool,
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

    /// The oldest report that a message of this text is close to: what a report of the message is about. A message that only
    /// resembles a report is not the same, and must not count as another voice about it.
    pub fn find_text(&self, features: &Features, scratch: &mut CheckScratch) -> Option<FoundText> {
        let matches = self.replicas.check(features, &mut scratch.replicas);
        let found = |found: TextMatch| {
            let fingerprint = self.replicas.fingerprint_of(found.owner)?;
            let Overlap { of_report, of_message, .. } = found.overlap;
            let is_same = of_report.min(of_message) >= SAME_PERCENT_MIN;
            Some(FoundText { fingerprint, is_current: self.replicas.is_current(found.owner), is_same })
        };
        matches.into_iter().filter(TextMatch::is_close).find_map(found)
    }

    /// What is known of the text that a message is a near replica of. Of several texts, the one most surely spam, and of those
    /// the one it is closest to.
    pub fn check_text(&self, features: &Features, scratch: &mut CheckScratch) -> Evidence {
        let matches = self.replicas.check(features, &mut scratch.replicas);
        let known = matches.iter().filter_map(|found| {
            let name = self.replicas.fingerprint_of(found.owner)?;
            let text = TextEvidence {
                overlap: found.overlap,
                is_close: found.is_close(),
                is_template: found.is_template,
                is_quoted: features.is_quoted,
                name: Some(name),
            };
            Some((text, self.check(&name, 0)))
        });
        let rank = |(text, verdict): &(TextEvidence, Verdict)| {
            let decides = text.is_close && (!text.is_template || verdict.voices >= PEOPLE_AGREEING);
            let is_spam = verdict.kind == Kind::Spam;
            (is_spam && decides, is_spam, verdict.confidence, text.overlap.of_message)
        };
        let (text, verdict) = known.max_by_key(rank).unwrap_or_default();
        Evidence { source: EvidenceSource::Text(text), verdict, is_empty: false }
    }

    /// What is known of the signatures of a message, in their order, and of its text.
    pub fn check_message(&self, signed: &Signed, scratch: &mut CheckScratch) -> Vec<Evidence> {
        let key = self.realm.key();
        let fingerprints: Vec<Fingerprint> = signed.signatures.iter().map(|one| fingerprint_of(key, one)).collect();
        let mut verdicts = vec![Verdict::default(); fingerprints.len()];
        self.check_batch(&fingerprints, 0, &mut verdicts, scratch);
        adjust_verdicts(self, signed, &mut verdicts);
        let known = signed.signatures.iter().zip(&fingerprints).zip(verdicts);
        let mut evidence: Vec<Evidence> = known
            .map(|((signature, fingerprint), mut verdict)| {
                if is_counted(signature.scheme()) && verdict.reason != Reason::Whitelisted {
                    verdict.bulk_count = self.bulk.total(fingerprint);
                }
                Evidence {
                    source: EvidenceSource::Signature(signature.scheme(), signature.piece()),
                    verdict,
                    is_empty: self.whitelist.contains(fingerprint) == Some(Why::Empty),
                }
            })
            .collect();
        evidence.extend(signed.features.as_ref().map(|features| self.check_text(features, scratch)));
        evidence
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
        // The nursery drops the reporters after some days. The number of reports is not that of people, so one is left.
        let voices = assessment.map_or_else(
            || u32::from(kind == Kind::Spam),
            |known| known.evidence.groups.max(known.evidence.own_reports),
        );
        Verdict { kind, reason, confidence, voices, counts, bulk_count: 0, generations: listed }
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
            Some(own) if own.own_reports > 0 => {
                (Kind::Spam, Reason::OwnReports, confidence.max(confidence_of_own(own.own_reports)))
            }
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
