//! Detects replays of authenticated changes. Without this check, an eavesdropper could repeat a change from any
//! address, long after it was undone.
//!
//! A client that receives no reply soon sends the same bytes again, from the same address and port. Such a retry is not
//! a replay.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bruit_filters::FingerprintKey;

use crate::duplicates::REMEMBERED;

/// Maximum number of remembered changes. A new change evicts the oldest.
pub(crate) const REPLAYS_MAX: usize = 1 << 16;

/// The changes of one protocol, shared by all its threads.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    table: Mutex<ReplayTable>,
}

#[derive(Debug, Default)]
struct ReplayTable {
    first: HashMap<u64, First>,
    /// The remembered changes, oldest first.
    order: VecDeque<u64>,
}

/// The time of a change's first arrival, and a hash of its source.
#[derive(Clone, Copy, Debug)]
struct First {
    at: Duration,
    from: u64,
}

impl Replays {
    /// Returns true if the change with this identity is new or is a retry by the same client.
    pub(crate) fn admits(&self, identity: &[u8], from: SocketAddr, key: &FingerprintKey, now: Duration) -> bool {
        let identity = key.fingerprint(identity).high();
        let from = key.fingerprint(from.to_string().as_bytes()).high();
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = table.first.get(&identity) {
            return first.from == from && now.saturating_sub(first.at) <= REMEMBERED;
        }
        table.insert(identity, First { at: now, from });
        true
    }
}

impl ReplayTable {
    fn insert(&mut self, identity: u64, first: First) {
        self.first.insert(identity, first);
        self.order.push_back(identity);
        if self.order.len() > REPLAYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.first.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: FingerprintKey = FingerprintKey::new([3; 16]);

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn a_change_is_admitted_again_only_from_its_client_and_soon() {
        let replays = Replays::default();
        let admits = |port, now| replays.admits(b"one", address(port), &KEY, now);
        assert!(admits(1, Duration::ZERO));
        assert!(admits(1, REMEMBERED));
        assert!(!admits(1, REMEMBERED + Duration::from_nanos(1)));
        assert!(!admits(2, Duration::ZERO));
        assert!(replays.admits(b"two", address(2), &KEY, Duration::ZERO));
    }

    #[test]
    fn no_more_changes_are_remembered_than_there_is_room_for() {
        let replays = Replays::default();
        let admits = |number: usize, port| replays.admits(&number.to_le_bytes(), address(port), &KEY, Duration::ZERO);
        assert!((0..REPLAYS_MAX).all(|number| admits(number, 1)));
        assert!(!admits(0, 2), "the change is still remembered");
        assert!(admits(REPLAYS_MAX, 1));
        assert!(admits(0, 2), "the oldest change was evicted");
        assert_eq!(replays.table.lock().unwrap().first.len(), REPLAYS_MAX);
    }
}
