//! The state machine: events in, outcomes out, and checks that change nothing.

mod apply;
mod check;
mod exchange;
mod explain;
pub(crate) mod resize;
mod room;
mod snapshot;
mod status;

use self::apply::admit_own;
use self::room::DailyShares;
pub use check::{CheckScratch, FoundText};
pub use exchange::ExchangeRefusal;
pub use explain::{CountedClaims, CountedRecipients, Explanation};
pub use resize::{Resized, ResizedStructure};
pub use snapshot::RestoreError;
pub use status::{NEARLY_FULL, RingStatus, Status, TableStatus};

use bruit_filters::OutOfMemory;
use bruit_filters::ring::{CountsRing, MembershipRing, StagedRing};

use crate::accounts::{Accounts, ChangeError, RegisterError};
use crate::budget::{Capacities, Plan};
use crate::bulk::{BulkBook, BulkTotals};
use crate::event::{Event, TextChange};
use crate::exchange::{Book, Exchange};
use crate::generations::{Ended, LIVE_GENERATIONS};
use crate::memory::NotEnoughMemory;
use crate::realm::Realm;
use crate::replicas::Replicas;
use crate::shingles::Shingles;
use crate::spam::SpamBook;
use crate::time::Time;
use crate::trust::{Policy, Refused, Trust};
use crate::whitelist::{SenderError, Whitelist};

/// Lines of each ring that a tick of every second clears: a ring of 1 GiB is done within 70 minutes.
pub const TICK_LINES: u32 = 4_096;
/// Lines that a tick clears when the rings are epochs behind, as after a long stop: 512 KiB of each, well under a millisecond;
/// beside a running snapshot, which keeps what they were, some milliseconds.
pub const BEHIND_LINES: u32 = 8_192;

/// Epochs that a book may be behind the clock and still take claims: a claim of the first second of an epoch comes before the
/// tick that begins it. Filed further back it would be forgotten too early.
const BEHIND_EPOCHS_MAX: u64 = 1;

/// Nursery entries that a tick settles at most.
pub const SETTLED_PER_TICK: usize = 256;

/// Spam epochs after which good mail begins a new generation. Features learnt from a revocation must outlive the
/// reported text; otherwise the revoked message would be spam again.
const GOOD_EPOCHS: u64 = LIVE_GENERATIONS;

/// A clearinghouse: all that a server knows.
#[derive(Debug)]
pub struct Engine {
    realm: Realm,
    plan: Plan,
    /// The planned capacity of a generation of each book.
    capacities: Capacities,
    /// The most that it may hold.
    limits: Capacities,
    /// The time of the founding; not part of the state.
    founded: Time,
    now: Time,
    pub(crate) spam: SpamBook,
    pub(crate) bulk: BulkBook,
    pub(crate) trust: Trust,
    pub(crate) replicas: Replicas,
    pub(crate) shingles: Shingles,
    pub(crate) accounts: Accounts,
    pub(crate) whitelist: Whitelist,
    pub(crate) shares: DailyShares,
    pub(crate) exchange: Exchange,
    /// A snapshot that is being written.
    running: Option<snapshot::Running>,
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A tick, and whether the books are in the epochs they should be; if not, tick again soon.
    Ticked {
        /// Whether they are.
        arrived: bool,
        /// The generations that ended, except empty ones.
        ended: Vec<Ended>,
    },
    /// Claims that were taken.
    Claimed {
        /// Signatures that are listed since.
        listed: u32,
        /// Signatures that are revoked since.
        revoked: u32,
        /// Signatures that are whitelisted, of which no claim is taken.
        ignored: u32,
        /// Signatures whose claim was refused.
        refused: u32,
        /// The reason for the last refusal.
        reason: Option<Refusal>,
    },
    /// Recipients that were counted.
    Counted {
        /// Totals before and after, for each signature.
        totals: Vec<BulkTotals>,
        /// Signatures whose recipients were not counted for lack of room.
        refused: u32,
        /// The reason for the last refusal.
        reason: Option<Refusal>,
    },
    /// A segment of another server that was taken.
    Taken {
        /// Its entries.
        entries: u32,
        /// Those of them that changed nothing: past a quota, whitelisted, or without room.
        refused: u32,
    },
    /// Done.
    Done,
    /// Nothing changed, and why.
    Refused(Refusal),
}

/// Why an event changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The claim's group has used up what it may.
    #[error(transparent)]
    Trust(#[from] Refused),
    /// The group has used up today's share of new signatures in a book.
    #[error("the day's share of new {} is used up: try again tomorrow", book.contents())]
    DailyShare {
        /// The book.
        book: Book,
        /// The start of the next day.
        again: Time,
    },
    /// The current generation of a book holds as many signatures as it can without erring too often.
    #[error("there is no room for new {} until the next generation begins: try again then", book.contents())]
    BookFull {
        /// The book.
        book: Book,
        /// The start of the next generation.
        again: Time,
    },
    /// Strangers may ask, but what they count or learn would not be believed.
    #[error("strangers may ask, but neither count recipients nor teach texts")]
    Stranger,
    /// The group has taught as many texts today as it may.
    #[error("this group has taught as many texts today as it may")]
    TextQuota,
    /// It would change what others' claims mean: what is good mail, which texts go by a name, which are forgotten.
    #[error("only the site's own users may say what is good, or change a known text")]
    NotOwn,
    /// Every signature is whitelisted.
    #[error("every signature is whitelisted")]
    Whitelisted,
    /// Good mail has been learnt as much of as there is room for.
    #[error("no more good mail can be learnt before its generation ends")]
    GoodIsFull,
    /// No signature is named.
    #[error("the event names no signature")]
    Nothing,
    /// More signatures, features or bytes than an event may have, or a policy that makes no sense.
    #[error("the event is larger than an event may be, or has a number that it may not have")]
    OutOfBounds,
    /// The time is past the year 9999.
    #[error("the clock says a year past 9999: set it right")]
    NoTime,
    /// Generations have to be cleared first, as after a long stop: tick until it has arrived.
    #[error("the books are still catching up with the clock: try again soon")]
    CatchingUp,
    /// An account is not registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// An account is not changed.
    #[error(transparent)]
    Account(#[from] ChangeError),
    /// There are as many accounts as the memory budget has room for.
    #[error("the memory budget has no room for more accounts")]
    AccountsFull,
    /// There are as many whitelisted signatures as the memory budget has room for.
    #[error("the memory budget has no room for more whitelisted signatures")]
    WhitelistFull,
    /// A sender is not listed.
    #[error(transparent)]
    Sender(#[from] SenderError),
    /// Nothing is there to be changed.
    #[error("it is not on the list")]
    NotListed,
    /// What is remembered does not fit the new policy.
    #[error("what is remembered does not fit the new policy")]
    PolicyUnfit,
    /// What other servers must hear of fills the room it waits in.
    #[error("what other servers must hear of cannot be written down: try again soon")]
    ExportsWait,
    /// An exchange that is not possible, or not yet.
    #[error(transparent)]
    Exchange(#[from] ExchangeRefusal),
    /// Something is larger than a smaller budget allows.
    #[error(
        "the {what} do not fit a memory budget of {to} bytes, where there are {from} now: what is known cannot be made \
         smaller; keep the budget, or found a new clearinghouse and let other servers of its realm fill it"
    )]
    DoesNotShrink {
        /// The structure that does not fit.
        what: &'static str,
        /// The budget now, in bytes.
        from: u64,
        /// The requested budget.
        to: u64,
    },
    /// Nothing can grow while a snapshot is written.
    #[error("a snapshot is being written: try again soon")]
    SnapshotRuns,
}

impl Refusal {
    /// Returns true if the same request may succeed later without any other change.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Trust(_)
                | Self::DailyShare { .. }
                | Self::BookFull { .. }
                | Self::TextQuota
                | Self::GoodIsFull
                | Self::CatchingUp
                | Self::NoTime
                | Self::ExportsWait
        )
    }

    /// The name of the refusal in counters.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Trust(Refused::Quota { .. }) => "nursery_share",
            Self::Trust(_) => "nursery_full",
            Self::DailyShare { .. } | Self::TextQuota => "daily_share",
            Self::BookFull { .. } | Self::GoodIsFull => "book_full",
            Self::Stranger | Self::NotOwn => "not_allowed",
            Self::Whitelisted => "whitelisted",
            Self::CatchingUp | Self::NoTime => "clock",
            Self::ExportsWait => "exports_wait",
            Self::AccountsFull | Self::WhitelistFull => "table_full",
            _ => "other",
        }
    }
}

impl Outcome {
    /// The reason for a refusal, if any part of the event was refused.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            Self::Claimed { reason, .. } | Self::Counted { reason, .. } => *reason,
            _ => None,
        }
    }
}

impl From<Result<(), Refusal>> for Outcome {
    fn from(result: Result<(), Refusal>) -> Self {
        result.map_or_else(Self::Refused, |()| Self::Done)
    }
}

impl Engine {
    /// Creates an empty clearinghouse that begins at `now`, with books of the planned sizes.
    ///
    /// # Panics
    /// If the memory cannot be allocated.
    #[must_use]
    pub fn new(realm: Realm, plan: Plan, policy: Policy, now: Time) -> Self {
        Self::try_new(realm, plan, policy, now).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`new`](Self::new), but fails if the memory cannot be allocated.
    ///
    /// # Errors
    /// [`NotEnoughMemory`].
    pub fn try_new(realm: Realm, plan: Plan, policy: Policy, now: Time) -> Result<Self, NotEnoughMemory> {
        let capacities = (Capacities::per_generation(&plan.sizes), Capacities::limits(&plan.sizes));
        Self::with_capacities(realm, plan, capacities, policy, now)
    }

    /// An empty clearinghouse of the same realm and plan. Takes far less time than [`new`](Self::new), which has to find out how
    /// much the books hold.
    ///
    /// # Panics
    /// If the memory cannot be allocated.
    #[must_use]
    pub fn empty_like(&self, policy: Policy, now: Time) -> Self {
        let capacities = (self.capacities, self.limits);
        let made = Self::with_capacities(self.realm.clone(), self.plan, capacities, policy, now);
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    fn with_capacities(
        realm: Realm,
        plan: Plan,
        (capacities, limits): (Capacities, Capacities),
        policy: Policy,
        now: Time,
    ) -> Result<Self, NotEnoughMemory> {
        let memory = |what| move |OutOfMemory { bytes }| NotEnoughMemory { what, bytes, budget_bytes: plan.bytes };
        let (sizes, key_id) = (plan.sizes, realm.key().id());
        let lines = |lines: u64| usize::try_from(lines).expect("books fit the address space");
        let spam_epoch = now.epoch(realm.spam_epoch_seconds());
        let spam = SpamBook::new(
            StagedRing::try_new(lines(sizes.spam_lines), key_id, spam_epoch).map_err(memory("spam book"))?,
            MembershipRing::try_new(lines(sizes.revoked_lines), 64, key_id, spam_epoch)
                .map_err(memory("revocations"))?,
            CountsRing::try_new(lines(sizes.claim_lines), key_id, spam_epoch).map_err(memory("counts of claims"))?,
        );
        let bulk_epoch = now.epoch(realm.bulk_epoch_seconds());
        let counts = CountsRing::try_new(lines(sizes.bulk_lines), key_id, bulk_epoch).map_err(memory("bulk book"))?;
        let bulk = BulkBook::new(counts);
        let replicas = Replicas::within(realm.key().clone(), plan.replica_bytes, plan.good_bytes, spam_epoch)
            .map_err(memory("index of texts"))?;
        let shingles = Shingles::within(realm.key().clone(), plan.shingle_bytes, LIVE_GENERATIONS, spam_epoch)
            .map_err(memory("index of shingles"))?;
        let trust = Trust::try_new(policy, plan.trust_bytes).map_err(memory("records of reporters and claims"))?;
        Ok(Self {
            shingles,
            capacities,
            accounts: Accounts::new(),
            whitelist: Whitelist::new(realm.key()),
            trust,
            shares: DailyShares::default(),
            limits,
            exchange: Exchange::default(),
            running: None,
            realm,
            plan,
            founded: now,
            now,
            spam,
            bulk,
            replicas,
        })
    }

    /// The realm.
    #[must_use]
    pub const fn realm(&self) -> &Realm {
        &self.realm
    }

    /// The time of the founding; nothing was claimed here before. Unknown, and 0, after [`restore`](Self::restore).
    #[must_use]
    pub const fn founded(&self) -> Time {
        self.founded
    }

    /// Sets the time of the founding, which snapshots do not contain.
    #[must_use]
    pub const fn with_founded(mut self, founded: Time) -> Self {
        self.founded = founded;
        self
    }

    /// The division of the budget.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The spam book.
    #[must_use]
    pub const fn spam(&self) -> &SpamBook {
        &self.spam
    }

    /// The bulk book.
    #[must_use]
    pub const fn bulk(&self) -> &BulkBook {
        &self.bulk
    }

    /// Whose word has which weight.
    #[must_use]
    pub const fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The texts of reports.
    #[must_use]
    pub const fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    /// Texts with shingles.
    #[must_use]
    pub const fn shingles(&self) -> &Shingles {
        &self.shingles
    }

    /// The accounts.
    #[must_use]
    pub const fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The whitelists.
    #[must_use]
    pub const fn whitelist(&self) -> &Whitelist {
        &self.whitelist
    }

    /// What other servers told, and what they are told.
    #[must_use]
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// The latest time an event has named.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Whether an event would be refused as a whole. Such events need not be written down.
    ///
    /// # Errors
    /// [`Refusal`] says why.
    pub fn admit(&self, event: &Event) -> Result<(), Refusal> {
        if !event.is_within_bounds() {
            return Err(Refusal::OutOfBounds);
        }
        // Whether to believe a jump of the clock is decided by the server. The engine follows any time that it can represent.
        if event.time() > Time::MAX {
            return Err(Refusal::NoTime);
        }
        if event.is_told() && !self.exchange.has_room() {
            return Err(Refusal::ExportsWait);
        }
        match event {
            Event::Tick { .. } | Event::Policy { .. } => Ok(()),
            Event::Resize { budget_bytes, .. } => self.admit_resize(*budget_bytes),
            Event::Origin { change, .. } => Ok(self.admit_origin(change)?),
            Event::Sealed { .. } => Ok(self.admit_sealed()?),
            Event::Received { segment, .. } => Ok(self.admit_segment(segment)?),
            Event::Repair { chain, .. } => Ok(self.admit_repair(chain)?),
            Event::Account { change, .. } => self.admit_account(change),
            Event::Whitelist { change, .. } => self.admit_whitelist(change),
            Event::Claim { by, claim, fingerprints, .. } => self.admit_claim(by, *claim, fingerprints),
            Event::Bulk { by, targets, fingerprints } => self.admit_bulk(by, *targets, fingerprints),
            Event::Text { by, fingerprint, text } => self.admit_text(by, fingerprint, text),
            Event::Shingles { by, change: TextChange::Write { .. }, digest, .. } => self.admit_shingles(by, digest),
            Event::Shingles { by, change: TextChange::Delete, .. } => admit_own(by),
            Event::Good { by, .. } | Event::GoodFeatures { by, .. } => {
                admit_own(by)?;
                self.replicas.ensure_room_for_good().map_err(|_| Refusal::GoodIsFull)
            }
        }
    }

    /// Starts to load what an event will change, for those that are applied after others: memory is most of their time.
    pub fn prefetch(&self, event: &Event) {
        match event {
            Event::Claim { fingerprints, .. } => fingerprints.iter().for_each(|fingerprint| {
                self.spam.listed.prefetch(fingerprint);
                self.spam.revoked.prefetch(fingerprint);
            }),
            Event::Bulk { fingerprints, .. } => {
                fingerprints.iter().for_each(|fingerprint| self.bulk.counts.prefetch(fingerprint));
            }
            _ => {}
        }
    }

    /// Applies an event. What comes out, and what the state is afterwards, depends on nothing but the state before.
    pub fn apply(&mut self, event: &Event) -> Outcome {
        if let Err(refusal) = self.admit(event) {
            return Outcome::Refused(refusal);
        }
        let outcome = self.apply_admitted(event);
        if outcome == Outcome::Done {
            self.export_text(event);
        }
        outcome
    }

    fn apply_admitted(&mut self, event: &Event) -> Outcome {
        match event {
            Event::Tick { now, lines } => self.tick(*now, *lines as usize),
            Event::Claim { by, claim, flag, fingerprints } => {
                self.hear(by.now);
                self.claim(by, *claim, *flag, fingerprints)
            }
            Event::Bulk { by, targets, fingerprints } => {
                self.hear(by.now);
                self.count(by, *targets, fingerprints)
            }
            Event::Text { by, fingerprint, text } => {
                self.hear(by.now);
                self.charge(Book::Texts, by, 1);
                self.replicas.report_text(text, *fingerprint);
                Outcome::Done
            }
            Event::Good { by, features } => {
                self.hear(by.now);
                self.replicas.learn_good_features(features).map_err(|_| Refusal::GoodIsFull).into()
            }
            Event::GoodFeatures { by, features } => {
                self.hear(by.now);
                self.replicas.make_good(features).map_err(|_| Refusal::GoodIsFull).into()
            }
            Event::Shingles { by, change, digest, shingles } => {
                self.hear(by.now);
                self.charge(Book::Texts, by, 1);
                self.change_text(*change, digest, shingles.as_deref());
                Outcome::Done
            }
            Event::Account { now, change } => {
                self.hear(*now);
                self.change_account(change).into()
            }
            Event::Whitelist { now, change } => {
                self.hear(*now);
                self.change_whitelist(change).into()
            }
            Event::Policy { now, policy } => {
                self.hear(*now);
                self.change_policy(policy).into()
            }
            Event::Origin { now, change } => {
                self.hear(*now);
                self.change_origin(change);
                Outcome::Done
            }
            Event::Sealed { now, chain, sequence, taken, bytes, hash } => {
                self.hear(*now);
                self.seal(*chain, *sequence, *taken, *bytes, *hash)
            }
            Event::Received { now, segment } => {
                self.hear(*now);
                self.receive(segment)
            }
            Event::Repair { now, chain } => {
                self.hear(*now);
                self.repair(chain);
                Outcome::Done
            }
            Event::Resize { now, budget_bytes } => {
                self.hear(*now);
                self.resize(*budget_bytes).into()
            }
        }
    }

    /// Time never goes back, whatever clocks do.
    fn hear(&mut self, now: Time) {
        self.now = self.now.max(now);
    }
}
