//! What encrypted requests take beside their key pairs: keys shared with clients, nonces, and knowing replays.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bruit_filters::FingerprintKey;
use bruit_protocols::fuzzy::{KeyId, Keypair, NONCE_BYTES, Nonce, PublicKey, SharedKey};

use crate::duplicates::REMEMBERED;

/// Most clients whose shared key is kept by a thread; the one that came first goes. A client makes its key anew at every start.
pub(super) const SHARED_KEYS_MAX: usize = 1_024;

/// Most changes whose nonce is remembered; the oldest is forgotten for a new one.
pub(super) const REPLAYS_MAX: usize = 1 << 16;

/// The bytes of a nonce before its number.
const NONCE_START_BYTES: usize = NONCE_BYTES - size_of::<u64>();

/// Keys that are shared with clients.
#[derive(Default)]
pub(super) struct SharedKeys {
    keys: HashMap<(KeyId, PublicKey), SharedKey>,
    /// Oldest first.
    order: VecDeque<(KeyId, PublicKey)>,
}

impl SharedKeys {
    /// The key between one of ours and a client's.
    pub(super) fn get(&self, ours: KeyId, client: PublicKey) -> Option<&SharedKey> {
        self.keys.get(&(ours, client))
    }

    pub(super) fn insert(&mut self, ours: KeyId, client: PublicKey, key: SharedKey) {
        if self.keys.insert((ours, client), key).is_some() {
            return;
        }
        self.order.push_back((ours, client));
        if self.order.len() > SHARED_KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }
}

/// What the ends of all threads share.
pub(crate) struct Vault {
    /// The server's own key pair.
    pub(super) own: Keypair,
    pub(super) nonces: Nonces,
    pub(super) replays: Replays,
}

impl Vault {
    /// A vault with this key pair.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn new(own: Keypair) -> io::Result<Self> {
        let mut start = [0; NONCE_START_BYTES];
        getrandom::fill(&mut start).map_err(io::Error::other)?;
        Ok(Self { own, nonces: Nonces::new(start), replays: Replays::default() })
    }
}

/// Nonces of replies: no two are equal, and none is a client's but by a chance of one in 2^128.
pub(super) struct Nonces {
    start: [u8; NONCE_START_BYTES],
    count: AtomicU64,
}

impl Nonces {
    /// Nonces that begin with `start`, which is random.
    pub(super) const fn new(start: [u8; NONCE_START_BYTES]) -> Self {
        Self { start, count: AtomicU64::new(0) }
    }

    pub(super) fn next(&self) -> Nonce {
        let mut nonce = [0; NONCE_BYTES];
        let (start, count) = nonce.split_at_mut(NONCE_START_BYTES);
        start.copy_from_slice(&self.start);
        count.copy_from_slice(&self.count.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        nonce
    }
}

/// Encrypted changes that were seen, by their nonces: whoever overheard one could send it again, long after it was taken back.
///
/// A client that got no answer sends the same bytes again, from where it sent them before and soon. That is no replay. What is
/// older than the server's start, or than [`REPLAYS_MAX`] changes, cannot be told from new: the language has no time stamps.
#[derive(Debug, Default)]
pub(super) struct Replays {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    first: HashMap<u64, First>,
    /// Oldest first.
    order: VecDeque<u64>,
}

/// When a change came first, and a hash of where from.
#[derive(Clone, Copy, Debug)]
struct First {
    at: Duration,
    from: u64,
}

impl Replays {
    /// Whether a change with this nonce is a new one, or the same client's that got no answer.
    pub(super) fn admits(&self, nonce: &Nonce, from: SocketAddr, key: &FingerprintKey, now: Duration) -> bool {
        let nonce = key.fingerprint(nonce).high();
        let from = key.fingerprint(from.to_string().as_bytes()).high();
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = table.first.get(&nonce) {
            return first.from == from && now.saturating_sub(first.at) <= REMEMBERED;
        }
        table.insert(nonce, First { at: now, from });
        true
    }
}

impl Table {
    fn insert(&mut self, nonce: u64, first: First) {
        self.first.insert(nonce, first);
        self.order.push_back(nonce);
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

    fn nonce(number: u64) -> Nonce {
        Nonces { start: [1; 16], count: AtomicU64::new(number) }.next()
    }

    #[test]
    fn no_two_nonces_are_equal() {
        let nonces = Nonces::new([7; 16]);
        let (first, second) = (nonces.next(), nonces.next());
        assert_eq!(first[..16], [7; 16]);
        assert_ne!(first, second);
        assert_ne!(Nonces::new([8; 16]).next(), first);
    }

    #[test]
    fn no_more_keys_are_kept_than_there_is_room_for() {
        let pair = Keypair::from_secret([1; 32]);
        let shared = pair.shared_key(&pair.public()).unwrap();
        let client = |number: usize| PublicKey(std::array::from_fn(|at| number.to_le_bytes()[at % 8]));
        let mut keys = SharedKeys::default();
        for number in 0..=SHARED_KEYS_MAX {
            keys.insert([0; 8], client(number), shared.clone());
            keys.insert([0; 8], client(number), shared.clone());
        }
        assert!(keys.get([0; 8], client(0)).is_none());
        assert!(keys.get([0; 8], client(1)).is_some() && keys.get([0; 8], client(SHARED_KEYS_MAX)).is_some());
        assert!(keys.get([1; 8], client(1)).is_none(), "of another of our keys");
        assert_eq!((keys.keys.len(), keys.order.len()), (SHARED_KEYS_MAX, SHARED_KEYS_MAX));
    }

    #[test]
    fn a_change_is_admitted_again_only_from_its_client_and_soon() {
        let replays = Replays::default();
        let admits = |port, now| replays.admits(&nonce(1), address(port), &KEY, now);
        assert!(admits(1, Duration::ZERO));
        assert!(admits(1, REMEMBERED));
        assert!(!admits(1, REMEMBERED + Duration::from_nanos(1)));
        assert!(!admits(2, Duration::ZERO));
        assert!(replays.admits(&nonce(2), address(2), &KEY, Duration::ZERO));
    }

    #[test]
    fn no_more_changes_are_remembered_than_there_is_room_for() {
        let replays = Replays::default();
        let first_again = || !replays.admits(&nonce(0), address(2), &KEY, Duration::ZERO);
        for number in 0..REPLAYS_MAX as u64 {
            assert!(replays.admits(&nonce(number), address(1), &KEY, Duration::ZERO));
        }
        assert!(first_again(), "remembered");
        replays.admits(&nonce(REPLAYS_MAX as u64), address(1), &KEY, Duration::ZERO);
        assert!(!first_again(), "forgotten");
        assert_eq!(replays.table.lock().unwrap().first.len(), REPLAYS_MAX);
    }
}
