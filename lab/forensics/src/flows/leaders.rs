//! The names of the most frequent flows, in bounded memory. The list uses *random admission* (Ben Basat, Chen,
//! Einziger, Friedman and Kassner, 2017).
//!
//! The list has n counters. A packet of a listed flow increments the flow's counter. For a flow that is not listed, let
//! c be the count of the smallest listed flow. With probability 1 / (c + 1), the new flow replaces that flow and starts
//! with a count of c + 1, which is right on average. Large flows therefore enter soon and stay. The many small flows
//! rarely change the list, which also makes it fast. Until the list is full, all counts are exact.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::exact::{SLOT_BYTES, allocated_bytes, table_bytes};

/// Maximum number of flows in a list.
pub const LEADERS_MAX: usize = 4096;

/// Maximum memory of a leader, not counting its name: its counter, its place in the heap, and up to five slots of the
/// hash table. The table's size is a power of two, and may double once more as flows are added and removed.
const LEADER_BYTES: usize = size_of::<Flow>() + size_of::<Place>() + 5 * (size_of::<(u64, u32)>() + SLOT_BYTES);

/// Number of children of a heap node. The places of this many children fill a cache line.
const CHILDREN: usize = 4;

/// A flow in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader<'l> {
    /// Identity of the flow.
    pub identity: &'l [u8],
    /// Approximate number of packets.
    pub packets: u64,
}

/// A list of the most frequent flows.
#[derive(Clone, Debug)]
pub struct Leaders {
    capacity: usize,
    flows: Vec<Flow>,
    /// A heap with the smallest flow first. The packet counts are stored in it, so that sifting touches few cache
    /// lines.
    order: Vec<Place>,
    by_hash: HashMap<u64, u32, BuildHasherDefault<AsIs>>,
}

#[derive(Clone, Debug)]
struct Flow {
    identity: Vec<u8>,
    hash: u64,
    /// Index in the heap.
    place: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    packets: u64,
    flow: u32,
}

impl Leaders {
    /// Creates an empty list of at most `capacity` flows. `capacity` is clamped to 1 to [`LEADERS_MAX`].
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, LEADERS_MAX);
        Self {
            capacity,
            flows: Vec::with_capacity(capacity),
            order: Vec::with_capacity(capacity),
            by_hash: HashMap::with_capacity_and_hasher(capacity, BuildHasherDefault::default()),
        }
    }

    /// Returns the number of flows that fit into `memory_bytes`, with names of up to `name_bytes`; at most
    /// [`LEADERS_MAX`].
    pub(super) fn fitting(memory_bytes: u64, name_bytes: usize) -> usize {
        (memory_bytes / leader_bytes(name_bytes) as u64).min(LEADERS_MAX as u64) as usize
    }

    /// Returns the maximum memory that the list may use, with names of up to `name_bytes`.
    pub(super) const fn planned_bytes(&self, name_bytes: usize) -> usize {
        self.capacity * leader_bytes(name_bytes)
    }

    /// Counts a packet of a flow. `hash` is a keyed 64-bit hash of the flow, assumed to be unique. `draw` is a new
    /// random number for every packet.
    pub fn count(&mut self, identity: &[u8], hash: u64, draw: u64) {
        if let Some(&flow) = self.by_hash.get(&hash) {
            let place = self.flows[flow as usize].place as usize;
            self.order[place].packets += 1;
            self.sink(place);
        } else if self.flows.len() < self.capacity {
            self.add(identity, hash);
        } else if self.is_admitted(draw) {
            self.replace_least(identity, hash);
        }
    }

    /// Builds a list of at most `capacity` of the `flows`, those with the most packets, with one entry per identity.
    /// Each item of `flows` is an identity, its hash and its number of packets.
    pub(super) fn restored(capacity: usize, flows: impl Iterator<Item = (Vec<u8>, u64, u64)>) -> Self {
        let mut sums: HashMap<u64, (Vec<u8>, u64)> = HashMap::new();
        for (identity, hash, packets) in flows {
            let sum = sums.entry(hash).or_insert((identity, 0));
            sum.1 = sum.1.saturating_add(packets);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        // Flows with equal counts are sorted by hash, so that the same flows yield the same list.
        sums.sort_by_key(|(hash, (_, packets))| (std::cmp::Reverse(*packets), *hash));
        let mut leaders = Self::new(capacity);
        sums.truncate(leaders.capacity);
        for (hash, (identity, packets)) in sums.into_iter().rev() {
            leaders.add(&identity, hash);
            let place = leaders.flows[leaders.flows.len() - 1].place as usize;
            leaders.order[place].packets = packets;
            leaders.sink(place);
        }
        leaders
    }

    /// Returns the maximum number of flows.
    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Iterates over all flows, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Leader<'_>> {
        self.order.iter().map(|place| {
            let flow = &self.flows[place.flow as usize];
            Leader { identity: &flow.identity, packets: place.packets }
        })
    }

    /// Returns the number of flows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.flows.len()
    }

    /// Returns true if the list has no flows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Returns the memory used, including names.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let names: usize = self.flows.iter().map(|flow| allocated_bytes(flow.identity.capacity())).sum();
        let lists = self.flows.capacity() * size_of::<Flow>() + self.order.capacity() * size_of::<Place>();
        names + lists + table_bytes(self.by_hash.capacity(), size_of::<(u64, u32)>())
    }

    fn add(&mut self, identity: &[u8], hash: u64) {
        let (flow, place) = (self.flows.len() as u32, self.order.len());
        self.flows.push(Flow { identity: identity.to_vec(), hash, place: place as u32 });
        self.order.push(Place { packets: 1, flow });
        self.by_hash.insert(hash, flow);
        self.rise(place);
    }

    /// Returns true with probability 1 / (c + 1), where c is the smallest count.
    fn is_admitted(&self, draw: u64) -> bool {
        let least = u128::from(self.order[0].packets);
        (u128::from(draw) * (least + 1)) >> 64 == 0
    }

    fn replace_least(&mut self, identity: &[u8], hash: u64) {
        let flow = self.order[0].flow;
        let least = &mut self.flows[flow as usize];
        self.by_hash.remove(&least.hash);
        least.identity.clear();
        least.identity.reserve_exact(identity.len());
        least.identity.extend_from_slice(identity);
        least.hash = hash;
        self.by_hash.insert(hash, flow);
        self.order[0].packets += 1;
        self.sink(0);
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
        self.flows[self.order[a].flow as usize].place = a as u32;
        self.flows[self.order[b].flow as usize].place = b as u32;
    }

    /// Moves a flow towards the end of the heap after its count has grown.
    fn sink(&mut self, mut place: usize) {
        loop {
            let first = CHILDREN * place + 1;
            let children = first..self.order.len().min(first + CHILDREN);
            let Some(least) = children.min_by_key(|&child| self.order[child].packets) else { return };
            if self.order[least].packets >= self.order[place].packets {
                return;
            }
            self.swap(least, place);
            place = least;
        }
    }

    /// Moves a new flow towards the front of the heap.
    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.order[place].packets < self.order[(place - 1) / CHILDREN].packets {
            let parent = (place - 1) / CHILDREN;
            self.swap(place, parent);
            place = parent;
        }
    }
}

const fn leader_bytes(name_bytes: usize) -> usize {
    LEADER_BYTES + allocated_bytes(name_bytes)
}

/// A hasher for keys that are already keyed hashes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 ^= number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn count(leaders: &mut Leaders, flow: u64, random: &mut Random) {
        leaders.count(&flow.to_le_bytes(), Random::stream(flow, 0).next(), random.next());
    }

    fn of(leaders: &Leaders, flow: u64) -> Option<u64> {
        leaders.iter().find(|leader| leader.identity == flow.to_le_bytes()).map(|leader| leader.packets)
    }

    #[test]
    fn fewer_flows_than_places_are_counted_exactly() {
        let (mut leaders, mut random) = (Leaders::new(100), Random::new(2));
        for flow in 1..=100 {
            (0..flow * 7 % 101).for_each(|_| count(&mut leaders, flow, &mut random));
        }
        assert!((1..=100).all(|flow| of(&leaders, flow) == Some(flow * 7 % 101)));
    }

    #[test]
    fn large_flows_come_in_and_stay_among_a_million_small_ones() {
        let (mut leaders, mut random) = (Leaders::new(50), Random::new(3));
        let mut truth = [0u64; 10];
        for _ in 0..100_000 {
            // A third of the packets belongs to ten flows, the rest to a million flows.
            let flow = if random.below(3) == 0 { random.below(10) } else { 10 + random.below(1_000_000) };
            count(&mut leaders, flow, &mut random);
            if let Some(packets) = truth.get_mut(flow as usize) {
                *packets += 1;
            }
        }
        assert_eq!(leaders.len(), 50);
        for (flow, packets) in (0..).zip(truth) {
            let estimate = of(&leaders, flow).expect("every large flow is in the list");
            assert!(estimate.abs_diff(packets) < packets / 4, "{estimate}, expected about {packets}");
        }
    }

    #[test]
    fn lists_stay_within_the_planned_memory() {
        for (memory_bytes, name_bytes) in
            [(8 << 10, 39), (50_000, 39), (128 << 10, 39), (128 << 10, 320), (1 << 30, 320)]
        {
            let mut random = Random::new(5);
            let mut leaders = Leaders::new(Leaders::fitting(memory_bytes, name_bytes));
            for _ in 0..20_000 {
                let name = &[b'x'; 320][..1 + random.below(name_bytes as u64) as usize];
                leaders.count(name, random.next(), random.next());
            }
            let bytes = leaders.bytes() as u64;
            assert!(bytes <= memory_bytes && leaders.len() == leaders.capacity, "{bytes} of {memory_bytes}");
        }
    }

    #[test]
    fn memory_goes_with_the_length_of_names() {
        let of = |name_bytes: usize| {
            let (mut leaders, mut random) = (Leaders::new(1000), Random::new(5));
            (0..1000).for_each(|_| leaders.count(&vec![b'x'; name_bytes], random.next(), random.next()));
            leaders.bytes()
        };
        assert!((1000 * 290..1000 * 310).contains(&(of(339) - of(39))), "{}", of(339) - of(39));
    }

    #[test]
    fn a_list_has_at_most_as_many_as_the_bound() {
        let (mut leaders, mut random) = (Leaders::new(usize::MAX), Random::new(4));
        (0..=LEADERS_MAX as u64).for_each(|flow| count(&mut leaders, flow, &mut random));
        assert_eq!(leaders.len(), LEADERS_MAX);
    }
}
