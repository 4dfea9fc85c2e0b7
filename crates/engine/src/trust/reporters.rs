//! What is known of reporters: how often they were right.
//!
//! A record is made when a claim is first settled, not when it is made: whoever only talks takes no memory. The table is
//! bounded; when it is full, those that weigh nothing go first, the longest unsettled first, and an anchor never goes for
//! someone who is none.

use bruit_filters::OutOfMemory;
use hashbrown::HashTable;

use super::evidence::Vote;
use super::policy::Policy;
use super::precision::{Decay, WEIGHT_PARTS, millionths, precision, weight};
use super::slab::{Chain, Links, Slab, TABLE_SLOT_BYTES, spread, table_capacity};
use super::{Reporter, ReporterView, Standing};
use crate::memory::table;
use crate::time::Time;

/// Which records go first: accounts that weigh nothing, accounts that do, anchors.
pub(super) const RECORD_TIERS: usize = 3;

/// How a claim turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Anchors of other groups say the same, and the claim was made before it was known.
    Confirmed,
    /// Anchors of other groups say the same, and so did the books when the claim was made.
    Echoed,
    /// They say the opposite.
    Refuted,
    /// They say nothing, or disagree.
    Unconfirmed,
}

/// What is known of one reporter, as of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) id: u64,
    pub(super) group: u64,
    /// The day up to which `good` and `bad` have decayed.
    pub(super) day: u64,
    /// Credits and debits beyond the prior, in millionths.
    pub(super) good: u32,
    pub(super) bad: u32,
    /// Credits of that day.
    pub(super) credited: u32,
    pub(super) confirmed: u32,
    pub(super) refuted: u32,
    pub(super) unconfirmed: u32,
    pub(super) standing: Standing,
}

impl Record {
    const fn new(vote: &Vote, day: u64) -> Self {
        let (id, group, standing) = (vote.reporter, vote.group, vote.standing);
        Self { id, group, day, good: 0, bad: 0, credited: 0, confirmed: 0, refuted: 0, unconfirmed: 0, standing }
    }

    /// The same on a later day.
    fn on(mut self, day: u64, decays: Decays) -> Self {
        if day > self.day {
            self.good = decays.good.after(self.good, day - self.day);
            self.bad = decays.bad.after(self.bad, day - self.day);
            (self.day, self.credited) = (day, 0);
        }
        self
    }

    fn precision(&self, policy: &Policy, standing: Standing) -> f64 {
        precision(self.good, self.bad, policy.prior_of(standing))
    }

    /// Credits or debits a claim.
    fn learn(&mut self, policy: &Policy, outcome: Outcome) {
        match outcome {
            Outcome::Echoed => {}
            Outcome::Confirmed => {
                let earned = millionths(policy.credit_early);
                let left = millionths(policy.credit_daily_max).saturating_sub(self.credited);
                self.credited += earned.min(left);
                self.good = self.good.saturating_add(earned.min(left));
                self.confirmed = self.confirmed.saturating_add(1);
            }
            Outcome::Refuted => {
                self.bad = self.bad.saturating_add(millionths(policy.debit_refuted));
                self.refuted = self.refuted.saturating_add(1);
            }
            Outcome::Unconfirmed => {
                self.bad = self.bad.saturating_add(millionths(policy.debit_unconfirmed));
                self.unconfirmed = self.unconfirmed.saturating_add(1);
            }
        }
    }
}

/// How merit and mistakes are forgotten.
#[derive(Clone, Copy, Debug)]
struct Decays {
    good: Decay,
    bad: Decay,
}

/// The records of all reporters that had a claim settled.
#[derive(Debug)]
pub(super) struct Reporters {
    decays: Decays,
    records: Slab<Record>,
    index: HashTable<u32>,
    links: Links,
    /// By tier, the longest unsettled first.
    tiers: [Chain; RECORD_TIERS],
}

impl Reporters {
    /// Bytes per record.
    pub(super) const RECORD_BYTES: usize = Slab::<Record>::slot_bytes(1) + TABLE_SLOT_BYTES;

    /// Room for `records_max` records.
    pub(super) fn new(policy: &Policy, records_max: u32) -> Result<Self, OutOfMemory> {
        Ok(Self {
            decays: Decays { good: Decay::new(policy.half_life_days), bad: Decay::new(policy.debit_half_life_days) },
            records: Slab::new(records_max)?,
            index: table(table_capacity(records_max))?,
            links: Links::new(records_max)?,
            tiers: [Chain::EMPTY; RECORD_TIERS],
        })
    }

    /// The memory it takes, full or empty.
    pub(super) fn bytes(&self) -> usize {
        self.records.slots_max() as usize * Slab::<Record>::slot_bytes(1) + self.index.allocation_size()
    }

    /// How many records fit.
    pub(super) const fn records_max(&self) -> u32 {
        self.records.slots_max()
    }

    /// What a claim by this reporter weighs now, in parts of 1/1024.
    pub(super) fn weight(&self, policy: &Policy, now: Time, reporter: &Reporter) -> u16 {
        match (reporter.standing, self.find(reporter.id)) {
            (Standing::Stranger, _) => 0,
            (Standing::Trap, _) | (_, None) => {
                weight(precision(0, 0, policy.prior_of(reporter.standing)), policy.weight_max)
            }
            (standing, Some(slot)) => {
                let record = self.records[slot].on(now.day(), self.decays);
                weight(record.precision(policy, standing), policy.weight_max)
            }
        }
    }

    /// What is known of a reporter.
    pub(super) fn view(&self, policy: &Policy, now: Time, id: u64) -> Option<ReporterView> {
        let record = self.records[self.find(id)?].on(now.day(), self.decays);
        let precision = record.precision(policy, record.standing);
        Some(ReporterView {
            group: record.group,
            standing: record.standing,
            precision,
            weight: f64::from(weight(precision, policy.weight_max)) / WEIGHT_PARTS,
            confirmed: record.confirmed,
            refuted: record.refuted,
            unconfirmed: record.unconfirmed,
        })
    }

    /// Credits or debits the reporter of a vote. Traps have no opinion that could be wrong, and an echo says nothing of its reporter.
    pub(super) fn settle(&mut self, policy: &Policy, now: Time, vote: &Vote, outcome: Outcome) {
        if vote.standing == Standing::Trap || outcome == Outcome::Echoed {
            return;
        }
        let slot = self.find(vote.reporter);
        let known = slot.map_or_else(|| Record::new(vote, now.day()), |slot| self.records[slot]);
        let mut record = known.on(now.day(), self.decays);
        (record.group, record.standing) = (vote.group, vote.standing);
        record.learn(policy, outcome);
        if let Some(slot) = slot {
            let before = self.tier(policy, &known);
            self.links.remove(&mut self.tiers[before], slot);
            self.records[slot] = record;
            let tier = self.tier(policy, &record);
            self.links.push(&mut self.tiers[tier], slot);
        } else if self.make_room(policy, now, self.tier(policy, &record)) {
            self.append(policy, record);
        }
    }

    /// Adds the record of someone unknown.
    pub(super) fn append(&mut self, policy: &Policy, record: Record) {
        let slot = self.records.insert(record);
        let records = &self.records;
        self.index.insert_unique(spread(record.id), slot, |&slot| spread(records[slot].id));
        let tier = self.tier(policy, &record);
        self.links.push(&mut self.tiers[tier], slot);
    }

    /// The records of a tier in the order in which they would go.
    pub(super) fn tier_records(&self, tier: usize) -> impl Iterator<Item = &Record> {
        self.links.iter(&self.tiers[tier]).map(|slot| &self.records[slot])
    }

    /// How many records a tier has.
    pub(super) const fn tier_len(&self, tier: usize) -> u32 {
        self.tiers[tier].len()
    }

    /// The slot of a record.
    pub(super) fn find(&self, id: u64) -> Option<u32> {
        self.index.find(spread(id), |&slot| self.records[slot].id == id).copied()
    }

    /// Which tier a record is in: by what it says as it stands, not decayed, so that it stays true until the record changes.
    pub(super) fn tier(&self, policy: &Policy, record: &Record) -> usize {
        let weighs = weight(record.precision(policy, record.standing), policy.weight_max) > 0;
        if record.standing.is_anchor() { RECORD_TIERS - 1 } else { usize::from(weighs) }
    }

    /// Makes room for a record of `tier`, if one of no better tier can go.
    fn make_room(&mut self, policy: &Policy, now: Time, tier: usize) -> bool {
        if !self.records.is_full() {
            return true;
        }
        let oldest = self.tiers[..=tier].iter().find_map(Chain::first).or_else(|| self.faded(policy, now));
        let Some(slot) = oldest else { return false };
        self.forget(policy, slot);
        true
    }

    /// The longest unsettled account that once weighed something, if by now it no longer does.
    fn faded(&self, policy: &Policy, now: Time) -> Option<u32> {
        let slot = self.tiers[1].first()?;
        let record = self.records[slot].on(now.day(), self.decays);
        (self.tier(policy, &record) == 0).then_some(slot)
    }

    fn forget(&mut self, policy: &Policy, slot: u32) {
        let record = self.records[slot];
        let tier = self.tier(policy, &record);
        self.links.remove(&mut self.tiers[tier], slot);
        let found = self.index.find_entry(spread(record.id), |&other| other == slot);
        found.expect("every record is in the index").remove();
        self.records.remove(slot);
    }
}
