//! Changes of the memory budget. All structures keep their contents.
//!
//! Rings, filters and tables of lines grow by a whole factor: each line is then copied that many times, and no lookup
//! changes. If the new budget is less than twice the current one, these structures keep their size. Exact tables use
//! the whole new budget. Structures grow one after another, so that at most one of them is in memory twice at a time.
//!
//! A copied generation stays as full as before and keeps its error rate, because its lines hold no more information
//! than before. The full new capacity is available when the next generation begins.

use super::{Engine, ExchangeRefusal, NotEnoughMemory, Refusal};
use crate::budget::{Capacities, Plan, multiple};
use crate::codec::Reader;
use crate::realm::BookSizes;
use crate::trust::Trust;

/// The changes that a new budget would make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizePreview {
    /// Current budget in bytes.
    pub from: u64,
    /// New budget in bytes.
    pub to: u64,
    /// Every structure whose size depends on the budget.
    pub structures: Vec<StructurePreview>,
}

/// The changes that a new budget would make to one structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructurePreview {
    /// Name of the structure.
    pub name: &'static str,
    /// Lines of 64 bytes before and after, if the structure consists of lines. Their number is unchanged or multiplied
    /// by a whole factor.
    pub lines: Option<(u64, u64)>,
    /// Memory in bytes before and after.
    pub bytes: (u64, u64),
    /// Capacity before and after, per generation if the structure has generations.
    pub capacity: (u64, u64),
    /// What the capacity counts, such as "signatures in a generation".
    pub holds: &'static str,
}

impl StructurePreview {
    /// Returns the factor by which the lines grow.
    #[must_use]
    pub fn factor(&self) -> Option<u64> {
        self.lines.map(|(now, then)| then / now.max(1))
    }
}

/// Length of a line in bytes.
const LINE_BYTES: u64 = 64;

/// The factors by which the lines of each book grow.
#[derive(Clone, Copy)]
struct Factors {
    spam: usize,
    revoked: usize,
    claims: usize,
    bulk: usize,
}

impl Factors {
    fn between(now: &BookSizes, then: &BookSizes) -> Self {
        let factor = |now, then| usize::try_from(multiple(now, then)).expect("books fit the address space");
        Self {
            spam: factor(now.spam_lines, then.spam_lines),
            revoked: factor(now.revoked_lines, then.revoked_lines),
            claims: factor(now.claim_lines, then.claim_lines),
            bulk: factor(now.bulk_lines, then.bulk_lines),
        }
    }
}

impl Engine {
    /// Returns the plan for another budget.
    fn plan_for(&self, bytes: u64) -> Result<Plan, Refusal> {
        self.plan.resized(bytes).map_err(|_| Refusal::OutOfBounds)
    }

    /// Returns true if a budget of `bytes` changes anything.
    #[must_use]
    pub fn would_resize(&self, bytes: u64) -> bool {
        self.plan.resized(bytes).is_ok_and(|plan| plan != self.plan)
    }

    /// Allocates the memory for a budget of `bytes` and frees it again. Call this before journalling an event that
    /// changes the budget: a store with that event cannot be opened if the memory is not available.
    ///
    /// # Errors
    /// [`NotEnoughMemory`].
    pub fn ensure_memory(&self, bytes: u64) -> Result<(), NotEnoughMemory> {
        let Ok(plan) = self.plan.resized(bytes) else { return Ok(()) };
        Self::try_new(self.realm.clone(), plan, self.trust.policy().clone(), self.now).map(drop)
    }

    pub(super) fn admit_resize(&self, bytes: u64) -> Result<(), Refusal> {
        let plan = self.plan_for(bytes)?;
        if self.is_snapshot_running() {
            return Err(Refusal::SnapshotRuns);
        }
        if self.is_forgetting() {
            return Err(ExchangeRefusal::Forgetting.into());
        }
        if bytes >= self.plan.bytes {
            return Ok(());
        }
        match self.first_too_large(&plan, bytes) {
            Some(what) => Err(Refusal::DoesNotShrink { what, from: self.plan.bytes, to: bytes }),
            None => Ok(()),
        }
    }

    /// Returns the name of the first structure that is too large for a plan.
    fn first_too_large(&self, plan: &Plan, bytes: u64) -> Option<&'static str> {
        let books_fit = Plan::for_budget(bytes).is_ok_and(|planned| plan.sizes.fit(&planned.sizes));
        let (accounts, whitelisted) = (self.accounts.len() as u64, self.whitelist.len() as u64);
        let parts = [
            ("books", books_fit),
            ("texts", self.replicas.fits(plan.replica_bytes, plan.good_bytes)),
            ("texts with shingles", self.shingles.fits(plan.shingle_bytes)),
            ("accounts", accounts <= plan.account_capacity()),
            ("whitelisted signatures", whitelisted <= plan.whitelist_capacity()),
            ("signatures and reporters of the nursery", self.trust_within(plan.trust_bytes).is_some()),
        ];
        parts.into_iter().find(|(_, fits)| !fits).map(|(what, _)| what)
    }

    /// Copies reporters and unsettled claims into tables that use `bytes` bytes of memory. Returns `None` if they do
    /// not fit.
    fn trust_within(&self, bytes: u64) -> Option<Trust> {
        let mut encoded = Vec::new();
        self.trust.encode(&mut encoded);
        Trust::decode(self.trust.policy().clone(), bytes, &mut Reader::new(&encoded)).ok()
    }

    pub(super) fn resize(&mut self, bytes: u64) -> Result<(), Refusal> {
        let plan = self.plan_for(bytes)?;
        if plan == self.plan {
            return Ok(());
        }
        let does_not_fit = Refusal::DoesNotShrink {
            what: "signatures and reporters of the nursery",
            from: self.plan.bytes,
            to: bytes,
        };
        self.trust = self.trust_within(plan.trust_bytes).ok_or(does_not_fit)?;
        let factors = Factors::between(&self.plan.sizes, &plan.sizes);
        self.spam.grow(factors.spam, factors.revoked, factors.claims);
        self.bulk.grow(factors.bulk);
        self.replicas.resize(plan.replica_bytes, plan.good_bytes);
        self.shingles.resize(plan.shingle_bytes);
        if plan.sizes != self.plan.sizes {
            (self.capacities, self.limits) = (Capacities::per_generation(&plan.sizes), Capacities::limits(&plan.sizes));
        }
        self.plan = plan;
        Ok(())
    }

    /// Returns the changes that an [`Event::Resize`](crate::event::Event::Resize) with a budget of `bytes` would make.
    ///
    /// # Errors
    /// [`Refusal`] if the event would be refused.
    pub fn preview_resize(&self, bytes: u64) -> Result<ResizePreview, Refusal> {
        self.admit_resize(bytes)?;
        let plan = self.plan_for(bytes)?;
        let mut structures = self.preview_books(&plan);
        structures.extend(self.replicas.preview_resize(plan.replica_bytes, plan.good_bytes));
        structures.push(self.shingles.preview_resize(plan.shingle_bytes));
        structures.extend(self.preview_exact(&plan));
        Ok(ResizePreview { from: self.plan.bytes, to: bytes, structures })
    }

    fn preview_books(&self, plan: &Plan) -> Vec<StructurePreview> {
        let (now, then) = (self.capacities, Capacities::per_generation(&plan.sizes));
        let Factors { spam, revoked, claims, bulk } = Factors::between(&self.plan.sizes, &plan.sizes);
        let book = |name, lines: u64, bytes: u64, factor: usize, capacity| {
            let factor = factor as u64;
            let (lines, bytes) = (Some((lines, lines * factor)), (bytes, bytes * factor));
            StructurePreview { name, lines, bytes, capacity, holds: "signatures in a generation" }
        };
        let (listed, counted) = (&self.spam.listed, (&self.spam.claims, &self.bulk.counts));
        vec![
            book("listed signatures", 2 * listed.lines_per_stage(), listed.bytes(), spam, (now.spam, then.spam)),
            book(
                "revoked signatures",
                self.spam.revoked.lines(),
                self.spam.revoked.bytes(),
                revoked,
                (now.revoked, then.revoked),
            ),
            book("counts of claims", counted.0.lines(), counted.0.bytes(), claims, (now.claims, then.claims)),
            book("counts of recipients", counted.1.lines(), counted.1.bytes(), bulk, (now.bulk, then.bulk)),
        ]
    }

    /// Returns the changes of the exact tables, which use the whole new budget.
    fn preview_exact(&self, plan: &Plan) -> [StructurePreview; 3] {
        let exact = |name, bytes, capacity, holds| StructurePreview { name, lines: None, bytes, capacity, holds };
        let (now, lists) = (&self.plan, |plan: &Plan| plan.list_bytes / 2);
        let trust = Trust::new(self.trust.policy().clone(), plan.trust_bytes);
        let nursery = ((self.trust.bytes(), trust.bytes()), (self.trust.fill().1, trust.fill().1));
        let (lists, accounts) = ((lists(now), lists(plan)), (now.account_capacity(), plan.account_capacity()));
        let whitelisted = (now.whitelist_capacity(), plan.whitelist_capacity());
        [
            exact("nursery", nursery.0, nursery.1, "signatures"),
            exact("accounts", lists, accounts, "accounts"),
            exact("whitelisted signatures", lists, whitelisted, "signatures"),
        ]
    }
}

/// Returns the changes of a structure of lines, which grows by the largest whole factor that fits `planned_bytes`.
pub(crate) fn preview_lines(
    name: &'static str,
    holds: &'static str,
    bytes: u64,
    planned_bytes: u64,
    capacity: (u64, u64),
) -> StructurePreview {
    let then = bytes * multiple(bytes, planned_bytes);
    StructurePreview {
        name,
        lines: Some((bytes / LINE_BYTES, then / LINE_BYTES)),
        bytes: (bytes, then),
        capacity,
        holds,
    }
}
