//! Whom to believe: claims are weighed by who makes them, remembered until they are settled, and settled against anchors.
//!
//! [`Trust`] is told every claim and says what it does to the books. It knows no book, protocol or clock, and its memory is
//! reserved when it is made. Equal claims at equal times give equal bytes of state, on every machine.
//!
//! The idea, at length in `docs/trust.md`:
//!
//! 1. A reporter's claims weigh by how often it was right, judged from below: a new identity weighs nothing ([`policy`]).
//! 2. A group of reporters is one voice. What no anchor says counts up to a cap, and nothing is listed without an anchor.
//! 3. Two days later everyone is credited or debited by what *anchors of other groups* said.
//!
//! | module | what it is |
//! |---|---|
//! | `policy` | every constant |
//! | `precision` | from right and wrong claims to a weight, the same on every machine |
//! | `evidence` | what the votes on a signature add up to |
//! | `decision` | what a claim does to the books |
//! | `nursery`, `groups`, `reporters` | the three bounded tables |
//! | `slab` | the memory they are made of |
//! | `encoding` | the state as bytes |
//!
//! ```
//! use bruit_engine::time::Time;
//! use bruit_engine::trust::{By, Change, Claim, Listing, Policy, Reporter, Standing, Trust};
//! use bruit_filters::Fingerprint;
//!
//! let mut trust = Trust::new(Policy::default(), 1 << 20);
//! let (now, spam, unlisted) = (Time(0), Fingerprint::new(7, 7), Listing::default());
//! let stranger = Reporter { id: 1, standing: Standing::Stranger, group: 1 };
//! let own = Reporter { id: 2, standing: Standing::Own, group: 2 };
//! assert_eq!(trust.claim(now, &stranger, spam, Claim::Report, unlisted, true), Ok(Change::Nothing));
//! assert_eq!(trust.claim(now, &own, spam, Claim::Report, unlisted, true), Ok(Change::List(By::Own)));
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
pub use self::evidence::{Evidence, Level};
pub use self::policy::{Policy, PolicyError};

use self::decision::{Heard, decide};
use self::evidence::{Vote, sort_for_truth, truth_without};
use self::nursery::{Entry, Nursery};
use self::reporters::{Outcome, Reporters};
use crate::time::Time;

/// There is room for at least this many signatures and reporters, however little memory is given.
pub const ENTRIES_MIN: u32 = 64;

/// The part of the memory that is for reporters: one in so many bytes.
const REPORTERS_PART: u64 = 8;

/// Who makes a claim, as the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// A keyed hash of the account's name, the client id, the key or the source network.
    pub id: u64,
    /// What the operator knows of it.
    pub standing: Standing,
    /// A keyed hash of its independence group: all reporters who could be the same person, coarsest wins.
    pub group: u64,
}

/// What the operator knows of a reporter, by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Standing {
    /// An address that nobody writes to but spammers. An anchor.
    Trap = 0,
    /// One of the site's own users. An anchor.
    Own = 1,
    /// A peer the operator chose. An anchor.
    Pinned = 2,
    /// Someone with an account or key: earns trust.
    Account = 3,
    /// Anonymous, by source network: always weighs nothing.
    Stranger = 4,
}

impl Standing {
    /// Whether the operator trusts it by itself.
    #[must_use]
    pub const fn is_anchor(self) -> bool {
        matches!(self, Self::Trap | Self::Own | Self::Pinned)
    }

    /// Strangers, accounts, anchors: whose entries others may not push out.
    const fn class(self) -> u8 {
        match self {
            Self::Stranger => 0,
            Self::Account => 1,
            Self::Trap | Self::Own | Self::Pinned => 2,
        }
    }
}

/// What a reporter says of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Claim {
    /// It is spam.
    Report = 0,
    /// It is not.
    Revoke = 1,
}

/// What the books say of the signature at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The spam book has it.
    pub listed: bool,
    /// It was taken off, which prevails over `listed`.
    pub revoked: bool,
}

/// What the engine must do to the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// List the signature; if it was revoked, that no longer holds.
    List(By),
    /// Take it off at once.
    Revoke,
}

/// Why a signature is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Own reporters say so: for this site only.
    Own,
    /// The evidence of several groups and an anchor.
    Evidence,
}

/// A claim that was not heard, and changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The group has claimed too many new signatures today.
    #[error("too many new signatures from this group today")]
    Quota {
        /// When it may come again.
        again: Time,
    },
    /// There is no room but that of better known reporters' signatures.
    #[error("no room for signatures of unknown reporters")]
    Full,
}

/// Everything that is known of a signature not yet forgotten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assessment {
    /// What the votes add up to.
    pub evidence: Evidence,
    /// When it was first and last claimed.
    pub first: Time,
    /// See `first`.
    pub last: Time,
    /// Reports, repeated ones too.
    pub report_count: u32,
    /// Revokes, repeated ones too.
    pub revoke_count: u32,
    /// When it was listed, if it was and still is.
    pub promoted: Option<Time>,
}

impl Assessment {
    const fn of(entry: &Entry) -> Self {
        Self {
            evidence: entry.evidence,
            first: entry.first,
            last: entry.last,
            report_count: entry.report_count,
            revoke_count: entry.revoke_count,
            promoted: entry.promoted,
        }
    }

    /// How sure it is, 0 to 100: the score's place on a logistic curve whose middle is the suspect score.
    #[must_use]
    pub fn confidence(&self, policy: &Policy) -> u8 {
        let odds = (policy.suspect_score - self.evidence.score()).exp();
        (100.0 / (1.0 + odds)).round() as u8
    }
}

/// Everything that is known of a reporter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReporterView {
    /// Its group and standing when a claim of it was last settled.
    pub group: u64,
    /// See `group`.
    pub standing: Standing,
    /// The lower bound of how often it is right.
    pub precision: f64,
    /// What its claims weigh.
    pub weight: f64,
    /// Claims that anchors of other groups confirmed. Echoes of what was known are not among them.
    pub confirmed: u32,
    /// Claims they refuted.
    pub refuted: u32,
    /// Claims they said nothing of.
    pub unconfirmed: u32,
}

/// Reporters, their claims, and what those add up to.
#[derive(Debug)]
pub struct Trust {
    policy: Policy,
    reporters: Reporters,
    nursery: Nursery,
}

impl Trust {
    /// Tables that take `bytes` of memory, or what [`ENTRIES_MIN`] signatures need if that is more.
    ///
    /// # Panics
    /// If [`Policy::check`] refuses the policy.
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
    /// As [`new`](Self::new), except for lack of memory.
    pub fn try_new(policy: Policy, bytes: u64) -> Result<Self, OutOfMemory> {
        policy.check().expect("callers check policies that are not their own");
        let for_reporters = bytes / REPORTERS_PART;
        let records_max = fitting(for_reporters, Reporters::RECORD_BYTES);
        let entries_max = fitting(bytes - for_reporters, Nursery::ENTRY_BYTES);
        let reporters = Reporters::new(&policy, records_max)?;
        let nursery = Nursery::new(&policy, entries_max)?;
        Ok(Self { policy, reporters, nursery })
    }

    /// The memory it takes, now and always.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.reporters.bytes() + self.nursery.bytes()) as u64
    }

    /// The policy it follows.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How many signatures it knows, and how many it has room for.
    #[must_use]
    pub fn fill(&self) -> (u64, u64) {
        (self.nursery.len() as u64, self.nursery.entries_max().into())
    }

    /// Whether the reporter's group has not used up its new signatures of the day, or the signature is known.
    ///
    /// # Errors
    /// [`Refused::Quota`] says when to come again.
    pub fn admit(&self, now: Time, reporter: &Reporter, fingerprint: &Fingerprint) -> Result<(), Refused> {
        match self.nursery.find(fingerprint) {
            Some(_) => Ok(()),
            None => self.nursery.admit(&self.policy, now, reporter),
        }
    }

    /// Records a claim, and returns the change that it makes to the books. The caller must apply that change. Without `has_room`
    /// in the books, the claim is remembered but changes nothing there.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    pub fn claim(
        &mut self,
        now: Time,
        reporter: &Reporter,
        fingerprint: Fingerprint,
        claim: Claim,
        listing: Listing,
        has_room: bool,
    ) -> Result<Change, Refused> {
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
        let heard = Heard {
            vote,
            listing,
            promoted: before.promoted.is_some(),
            before: before.evidence,
            after: self.nursery.get(slot).evidence,
        };
        let change = if has_room { decide(&self.policy, &heard) } else { Change::Nothing };
        self.note(now, slot, listing, change);
        Ok(change)
    }

    /// Whether a signature is known: one probe of a hash table, and nothing else if it is not.
    #[inline]
    #[must_use]
    pub fn knows(&self, fingerprint: &Fingerprint) -> bool {
        self.nursery.find(fingerprint).is_some()
    }

    /// Whether a reporter's word has any weight.
    #[must_use]
    pub fn weighs(&self, now: Time, reporter: &Reporter) -> bool {
        self.reporters.weight(&self.policy, now, reporter) > 0
    }

    /// What is known of a signature: one probe of a hash table.
    #[must_use]
    pub fn assess(&self, fingerprint: &Fingerprint) -> Option<Assessment> {
        self.nursery.find(fingerprint).map(|slot| Assessment::of(self.nursery.get(slot)))
    }

    /// What is known of a reporter that has had a claim settled.
    #[must_use]
    pub fn reporter(&self, now: Time, id: u64) -> Option<ReporterView> {
        self.reporters.view(&self.policy, now, id)
    }

    /// Settles the claims that are due and lets old ones go, at most `entries_max` signatures; says how many those were. When it
    /// is that many, there may be more. It changes the state: whoever replays claims must settle at the same points.
    pub fn settle(&mut self, now: Time, entries_max: usize) -> usize {
        (0..entries_max).take_while(|_| self.settle_next(now) || self.forget_next(now)).count()
    }

    /// Returns true if [`settle`](Self::settle) has something to do.
    #[must_use]
    pub fn has_due(&self, now: Time) -> bool {
        self.next_due(now).is_some() || self.next_over(now).is_some()
    }

    /// Notes a change of the books: it overrules the votes against it.
    fn note(&mut self, now: Time, slot: u32, listing: Listing, change: Change) {
        match change {
            Change::Nothing => {}
            Change::List(_) => {
                self.nursery.get_mut(slot).promoted = Some(now);
                if listing.revoked {
                    self.nursery.spend(&self.policy, slot, Claim::Revoke);
                }
            }
            Change::Revoke => {
                self.nursery.get_mut(slot).promoted = None;
                self.nursery.spend(&self.policy, slot, Claim::Report);
            }
        }
    }

    /// The oldest unsettled entry, if it is due.
    fn next_due(&self, now: Time) -> Option<u32> {
        let is_due = |slot: &u32| now.since(self.nursery.get(*slot).first) >= self.policy.settle_after;
        self.nursery.next_to_settle().filter(is_due)
    }

    /// The entry that was settled first, if it has expired.
    fn next_over(&self, now: Time) -> Option<u32> {
        let is_over = |slot: &u32| now.since(self.nursery.get(*slot).first) >= self.policy.nursery_life;
        self.nursery.next_to_go().filter(is_over)
    }

    /// Settles the oldest entry if it is due.
    fn settle_next(&mut self, now: Time) -> bool {
        let Some(slot) = self.next_due(now) else { return false };
        self.settle_votes(now, slot);
        self.nursery.mark_settled(slot);
        true
    }

    /// Credits and debits those who voted on an entry, as far as they were not yet.
    fn settle_votes(&mut self, now: Time, slot: u32) {
        let mut votes = self.nursery.votes(self.nursery.get(slot)).copied().collect::<Vec<_>>();
        sort_for_truth(&mut votes);
        for vote in votes.iter().filter(|vote| !vote.settled) {
            self.reporters.settle(&self.policy, now, vote, outcome(&votes, vote));
        }
        self.nursery.settle_votes(slot);
    }

    /// Lets the entry go that was settled first, if its time is over.
    fn forget_next(&mut self, now: Time) -> bool {
        let Some(slot) = self.next_over(now) else { return false };
        // Those who voted after it was settled.
        self.settle_votes(now, slot);
        self.nursery.remove(slot);
        true
    }
}

/// How a vote turned out, by what anchors of other groups say.
fn outcome(votes: &[Vote], vote: &Vote) -> Outcome {
    match truth_without(votes, vote.group) {
        None => Outcome::Unconfirmed,
        Some(truth) if truth == vote.claim && vote.early => Outcome::Confirmed,
        Some(truth) if truth == vote.claim => Outcome::Echoed,
        Some(_) => Outcome::Refuted,
    }
}

/// How many things of this size fit.
fn fitting(bytes: u64, each: usize) -> u32 {
    // Slot numbers and the number of votes must stay below 2^32.
    const SLOTS_MAX: u64 = 1 << 28;
    let slots = (bytes / each as u64).clamp(ENTRIES_MIN.into(), SLOTS_MAX);
    u32::try_from(slots).expect("within bounds")
}
