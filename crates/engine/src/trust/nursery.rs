//! The bounded exact table of what was claimed lately.
//!
//! All memory is reserved when it is made. An entry is charged to the group that first claimed it, later to the first of a
//! better class, and a group at its share loses its own oldest entry. When the whole table is full, the
//! oldest entry of the lowest tier goes, never one of a better tier than the newcomer's: strangers evict strangers, accounts
//! that weigh nothing also one another, and only anchors can evict what an anchor voted on.

use bruit_filters::{Fingerprint, OutOfMemory};
use hashbrown::HashTable;

use super::evidence::{Evidence, TIERS, Vote};
use super::groups::Groups;
use super::policy::Policy;
use super::slab::{Chain, Links, Slab, TABLE_SLOT_BYTES, table_capacity};
use super::{Claim, Refused, Reporter, Standing};
use crate::memory::{table, vector};
use crate::time::Time;

/// There is room for this many votes per entry, on average.
pub(super) const VOTES_PER_ENTRY: u32 = 4;

/// What is known of one signature.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) fingerprint: Fingerprint,
    pub(super) first: Time,
    pub(super) last: Time,
    pub(super) promoted: Option<Time>,
    pub(super) report_count: u32,
    pub(super) revoke_count: u32,
    /// What the votes add up to: kept, so that a check need not.
    pub(super) evidence: Evidence,
    /// The group that is charged for it, and what kind of claimer that was.
    pub(super) group: u64,
    pub(super) charged_as: Standing,
    pub(super) settled: bool,
    tier: u8,
    votes: Chain,
}

impl Entry {
    /// An entry that nobody has claimed yet.
    pub(super) fn new(now: Time, fingerprint: Fingerprint, reporter: &Reporter) -> Self {
        Self {
            fingerprint,
            first: now,
            last: now,
            promoted: None,
            report_count: 0,
            revoke_count: 0,
            evidence: Evidence::default(),
            group: reporter.group,
            charged_as: reporter.standing,
            settled: false,
            tier: 0,
            votes: Chain::EMPTY,
        }
    }

    /// Counts a claim, heard or not.
    pub(super) fn count(&mut self, now: Time, claim: Claim) {
        self.last = self.last.max(now);
        let count = match claim {
            Claim::Report => &mut self.report_count,
            Claim::Revoke => &mut self.revoke_count,
        };
        *count = count.saturating_add(1);
    }

    /// How many votes it has.
    pub(super) const fn votes_len(&self) -> u32 {
        self.votes.len()
    }
}

/// The entries, their votes, and the orders in which they go.
#[derive(Debug)]
pub(super) struct Nursery {
    entries: Slab<Entry>,
    index: HashTable<Place>,
    votes: Slab<Vote>,
    vote_links: Links,
    age_links: Links,
    /// In the order in which they came.
    unsettled: Chain,
    /// In the order in which they were settled.
    settled: Chain,
    tier_links: Links,
    /// In the order in which they came to the tier.
    tiers: [Chain; TIERS],
    pub(super) groups: Groups,
    /// Votes being added up; nothing is kept in it.
    scratch: Vec<Vote>,
}

/// Where an entry lies, and enough of its fingerprint to know a stranger without looking there: one check in nine meets a
/// place of another's.
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
    /// Bytes per entry, with its share of votes.
    pub(super) const ENTRY_BYTES: usize = Slab::<Entry>::slot_bytes(2)
        + TABLE_SLOT_BYTES
        + 2 * (size_of::<Place>() - size_of::<u32>())
        + Groups::ENTRY_BYTES
        + VOTES_PER_ENTRY as usize * Slab::<Vote>::slot_bytes(1);

    /// Room for `entries_max` entries.
    pub(super) fn new(policy: &Policy, entries_max: u32) -> Result<Self, OutOfMemory> {
        // One signature must not be able to hold all votes, or a newcomer would find nobody to evict.
        let votes_max = (entries_max * VOTES_PER_ENTRY).max(policy.votes_max * 2);
        Ok(Self {
            entries: Slab::new(entries_max)?,
            index: table(table_capacity(entries_max))?,
            votes: Slab::new(votes_max)?,
            vote_links: Links::new(votes_max)?,
            age_links: Links::new(entries_max)?,
            unsettled: Chain::EMPTY,
            settled: Chain::EMPTY,
            tier_links: Links::new(entries_max)?,
            tiers: [Chain::EMPTY; TIERS],
            groups: Groups::new(entries_max)?,
            scratch: vector(policy.votes_max as usize)?,
        })
    }

    /// The memory it takes, full or empty.
    pub(super) fn bytes(&self) -> usize {
        self.entries.slots_max() as usize * Slab::<Entry>::slot_bytes(2)
            + self.votes.slots_max() as usize * Slab::<Vote>::slot_bytes(1)
            + self.index.allocation_size()
            + self.groups.bytes()
            + self.scratch.capacity() * size_of::<Vote>()
    }

    /// How many entries fit.
    pub(super) const fn entries_max(&self) -> u32 {
        self.entries.slots_max()
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The slot of a signature.
    #[inline]
    pub(super) fn find(&self, fingerprint: &Fingerprint) -> Option<u32> {
        let is_it = |place: &Place| {
            place.check == Place::check_of(fingerprint) && self.entries[place.slot].fingerprint == *fingerprint
        };
        self.index.find(fingerprint.high(), is_it).map(|place| place.slot)
    }

    /// The entry in a slot.
    pub(super) fn get(&self, slot: u32) -> &Entry {
        &self.entries[slot]
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.entries[slot]
    }

    /// The votes on an entry, the oldest first.
    pub(super) fn votes(&self, entry: &Entry) -> impl Iterator<Item = &Vote> {
        self.vote_links.iter(&entry.votes).map(|slot| &self.votes[slot])
    }

    /// Returns true if a group may make another entry today. Own reporters and traps are limited by their shares of the books
    /// instead, and the operator sees those refusals. In the nursery they can only push out their own entries and those of lower
    /// tiers.
    pub(super) fn admit(&self, policy: &Policy, now: Time, reporter: &Reporter) -> Result<(), Refused> {
        if matches!(reporter.standing, Standing::Own | Standing::Trap) {
            return Ok(());
        }
        let inserts = self.groups.inserts(reporter.group, now.day());
        if inserts >= policy.inserts_daily(reporter.standing) {
            return Err(Refused::Quota { again: Time((now.day() + 1).saturating_mul(Time::DAY)) });
        }
        Ok(())
    }

    /// Makes an entry for a signature that has none, for a claim that will put it into `tier`.
    pub(super) fn insert(
        &mut self,
        policy: &Policy,
        now: Time,
        fingerprint: Fingerprint,
        reporter: &Reporter,
        tier: usize,
    ) -> Result<u32, Refused> {
        self.admit(policy, now, reporter)?;
        if self.entries.is_full() && self.tiers[..=tier].iter().all(|chain| chain.len() == 0) {
            return Err(Refused::Full);
        }
        self.keep_share(policy, reporter.group, reporter.standing);
        if self.entries.is_full() {
            self.evict(0..=tier, None);
        }
        self.groups.count_insert(reporter.group, now.day());
        let slot = self.append(Entry::new(now, fingerprint, reporter));
        self.groups.charge(reporter.group, slot);
        Ok(slot)
    }

    /// Adds an entry as the youngest of its kind. Someone must be charged for it.
    pub(super) fn append(&mut self, entry: Entry) -> u32 {
        let slot = self.entries.insert(entry);
        let entries = &self.entries;
        let place = Place { slot, check: Place::check_of(&entry.fingerprint) };
        self.index.insert_unique(entry.fingerprint.high(), place, |place| entries[place.slot].fingerprint.high());
        let age = if entry.settled { &mut self.settled } else { &mut self.unsettled };
        self.age_links.push(age, slot);
        self.tier_links.push(&mut self.tiers[usize::from(entry.tier)], slot);
        slot
    }

    /// Charges a group for an entry that nobody is charged for.
    pub(super) fn charge_restored(&mut self, slot: u32, group: u64) {
        let standing = self.entries[slot].charged_as;
        self.charge(slot, group, standing);
    }

    /// Hears a vote: a reporter's newer claim replaces its older one, and a repeated one changes nothing.
    pub(super) fn vote(&mut self, policy: &Policy, slot: u32, vote: Vote) {
        if vote.standing == Standing::Stranger {
            return;
        }
        let chain = self.entries[slot].votes;
        let old = self.vote_links.iter(&chain).find(|&old| self.votes[old].reporter == vote.reporter);
        match old {
            Some(old) if self.votes[old].claim == vote.claim && !self.votes[old].spent => return,
            Some(old) => self.votes[old] = vote,
            None if self.vote_room(policy, slot, &vote) => self.append_vote(slot, vote),
            None => return,
        }
        self.refresh(policy, slot);
        self.recharge(policy, slot, &vote);
    }

    /// Adds a vote to an entry, for which there is room.
    pub(super) fn append_vote(&mut self, slot: u32, vote: Vote) {
        let vote = self.votes.insert(vote);
        self.vote_links.push(&mut self.entries[slot].votes, vote);
    }

    /// Whether there is room for one more vote in all.
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

    /// Marks all claims of one kind as overruled.
    pub(super) fn spend(&mut self, policy: &Policy, slot: u32, claim: Claim) {
        let chain = self.entries[slot].votes;
        for vote in self.vote_links.iter(&chain) {
            self.votes[vote].spent |= self.votes[vote].claim == claim;
        }
        self.refresh(policy, slot);
    }

    /// Adds the votes of an entry up again, and puts it into the tier they deserve.
    pub(super) fn refresh(&mut self, policy: &Policy, slot: u32) {
        let mut votes = std::mem::take(&mut self.scratch);
        votes.clear();
        votes.extend(self.votes(&self.entries[slot]));
        let tier = votes.iter().map(Vote::tier).max().unwrap_or_default();
        self.entries[slot].evidence = Evidence::of(policy, &mut votes);
        self.scratch = votes;
        let old = usize::from(self.entries[slot].tier);
        if tier != old {
            self.tier_links.remove(&mut self.tiers[old], slot);
            self.tier_links.push(&mut self.tiers[tier], slot);
            self.entries[slot].tier = tier as u8;
        }
    }

    /// The entry that came first among those to be settled.
    pub(super) fn next_to_settle(&self) -> Option<u32> {
        self.unsettled.first()
    }

    /// The entry that was settled first.
    pub(super) fn next_to_go(&self) -> Option<u32> {
        self.settled.first()
    }

    /// Notes that an entry is settled.
    pub(super) fn mark_settled(&mut self, slot: u32) {
        self.age_links.remove(&mut self.unsettled, slot);
        self.age_links.push(&mut self.settled, slot);
        self.entries[slot].settled = true;
    }

    /// Lets an entry go.
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

    /// The slots of all entries: settled ones, then the others, each in their order.
    pub(super) fn by_age(&self) -> impl Iterator<Item = u32> {
        self.age_links.iter(&self.settled).chain(self.age_links.iter(&self.unsettled))
    }

    /// The slots of a tier, in the order in which they would go.
    pub(super) fn tier(&self, tier: usize) -> impl Iterator<Item = u32> {
        self.tier_links.iter(&self.tiers[tier])
    }

    /// Puts an entry last in its tier.
    pub(super) fn move_last_in_tier(&mut self, slot: u32) {
        let chain = &mut self.tiers[usize::from(self.entries[slot].tier)];
        self.tier_links.remove(chain, slot);
        self.tier_links.push(chain, slot);
    }

    /// The tier of an entry.
    pub(super) fn tier_of(&self, slot: u32) -> usize {
        usize::from(self.entries[slot].tier)
    }

    /// Makes room for one more vote on an entry, if the vote is worth it.
    fn vote_room(&mut self, policy: &Policy, slot: u32, vote: &Vote) -> bool {
        if self.entries[slot].votes.len() >= policy.votes_max {
            return self.drop_lighter_vote(slot, vote);
        }
        // Entries of the lowest tier have no votes to give.
        !self.votes.is_full() || self.evict(1..=vote.tier(), Some(slot)) || self.drop_lighter_vote(slot, vote)
    }

    /// Drops the lightest vote on an entry, the oldest of them, if `vote` is heavier or an anchor's.
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

    /// Lets the oldest entry of the lowest of these tiers go, but not `keep`.
    fn evict(&mut self, tiers: std::ops::RangeInclusive<usize>, keep: Option<u32>) -> bool {
        let chains = &self.tiers[tiers];
        let oldest = chains.iter().find_map(|chain| self.tier_links.iter(chain).find(|&slot| Some(slot) != keep));
        oldest.inspect(|&slot| self.remove(slot)).is_some()
    }

    /// Charges the voter's group instead, if the entry was charged to someone of a lesser class.
    fn recharge(&mut self, policy: &Policy, slot: u32, vote: &Vote) {
        let entry = self.entries[slot];
        if vote.standing.class() <= entry.charged_as.class() {
            return;
        }
        self.groups.discharge(entry.group, slot);
        self.keep_share(policy, vote.group, vote.standing);
        self.charge(slot, vote.group, vote.standing);
    }

    fn charge(&mut self, slot: u32, group: u64, standing: Standing) {
        (self.entries[slot].group, self.entries[slot].charged_as) = (group, standing);
        self.groups.charge(group, slot);
    }

    /// Makes room in a group's share: its oldest entry passes to another group that voted on it and has room, or goes.
    /// Otherwise a group could bury what others voted on by being first and then too busy.
    fn keep_share(&mut self, policy: &Policy, group: u64, standing: Standing) {
        while self.groups.charged(group) >= policy.share(standing, self.entries_max()) {
            let oldest = self.groups.oldest(group).expect("a share is at least one entry");
            match self.heir(policy, oldest, group) {
                Some((heir, standing)) => {
                    self.groups.discharge(group, oldest);
                    self.charge(oldest, heir, standing);
                }
                None => self.remove(oldest),
            }
        }
    }

    /// A group other than `group` that voted on the entry and has room for it.
    fn heir(&self, policy: &Policy, slot: u32, group: u64) -> Option<(u64, Standing)> {
        let has_room = |vote: &&Vote| {
            vote.group != group && self.groups.charged(vote.group) < policy.share(vote.standing, self.entries_max())
        };
        self.votes(&self.entries[slot]).find(has_room).map(|vote| (vote.group, vote.standing))
    }
}
