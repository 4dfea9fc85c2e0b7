//! Everything that is known of one signature, for whoever wants to know why.

use bruit_filters::Fingerprint;
use bruit_filters::ring::{CountsRing, Generations};

use super::Engine;
use crate::generations::LIVE_GENERATIONS;
use crate::spam::{ClaimCounts, Entry, FLAGS};
use crate::time::Time;
use crate::trust::Assessment;
use crate::verdict::Verdict;
use crate::whitelist::Why;

/// All there is about a signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The signature.
    pub fingerprint: Fingerprint,
    /// What a check is answered.
    pub verdict: Verdict,
    /// What the spam book says.
    pub entry: Entry,
    /// Why no claim about it counts, if so.
    pub whitelisted: Option<Why>,
    /// What the nursery remembers of its claims.
    pub assessment: Option<Assessment>,
    /// Claims counted under each flag in each live generation, where there are any. Newest first.
    pub claims: Vec<CountedClaims>,
    /// Recipients counted in each live generation, where there are any. Newest first.
    pub recipients: Vec<CountedRecipients>,
    /// When it was first and last claimed or listed: by the nursery to the second, else by the epochs of generations.
    pub seen: Option<(Time, Time)>,
}

/// Claims of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedClaims {
    /// The flag they were counted under.
    pub flag: u8,
    /// The time when the generation began, or the founding of the clearinghouse if that is later.
    pub since: Time,
    /// How many.
    pub counts: ClaimCounts,
}

/// Recipients of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedRecipients {
    /// The time when the generation began, or the founding of the clearinghouse if that is later.
    pub since: Time,
    /// How many.
    pub recipients: u32,
}

impl Engine {
    /// Everything known of a signature.
    #[must_use]
    pub fn explain(&self, fingerprint: &Fingerprint) -> Explanation {
        let entry = self.spam.entry(fingerprint);
        let assessment = self.trust.assess(fingerprint);
        Explanation {
            fingerprint: *fingerprint,
            verdict: self.check(fingerprint, 0),
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

    /// The time when a generation began here. Nothing was claimed here before the founding; generations that ended before it came
    /// from other servers.
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
            // What began in the generation that the nursery remembers began when the nursery says.
            (Some((began, newest)), Some((first, last))) if first.epoch(seconds) == began.epoch(seconds) => {
                Some((first, newest.max(last)))
            }
            (books, nursery) => join(books, nursery),
        }
    }
}

/// The time from the earlier start to the later end.
fn join(one: Option<(Time, Time)>, other: Option<(Time, Time)>) -> Option<(Time, Time)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

/// The live epochs of a ring, newest first.
fn live_epochs(ring: &CountsRing) -> impl Iterator<Item = u64> + use<> {
    let current = ring.epoch();
    (0..LIVE_GENERATIONS).filter_map(move |age| current.checked_sub(age))
}
