//! The groups that are charged for entries of the nursery, and the number of entries that each group added today.
//!
//! The table can hold one more group than there are entries, so a full table always has a group without entries to
//! evict. The group that has been without entries the longest is evicted first. So a flood of new groups can do no more
//! than reset the daily counts of other groups.

use bruit_filters::OutOfMemory;
use hashbrown::HashTable;

use super::slab::{Links, Slab, SlotList, TABLE_SLOT_BYTES, spread, table_capacity};
use crate::memory::table;

/// A group of reporters that counts as one voice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) id: u64,
    /// Day on which `inserts` were counted.
    pub(super) day: u64,
    pub(super) inserts: u32,
    /// Entries charged to the group, in the order of charging.
    charged: SlotList,
}

/// All groups with entries, and some without.
#[derive(Debug)]
pub(super) struct Groups {
    groups: Slab<Group>,
    index: HashTable<u32>,
    idle_links: Links,
    idle: SlotList,
    /// Links between the entries charged to a group, indexed by the slot of the entry.
    charged_links: Links,
}

impl Groups {
    /// Bytes per entry of the nursery.
    pub(super) const ENTRY_BYTES: usize = Slab::<Group>::slot_bytes(1) + TABLE_SLOT_BYTES + size_of::<[u32; 2]>();

    /// Allocates memory for the groups of `entries_max` entries.
    pub(super) fn new(entries_max: u32) -> Result<Self, OutOfMemory> {
        let groups_max = entries_max + 1;
        Ok(Self {
            groups: Slab::new(groups_max)?,
            index: table(table_capacity(groups_max))?,
            idle_links: Links::new(groups_max)?,
            idle: SlotList::EMPTY,
            charged_links: Links::new(entries_max)?,
        })
    }

    /// Returns the memory in use, which does not depend on the contents.
    pub(super) fn bytes(&self) -> usize {
        let groups_max = self.groups.slots_max() as usize;
        let links = groups_max * size_of::<[u32; 2]>();
        groups_max * Slab::<Group>::slot_bytes(1) + links + self.index.allocation_size()
    }

    /// Returns the maximum number of groups.
    pub(super) const fn groups_max(&self) -> u32 {
        self.groups.slots_max()
    }

    /// Returns the number of entries that a group added on this day. Setting the clock back does not reset it.
    pub(super) fn inserts(&self, id: u64, day: u64) -> u32 {
        self.find(id).map(|slot| &self.groups[slot]).filter(|group| group.day >= day).map_or(0, |group| group.inserts)
    }

    /// Counts a new entry of a group.
    pub(super) fn count_insert(&mut self, id: u64, day: u64) {
        let slot = self.obtain(id);
        let group = &mut self.groups[slot];
        if day > group.day {
            (group.day, group.inserts) = (day, 0);
        }
        group.inserts = group.inserts.saturating_add(1);
    }

    /// Returns the number of entries that a group is charged for.
    pub(super) fn charged(&self, id: u64) -> u32 {
        self.find(id).map_or(0, |slot| self.groups[slot].charged.len())
    }

    /// Returns the entry that a group has been charged for the longest.
    pub(super) fn oldest(&self, id: u64) -> Option<u32> {
        self.groups[self.find(id)?].charged.first()
    }

    /// Charges a group for an entry.
    pub(super) fn charge(&mut self, id: u64, entry: u32) {
        let slot = self.obtain(id);
        let group = &mut self.groups[slot];
        if group.charged.len() == 0 {
            self.idle_links.remove(&mut self.idle, slot);
        }
        self.charged_links.push(&mut group.charged, entry);
    }

    /// Stops charging a group for one of its entries.
    pub(super) fn discharge(&mut self, id: u64, entry: u32) {
        let slot = self.find(id).expect("a charged group is known");
        let group = &mut self.groups[slot];
        self.charged_links.remove(&mut group.charged, entry);
        if group.charged.len() == 0 {
            self.idle_links.push(&mut self.idle, slot);
        }
    }

    /// Iterates over the groups without entries, in the order of eviction.
    pub(super) fn idle(&self) -> impl Iterator<Item = &Group> {
        self.idle_links.iter(&self.idle).map(|slot| &self.groups[slot])
    }

    /// Returns the number of groups without entries.
    pub(super) const fn idle_len(&self) -> u32 {
        self.idle.len()
    }

    /// Returns a group and its entries, in the order of charging.
    pub(super) fn get(&self, id: u64) -> Option<(&Group, impl Iterator<Item = u32>)> {
        let group = &self.groups[self.find(id)?];
        Some((group, self.charged_links.iter(&group.charged)))
    }

    /// Restores a decoded group. Returns false if it already exists or the table is full.
    pub(super) fn restore(&mut self, id: u64, day: u64, inserts: u32) -> bool {
        if self.find(id).is_some() || self.groups.is_full() {
            return false;
        }
        let slot = self.obtain(id);
        (self.groups[slot].day, self.groups[slot].inserts) = (day, inserts);
        true
    }

    fn find(&self, id: u64) -> Option<u32> {
        self.index.find(spread(id), |&slot| self.groups[slot].id == id).copied()
    }

    /// Returns the slot of a group, adding it as idle if it is unknown.
    fn obtain(&mut self, id: u64) -> u32 {
        if let Some(slot) = self.find(id) {
            return slot;
        }
        if self.groups.is_full() {
            self.evict_idle();
        }
        let slot = self.groups.insert(Group { id, day: 0, inserts: 0, charged: SlotList::EMPTY });
        let groups = &self.groups;
        self.index.insert_unique(spread(id), slot, |&slot| spread(groups[slot].id));
        self.idle_links.push(&mut self.idle, slot);
        slot
    }

    fn evict_idle(&mut self) {
        let slot = self.idle.first().expect("there are more groups than entries");
        self.idle_links.remove(&mut self.idle, slot);
        let found = self.index.find_entry(spread(self.groups[slot].id), |&other| other == slot);
        found.expect("every group is in the index").remove();
        self.groups.remove(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_without_entries_are_forgotten() {
        let mut groups = Groups::new(2).unwrap();
        groups.count_insert(1, 5);
        groups.charge(1, 0);
        groups.count_insert(2, 5);
        groups.count_insert(3, 5);
        groups.count_insert(4, 5);
        assert_eq!([1, 2, 3, 4].map(|id| groups.inserts(id, 5)), [1, 0, 1, 1]);
        groups.discharge(1, 0);
        assert_eq!((groups.charged(1), groups.oldest(1)), (0, None));
        (5..8).for_each(|id| groups.count_insert(id, 5));
        assert_eq!(groups.inserts(1, 5), 0);
    }

    #[test]
    fn setting_the_clock_back_does_not_reset_quotas() {
        let mut groups = Groups::new(2).unwrap();
        groups.count_insert(1, 5);
        groups.count_insert(1, 4);
        assert_eq!([4, 5, 6].map(|day| groups.inserts(1, day)), [2, 2, 0]);
    }
}
