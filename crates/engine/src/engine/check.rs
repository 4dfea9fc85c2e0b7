//! Checks: queries that change nothing.
//!
//! Most signatures were never reported. Checking such a signature reads the whitelist, the nursery's index, and two
//! lines in the first stage of the spam ring. A signature found in any of the three is examined in full.

use bruit_filters::Fingerprint;
use bruit_filters::owners::Votes;
use bruit_filters::ring::{Generations, StagedScratch};
use bruit_signatures::Signed;
use bruit_signatures::bruit::Features;

use super::Engine;
use crate::message::files::adjust_verdicts;
use crate::message::recipients::is_counted;
use crate::message::{Evidence, EvidenceSource, PEOPLE_AGREEING, TextEvidence};
use crate::replicas::{Scratch as ReplicaScratch, TextMatch};
use crate::shingles::{Digest, SHINGLES, ShingleMatch};
use crate::signature::fingerprint_of;
use crate::spam::Entry;
use crate::trust::{Assessment, Level, Policy};
use crate::verdict::{CONFIDENCE_LISTED, Kind, Reason, Verdict, confidence_of_own};
use crate::whitelist::WhitelistReason;

/// Scratch memory for checks, reused from one check to the next.
#[derive(Debug, Default)]
pub struct CheckScratch {
    listed: Vec<Generations>,
    staged: StagedScratch,
    replicas: ReplicaScratch,
    votes: Votes,
}

/// Two texts differ in only a few words if their overlap is at least this percentage of each text.
const SAME_PERCENT_MIN: u8 = 90;

/// Returns true if the texts of a message and a report differ in only a few words.
fn is_same(found: &TextMatch) -> bool {
    found.overlap.of_report.min(found.overlap.of_message) >= SAME_PERCENT_MIN
}

/// Returns true if a report of this message would store the same text as the found report. A check looks up appended
/// features, such as those of unsubscribe lines, but a report does not store them.
fn is_stored_as(found: &TextMatch, features: &Features) -> bool {
    let own = features.own().count() as u64;
    let all = own + features.appended.len() as u64;
    let (of_report, of_message) = (u64::from(found.overlap.of_report), u64::from(found.overlap.of_message));
    let minimum = u64::from(SAME_PERCENT_MIN);
    of_report >= minimum && of_message * all >= minimum * own
}

/// A stored text that a message matches as a near replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundText {
    /// Fingerprint of the text in the books.
    pub fingerprint: Fingerprint,
    /// True if the same text was stored in the current generation. If not, a report of the message should store the
    /// message's text under the same fingerprint. That way, a text that is still in circulation does not expire, and
    /// copies of the new message are found, too.
    pub is_current: bool,
    /// True if the message differs in only a few words from the first text stored under this fingerprint.
    pub is_same: bool,
}

impl Engine {
    /// Returns the verdict on one signature, with the claims counted under `flag`.
    #[must_use]
    pub fn check(&self, fingerprint: &Fingerprint, flag: u8) -> Verdict {
        let listed = self.spam.listed.check(fingerprint);
        if self.is_unknown(fingerprint, listed) { Verdict::default() } else { self.verdict(fingerprint, listed, flag) }
    }

    /// Writes the verdict on `fingerprints[i]` to `verdicts[i]`.
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
        assert_eq!(fingerprints.len(), verdicts.len(), "there must be as many verdicts as signatures");
        scratch.listed.resize(fingerprints.len(), Generations::default());
        self.spam.listed.check_batch(fingerprints, &mut scratch.listed, &mut scratch.staged);
        for ((fingerprint, &listed), verdict) in fingerprints.iter().zip(&scratch.listed).zip(verdicts) {
            *verdict = Verdict::default();
            if !self.is_unknown(fingerprint, listed) {
                *verdict = self.verdict(fingerprint, listed, flag);
            }
        }
    }

    /// Writes the number of recipients of `fingerprints[i]` within the window to `totals[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn bulk_totals(&self, fingerprints: &[Fingerprint], totals: &mut [u32]) {
        self.bulk.totals(fingerprints, totals);
    }

    /// Returns the verdict of the bulk book on a signature: bulk if it has at least `threshold` recipients.
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

    /// Returns the stored text that a report of this message applies to. Among the texts that the message is close to,
    /// this is the oldest one that differs in only a few words or, if there is none, the oldest of all. A text that the
    /// message merely resembles is not returned: a report of the message must not count as another voice about that
    /// text.
    pub fn find_text(&self, features: &Features, scratch: &mut CheckScratch) -> Option<FoundText> {
        let mut matches = self.replicas.check(features, &mut scratch.replicas);
        matches.retain(TextMatch::is_close);
        let same = || matches.iter().filter(|found| is_same(found));
        let found = same().next().or_else(|| matches.first())?;
        let fingerprint = self.replicas.fingerprint_of(found.owner)?;
        let mut stored = matches.iter().filter(|one| self.replicas.fingerprint_of(one.owner) == Some(fingerprint));
        // Later texts that are close to the first one have the same fingerprint. Revoking one of them must not revoke
        // the first.
        let is_same = stored.clone().next().is_some_and(is_same);
        let is_current = stored.any(|one| self.replicas.is_current(one.owner) && is_stored_as(one, features));
        Some(FoundText { fingerprint, is_current, is_same })
    }

    /// Returns the evidence about the stored text that a message matches as a near replica. If the message matches
    /// several texts, chooses the text that is most certainly spam, and the closest of equally certain texts.
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

    /// Returns the evidence about the signatures of a message, in their order, followed by the evidence about its text.
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
                    is_empty: self.whitelist.contains(fingerprint) == Some(WhitelistReason::Empty),
                }
            })
            .collect();
        evidence.extend(signed.features.as_ref().map(|features| self.check_text(features, scratch)));
        evidence
    }

    /// Returns the record that a text with shingles matches, and the verdict on that record.
    pub fn check_shingles(
        &self,
        digest: &Digest,
        shingles: Option<&[u64; SHINGLES]>,
        scratch: &mut CheckScratch,
    ) -> Option<(ShingleMatch, Verdict)> {
        let found = self.shingles.check(digest, shingles, &mut scratch.votes)?;
        Some((found, self.check(&self.shingles.fingerprint_of(&found.record), 0)))
    }

    /// Returns true if the signature is not listed, not in the nursery and not whitelisted.
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
        // The nursery no longer knows the reporters of an old listing. The count of reports does not show how many
        // people made them, so assume one.
        let voices = assessment.map_or_else(
            || u32::from(kind == Kind::Spam),
            |known| known.evidence.groups.max(known.evidence.own_reports),
        );
        Verdict { kind, reason, confidence, voices, counts, bulk_count: 0, generations: listed }
    }
}

/// Decides every verdict of the spam book.
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
