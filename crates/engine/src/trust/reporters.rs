//! Reporters' records: the numbers of their right and wrong claims.
//!
//! A reporter's record is created when its first claim is settled, so reporters without settled claims use no memory.
//! The table is bounded. When the table is full, records without weight are evicted first, starting with the least
//! recently settled one. An anchor's record is evicted only for another anchor's.

use bruit_filters::OutOfMemory;
use hashbrown::HashTable;

use super::evidence::Vote;
use super::policy::Policy;
use super::precision::{Decay, WEIGHT_PARTS, millionths, precision, weight};
use super::slab::{Links, Slab, SlotList, TABLE_SLOT_BYTES, spread, table_capacity};
use super::{Reporter, ReporterView, Standing};
use crate::memory::table;
use crate::time::Time;

/// Number of tiers of records. In the order of eviction, they are accounts without weight, accounts with weight, and
/// anchors.
pub(super) const RECORD_TIERS: usize = 3;

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VoteOutcome {
    /// Anchors in other groups agree, and the claim was made before the result was known.
    Confirmed,
    /// Anchors in other groups agree, but the result was already known when the claim was made.
    Echoed,
    /// Anchors in other groups disagree.
    Refuted,
    /// Anchors in other groups made no claim, or are tied.
    Unconfirmed,
}

/// The record of one reporter, as it was on a certain day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReporterRecord {
    pub(super) id: u64,
    pub(super) group: u64,
    /// Day up to which `good` and `bad` have decayed.
    pub(super) day: u64,
    /// Credits and debits beyond the prior, in millionths.
    pub(super) good: u32,
    pub(super) bad: u32,
    /// Credits earned on `day`.
    pub(super) credited: u32,
    pub(super) confirmed: u32,
    pub(super) refuted: u32,
    pub(super) unconfirmed: u32,
    pub(super) standing: Standing,
}

impl ReporterRecord {
    const fn new(vote: &Vote, day: u64) -> Self {
        let (id, group, standing) = (vote.reporter, vote.group, vote.standing);
        Self { id, group, day, good: 0, bad: 0, credited: 0, confirmed: 0, refuted: 0, unconfirmed: 0, standing }
    }

    /// Returns the record as of a later day.
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
    fn learn(&mut self, policy: &Policy, outcome: VoteOutcome) {
        match outcome {
            VoteOutcome::Echoed => {}
            VoteOutcome::Confirmed => {
                let earned = millionths(policy.credit_early);
                let left = millionths(policy.credit_daily_max).saturating_sub(self.credited);
                self.credited += earned.min(left);
                self.good = self.good.saturating_add(earned.min(left));
                self.confirmed = self.confirmed.saturating_add(1);
            }
            VoteOutcome::Refuted => {
                self.bad = self.bad.saturating_add(millionths(policy.debit_refuted));
                self.refuted = self.refuted.saturating_add(1);
            }
            VoteOutcome::Unconfirmed => {
                self.bad = self.bad.saturating_add(millionths(policy.debit_unconfirmed));
                self.unconfirmed = self.unconfirmed.saturating_add(1);
            }
        }
    }
}

/// The decay of credits and debits.
#[derive(Clone, Copy, Debug)]
struct Decays {
    good: Decay,
    bad: Decay,
}

/// The records of all reporters with a settled claim.
#[derive(Debug)]
pub(super) struct Reporters {
    decays: Decays,
    records: Slab<ReporterRecord>,
    index: HashTable<u32>,
    links: Links,
    /// Records by tier, least recently settled first.
    tiers: [SlotList; RECORD_TIERS],
}

impl Reporters {
    /// Bytes per record.
    pub(super) const RECORD_BYTES: usize = Slab::<ReporterRecord>::slot_bytes(1) + TABLE_SLOT_BYTES;

    /// Allocates memory for `records_max` records.
    pub(super) fn new(policy: &Policy, records_max: u32) -> Result<Self, OutOfMemory> {
        Ok(Self {
            decays: Decays { good: Decay::new(policy.half_life_days), bad: Decay::new(policy.debit_half_life_days) },
            records: Slab::new(records_max)?,
            index: table(table_capacity(records_max))?,
            links: Links::new(records_max)?,
            tiers: [SlotList::EMPTY; RECORD_TIERS],
        })
    }

    /// Returns the memory in use, which does not depend on the contents.
    pub(super) fn bytes(&self) -> usize {
        self.records.slots_max() as usize * Slab::<ReporterRecord>::slot_bytes(1) + self.index.allocation_size()
    }

    /// Returns the maximum number of records.
    pub(super) const fn records_max(&self) -> u32 {
        self.records.slots_max()
    }

    /// Returns the current weight of a claim by this reporter, in units of 1/1024.
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

    /// Returns the public form of a reporter's record.
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

    /// Credits or debits the reporter of a vote. Traps are always right, and an echo has no effect.
    pub(super) fn settle(&mut self, policy: &Policy, now: Time, vote: &Vote, outcome: VoteOutcome) {
        if vote.standing == Standing::Trap || outcome == VoteOutcome::Echoed {
            return;
        }
        let slot = self.find(vote.reporter);
        let known = slot.map_or_else(|| ReporterRecord::new(vote, now.day()), |slot| self.records[slot]);
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

    /// Adds the record of an unknown reporter.
    pub(super) fn append(&mut self, policy: &Policy, record: ReporterRecord) {
        let slot = self.records.insert(record);
        let records = &self.records;
        self.index.insert_unique(spread(record.id), slot, |&slot| spread(records[slot].id));
        let tier = self.tier(policy, &record);
        self.links.push(&mut self.tiers[tier], slot);
    }

    /// Iterates over the records of a tier in the order of eviction.
    pub(super) fn tier_records(&self, tier: usize) -> impl Iterator<Item = &ReporterRecord> {
        self.links.iter(&self.tiers[tier]).map(|slot| &self.records[slot])
    }

    /// Returns the number of records in a tier.
    pub(super) const fn tier_len(&self, tier: usize) -> u32 {
        self.tiers[tier].len()
    }

    /// Returns the slot of a record.
    pub(super) fn find(&self, id: u64) -> Option<u32> {
        self.index.find(spread(id), |&slot| self.records[slot].id == id).copied()
    }

    /// Returns the tier of a record. Decay is ignored, so that the tier stays valid until the record changes.
    pub(super) fn tier(&self, policy: &Policy, record: &ReporterRecord) -> usize {
        let weighs = weight(record.precision(policy, record.standing), policy.weight_max) > 0;
        if record.standing.is_anchor() { RECORD_TIERS - 1 } else { usize::from(weighs) }
    }

    /// Frees a slot for a record of `tier`, if necessary. Returns false if no record can be evicted for it.
    fn make_room(&mut self, policy: &Policy, now: Time, tier: usize) -> bool {
        if !self.records.is_full() {
            return true;
        }
        let oldest = self.tiers[..=tier].iter().find_map(SlotList::first).or_else(|| self.decayed_account(policy, now));
        let Some(slot) = oldest else { return false };
        self.forget(policy, slot);
        true
    }

    /// Returns the least recently settled record in the tier of accounts with weight, if decay has since reduced its
    /// weight to zero.
    fn decayed_account(&self, policy: &Policy, now: Time) -> Option<u32> {
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
