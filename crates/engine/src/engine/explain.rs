//! Everything known about one signature, for explaining its verdict.

use bruit_filters::Fingerprint;
use bruit_filters::ring::{CountsRing, Generations};

use super::Engine;
use crate::generations::LIVE_GENERATIONS;
use crate::spam::{ClaimCounts, Entry, FLAGS};
use crate::time::Time;
use crate::trust::{Assessment, VoteView};
use crate::verdict::Verdict;
use crate::whitelist::WhitelistReason;

/// Everything known about a signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The signature.
    pub fingerprint: Fingerprint,
    /// Verdict that a check returns.
    pub verdict: Verdict,
    /// State in the spam book.
    pub entry: Entry,
    /// Reason why the signature is whitelisted, if it is. Claims about a whitelisted signature are ignored.
    pub whitelisted: Option<WhitelistReason>,
    /// The nursery's record of the claims about the signature.
    pub assessment: Option<Assessment>,
    /// The claims that the nursery keeps, by reporter.
    pub votes: Vec<VoteView>,
    /// Claims counted under each flag in each live generation, newest first, without zero counts.
    pub claims: Vec<CountedClaims>,
    /// Recipients counted in each live generation, newest first, without zero counts.
    pub recipients: Vec<CountedRecipients>,
    /// Times of the first and the last claim or listing. The times are exact to the second if the nursery has them.
    /// Otherwise, they are derived from the epochs of generations.
    pub seen: Option<(Time, Time)>,
}

/// Claims counted in a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedClaims {
    /// Flag under which the claims were counted.
    pub flag: u8,
    /// Start of the generation, or the founding of the clearinghouse if that was later.
    pub since: Time,
    /// Number of claims.
    pub counts: ClaimCounts,
}

/// Recipients counted in a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedRecipients {
    /// Start of the generation, or the founding of the clearinghouse if that was later.
    pub since: Time,
    /// Number of recipients.
    pub recipients: u32,
}

impl Engine {
    /// Returns everything known about a signature.
    #[must_use]
    pub fn explain(&self, fingerprint: &Fingerprint) -> Explanation {
        let entry = self.spam.entry(fingerprint);
        let assessment = self.trust.assess(fingerprint);
        Explanation {
            fingerprint: *fingerprint,
            verdict: self.check(fingerprint, 0),
            votes: self.trust.votes(fingerprint),
            whitelisted: self.whitelist.contains(fingerprint),
            claims: self.counted_claims(fingerprint),
            recipients: self.counted_recipients(fingerprint),
            seen: self.seen(&entry, assessment.as_ref()),
            entry,
            assessment,
        }
    }

    fn counted_claims(&self, fingerprint: &Fingerprint) -> Vec<CountedClaims> {
        let seconds = self.realm.spam_epoch_seconds();
        let generations = live_epochs(&self.spam.claims).flat_map(|epoch| (0..FLAGS).map(move |flag| (epoch, flag)));
        let counted = generations.map(|(epoch, flag)| CountedClaims {
            flag,
            since: self.start_of(epoch, seconds),
            counts: self.spam.counts_in(epoch, flag, fingerprint),
        });
        counted.filter(|claims| claims.counts != ClaimCounts::default()).collect()
    }

    fn counted_recipients(&self, fingerprint: &Fingerprint) -> Vec<CountedRecipients> {
        let seconds = self.realm.bulk_epoch_seconds();
        let counted = live_epochs(&self.bulk.counts).map(|epoch| CountedRecipients {
            since: self.start_of(epoch, seconds),
            recipients: self.bulk.total_in(epoch, fingerprint),
        });
        counted.filter(|counted| counted.recipients > 0).collect()
    }

    /// Returns the start of a generation on this server. If the clearinghouse was founded during the generation,
    /// returns the time of the founding, because no claim made here is older. A generation that ended before the
    /// founding came from another server, and its real start is returned.
    const fn start_of(&self, epoch: u64, seconds: u64) -> Time {
        if self.founded.epoch(seconds) == epoch { self.founded } else { Time(epoch * seconds) }
    }

    fn seen(&self, entry: &Entry, assessment: Option<&Assessment>) -> Option<(Time, Time)> {
        let seconds = self.realm.spam_epoch_seconds();
        let began = |age: u32| self.start_of(self.spam.epoch() - u64::from(age), seconds);
        let of = |generations: Generations| Some((began(generations.oldest()?), began(generations.newest()?)));
        let of_books = join(of(entry.listed), of(entry.revoked));
        let of_nursery = assessment.map(|known| (known.first, known.last));
        match (of_books, of_nursery) {
            // If both times are in the same generation, use the nursery's, which is exact.
            (Some((began, newest)), Some((first, last))) if first.epoch(seconds) == began.epoch(seconds) => {
                Some((first, newest.max(last)))
            }
            (books, nursery) => join(books, nursery),
        }
    }
}

/// Returns the period from the earlier start to the later end.
fn join(one: Option<(Time, Time)>, other: Option<(Time, Time)>) -> Option<(Time, Time)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

/// Iterates over the live epochs of a ring, newest first.
fn live_epochs(ring: &CountsRing) -> impl Iterator<Item = u64> + use<> {
    let current = ring.epoch();
    (0..LIVE_GENERATIONS).filter_map(move |age| current.checked_sub(age))
}
