//! The bounded list of a page's pairs, with the first and last time each was seen.

use std::collections::HashMap;

use bruit_structures::blocks::{Digester, HostId};

use super::Pair;
use super::bytes::{pair_bytes, put_pair};

/// Maximum number of pairs in a page.
pub const PAIRS_MAX: usize = 1 << 18;

/// A pair that carried at least one payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPair {
    /// The pair.
    pub pair: Pair,
    /// First time at which the pair was seen, in seconds since 1970.
    pub first: u64,
    /// Last time at which the pair was seen, in seconds since 1970.
    pub last: u64,
}

/// Pairs in the order in which they were first seen. If the list is full, the payloads of new pairs are recorded and
/// counted, but cannot be attributed.
#[derive(Debug)]
pub(super) struct Pairs {
    listed: Vec<ListedPair>,
    /// IDs of the pairs, hashed with the page's key.
    ids: Vec<HostId>,
    places: HashMap<Pair, usize>,
    bytes: u64,
    bytes_max: u64,
}

impl Pairs {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { listed: Vec::new(), ids: Vec::new(), places: HashMap::new(), bytes: 0, bytes_max }
    }

    pub(super) fn listed(&self) -> &[ListedPair] {
        &self.listed
    }

    /// Returns the IDs of all pairs, hashed with the page's key, in the order of the list. They are computed only once,
    /// because a query needs all of them at every place that it checks.
    pub(super) fn ids(&self) -> &[HostId] {
        &self.ids
    }

    /// Records that `pair` was seen at `time`. Returns the ID of the pair, and whether the pair is listed.
    pub(super) fn see(&mut self, pair: &Pair, time: u64, digester: &Digester) -> (HostId, bool) {
        if let Some(&place) = self.places.get(pair) {
            let listed = &mut self.listed[place];
            (listed.first, listed.last) = (listed.first.min(time), listed.last.max(time));
            return (self.ids[place], true);
        }
        let id = pair_id(pair, digester);
        let bytes = pair_bytes(pair);
        let has_room = self.listed.len() < PAIRS_MAX && self.bytes + bytes <= self.bytes_max;
        if has_room {
            self.bytes += bytes;
            self.places.insert(pair.clone(), self.listed.len());
            self.ids.push(id);
            self.listed.push(ListedPair { pair: pair.clone(), first: time, last: time });
        }
        (id, has_room)
    }
}

/// Returns the ID of a pair, hashed with the key of `digester`.
fn pair_id(pair: &Pair, digester: &Digester) -> HostId {
    let mut name = Vec::with_capacity(64);
    put_pair(pair, &mut name);
    digester.host(&name)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use bruit_filters::FingerprintKey;
    use bruit_structures::blocks::BlockShape;

    use super::super::Host;
    use super::*;

    fn digester() -> Digester {
        Digester::new(&FingerprintKey::new([1; 16]), BlockShape::new(32, 1).unwrap())
    }

    fn pair(number: u32) -> Pair {
        let address = |number| Host::from(IpAddr::from(Ipv4Addr::from_bits(number)));
        Pair { source: address(number), destination: address(0) }
    }

    #[test]
    fn a_pair_is_listed_once_with_its_first_and_last_time() {
        let mut pairs = Pairs::new(1 << 20);
        let (first, _) = pairs.see(&pair(1), 50, &digester());
        let (second, _) = pairs.see(&pair(2), 10, &digester());
        assert_eq!(pairs.see(&pair(1), 40, &digester()), (first, true));
        assert_eq!(pairs.see(&pair(1), 60, &digester()), (first, true));
        assert_ne!(first, second);
        assert_eq!(pairs.listed()[0], ListedPair { pair: pair(1), first: 40, last: 60 });
        assert_eq!(pairs.listed().len(), 2);
    }

    #[test]
    fn the_number_and_bytes_of_pairs_are_limited() {
        let digester = digester();
        let mut pairs = Pairs::new(u64::MAX);
        let listed = (0..=PAIRS_MAX as u32).filter(|&number| pairs.see(&pair(number), 0, &digester).1).count();
        assert_eq!(listed, PAIRS_MAX);
        let mut pairs = Pairs::new(3 * pair_bytes(&pair(0)));
        assert_eq!((0..10).filter(|&number| pairs.see(&pair(number), 0, &digester).1).count(), 3);
        assert!(pairs.see(&pair(0), 0, &digester).1, "listed pairs remain in the list");
    }
}
