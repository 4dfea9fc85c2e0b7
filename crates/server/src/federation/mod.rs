//! What other servers and replicas ask for: offers, logs, and the realm.
//!
//! The same paths on two listeners. On the plain one, the HTTP API, whoever may check from own networks or with a token has
//! the public books. On the one for other servers, over TLS, a key says who asks, and the relation in the configuration what
//! they may have; who has an unknown key, or none, has nothing.
//!
//! | module | what it is |
//! |---|---|
//! | `answers` | what is asked, and what is answered, whoever asks |
//! | `held` | bodies that are counted until they are sent |
//! | `links` | the other way round: who is asked, and what they are told |
//! | `listener` | connections over TLS, and who is at the other end |
//! | `peers` | the state of every other server, and its problems |
//! | `telling` | writing the logs that others read, and handling a folder that fails |

mod answers;
mod held;
mod links;
mod listener;
mod peers;
mod telling;

pub(crate) use answers::{OfferQuery, Stop};
pub use links::FederationError;
pub(crate) use links::Links;
pub(crate) use listener::Listener;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use bruit_federation::keys::PublicKey;
use bruit_federation::stock::Stock;
use bruit_protocols::http::PeerStatus;
use tokio::sync::Semaphore;

/// Requests that may wait for another offer at once; more are answered without waiting.
pub(crate) const WAITING_MAX: usize = 256;

/// Bytes of answers that are held at once.
pub(crate) const ANSWERS_BYTES_MAX: usize = 64 << 20;

/// Which server this is.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Its public key.
    pub(crate) key: PublicKey,
    /// The file of its realm.
    pub(crate) founding: PathBuf,
}

/// What there is for others, and how it goes with them.
pub(crate) struct Federation {
    stock: RwLock<Option<Arc<dyn Stock>>>,
    identity: OnceLock<Identity>,
    peers: Mutex<Vec<PeerStatus>>,
    /// Bytes of logs that each server was sent.
    sent: Mutex<BTreeMap<[u8; 32], u64>>,
    /// A permit for each request that waits.
    waiting: Semaphore,
    /// A permit for each byte of an answer that is not sent yet.
    answers: Arc<Semaphore>,
}

impl Default for Federation {
    fn default() -> Self {
        Self {
            stock: RwLock::default(),
            identity: OnceLock::new(),
            peers: Mutex::default(),
            sent: Mutex::default(),
            waiting: Semaphore::new(WAITING_MAX),
            answers: Arc::new(Semaphore::new(ANSWERS_BYTES_MAX)),
        }
    }
}

impl Federation {
    /// Serves from this stock from now on.
    pub(crate) fn share(&self, stock: Arc<dyn Stock>) {
        *self.stock.write().unwrap_or_else(PoisonError::into_inner) = Some(stock);
    }

    /// Says which server this is, once.
    pub(crate) fn identify(&self, identity: Identity) {
        let _ = self.identity.set(identity);
    }

    /// The public key of this server, as it is written.
    pub(crate) fn key(&self) -> String {
        self.identity.get().map(|identity| identity.key.to_string()).unwrap_or_default()
    }

    /// Remembers how it goes with the other servers.
    pub(crate) fn tell_peers(&self, peers: Vec<PeerStatus>) {
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// How it goes with them.
    pub(crate) fn peers(&self) -> Vec<PeerStatus> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts what a server is sent. Only those of the configuration are served, so there are few.
    pub(crate) fn count_sent(&self, key: [u8; 32], bytes: u64) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += bytes;
    }

    /// What a server was sent.
    pub(crate) fn sent_to(&self, key: &[u8; 32]) -> u64 {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied().unwrap_or(0)
    }

    /// The bytes of the realm's file.
    fn founding(&self) -> io::Result<Vec<u8>> {
        let identity = self.identity.get().ok_or(io::ErrorKind::NotFound)?;
        std::fs::read(&identity.founding)
    }
}
