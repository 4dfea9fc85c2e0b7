//! Encryption state other than key pairs, namely the keys shared with clients, and nonces.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use bruit_protocols::fuzzy::{KeyId, Keypair, NONCE_BYTES, Nonce, PublicKey, SharedKey};

use crate::replays::Replays;

/// Maximum number of shared keys kept by a thread. A new key evicts the oldest. A client makes a new key at every
/// start.
pub(super) const SHARED_KEYS_MAX: usize = 1_024;

/// Length of the random prefix of a nonce.
const NONCE_START_BYTES: usize = NONCE_BYTES - size_of::<u64>();

/// The keys shared with clients.
#[derive(Default)]
pub(super) struct SharedKeys {
    keys: HashMap<(KeyId, PublicKey), SharedKey>,
    /// The cached keys, oldest first.
    order: VecDeque<(KeyId, PublicKey)>,
}

impl SharedKeys {
    /// Returns the key shared between one of our keys and a client's.
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

/// The encryption state shared by all threads.
pub(crate) struct Vault {
    /// The server's own key pair.
    pub(super) own: Keypair,
    pub(super) nonces: Nonces,
    pub(super) replays: Replays,
}

impl Vault {
    /// Creates a vault with this key pair.
    ///
    /// # Errors
    /// Fails if the system returns no random numbers.
    pub(crate) fn new(own: Keypair) -> io::Result<Self> {
        let mut start = [0; NONCE_START_BYTES];
        getrandom::fill(&mut start).map_err(io::Error::other)?;
        Ok(Self { own, nonces: Nonces::new(start), replays: Replays::default() })
    }
}

/// Generates the nonces of replies. They are unique, and the probability that one equals a client's nonce is 2^-128.
pub(super) struct Nonces {
    start: [u8; NONCE_START_BYTES],
    count: AtomicU64,
}

impl Nonces {
    /// Creates a generator of nonces that begin with `start`, which must be random.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(keys.get([1; 8], client(1)).is_none(), "the client has no shared key for this key pair");
        assert_eq!((keys.keys.len(), keys.order.len()), (SHARED_KEYS_MAX, SHARED_KEYS_MAX));
    }
}
