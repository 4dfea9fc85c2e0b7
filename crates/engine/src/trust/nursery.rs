//! The nursery: a bounded exact table of recent claims.
//!
//! All memory is allocated at creation. An entry is charged to the group of its first claim. When a reporter of a
//! higher class votes on the entry, the entry is charged to that reporter's group instead. A group that exceeds its
//! share loses its own oldest entry. When the whole table is full, the oldest entry of the lowest tier is evicted, but
//! never an entry of a higher tier than the new entry. So strangers can evict only strangers' entries. Accounts without
//! weight can also evict entries of accounts without weight. Only anchors can evict an entry that an anchor voted on.

use bruit_filters::{Fingerprint, OutOfMemory};
use hashbrown::HashTable;

use super::evidence::{TIERS, Vote, VoteEvidence};
use super::groups::Groups;
use super::policy::Policy;
use super::slab::{Links, Slab, SlotList, TABLE_SLOT_BYTES, table_capacity};
use super::{Claim, NurseryRefusal, Reporter, Standing};
use crate::memory::{table, vector};
use crate::time::Time;

/// Average number of votes per entry for which memory is allocated.
pub(super) const VOTES_PER_ENTRY: u32 = 4;

/// The record of one signature.
#[derive(Clone, Copy, Debug)]
pub(super) struct NurseryEntry {
    pub(super) fingerprint: Fingerprint,
    pub(super) first: Time,
    pub(super) last: Time,
    pub(super) promoted: Option<Time>,
    pub(super) report_count: u32,
    pub(super) revoke_count: u32,
    /// Sums of the votes, stored so that checks need not compute them.
    pub(super) evidence: VoteEvidence,
    /// Group that is charged for the entry. `charged_as` is the standing of the reporter whose claim led to the charge.
    pub(super) group: u64,
    pub(super) charged_as: Standing,
    pub(super) settled: bool,
    tier: u8,
    votes: SlotList,
}

impl NurseryEntry {
    /// Creates an entry without claims.
    pub(super) fn new(now: Time, fingerprint: Fingerprint, reporter: &Reporter) -> Self {
        Self {
            fingerprint,
            first: now,
            last: now,
            promoted: None,
            report_count: 0,
            revoke_count: 0,
            evidence: VoteEvidence::default(),
            group: reporter.group,
            charged_as: reporter.standing,
            settled: false,
            tier: 0,
            votes: SlotList::EMPTY,
        }
    }

    /// Counts a claim, even if its vote is not stored.
    pub(super) fn count(&mut self, now: Time, claim: Claim) {
        self.last = self.last.max(now);
        let count = match claim {
            Claim::Report => &mut self.report_count,
            Claim::Revoke => &mut self.revoke_count,
        };
        *count = count.saturating_add(1);
    }

    /// Returns the number of votes.
    pub(super) const fn votes_len(&self) -> u32 {
        self.votes.len()
    }
}

/// The entries, their votes, and the order in which they are evicted.
#[derive(Debug)]
pub(super) struct Nursery {
    entries: Slab<NurseryEntry>,
    index: HashTable<Place>,
    votes: Slab<Vote>,
    vote_links: Links,
    age_links: Links,
    /// Unsettled entries in order of creation.
    unsettled: SlotList,
    /// Settled entries in order of settlement.
    settled: SlotList,
    tier_links: Links,
    /// Entries of each tier, in the order in which they entered the tier.
    tiers: [SlotList; TIERS],
    pub(super) groups: Groups,
    /// Scratch memory for summing votes.
    scratch: Vec<Vote>,
}

/// An element of the hash table: the slot of an entry, and part of its fingerprint (`check`). One lookup in nine meets
/// another entry's place first. Comparing `check` usually rules that entry out without reading its slot.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u32,
    check: u32,
}

impl Place {
    const fn check_of(fingerprint: &Fingerprint) -> u32 {
        fingerprint.low() as u32
    }
}

impl Nursery {
    /// Bytes per entry, including its votes.
    pub(super) const ENTRY_BYTES: usize = Slab::<NurseryEntry>::slot_bytes(2)
        + TABLE_SLOT_BYTES
        + 2 * (size_of::<Place>() - size_of::<u32>())
        + Groups::ENTRY_BYTES
        + VOTES_PER_ENTRY as usize * Slab::<Vote>::slot_bytes(1);

    /// Allocates memory for `entries_max` entries.
    pub(super) fn new(policy: &Policy, entries_max: u32) -> Result<Self, OutOfMemory> {
        // One signature must not be able to use all memory for votes. Otherwise there would be no other entry to evict
        // for one more vote.
        let votes_max = (entries_max * VOTES_PER_ENTRY).max(policy.votes_max * 2);
        Ok(Self {
            entries: Slab::new(entries_max)?,
            index: table(table_capacity(entries_max))?,
            votes: Slab::new(votes_max)?,
            vote_links: Links::new(votes_max)?,
            age_links: Links::new(entries_max)?,
            unsettled: SlotList::EMPTY,
            settled: SlotList::EMPTY,
            tier_links: Links::new(entries_max)?,
            tiers: [SlotList::EMPTY; TIERS],
            groups: Groups::new(entries_max)?,
            scratch: vector(policy.votes_max as usize)?,
        })
    }

    /// Returns the memory in use, which does not depend on the contents.
    pub(super) fn bytes(&self) -> usize {
        self.entries.slots_max() as usize * Slab::<NurseryEntry>::slot_bytes(2)
            + self.votes.slots_max() as usize * Slab::<Vote>::slot_bytes(1)
            + self.index.allocation_size()
            + self.groups.bytes()
            + self.scratch.capacity() * size_of::<Vote>()
    }

    /// Returns the maximum number of entries.
    pub(super) const fn entries_max(&self) -> u32 {
        self.entries.slots_max()
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the slot of a signature.
    #[inline]
    pub(super) fn find(&self, fingerprint: &Fingerprint) -> Option<u32> {
        let is_it = |place: &Place| {
            place.check == Place::check_of(fingerprint) && self.entries[place.slot].fingerprint == *fingerprint
        };
        self.index.find(fingerprint.high(), is_it).map(|place| place.slot)
    }

    /// Returns the entry in a slot.
    pub(super) fn get(&self, slot: u32) -> &NurseryEntry {
        &self.entries[slot]
    }

    /// Returns the entry in a slot for modification.
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut NurseryEntry {
        &mut self.entries[slot]
    }

    /// Iterates over the votes on an entry, oldest first.
    pub(super) fn votes(&self, entry: &NurseryEntry) -> impl Iterator<Item = &Vote> {
        self.vote_links.iter(&entry.votes).map(|slot| &self.votes[slot])
    }

    /// Checks that a group may add another entry today. Own reporters and traps have no daily limit here: `own_share`
    /// bounds the number of their entries. Their daily limits are those of the books, and the operator sees when these
    /// are reached.
    pub(super) fn admit(&self, policy: &Policy, now: Time, reporter: &Reporter) -> Result<(), NurseryRefusal> {
        if matches!(reporter.standing, Standing::Own | Standing::Trap) {
            return Ok(());
        }
        let inserts = self.groups.inserts(reporter.group, now.day());
        if inserts >= policy.inserts_daily(reporter.standing) {
            return Err(NurseryRefusal::Quota { again: Time((now.day() + 1).saturating_mul(Time::DAY)) });
        }
        Ok(())
    }

    /// Adds an entry for an unknown signature. The claim that is recorded next will put the entry into `tier`.
    pub(super) fn insert(
        &mut self,
        policy: &Policy,
        now: Time,
        fingerprint: Fingerprint,
        reporter: &Reporter,
        tier: usize,
    ) -> Result<u32, NurseryRefusal> {
        self.admit(policy, now, reporter)?;
        if self.entries.is_full() && self.tiers[..=tier].iter().all(|chain| chain.len() == 0) {
            return Err(NurseryRefusal::Full);
        }
        self.enforce_share(policy, reporter.group, reporter.standing);
        if self.entries.is_full() {
            self.evict(0..=tier, None);
        }
        self.groups.count_insert(reporter.group, now.day());
        let slot = self.append(NurseryEntry::new(now, fingerprint, reporter));
        self.groups.charge(reporter.group, slot);
        Ok(slot)
    }

    /// Adds an entry as the newest one. The caller must charge a group for it.
    pub(super) fn append(&mut self, entry: NurseryEntry) -> u32 {
        let slot = self.entries.insert(entry);
        let entries = &self.entries;
        let place = Place { slot, check: Place::check_of(&entry.fingerprint) };
        self.index.insert_unique(entry.fingerprint.high(), place, |place| entries[place.slot].fingerprint.high());
        let age = if entry.settled { &mut self.settled } else { &mut self.unsettled };
        self.age_links.push(age, slot);
        self.tier_links.push(&mut self.tiers[usize::from(entry.tier)], slot);
        slot
    }

    /// Charges a group for a decoded entry.
    pub(super) fn charge_restored(&mut self, slot: u32, group: u64) {
        let standing = self.entries[slot].charged_as;
        self.charge(slot, group, standing);
    }

    /// Records a vote. A reporter's newer claim replaces its older one, and a repeated claim changes nothing.
    pub(super) fn vote(&mut self, policy: &Policy, slot: u32, vote: Vote) {
        if vote.standing == Standing::Stranger {
            return;
        }
        let chain = self.entries[slot].votes;
        let old = self.vote_links.iter(&chain).find(|&old| self.votes[old].reporter == vote.reporter);
        match old {
            Some(old) if self.votes[old].claim == vote.claim && !self.votes[old].overruled => return,
            Some(old) => self.votes[old] = vote,
            None if self.vote_room(policy, slot, &vote) => self.append_vote(slot, vote),
            None => return,
        }
        self.refresh(policy, slot);
        self.recharge(policy, slot, &vote);
    }

    /// Adds a vote to an entry. The table of votes must not be full.
    pub(super) fn append_vote(&mut self, slot: u32, vote: Vote) {
        let vote = self.votes.insert(vote);
        self.vote_links.push(&mut self.entries[slot].votes, vote);
    }

    /// Returns true if one more vote can be stored.
    pub(super) fn has_vote_room(&self) -> bool {
        !self.votes.is_full()
    }

    /// Marks all votes on an entry as settled.
    pub(super) fn settle_votes(&mut self, slot: u32) {
        let chain = self.entries[slot].votes;
        for vote in self.vote_links.iter(&chain) {
            self.votes[vote].settled = true;
        }
    }

    /// Marks all claims of one kind on an entry as overruled.
    pub(super) fn overrule(&mut self, policy: &Policy, slot: u32, claim: Claim) {
        let chain = self.entries[slot].votes;
        for vote in self.vote_links.iter(&chain) {
            self.votes[vote].overruled |= self.votes[vote].claim == claim;
        }
        self.refresh(policy, slot);
    }

    /// Sums the votes on an entry again, and moves the entry to the resulting tier.
    pub(super) fn refresh(&mut self, policy: &Policy, slot: u32) {
        let mut votes = std::mem::take(&mut self.scratch);
        votes.clear();
        votes.extend(self.votes(&self.entries[slot]));
        let tier = votes.iter().map(Vote::tier).max().unwrap_or_default();
        self.entries[slot].evidence = VoteEvidence::of(policy, &mut votes);
        self.scratch = votes;
        let old = usize::from(self.entries[slot].tier);
        if tier != old {
            self.tier_links.remove(&mut self.tiers[old], slot);
            self.tier_links.push(&mut self.tiers[tier], slot);
            self.entries[slot].tier = tier as u8;
        }
    }

    /// Returns the oldest unsettled entry.
    pub(super) fn next_to_settle(&self) -> Option<u32> {
        self.unsettled.first()
    }

    /// Returns the entry that was settled longest ago.
    pub(super) fn oldest_settled(&self) -> Option<u32> {
        self.settled.first()
    }

    /// Marks an entry as settled.
    pub(super) fn mark_settled(&mut self, slot: u32) {
        self.age_links.remove(&mut self.unsettled, slot);
        self.age_links.push(&mut self.settled, slot);
        self.entries[slot].settled = true;
    }

    /// Removes an entry and its votes.
    pub(super) fn remove(&mut self, slot: u32) {
        let entry = self.entries[slot];
        while let Some(vote) = self.entries[slot].votes.first() {
            self.remove_vote(slot, vote);
        }
        let age = if entry.settled { &mut self.settled } else { &mut self.unsettled };
        self.age_links.remove(age, slot);
        self.tier_links.remove(&mut self.tiers[usize::from(entry.tier)], slot);
        self.groups.discharge(entry.group, slot);
        let found = self.index.find_entry(entry.fingerprint.high(), |other| other.slot == slot);
        found.expect("every entry is in the index").remove();
        self.entries.remove(slot);
    }

    /// Iterates over the slots of all entries: first the settled ones in the order of settlement, then the others in
    /// the order of creation.
    pub(super) fn by_age(&self) -> impl Iterator<Item = u32> {
        self.age_links.iter(&self.settled).chain(self.age_links.iter(&self.unsettled))
    }

    /// Iterates over the slots of a tier in the order of eviction.
    pub(super) fn tier(&self, tier: usize) -> impl Iterator<Item = u32> {
        self.tier_links.iter(&self.tiers[tier])
    }

    /// Moves an entry to the end of its tier.
    pub(super) fn move_last_in_tier(&mut self, slot: u32) {
        let chain = &mut self.tiers[usize::from(self.entries[slot].tier)];
        self.tier_links.remove(chain, slot);
        self.tier_links.push(chain, slot);
    }

    /// Returns the tier of an entry.
    pub(super) fn tier_of(&self, slot: u32) -> usize {
        usize::from(self.entries[slot].tier)
    }

    /// Frees memory for one more vote on an entry, if necessary. Returns false if the vote ranks too low.
    fn vote_room(&mut self, policy: &Policy, slot: u32, vote: &Vote) -> bool {
        if self.entries[slot].votes.len() >= policy.votes_max {
            return self.drop_lighter_vote(slot, vote);
        }
        // Entries of the lowest tier have no votes to free.
        !self.votes.is_full() || self.evict(1..=vote.tier(), Some(slot)) || self.drop_lighter_vote(slot, vote)
    }

    /// Drops the oldest of the lightest votes on an entry, if `vote` is heavier or comes from an anchor.
    fn drop_lighter_vote(&mut self, slot: u32, vote: &Vote) -> bool {
        let chain = self.entries[slot].votes;
        let Some(least) = self.vote_links.iter(&chain).min_by_key(|&other| self.votes[other].rank()) else {
            return false;
        };
        let gives_way = self.votes[least].rank() < vote.rank() || vote.standing.is_anchor();
        if gives_way {
            self.remove_vote(slot, least);
        }
        gives_way
    }

    fn remove_vote(&mut self, slot: u32, vote: u32) {
        self.vote_links.remove(&mut self.entries[slot].votes, vote);
        self.votes.remove(vote);
    }

    /// Evicts the oldest entry in the lowest of `tiers` that has any. The entry `keep` is never evicted.
    fn evict(&mut self, tiers: std::ops::RangeInclusive<usize>, keep: Option<u32>) -> bool {
        let chains = &self.tiers[tiers];
        let oldest = chains.iter().find_map(|chain| self.tier_links.iter(chain).find(|&slot| Some(slot) != keep));
        oldest.inspect(|&slot| self.remove(slot)).is_some()
    }

    /// Charges the voter's group for an entry, if the entry has been charged to a lower class.
    fn recharge(&mut self, policy: &Policy, slot: u32, vote: &Vote) {
        let entry = self.entries[slot];
        if vote.standing.class() <= entry.charged_as.class() {
            return;
        }
        self.groups.discharge(entry.group, slot);
        self.enforce_share(policy, vote.group, vote.standing);
        self.charge(slot, vote.group, vote.standing);
    }

    fn charge(&mut self, slot: u32, group: u64, standing: Standing) {
        (self.entries[slot].group, self.entries[slot].charged_as) = (group, standing);
        self.groups.charge(group, slot);
    }

    /// Reduces the number of entries charged to a group until one more fits in its share. The oldest entry is charged
    /// to another group that voted on it and is below its own share. If there is no such group, the entry is removed.
    /// Without this transfer, a group could remove signatures that others voted on: it would claim them first and then
    /// exceed its share.
    fn enforce_share(&mut self, policy: &Policy, group: u64, standing: Standing) {
        while self.groups.charged(group) >= policy.share(standing, self.entries_max()) {
            let oldest = self.groups.oldest(group).expect("a group over its share has an entry");
            match self.voter_with_room(policy, oldest, group) {
                Some((heir, standing)) => {
                    self.groups.discharge(group, oldest);
                    self.charge(oldest, heir, standing);
                }
                None => self.remove(oldest),
            }
        }
    }

    /// Returns a group other than `group` that voted on the entry and is below its share.
    fn voter_with_room(&self, policy: &Policy, slot: u32, group: u64) -> Option<(u64, Standing)> {
        let has_room = |vote: &&Vote| {
            vote.group != group && self.groups.charged(vote.group) < policy.share(vote.standing, self.entries_max())
        };
        self.votes(&self.entries[slot]).find(has_room).map(|vote| (vote.group, vote.standing))
    }
}
