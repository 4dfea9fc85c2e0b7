//! Bounded memory: slots that are used again, and chains that run through them.
//!
//! A [`Slab`] never holds more than it was made for. A [`Chain`] is a first-in, first-out list of slots whose [`Links`] lie beside
//! the slab, so that a slot can be taken out of its middle in constant time. Which slot something lies in is chance of
//! history and must never show: order is what chains say.

use bruit_filters::OutOfMemory;

use crate::memory::vector;

/// No slot.
const NONE: u32 = u32::MAX;

/// Values in numbered slots.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
    slots_max: u32,
}

impl<T> Slab<T> {
    /// Room for `slots_max` values, all of it reserved now.
    pub(super) fn new(slots_max: u32) -> Result<Self, OutOfMemory> {
        let capacity = slots_max as usize;
        Ok(Self { slots: vector(capacity)?, free: vector(capacity)?, slots_max })
    }

    /// How many values fit.
    pub(super) const fn slots_max(&self) -> u32 {
        self.slots_max
    }

    /// Whether there is no more room.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == self.slots_max as usize
    }

    /// Keeps a value.
    ///
    /// # Panics
    /// If the slab is full.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        assert!(!self.is_full(), "callers make room first");
        if let Some(slot) = self.free.pop() {
            self[slot] = value;
            return slot;
        }
        self.slots.push(value);
        u32::try_from(self.slots.len() - 1).expect("at most slots_max")
    }

    /// Lets a slot be used again.
    pub(super) fn remove(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Bytes per slot, with the links of `chains` chains.
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

/// A list of slots, the oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    length: u32,
}

impl Chain {
    /// A list of nothing.
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, length: 0 };

    /// The oldest slot.
    pub(super) fn first(&self) -> Option<u32> {
        some(self.first)
    }

    /// How many slots it has.
    pub(super) const fn len(&self) -> u32 {
        self.length
    }
}

/// The neighbours of every slot in the one chain of a kind that it can be in.
#[derive(Debug)]
pub(super) struct Links(Vec<[u32; 2]>);

impl Links {
    /// Links for the slots of a slab.
    pub(super) fn new(slots_max: u32) -> Result<Self, OutOfMemory> {
        let mut links = vector(slots_max as usize)?;
        links.resize(slots_max as usize, [NONE; 2]);
        Ok(Self(links))
    }

    /// Appends a slot that is in no chain of this kind.
    pub(super) fn push(&mut self, chain: &mut Chain, slot: u32) {
        self.0[slot as usize] = [chain.last, NONE];
        match some(chain.last) {
            Some(last) => self.0[last as usize][1] = slot,
            None => chain.first = slot,
        }
        chain.last = slot;
        chain.length += 1;
    }

    /// Takes out a slot of this chain.
    pub(super) fn remove(&mut self, chain: &mut Chain, slot: u32) {
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

    /// The slots of a chain, the oldest first.
    pub(super) fn iter(&self, chain: &Chain) -> impl Iterator<Item = u32> {
        std::iter::successors(chain.first(), |&slot| some(self.0[slot as usize][1]))
    }
}

/// A link as an option.
fn some(slot: u32) -> Option<u32> {
    (slot != NONE).then_some(slot)
}

/// Spreads an identity over 64 bits for a hash table. Identities are keyed hashes already; those of tests are small numbers.
pub(super) const fn spread(id: u64) -> u64 {
    let mixed = (id ^ (id >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// The capacity of a table of slots that will never grow: hashbrown clears away what was removed in place as long as at most
/// half of the capacity is used, and doubles the table otherwise.
pub(super) const fn table_capacity(slots_max: u32) -> usize {
    slots_max as usize * 2
}

/// Bytes per slot of such a table at most: a slot number and a control byte in buckets of a power of two, filled to 7/8.
pub(super) const TABLE_SLOT_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_keeps_its_order_when_slots_are_taken_out_anywhere() {
        let (mut links, mut chain) = (Links::new(5).unwrap(), Chain::EMPTY);
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
    fn a_slab_is_full_at_its_bound_and_uses_slots_again() {
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
    fn tables_never_grow_however_much_comes_and_goes() {
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
