//! The flows that were seen most, by name, in bounded memory: the *space-saving* list of Metwally, Agrawal and El Abbadi
//! (ICDT 2005).
//!
//! A list of n counters. A flow that is in it is counted; one that is not takes the place of the least, and its count goes on
//! from there. So every count is at least the truth, by at most the `inherited` part, and a flow with more than 1/n of all
//! packets is in the list.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The most flows in a list.
pub const LEADERS_MAX: usize = 65_536;

/// What a leader takes on average: its counter, its place in order and in the table, and a name of a flow of packets.
pub(super) const LEADER_BYTES: usize = 128;

/// A flow of the list.
#[derive(Clone, Debug, Default)]
pub struct Leader {
    /// Its identity.
    pub identity: Vec<u8>,
    /// At least as many packets as it has.
    pub packets: u64,
    /// How many of these may be another's.
    pub inherited: u64,
    hash: u64,
    /// Where it is in the order.
    place: usize,
}

/// A list of flows that were seen often.
#[derive(Clone, Debug)]
pub struct Leaders {
    capacity: usize,
    leaders: Vec<Leader>,
    /// A heap of indexes of leaders: the least is the first.
    order: Vec<usize>,
    by_hash: HashMap<u64, usize, BuildHasherDefault<AsIs>>,
}

impl Leaders {
    /// An empty list of at most `capacity` flows: at least 1, at most [`LEADERS_MAX`].
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, LEADERS_MAX);
        Self { capacity, leaders: Vec::new(), order: Vec::new(), by_hash: HashMap::default() }
    }

    /// Counts a packet of a flow, of which `hash` is a keyed hash of 64 bits: those of two flows are taken to differ.
    pub fn count(&mut self, identity: &[u8], hash: u64) {
        if let Some(&index) = self.by_hash.get(&hash) {
            self.leaders[index].packets += 1;
            self.sink(self.leaders[index].place);
        } else if self.leaders.len() < self.capacity {
            self.add(identity, hash);
        } else {
            self.replace_least(identity, hash);
        }
    }

    /// All of them, in no particular order.
    #[must_use]
    pub fn all(&self) -> &[Leader] {
        &self.leaders
    }

    /// Memory that they take, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.leaders.len() * LEADER_BYTES
    }

    fn add(&mut self, identity: &[u8], hash: u64) {
        let (index, place) = (self.leaders.len(), self.order.len());
        self.leaders.push(Leader { identity: identity.to_vec(), packets: 1, inherited: 0, hash, place });
        self.order.push(index);
        self.by_hash.insert(hash, index);
        self.rise(place);
    }

    fn replace_least(&mut self, identity: &[u8], hash: u64) {
        let index = self.order[0];
        let least = &mut self.leaders[index];
        self.by_hash.remove(&least.hash);
        least.identity.clear();
        least.identity.extend_from_slice(identity);
        least.inherited = least.packets;
        least.packets += 1;
        least.hash = hash;
        self.by_hash.insert(hash, index);
        self.sink(0);
    }

    fn packets_at(&self, place: usize) -> u64 {
        self.leaders[self.order[place]].packets
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
        self.leaders[self.order[a]].place = a;
        self.leaders[self.order[b]].place = b;
    }

    /// Moves a leader that has become more towards the end.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = (2 * place + 1..2 * place + 3).filter(|&child| child < self.order.len());
            let Some(least) = children.min_by_key(|&child| self.packets_at(child)) else { return };
            if self.packets_at(least) >= self.packets_at(place) {
                return;
            }
            self.swap(least, place);
            place = least;
        }
    }

    /// Moves a leader that is new towards the front.
    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.packets_at(place) < self.packets_at((place - 1) / 2) {
            let parent = (place - 1) / 2;
            self.swap(place, parent);
            place = parent;
        }
    }
}

/// Keys that are keyed hashes already.
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

    fn count(leaders: &mut Leaders, flow: u64) {
        leaders.count(&flow.to_le_bytes(), Random::stream(flow, 0).next());
    }

    fn of(leaders: &Leaders, flow: u64) -> Option<&Leader> {
        leaders.all().iter().find(|leader| leader.identity == flow.to_le_bytes())
    }

    #[test]
    fn fewer_flows_than_places_are_counted_exactly() {
        let mut leaders = Leaders::new(100);
        for flow in 1..=100 {
            (0..flow * 7 % 101).for_each(|_| count(&mut leaders, flow));
        }
        for flow in 1..=100 {
            let leader = of(&leaders, flow).unwrap();
            assert_eq!((leader.packets, leader.inherited), (flow * 7 % 101, 0));
        }
    }

    #[test]
    fn counts_bound_the_truth_and_large_flows_stay() {
        let mut random = Random::new(3);
        let (mut leaders, mut truth) = (Leaders::new(50), HashMap::new());
        for _ in 0..100_000 {
            // A third of the packets is of ten flows, the rest of a million.
            let flow = if random.below(3) == 0 { random.below(10) } else { 10 + random.below(1_000_000) };
            count(&mut leaders, flow);
            *truth.entry(flow).or_insert(0u64) += 1;
        }
        assert_eq!(leaders.all().len(), 50);
        assert!((0..10).all(|flow| of(&leaders, flow).is_some()));
        for leader in leaders.all() {
            let truth = truth[&u64::from_le_bytes(leader.identity[..].try_into().unwrap())];
            assert!(leader.packets >= truth && leader.packets - leader.inherited <= truth);
        }
    }

    #[test]
    fn a_list_has_at_most_as_many_as_the_bound() {
        let mut leaders = Leaders::new(usize::MAX);
        (0..=LEADERS_MAX as u64).for_each(|flow| count(&mut leaders, flow));
        assert_eq!(leaders.all().len(), LEADERS_MAX);
    }
}
