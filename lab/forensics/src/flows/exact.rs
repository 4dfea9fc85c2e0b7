//! A bounded table of exact counts, for comparison.

use std::collections::HashMap;

use bruit_filters::Fingerprint;

/// Maximum number of flows counted exactly.
pub const EXACT_FLOWS_MAX: usize = 1_000_000;

/// Bytes that each slot of the table needs besides its entry: one control byte.
pub(super) const SLOT_BYTES: usize = 1;

/// Exact packet counts of the flows that arrived first.
#[derive(Clone, Debug)]
pub struct Exact {
    flows: HashMap<Fingerprint, ExactFlow>,
    flows_max: usize,
    names_bytes: usize,
    packets_left_out: u64,
}

/// A flow and its number of packets.
#[derive(Clone, Debug)]
struct ExactFlow {
    identity: Box<[u8]>,
    packets: u64,
}

impl Exact {
    /// Creates an empty table for at most `flows_max` flows, limited to [`EXACT_FLOWS_MAX`].
    #[must_use]
    pub fn new(flows_max: usize) -> Self {
        Self { flows: HashMap::new(), flows_max: flows_max.min(EXACT_FLOWS_MAX), names_bytes: 0, packets_left_out: 0 }
    }

    /// Counts a packet. If the table is full, the packets of all new flows share one counter.
    pub fn count(&mut self, identity: &[u8], fingerprint: Fingerprint) {
        if let Some(counted) = self.flows.get_mut(&fingerprint) {
            counted.packets += 1;
        } else if self.flows.len() < self.flows_max {
            self.names_bytes += allocated_bytes(identity.len());
            self.flows.insert(fingerprint, ExactFlow { identity: identity.into(), packets: 1 });
        } else {
            self.packets_left_out += 1;
        }
    }

    /// Returns a flow's number of packets, if it is in the table.
    #[must_use]
    pub fn packets(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.flows.get(fingerprint).map(|counted| counted.packets)
    }

    /// Iterates over flows and their packets, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Fingerprint, u64)> {
        self.flows.iter().map(|(&fingerprint, counted)| (&*counted.identity, fingerprint, counted.packets))
    }

    /// Returns the number of flows.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Returns the number of packets whose flows did not fit. The counts of all other flows are exact.
    #[must_use]
    pub const fn packets_left_out(&self) -> u64 {
        self.packets_left_out
    }

    /// Returns the memory used, including names.
    #[must_use]
    pub fn bytes(&self) -> usize {
        table_bytes(self.flows.capacity(), size_of::<(Fingerprint, ExactFlow)>()) + self.names_bytes
    }
}

/// Returns the memory that a hash table for `capacity` entries needs. An eighth of its slots stays free.
pub(super) const fn table_bytes(capacity: usize, entry_bytes: usize) -> usize {
    (capacity + capacity / 7) * (entry_bytes + SLOT_BYTES)
}

/// Returns the memory that an allocation of `bytes` needs. Allocators round up to a multiple of 16 and store the length
/// next to the allocation.
pub(super) const fn allocated_bytes(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + size_of::<usize>()).next_multiple_of(16) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_with_the_length_of_names() {
        let of = |name_bytes: usize| {
            let mut exact = Exact::new(1000);
            (0..1000u64).for_each(|flow| exact.count(&vec![b'x'; name_bytes], Fingerprint::narrow(flow)));
            exact.bytes()
        };
        assert!((1000 * 41..1000 * 150).contains(&of(9)), "{}", of(9));
        assert!((1000 * 285..1000 * 315).contains(&(of(309) - of(9))), "{}", of(309) - of(9));
    }

    #[test]
    fn a_full_table_counts_what_it_left_out() {
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
