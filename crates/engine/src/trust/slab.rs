//! Bounded memory: reusable slots, and lists of slots.
//!
//! A [`Slab`] never grows beyond its initial capacity. A [`SlotList`] is a first-in, first-out list of slots. Its
//! [`Links`] are stored outside the slab and allow a slot to be removed from the middle in constant time. Slot numbers
//! depend on history and must not affect results. Only the order of a list may affect results.

use bruit_filters::OutOfMemory;

use crate::memory::vector;

/// The link value for "no slot".
const NONE: u32 = u32::MAX;

/// Values in numbered slots.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    slots_max: u32,
}

impl<T> Slab<T> {
    /// Allocates memory for `slots_max` values.
    pub(super) fn new(slots_max: u32) -> Result<Self, OutOfMemory> {
        let capacity = slots_max as usize;
        Ok(Self { slots: vector(capacity)?, free: vector(capacity)?, slots_max })
    }

    /// Returns the maximum number of values.
    pub(super) const fn slots_max(&self) -> u32 {
        self.slots_max
    }

    /// Returns true if all slots are in use.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == self.slots_max as usize
    }

    /// Stores a value and returns its slot.
    ///
    /// # Panics
    /// If the slab is full.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        assert!(!self.is_full(), "the slab is full");
        if let Some(slot) = self.free.pop() {
            self[slot] = value;
            return slot;
        }
        self.slots.push(value);
        u32::try_from(self.slots.len() - 1).expect("at most slots_max")
    }

    /// Frees a slot.
    pub(super) fn remove(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Memory per slot in bytes, including the links for `chains` lists.
    pub(super) const fn slot_bytes(chains: usize) -> usize {
        size_of::<T>() + size_of::<u32>() + chains * size_of::<[u32; 2]>()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }
}

/// A list of slots, oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotList {
    first: u32,
    last: u32,
    length: u32,
}

impl SlotList {
    /// A list without slots.
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, length: 0 };

    /// Returns the oldest slot.
    pub(super) fn first(&self) -> Option<u32> {
        some(self.first)
    }

    /// Returns the number of slots.
    pub(super) const fn len(&self) -> u32 {
        self.length
    }
}

/// The neighbours of every slot. Several lists can share these links, but a slot is in at most one of the lists.
#[derive(Debug)]
pub(super) struct Links(Vec<[u32; 2]>);

impl Links {
    /// Creates links for the slots of a slab.
    pub(super) fn new(slots_max: u32) -> Result<Self, OutOfMemory> {
        let mut links = vector(slots_max as usize)?;
        links.resize(slots_max as usize, [NONE; 2]);
        Ok(Self(links))
    }

    /// Appends a slot, which must not be in any list of these links.
    pub(super) fn push(&mut self, chain: &mut SlotList, slot: u32) {
        self.0[slot as usize] = [chain.last, NONE];
        match some(chain.last) {
            Some(last) => self.0[last as usize][1] = slot,
            None => chain.first = slot,
        }
        chain.last = slot;
        chain.length += 1;
    }

    /// Removes a slot from this list.
    pub(super) fn remove(&mut self, chain: &mut SlotList, slot: u32) {
        let [before, after] = std::mem::replace(&mut self.0[slot as usize], [NONE; 2]);
        match some(before) {
            Some(before) => self.0[before as usize][1] = after,
            None => chain.first = after,
        }
        match some(after) {
            Some(after) => self.0[after as usize][0] = before,
            None => chain.last = before,
        }
        chain.length -= 1;
    }

    /// Iterates over the slots of a list, oldest first.
    pub(super) fn iter(&self, chain: &SlotList) -> impl Iterator<Item = u32> {
        std::iter::successors(chain.first(), |&slot| some(self.0[slot as usize][1]))
    }
}

/// Converts a link to an option.
fn some(slot: u32) -> Option<u32> {
    (slot != NONE).then_some(slot)
}

/// Mixes an id for use in a hash table. Real ids are keyed hashes, but the ids in tests are small numbers.
pub(super) const fn spread(id: u64) -> u64 {
    let mixed = (id ^ (id >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// Returns a capacity at which a hash table of `slots_max` slots never grows. If at most half of the capacity is in
/// use, hashbrown removes tombstones in place; otherwise it doubles the table.
pub(super) const fn table_capacity(slots_max: u32) -> usize {
    slots_max as usize * 2
}

/// Maximum memory per slot of a hash table. A bucket consists of a slot number and a control byte. The number of
/// buckets is a power of two, and at most 7/8 of them are in use.
pub(super) const TABLE_SLOT_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_keeps_its_order_when_slots_are_removed() {
        let (mut links, mut chain) = (Links::new(5).unwrap(), SlotList::EMPTY);
        (0..5).for_each(|slot| links.push(&mut chain, slot));
        for slot in [2, 0, 4] {
            links.remove(&mut chain, slot);
        }
        assert_eq!(links.iter(&chain).collect::<Vec<_>>(), [1, 3]);
        links.push(&mut chain, 0);
        assert_eq!((links.iter(&chain).collect::<Vec<_>>(), chain.len()), (vec![1, 3, 0], 3));
        [1, 3, 0].into_iter().for_each(|slot| links.remove(&mut chain, slot));
        assert_eq!((chain.first(), chain.len()), (None, 0));
    }

    #[test]
    fn a_slab_is_full_at_its_bound_and_reuses_slots() {
        let mut slab = Slab::new(2).unwrap();
        let slot = slab.insert('a');
        assert!(!slab.is_full());
        slab.insert('b');
        assert!(slab.is_full());
        slab.remove(slot);
        assert_eq!(slab.insert('c'), slot);
        assert_eq!(slab[slot], 'c');
    }

    #[test]
    fn tables_never_grow_under_insertions_and_removals() {
        for slots_max in [64_u32, 1000, 1793, 5000] {
            let mut table = hashbrown::HashTable::<u32>::with_capacity(table_capacity(slots_max));
            let bytes = table.allocation_size();
            assert!(bytes <= slots_max as usize * TABLE_SLOT_BYTES + 64, "{slots_max}: {bytes}");
            let hash = |slot: &u32| spread(u64::from(*slot));
            for slot in 0..slots_max * 10 {
                if let Some(old) = slot.checked_sub(slots_max) {
                    table.find_entry(hash(&old), |&other| other == old).unwrap().remove();
                }
                table.insert_unique(hash(&slot), slot, hash);
            }
            assert_eq!(table.allocation_size(), bytes, "{slots_max}");
        }
    }
}
