//! The state machine: events in, outcomes out, and checks that change nothing.

mod apply;
mod check;
mod exchange;
mod explain;
pub(crate) mod forget;
pub(crate) mod resize;
mod room;
mod snapshot;
mod status;

use self::apply::admit_own;
use self::room::DailyShares;
pub use check::{CheckScratch, FoundText};
pub use explain::{CountedClaims, CountedRecipients, Explanation};
pub use forget::Rereading;
pub use resize::{ResizePreview, StructurePreview};
pub use snapshot::RestoreError;
pub use status::{NEARLY_FULL, RingStatus, Status, TableStatus};

use bruit_filters::ring::{CountsRing, MembershipRing, StagedRing};
use bruit_filters::{Fingerprint, OutOfMemory};

use crate::accounts::{Accounts, ChangeError, RegisterError};
use crate::budget::{Capacities, Plan};
use crate::bulk::{BulkBook, BulkTotals};
use crate::claim_ids::{ClaimIds, ClaimTotals};
use crate::event::{Event, TextChange};
use crate::exchange::{Book, Exchange, ExchangeRefusal};
use crate::generations::{EndedGeneration, LIVE_GENERATIONS};
use crate::memory::{NotEnoughMemory, failed_allocation};
use crate::realm::Realm;
use crate::replicas::Replicas;
use crate::shingles::Shingles;
use crate::spam::SpamBook;
use crate::time::Time;
use crate::trust::{NurseryRefusal, Policy, Trust};
use crate::whitelist::{SenderError, Whitelist};

/// Number of lines that a tick clears in each ring. At one tick per second, a ring of 1 GiB is cleared within 70
/// minutes.
pub const TICK_LINES: u32 = 4_096;
/// Number of lines that a tick clears in each ring when the rings are several epochs behind, for example after a long
/// stop. Clearing these 512 KiB takes well under a millisecond. During a snapshot it takes a few milliseconds, because
/// the lines are copied first.
pub const BEHIND_LINES: u32 = 8_192;

/// Maximum number of epochs that a book may lag behind the clock and still accept claims. A lag of one epoch is normal
/// for a claim in the first second of an epoch, before the tick that starts the epoch. With a larger lag, a claim would
/// be put in an older generation and expire too early.
const BEHIND_EPOCHS_MAX: u64 = 1;

/// Maximum number of nursery entries settled by a tick.
pub const SETTLED_PER_TICK: usize = 256;

/// Number of spam epochs in a generation of good mail. Features learnt from a revocation must outlive the reported
/// text; otherwise the revoked message would be spam again.
const GOOD_EPOCHS: u64 = LIVE_GENERATIONS;

/// A clearinghouse: the whole state of a server.
#[derive(Debug)]
pub struct Engine {
    realm: Realm,
    plan: Plan,
    /// Planned capacity of a generation of each book.
    capacities: Capacities,
    /// Maximum number of signatures in a generation of each book.
    limits: Capacities,
    /// Time at which the clearinghouse was founded; not part of the state.
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
    pub(crate) claim_ids: ClaimIds,
    /// Progress of the snapshot that is being written, if any.
    running: Option<snapshot::RunningSnapshot>,
    /// Progress of the rebuild after a server was forgotten, if one is running.
    rebuild: Option<Box<forget::Rebuild>>,
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A tick was applied.
    Ticked {
        /// True if both books have reached their current epochs. If false, apply another tick soon.
        arrived: bool,
        /// Generations that ended, except empty ones.
        ended: Vec<EndedGeneration>,
    },
    /// Claims were accepted.
    Claimed {
        /// Number of signatures listed by the event.
        listed: u32,
        /// Number of signatures revoked by the event.
        revoked: u32,
        /// Number of signatures ignored because they are whitelisted.
        ignored: u32,
        /// Number of signatures whose claim was refused.
        refused: u32,
        /// Reason for the last refusal.
        reason: Option<Refusal>,
    },
    /// A claim about a message was accepted. The value contains the outcomes of its events.
    Identified(Vec<Self>),
    /// Recipients were counted.
    Counted {
        /// Totals before and after the event, for each signature.
        totals: Vec<BulkTotals>,
        /// Number of signatures whose recipients were not counted because the book is full or a limit is reached.
        refused: u32,
        /// Reason for the last refusal.
        reason: Option<Refusal>,
    },
    /// A segment of another server was applied.
    Taken {
        /// Number of entries in the segment.
        entries: u32,
        /// Number of entries that changed nothing because of a quota, the whitelist or a full structure.
        refused: u32,
    },
    /// The event was applied.
    Done,
    /// The event was refused; nothing changed.
    Refused(Refusal),
}

/// Reason for refusing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The nursery refused the claim.
    #[error(transparent)]
    Trust(#[from] NurseryRefusal),
    /// The group's daily quota of new signatures in a book is used up.
    #[error("the daily quota of new {} is used up: try again tomorrow", book.contents())]
    DailyShare {
        /// Book whose quota is used up.
        book: Book,
        /// Start of the next day.
        again: Time,
    },
    /// The current generation of a book contains as many signatures as its error rate allows.
    #[error("the current generation is full: no new {} are accepted until the next one begins", book.contents())]
    BookFull {
        /// Book that is full.
        book: Book,
        /// Start of the next generation.
        again: Time,
    },
    /// The reporter is a stranger. Strangers may check signatures, but may not submit recipients or texts.
    #[error("anonymous reporters may check signatures, but not submit recipients or texts")]
    Stranger,
    /// The group's daily quota of texts is used up.
    #[error("the group's daily quota of texts is used up: try again tomorrow")]
    TextQuota,
    /// Only own users may change the effect of other reporters' claims: mark mail as good, assign a text to a
    /// fingerprint, or delete a text.
    #[error("only the site's own users may declare mail good or change a known text")]
    NotOwn,
    /// A claim with the same ID was accepted before.
    #[error("the claim was already made")]
    Repeated,
    /// Every signature is whitelisted.
    #[error("every signature is whitelisted")]
    Whitelisted,
    /// The current generation of good mail is full.
    #[error("the filter of good mail is full until the next generation begins")]
    GoodIsFull,
    /// The event names no signature.
    #[error("the event contains no signature")]
    Nothing,
    /// The event has more signatures, features or bytes than allowed, or an invalid policy.
    #[error("the event is too large or contains a value out of range")]
    OutOfBounds,
    /// The time is past the year 9999.
    #[error("the clock is past the year 9999: correct it")]
    NoTime,
    /// The books are still clearing old generations, for example after a long stop. Apply ticks until they reach the
    /// current epochs.
    #[error("the books are still catching up with the clock: try again soon")]
    CatchingUp,
    /// The account cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The account cannot be changed.
    #[error(transparent)]
    Account(#[from] ChangeError),
    /// The accounts fill their part of the memory budget.
    #[error("the accounts fill their part of the memory budget")]
    AccountsFull,
    /// The whitelist fills its part of the memory budget.
    #[error("the whitelist fills its part of the memory budget")]
    WhitelistFull,
    /// The sender pattern cannot be listed.
    #[error(transparent)]
    Sender(#[from] SenderError),
    /// The entry to remove is not on the list.
    #[error("the entry is not on the list")]
    NotListed,
    /// The stored claims do not fit the new policy.
    #[error("the stored claims do not fit the new policy")]
    PolicyUnfit,
    /// The buffer of entries waiting for export is full.
    #[error("the buffer of entries for other servers is full: try again soon")]
    ExportsWait,
    /// The exchange with other servers refused the event.
    #[error(transparent)]
    Exchange(#[from] ExchangeRefusal),
    /// A structure is larger than the smaller budget allows.
    #[error(
        "the {what} do not fit in a memory budget of {to} bytes (now {from}): stored data cannot be made smaller; keep \
         the budget, or create a new clearinghouse and let other servers of its realm fill it"
    )]
    DoesNotShrink {
        /// Structure that does not fit.
        what: &'static str,
        /// Current budget in bytes.
        from: u64,
        /// Requested budget in bytes.
        to: u64,
    },
    /// Structures cannot grow while a snapshot is being written.
    #[error("a snapshot is being written: try again soon")]
    SnapshotRuns,
}

impl Refusal {
    /// Returns true if the same request may succeed later.
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

    /// Returns the name of the refusal in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Trust(NurseryRefusal::Quota { .. }) => "nursery_share",
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
    /// Returns the reason for a refusal, if any part of the event was refused.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(Refusal::Repeated) => None,
            Self::Identified(outcomes) => outcomes.iter().find_map(Self::refusal),
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
    /// Creates an empty clearinghouse at `now`, with books of the planned sizes.
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

    /// Creates an empty clearinghouse with the same realm and plan. This is much faster than [`new`](Self::new), which
    /// has to compute the capacities of the books.
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
        let book = |what| move |error| memory(what)(failed_allocation(error));
        let (sizes, key_id) = (plan.sizes, realm.key().id());
        let lines = |lines: u64| usize::try_from(lines).expect("books fit the address space");
        let spam_epoch = now.epoch(realm.spam_epoch_seconds());
        let spam = SpamBook::new(
            StagedRing::new(lines(sizes.spam_lines), key_id, spam_epoch).map_err(book("spam book"))?,
            MembershipRing::new(lines(sizes.revoked_lines), 64, key_id, spam_epoch).map_err(book("revocations"))?,
            CountsRing::new(lines(sizes.claim_lines), key_id, spam_epoch).map_err(book("counts of claims"))?,
        );
        let bulk_epoch = now.epoch(realm.bulk_epoch_seconds());
        let counts = CountsRing::new(lines(sizes.bulk_lines), key_id, bulk_epoch).map_err(book("bulk book"))?;
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
            claim_ids: ClaimIds::default(),
            running: None,
            rebuild: None,
            realm,
            plan,
            founded: now,
            now,
            spam,
            bulk,
            replicas,
        })
    }

    /// Returns the realm.
    #[must_use]
    pub const fn realm(&self) -> &Realm {
        &self.realm
    }

    /// Returns the time at which this clearinghouse was founded. The clearinghouse accepted no claims before that time.
    /// After [`restore`](Self::restore) the time is unknown and 0 is returned.
    #[must_use]
    pub const fn founded(&self) -> Time {
        self.founded
    }

    /// Sets the time at which the clearinghouse was founded. Snapshots do not contain it.
    #[must_use]
    pub const fn with_founded(mut self, founded: Time) -> Self {
        self.founded = founded;
        self
    }

    /// Returns the division of the memory budget.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the spam book.
    #[must_use]
    pub const fn spam(&self) -> &SpamBook {
        &self.spam
    }

    /// Returns the bulk book.
    #[must_use]
    pub const fn bulk(&self) -> &BulkBook {
        &self.bulk
    }

    /// Returns the records of reporters and unsettled claims.
    #[must_use]
    pub const fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Returns the texts of reports.
    #[must_use]
    pub const fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    /// Returns the texts with shingles.
    #[must_use]
    pub const fn shingles(&self) -> &Shingles {
        &self.shingles
    }

    /// Returns the accounts.
    #[must_use]
    pub const fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Returns the whitelists.
    #[must_use]
    pub const fn whitelist(&self) -> &Whitelist {
        &self.whitelist
    }

    /// Returns the state of the exchange with other servers.
    #[must_use]
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Returns the IDs of recent claims.
    #[must_use]
    pub const fn claim_ids(&self) -> &ClaimIds {
        &self.claim_ids
    }

    /// Returns the latest time among the applied events.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Checks an event before it is written to the journal. An event refused here would change nothing.
    ///
    /// # Errors
    /// The [`Refusal`] that applying the event would return.
    pub fn admit(&self, event: &Event) -> Result<(), Refusal> {
        self.admit_form(event)?;
        match event {
            Event::Tick { .. } | Event::Policy { .. } => Ok(()),
            Event::Resize { budget_bytes, .. } => self.admit_resize(*budget_bytes),
            Event::Origin { change, .. } => Ok(self.admit_origin(change)?),
            Event::Sealed { .. } => Ok(self.admit_sealed()?),
            Event::Received { segment, .. } => Ok(self.admit_segment(segment)?),
            Event::Repair { chain, .. } => Ok(self.admit_repair(chain)?),
            Event::Forget { now, key, is_forgotten, .. } => Ok(self.admit_forget(*now, key, *is_forgotten)?),
            Event::Reread { segment, .. } => Ok(self.admit_reread(segment)?),
            Event::Rebuild { .. } => Ok(self.admit_rebuild()?),
            Event::Account { change, .. } => self.admit_account(change),
            Event::Whitelist { change, .. } => self.admit_whitelist(change),
            Event::Claim { by, claim, fingerprints, .. } => self.admit_claim(by, *claim, fingerprints),
            Event::IdentifiedClaim { id, events, .. } => self.admit_identified(id, events),
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

    /// Checks the bounds and the time of an event, and the space in the buffer for the entries that the event exports.
    fn admit_form(&self, event: &Event) -> Result<(), Refusal> {
        if !event.is_within_bounds() {
            return Err(Refusal::OutOfBounds);
        }
        // The engine accepts any time that it can represent. The server decides whether a jump of its clock is
        // plausible.
        if event.time() > Time::MAX {
            return Err(Refusal::NoTime);
        }
        if event.may_export() && !self.exchange.has_room() {
            return Err(Refusal::ExportsWait);
        }
        Ok(())
    }

    /// Prefetches the memory that an event will change. Cache misses are most of the cost of a batch of events.
    pub fn prefetch(&self, event: &Event) {
        match event {
            Event::Claim { fingerprints, .. } => fingerprints.iter().for_each(|fingerprint| {
                self.spam.listed.prefetch(fingerprint);
                self.spam.revoked.prefetch(fingerprint);
            }),
            Event::Bulk { fingerprints, .. } => {
                fingerprints.iter().for_each(|fingerprint| self.bulk.counts.prefetch(fingerprint));
            }
            Event::IdentifiedClaim { events, .. } => events.iter().for_each(|event| self.prefetch(event)),
            _ => {}
        }
    }

    /// Applies an event. The outcome and the new state depend only on the event and the state before.
    pub fn apply(&mut self, event: &Event) -> Outcome {
        // A claim is admitted while it is applied, so that its signatures are looked up only once.
        let is_claim = matches!(event, Event::Claim { .. });
        let admitted = if is_claim { self.admit_form(event) } else { self.admit(event) };
        if let Err(refusal) = admitted {
            return Outcome::Refused(refusal);
        }
        let outcome = self.apply_admitted(event);
        if outcome == Outcome::Done {
            self.export_text(event);
        }
        outcome
    }

    fn apply_admitted(&mut self, event: &Event) -> Outcome {
        // Ticks and claims set the time themselves.
        if !matches!(event, Event::Tick { .. } | Event::Claim { .. }) {
            self.advance_time(event.time());
        }
        match event {
            Event::Tick { now, lines } => self.tick(*now, *lines as usize),
            Event::Claim { by, claim, flag, fingerprints } => {
                self.apply_claim(by, *claim, *flag, fingerprints).unwrap_or_else(Outcome::Refused)
            }
            Event::IdentifiedClaim { id, events, .. } => self.apply_identified(*id, events),
            Event::Bulk { by, targets, fingerprints } => self.count(by, *targets, fingerprints),
            Event::Text { by, fingerprint, text } => {
                self.charge(Book::Texts, by, 1);
                self.replicas.report_text(text, *fingerprint);
                Outcome::Done
            }
            Event::Good { features, .. } => {
                self.replicas.learn_good_features(features).map_err(|_| Refusal::GoodIsFull).into()
            }
            Event::GoodFeatures { features, .. } => {
                self.replicas.make_good(features).map_err(|_| Refusal::GoodIsFull).into()
            }
            Event::Shingles { by, change, digest, shingles } => {
                self.charge(Book::Texts, by, 1);
                self.change_text(*change, digest, shingles.as_deref());
                Outcome::Done
            }
            Event::Account { change, .. } => self.change_account(change).into(),
            Event::Whitelist { change, .. } => self.change_whitelist(change).into(),
            Event::Policy { policy, .. } => self.change_policy(policy).into(),
            Event::Origin { change, .. } => {
                self.change_origin(change);
                Outcome::Done
            }
            Event::Sealed { chain, sequence, taken, bytes, hash, .. } => {
                self.seal(*chain, *sequence, *taken, *bytes, *hash)
            }
            Event::Received { segment, .. } => self.receive(segment),
            Event::Repair { chain, .. } => {
                self.repair(chain);
                Outcome::Done
            }
            Event::Forget { now, key, by, is_forgotten } => {
                self.forget(*now, *key, *by, *is_forgotten);
                Outcome::Done
            }
            Event::Reread { segment, .. } => self.reread(segment),
            Event::Rebuild { .. } => self.advance_rebuild(),
            Event::Resize { budget_bytes, .. } => self.resize(*budget_bytes).into(),
        }
    }

    /// Admits a claim about a message if its ID is new and at least one of its [`Event::Claim`] events is admitted.
    fn admit_identified(&self, id: &Fingerprint, events: &[Event]) -> Result<(), Refusal> {
        if self.claim_ids.get(id).is_some() {
            return Err(Refusal::Repeated);
        }
        let mut refusal = Refusal::Nothing;
        for event in events.iter().filter(|event| matches!(event, Event::Claim { .. })) {
            match self.admit(event) {
                Ok(()) => return Ok(()),
                Err(refused) => refusal = refused,
            }
        }
        Err(refusal)
    }

    /// Applies the events of a claim. The ID is remembered only if the claim had an effect, so that a claim without
    /// effect can be repeated.
    fn apply_identified(&mut self, id: Fingerprint, events: &[Event]) -> Outcome {
        let outcomes: Vec<_> = events.iter().map(|event| self.apply(event)).collect();
        let totals = ClaimTotals::of(events, &outcomes);
        if totals.accepted > 0 {
            self.claim_ids.insert(self.now, id, totals);
        }
        Outcome::Identified(outcomes)
    }

    /// Advances the time, which never decreases even if the clock is set back.
    fn advance_time(&mut self, now: Time) {
        self.now = self.now.max(now);
    }
}
