//! Exact counts, for comparison, as long as there is room.

use std::collections::HashMap;

use bruit_filters::Fingerprint;

/// The most flows that are counted exactly.
pub const EXACT_FLOWS_MAX: usize = 1_000_000;

/// What a flow takes on average: fingerprint and count in a table that is three quarters full, and a name.
const FLOW_BYTES: usize = 112;

/// Packets of each flow, of those that came first.
#[derive(Clone, Debug)]
pub struct Exact {
    flows: HashMap<Fingerprint, Counted>,
    flows_max: usize,
    packets_left_out: u64,
}

/// A flow and its packets.
#[derive(Clone, Debug)]
struct Counted {
    identity: Box<[u8]>,
    packets: u64,
}

impl Exact {
    /// An empty table for at most `flows_max` flows, and [`EXACT_FLOWS_MAX`].
    #[must_use]
    pub fn new(flows_max: usize) -> Self {
        Self { flows: HashMap::new(), flows_max: flows_max.min(EXACT_FLOWS_MAX), packets_left_out: 0 }
    }

    /// Counts a packet, unless its flow is new and the table is full.
    pub fn count(&mut self, identity: &[u8], fingerprint: Fingerprint) {
        if let Some(counted) = self.flows.get_mut(&fingerprint) {
            counted.packets += 1;
        } else if self.flows.len() < self.flows_max {
            self.flows.insert(fingerprint, Counted { identity: identity.into(), packets: 1 });
        } else {
            self.packets_left_out += 1;
        }
    }

    /// Packets of a flow, if it had room.
    #[must_use]
    pub fn packets(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.flows.get(fingerprint).map(|counted| counted.packets)
    }

    /// Flows and their packets, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Fingerprint, u64)> {
        self.flows.iter().map(|(&fingerprint, counted)| (&*counted.identity, fingerprint, counted.packets))
    }

    /// How many flows there are.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Packets of flows that found no room. The counts of others are exact all the same.
    #[must_use]
    pub const fn packets_left_out(&self) -> u64 {
        self.packets_left_out
    }

    /// Memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.flows.len() * FLOW_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_says_what_it_left_out_and_counts_the_rest() {
        let mut exact = Exact::new(2);
        for flow in [1u64, 2, 3, 1, 3] {
            exact.count(&flow.to_le_bytes(), Fingerprint::narrow(flow));
        }
        let packets = [1, 2, 3].map(|flow| exact.packets(&Fingerprint::narrow(flow)));
        assert_eq!((packets, exact.packets_left_out(), exact.flows()), ([Some(2), Some(1), None], 2, 2));
    }

    #[test]
    fn a_table_has_at_most_as_many_flows_as_the_bound() {
        assert_eq!(Exact::new(usize::MAX).flows_max, EXACT_FLOWS_MAX);
    }
}
