//! Trust in reporters: claims are weighed by reporter, kept until they are settled, and settled by comparison with the
//! claims of anchors.
//!
//! [`Trust`] receives every claim and returns the resulting change of the books. It does not depend on books, protocols
//! or a clock, and allocates its memory at creation. Equal claims at equal times produce equal bytes of state, on every
//! machine.
//!
//! The scheme, described at length in `docs/trust.md`:
//!
//! 1. The weight of a reporter's claims follows from a lower bound on the share of its claims that are right. A new
//!    identity has no weight ([`policy`]).
//! 2. A group of reporters counts as one voice. Evidence without anchors is capped, and no signature is listed without
//!    an anchor.
//! 3. After two days each reporter is credited or debited according to the claims of *anchors of other groups*.
//!
//! | module | contents |
//! |---|---|
//! | `policy` | all constants |
//! | `precision` | weights from right and wrong claims, identical on every machine |
//! | `evidence` | sums of the votes on a signature |
//! | `decision` | effects of claims on the books |
//! | `nursery`, `groups`, `reporters` | the three bounded tables |
//! | `slab` | the memory of these tables |
//! | `encoding` | encoding of the state |
//!
//! ```
//! use bruit_engine::time::Time;
//! use bruit_engine::trust::{Change, Claim, Listing, Policy, Reporter, Standing, Trust};
//! use bruit_filters::Fingerprint;
//!
//! let mut trust = Trust::new(Policy::default(), 1 << 20);
//! let (now, spam, unlisted) = (Time(0), Fingerprint::new(7, 7), Listing::default());
//! let stranger = Reporter { id: 1, standing: Standing::Stranger, group: 1 };
//! let own = Reporter { id: 2, standing: Standing::Own, group: 2 };
//! assert_eq!(trust.claim(now, &stranger, spam, Claim::Report, unlisted, true), Ok(Change::Nothing));
//! assert_eq!(trust.claim(now, &own, spam, Claim::Report, unlisted, true), Ok(Change::List));
//! ```

mod decision;
mod encoding;
mod evidence;
mod groups;
mod nursery;
pub mod policy;
mod policy_bytes;
mod precision;
mod reporters;
mod slab;
#[cfg(test)]
mod tests;

use bruit_filters::{Fingerprint, OutOfMemory};

pub(crate) use self::encoding::read_standing;
pub use self::evidence::{Level, VoteEvidence};
pub use self::policy::{Policy, PolicyError};

use self::decision::{ClaimContext, decide};
use self::evidence::{Vote, sort_for_truth, truth_without};
use self::nursery::{Nursery, NurseryEntry};
use self::reporters::{Reporters, VoteOutcome};
use crate::time::Time;

/// Memory is always allocated for at least this many signatures and this many reporters, even if they need more than
/// the given amount.
pub const ENTRIES_MIN: u32 = 64;

/// Divisor for the reporters' part of the memory.
const REPORTERS_PART: u64 = 8;

/// The reporter of a claim, as identified by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// Keyed hash of the account's name, the client id, the key or the source network.
    pub id: u64,
    /// Standing assigned by the operator.
    pub standing: Standing,
    /// Keyed hash of its independence group: all reporters that could be the same person, organisation or network.
    pub group: u64,
}

/// The standing of a reporter, assigned by the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Standing {
    /// A trap: an address that only spammers write to. An anchor.
    Trap = 0,
    /// One of the site's own users. An anchor.
    Own = 1,
    /// A peer chosen by the operator. An anchor.
    Pinned = 2,
    /// A reporter with an account or key, who earns trust.
    Account = 3,
    /// An anonymous reporter, identified by its source network. Its claims never have weight.
    Stranger = 4,
}

impl Standing {
    /// Returns true if the operator trusts the reporter without further evidence.
    #[must_use]
    pub const fn is_anchor(self) -> bool {
        matches!(self, Self::Trap | Self::Own | Self::Pinned)
    }

    /// Returns the class: strangers, accounts, anchors. Entries of a higher class are never evicted for entries of a
    /// lower class.
    const fn class(self) -> u8 {
        match self {
            Self::Stranger => 0,
            Self::Account => 1,
            Self::Trap | Self::Own | Self::Pinned => 2,
        }
    }
}

/// A reporter's claim about a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Claim {
    /// The signature is spam.
    Report = 0,
    /// The signature is not spam.
    Revoke = 1,
}

/// The state of a signature in the books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// True if the spam book lists the signature.
    pub listed: bool,
    /// True if the signature was revoked. This prevails over `listed`.
    pub revoked: bool,
}

/// A change of the books, to be made by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// No change.
    Nothing,
    /// List the signature. This cancels an earlier revocation.
    List,
    /// Revoke the signature at once.
    Revoke,
}

/// Error for a claim that was refused and changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NurseryRefusal {
    /// The group has claimed too many new signatures today.
    #[error("too many new signatures from this group today")]
    Quota {
        /// Start of the next day.
        again: Time,
    },
    /// The nursery is full, and all its signatures were claimed by reporters of higher standing.
    #[error("no room for new signatures from reporters of this standing")]
    Full,
}

/// The nursery's record of a signature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assessment {
    /// Sums of the votes.
    pub evidence: VoteEvidence,
    /// Time of the first claim.
    pub first: Time,
    /// Time of the last claim.
    pub last: Time,
    /// Number of reports, including repeated ones.
    pub report_count: u32,
    /// Number of revocations, including repeated ones.
    pub revoke_count: u32,
    /// Time of listing, if the signature is still listed.
    pub promoted: Option<Time>,
}

impl Assessment {
    const fn of(entry: &NurseryEntry) -> Self {
        Self {
            evidence: entry.evidence,
            first: entry.first,
            last: entry.last,
            report_count: entry.report_count,
            revoke_count: entry.revoke_count,
            promoted: entry.promoted,
        }
    }

    /// Returns the confidence that the signature is spam, 0 to 100. It is the logistic function of the score, and its
    /// midpoint is the suspect score.
    #[must_use]
    pub fn confidence(&self, policy: &Policy) -> u8 {
        let odds = (policy.suspect_score - self.evidence.score()).exp();
        (100.0 / (1.0 + odds)).round() as u8
    }
}

/// The record of a reporter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReporterView {
    /// Group of the reporter when one of its claims was last settled.
    pub group: u64,
    /// Standing of the reporter when one of its claims was last settled.
    pub standing: Standing,
    /// Lower bound on the share of its claims that are right.
    pub precision: f64,
    /// Weight of its claims.
    pub weight: f64,
    /// Number of claims confirmed by anchors of other groups. Echoes of known results are not counted.
    pub confirmed: u32,
    /// Number of claims refuted by anchors of other groups.
    pub refuted: u32,
    /// Number of claims neither confirmed nor refuted.
    pub unconfirmed: u32,
}

/// The current claim of one reporter about a signature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoteView {
    /// The reporter.
    pub reporter: Reporter,
    /// The claim.
    pub claim: Claim,
    /// Weight of the reporter when it made the claim.
    pub weight: f64,
    /// True if a later change of the books overruled the claim, which is then no longer evidence.
    pub overruled: bool,
}

/// Reporters, their claims, and the resulting evidence.
#[derive(Debug)]
pub struct Trust {
    policy: Policy,
    reporters: Reporters,
    nursery: Nursery,
}

impl Trust {
    /// Creates tables that use `bytes` bytes of memory, or more if that is needed for [`ENTRIES_MIN`] signatures.
    ///
    /// # Panics
    /// If [`Policy::check`] refuses the policy, or the memory cannot be allocated.
    #[must_use]
    pub fn new(policy: Policy, bytes: u64) -> Self {
        Self::try_new(policy, bytes).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`new`](Self::new), but fails if the memory cannot be allocated.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    ///
    /// # Panics
    /// If [`Policy::check`] refuses the policy.
    pub fn try_new(policy: Policy, bytes: u64) -> Result<Self, OutOfMemory> {
        policy.check().expect("the policy was checked by the caller");
        let for_reporters = bytes / REPORTERS_PART;
        let records_max = fitting(for_reporters, Reporters::RECORD_BYTES);
        let entries_max = fitting(bytes - for_reporters, Nursery::ENTRY_BYTES);
        let reporters = Reporters::new(&policy, records_max)?;
        let nursery = Nursery::new(&policy, entries_max)?;
        Ok(Self { policy, reporters, nursery })
    }

    /// Returns the memory in use, which never changes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.reporters.bytes() + self.nursery.bytes()) as u64
    }

    /// Returns the policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the number of known signatures and their maximum number.
    #[must_use]
    pub fn fill(&self) -> (u64, u64) {
        (self.nursery.len() as u64, self.nursery.entries_max().into())
    }

    /// Checks that the signature is known or the reporter's group may still add new signatures today.
    ///
    /// # Errors
    /// [`NurseryRefusal::Quota`] with the time at which to try again.
    pub fn admit(&self, now: Time, reporter: &Reporter, fingerprint: &Fingerprint) -> Result<(), NurseryRefusal> {
        match self.nursery.find(fingerprint) {
            Some(_) => Ok(()),
            None => self.nursery.admit(&self.policy, now, reporter),
        }
    }

    /// Records a claim and returns the change that the caller must make to the books. If `has_room` is false because
    /// the books are full, the claim is recorded, but the books do not change.
    ///
    /// # Errors
    /// [`NurseryRefusal`]; the state is then unchanged.
    pub fn claim(
        &mut self,
        now: Time,
        reporter: &Reporter,
        fingerprint: Fingerprint,
        claim: Claim,
        listing: Listing,
        has_room: bool,
    ) -> Result<Change, NurseryRefusal> {
        let weight = self.reporters.weight(&self.policy, now, reporter);
        let mut vote = Vote::new(reporter, weight, claim, true);
        let slot = match self.nursery.find(&fingerprint) {
            Some(slot) => slot,
            None => self.nursery.insert(&self.policy, now, fingerprint, reporter, vote.tier())?,
        };
        let before = *self.nursery.get(slot);
        vote.early = match claim {
            Claim::Report => !listing.listed && before.promoted.is_none(),
            Claim::Revoke => !listing.revoked && before.evidence.anchored_revokes == 0,
        };
        self.nursery.get_mut(slot).count(now, claim);
        self.nursery.vote(&self.policy, slot, vote);
        let context = ClaimContext {
            vote,
            listing,
            promoted: before.promoted.is_some(),
            before: before.evidence,
            after: self.nursery.get(slot).evidence,
        };
        let change = if has_room { decide(&self.policy, &context) } else { Change::Nothing };
        self.record_change(now, slot, listing, change);
        Ok(change)
    }

    /// Returns true if a signature is known. An unknown signature costs one probe of a hash table.
    #[inline]
    #[must_use]
    pub fn knows(&self, fingerprint: &Fingerprint) -> bool {
        self.nursery.find(fingerprint).is_some()
    }

    /// Returns true if a reporter's claims have weight.
    #[must_use]
    pub fn weighs(&self, now: Time, reporter: &Reporter) -> bool {
        self.reporters.weight(&self.policy, now, reporter) > 0
    }

    /// Returns the record of a signature, found by one probe of a hash table.
    #[must_use]
    pub fn assess(&self, fingerprint: &Fingerprint) -> Option<Assessment> {
        self.nursery.find(fingerprint).map(|slot| Assessment::of(self.nursery.get(slot)))
    }

    /// Returns the claims about a signature that the nursery keeps, in the order in which their reporters first made
    /// a claim about it. Claims by strangers are only counted, and not returned.
    #[must_use]
    pub fn votes(&self, fingerprint: &Fingerprint) -> Vec<VoteView> {
        let entry = self.nursery.find(fingerprint).map(|slot| self.nursery.get(slot));
        entry.into_iter().flat_map(|entry| self.nursery.votes(entry)).map(Vote::view).collect()
    }

    /// Returns the record of a reporter with at least one settled claim.
    #[must_use]
    pub fn reporter(&self, now: Time, id: u64) -> Option<ReporterView> {
        self.reporters.view(&self.policy, now, id)
    }

    /// Settles the claims about due signatures, and removes expired signatures. Processes at most `entries_max`
    /// signatures and returns their number. If the number equals `entries_max`, more may be due. Settling changes the
    /// state, so a replay of claims must settle at the same points.
    pub fn settle(&mut self, now: Time, entries_max: usize) -> usize {
        (0..entries_max).take_while(|_| self.settle_next(now) || self.remove_next_expired(now)).count()
    }

    /// Returns true if [`settle`](Self::settle) would change anything.
    #[must_use]
    pub fn has_due(&self, now: Time) -> bool {
        self.next_due(now).is_some() || self.next_expired(now).is_some()
    }

    /// Drops the evidence about a signature. The records of its reporters do not change.
    pub(crate) fn forget_signature(&mut self, fingerprint: &Fingerprint) {
        if let Some(slot) = self.nursery.find(fingerprint) {
            self.nursery.remove(slot);
        }
    }

    /// Drops the evidence about all signatures that a reporter claimed.
    pub(crate) fn forget_reporter(&mut self, id: u64) {
        let is_theirs = |slot: &u32| self.nursery.votes(self.nursery.get(*slot)).any(|vote| vote.reporter == id);
        let slots: Vec<u32> = self.nursery.by_age().filter(is_theirs).collect();
        slots.into_iter().for_each(|slot| self.nursery.remove(slot));
    }

    /// Records a change of the books. The change overrules the votes against it.
    fn record_change(&mut self, now: Time, slot: u32, listing: Listing, change: Change) {
        match change {
            Change::Nothing => {}
            Change::List => {
                self.nursery.get_mut(slot).promoted = Some(now);
                if listing.revoked {
                    self.nursery.overrule(&self.policy, slot, Claim::Revoke);
                }
            }
            Change::Revoke => {
                self.nursery.get_mut(slot).promoted = None;
                self.nursery.overrule(&self.policy, slot, Claim::Report);
            }
        }
    }

    /// Returns the oldest unsettled entry, if it is due.
    fn next_due(&self, now: Time) -> Option<u32> {
        let is_due = |slot: &u32| now.since(self.nursery.get(*slot).first) >= self.policy.settle_after;
        self.nursery.next_to_settle().filter(is_due)
    }

    /// Returns the entry that was settled longest ago, if it has expired.
    fn next_expired(&self, now: Time) -> Option<u32> {
        let is_over = |slot: &u32| now.since(self.nursery.get(*slot).first) >= self.policy.nursery_life;
        self.nursery.oldest_settled().filter(is_over)
    }

    /// Settles the oldest entry if it is due.
    fn settle_next(&mut self, now: Time) -> bool {
        let Some(slot) = self.next_due(now) else { return false };
        self.settle_votes(now, slot);
        self.nursery.mark_settled(slot);
        true
    }

    /// Settles the unsettled votes on an entry: credits or debits the voters.
    fn settle_votes(&mut self, now: Time, slot: u32) {
        let mut votes = self.nursery.votes(self.nursery.get(slot)).copied().collect::<Vec<_>>();
        sort_for_truth(&mut votes);
        for vote in votes.iter().filter(|vote| !vote.settled) {
            self.reporters.settle(&self.policy, now, vote, outcome(&votes, vote));
        }
        self.nursery.settle_votes(slot);
    }

    /// Removes the entry that was settled longest ago, if it has expired.
    fn remove_next_expired(&mut self, now: Time) -> bool {
        let Some(slot) = self.next_expired(now) else { return false };
        // Settle the votes that were cast after the entry was settled.
        self.settle_votes(now, slot);
        self.nursery.remove(slot);
        true
    }
}

/// Returns the outcome of a vote according to anchors of other groups.
fn outcome(votes: &[Vote], vote: &Vote) -> VoteOutcome {
    match truth_without(votes, vote.group) {
        None => VoteOutcome::Unconfirmed,
        Some(truth) if truth == vote.claim && vote.early => VoteOutcome::Confirmed,
        Some(truth) if truth == vote.claim => VoteOutcome::Echoed,
        Some(_) => VoteOutcome::Refuted,
    }
}

/// Returns the number of values of `each` bytes that fit in `bytes` bytes.
fn fitting(bytes: u64, each: usize) -> u32 {
    // Slot numbers and the number of votes must stay below 2^32.
    const SLOTS_MAX: u64 = 1 << 28;
    let slots = (bytes / each as u64).clamp(ENTRIES_MIN.into(), SLOTS_MAX);
    u32::try_from(slots).expect("within bounds")
}
