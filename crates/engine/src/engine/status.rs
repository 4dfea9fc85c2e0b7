//! Fill levels of all structures, and the expected error rates.

use bruit_filters::ring::CountsRing;

use super::Engine;
use crate::budget::{CLAIM_COUNT_RATE, COUNT_RATE, REVOKED_RATE, SPAM_RATE};
use crate::exchange::{Book, INCARNATIONS_MAX, MEMBERS_MAX, SEPARATE_ORIGINS_MAX};
use crate::generations::{LIVE_GENERATIONS, Ring};
use crate::shingles::records_within;

/// Fill level, as a share of the capacity, at which a structure is reported as nearly full.
pub const NEARLY_FULL: f64 = 0.9;

/// Name of the ring of claims counted by all other nodes.
const NODE_CLAIMS: &str = "counts of claims at other nodes";
/// Name of the ring of recipients counted by all other nodes.
const NODE_RECIPIENTS: &str = "counts of recipients at other nodes";

/// The state of every structure whose size depends on the budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// State of the rings of the books.
    pub rings: Vec<RingStatus>,
    /// State of the tables, which refuse or evict entries when full.
    pub tables: Vec<TableStatus>,
    /// Allocated memory in bytes.
    pub bytes: u64,
    /// Memory budget in bytes.
    pub budget_bytes: u64,
}

/// The state of a ring.
#[derive(Clone, Debug, PartialEq)]
pub struct RingStatus {
    /// Name of the ring.
    pub name: &'static str,
    /// Memory in bytes.
    pub bytes: u64,
    /// Length of an epoch in seconds.
    pub epoch_seconds: u64,
    /// Number of signatures in a generation at which the planned error rate is reached.
    pub capacity: u64,
    /// Maximum number of signatures in a generation.
    pub limit: u64,
    /// True if claims that do not fit are refused; false if they are accepted without being counted.
    pub refuses: bool,
    /// True if the current generation has reached its limit. Copies made when the ring grew count towards the limit.
    pub is_current_full: bool,
    /// Live generations, newest first: epoch and estimated number of signatures.
    pub generations: Vec<(u64, u64)>,
    /// Load of the fullest generation, as an estimated number of signatures. If its contents were copied when the ring
    /// grew, this is more than the number of signatures in the generation.
    pub fullest: u64,
    /// For rings of counts: number of counts above fifteen in the current generation, and the maximum number of them.
    /// If the maximum is exceeded, all such counts become too high.
    pub records: Option<(usize, usize)>,
    /// Expected error rate over the window: the rate of false positives or, for rings of counts, the maximum share of
    /// wrong counts.
    pub error_rate: f64,
    /// Planned error rate.
    pub planned_rate: f64,
}

/// The state of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStatus {
    /// Name of the table.
    pub name: &'static str,
    /// Memory in bytes.
    pub bytes: u64,
    /// Number of entries.
    pub used: u64,
    /// Maximum number of entries.
    pub capacity: u64,
}

impl Status {
    /// Returns warnings for the operator about structures that are full or nearly full.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.rings.iter().filter_map(RingStatus::warning).collect()
    }
}

impl TableStatus {
    /// Returns true if the table is nearly full.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.used as f64 >= NEARLY_FULL * self.capacity as f64
    }
}

impl RingStatus {
    /// Returns the fill level of the fullest generation, or of the records of large counts if these are fuller. Above
    /// 1, the error rate exceeds its plan.
    #[must_use]
    pub fn fill(&self) -> f64 {
        let records = self.records.map_or(0.0, |(held, limit)| held as f64 / limit.max(1) as f64);
        records.max(self.fullest as f64 / self.capacity.max(1) as f64)
    }

    /// Returns true if the current generation is full and refuses reports of new signatures.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.refuses && self.is_current_full
    }

    /// Returns true if no more counts can pass fifteen.
    fn has_no_records(&self) -> bool {
        self.records.is_some_and(|(held, limit)| held >= limit)
    }

    /// Returns a warning if the ring is full or nearly full.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let Self { name, error_rate, planned_rate, .. } = self;
        let percent = self.fill() * 100.0;
        let text = || {
            format!(
                "the {name} are {percent:.0} % full: expect an error rate of {error_rate:.1e} instead of the planned \
                 {planned_rate:.1e}; raise `memory` in the configuration and restart"
            )
        };
        let advice = "until the next generation begins; raise `memory` in the configuration and restart";
        if !self.refuses && self.is_current_full {
            return Some(format!(
                "the {name} are full: claims about new signatures are accepted, but not counted {advice}"
            ));
        }
        if self.has_no_records() {
            return Some(format!("all records of the {name} are used: new counts stop at 15 {advice}"));
        }
        (self.fill() >= NEARLY_FULL).then(text)
    }
}

impl Engine {
    /// Returns the fill levels of all structures. This takes a few milliseconds at most.
    #[must_use]
    pub fn status(&self) -> Status {
        let (spam, bulk) = (self.realm.spam_epoch_seconds(), self.realm.bulk_epoch_seconds());
        let (planned, most) = (&self.capacities, &self.limits);
        let mut rings = vec![
            ring(Book::Listed, &self.spam.listed, spam, (planned.spam, most.spam), SPAM_RATE),
            ring(Book::Revoked, &self.spam.revoked, spam, (planned.revoked, most.revoked), REVOKED_RATE),
            ring(Book::Votes, &self.spam.claims, spam, (planned.claims, most.claims), CLAIM_COUNT_RATE),
            ring(Book::Recipients, &self.bulk.counts, bulk, (planned.bulk, most.bulk), COUNT_RATE),
        ];
        rings.extend(self.rings_of_nodes());
        let tables = self.tables();
        let bytes = rings.iter().map(|ring| ring.bytes).chain(tables.iter().map(|table| table.bytes)).sum();
        Status { rings, tables, bytes, budget_bytes: self.plan.bytes }
    }

    /// Returns the state of the rings that all other nodes share.
    fn rings_of_nodes(&self) -> Vec<RingStatus> {
        let (planned, most) = (&self.capacities, &self.limits);
        let (claims, counts) = (self.spam.claims.lines(), self.bulk.counts.lines());
        let (spam, bulk) = (self.realm.spam_epoch_seconds(), self.realm.bulk_epoch_seconds());
        let of_claims = self.spam.nodes.iter().map(|nodes| {
            let sized = |keys: u64| keys * (nodes.lines() / claims);
            let sizes = (sized(planned.claims), sized(most.claims));
            RingStatus { name: NODE_CLAIMS, ..ring(Book::Votes, nodes, spam, sizes, CLAIM_COUNT_RATE) }
        });
        let of_counts = self.bulk.nodes.iter().map(|nodes| {
            let sized = |keys: u64| keys * (nodes.lines() / counts);
            let sizes = (sized(planned.bulk), sized(most.bulk));
            let status = ring(Book::Recipients, nodes, bulk, sizes, COUNT_RATE);
            RingStatus { name: NODE_RECIPIENTS, refuses: false, ..status }
        });
        of_claims.chain(of_counts).collect()
    }

    fn tables(&self) -> Vec<TableStatus> {
        let (known, known_max) = self.trust.fill();
        let (texts, texts_max) = self.replicas.fill();
        let (good, good_max) = self.replicas.good_fill();
        let lists = self.plan.list_bytes / 2;
        let others = || {
            let recipients = self.bulk.others.values().map(|counted| &counted.ring);
            self.spam.others.values().chain(recipients)
        };
        vec![
            TableStatus {
                name: "counts of other servers",
                bytes: others().map(CountsRing::bytes).sum(),
                used: others().count() as u64,
                capacity: (2 * SEPARATE_ORIGINS_MAX + MEMBERS_MAX * INCARNATIONS_MAX) as u64,
            },
            TableStatus { name: "nursery", bytes: self.trust.bytes(), used: known, capacity: known_max },
            TableStatus {
                name: "texts",
                bytes: self.replicas.memory().saturating_sub(self.replicas.good_bytes()),
                used: texts,
                capacity: texts_max,
            },
            TableStatus { name: "good messages", bytes: self.replicas.good_bytes(), used: good, capacity: good_max },
            TableStatus {
                name: "texts with shingles",
                bytes: self.shingles.bytes(),
                used: self.shingles.len() as u64,
                capacity: records_within(self.plan.shingle_bytes).min(self.shingles.capacity()),
            },
            TableStatus {
                name: "accounts",
                bytes: lists,
                used: self.accounts.len() as u64,
                capacity: self.account_capacity(),
            },
            TableStatus {
                name: "whitelisted signatures",
                bytes: lists,
                used: self.whitelist.len() as u64,
                capacity: self.whitelist_capacity(),
            },
        ]
    }
}

fn ring(
    book: Book,
    ring: &dyn Ring,
    epoch_seconds: u64,
    (capacity, limit): (u64, u64),
    planned_rate: f64,
) -> RingStatus {
    let name = book.contents();
    let live = (0..LIVE_GENERATIONS).filter_map(|age| ring.epoch().checked_sub(age));
    let generations = live.clone().map(|epoch| (epoch, ring.load(epoch).saturating_sub(ring.copied(epoch)))).collect();
    let fullest = live.map(|epoch| ring.load(epoch)).max().unwrap_or(0);
    let (bytes, error_rate) = (ring.bytes(), ring.error_rate());
    let records = ring.records();
    let is_current_full = ring.load(ring.epoch()) >= limit;
    // Claims are accepted even when they cannot be counted.
    let refuses = book != Book::Votes;
    RingStatus {
        name,
        refuses,
        bytes,
        epoch_seconds,
        capacity,
        limit,
        is_current_full,
        generations,
        fullest,
        records,
        error_rate,
        planned_rate,
    }
}
