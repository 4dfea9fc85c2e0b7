//! Data for other servers and replicas: offers (signed heads, which state what the logs contain), logs, and the realm.
//!
//! Two listeners serve the same paths. The plain listener is part of the HTTP API, and serves the public books. A
//! caller must have the right to check, and must be in an own network or have a token. The TLS listener is for other
//! servers. It identifies a client by its key, and the client's relation in the configuration decides what it may read.
//! A client without a known key may read nothing.
//!
//! | module | contents |
//! |---|---|
//! | `added` | peers that were added while the server ran, and their file |
//! | `answers` | requests and responses, common to both listeners |
//! | `counted_body` | response bodies whose memory is counted until they are sent |
//! | `links` | the tasks that fetch segments from other servers, and the exporter |
//! | `forgetting` | the thread that removes the data of forgotten servers |
//! | `listener` | TLS connections and the identity of their clients |
//! | `local` | the state that links and the exporter share, and the accepted origins |
//! | `peers` | the state of every peer, and its conditions |
//! | `pausing` | peers that an operator has paused |
//! | `export_task` | writes the logs for other servers, and handles a failing folder |

mod added;
mod answers;
mod counted_body;
mod export_task;
mod forgetting;
mod links;
mod listener;
mod local;
mod pausing;
mod peers;

pub use added::AddedPeersError;
pub(crate) use added::{AddedPeers, PeerChangeError};
pub(crate) use answers::{OfferQuery, Stop};
pub use links::FederationError;
pub(crate) use links::{LinkSet, Links};
pub(crate) use listener::Listener;
pub(crate) use pausing::{PAUSED_STATE, Paused};
pub(crate) use peers::FORGOTTEN_STATES;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use bruit_federation::keys::PublicKey;
use bruit_federation::shelf::Shelf;
use bruit_protocols::http::PeerStatus;
use tokio::sync::Semaphore;

use crate::config::PeerSettings;

/// Maximum number of requests waiting for an offer; further ones are answered without waiting.
pub(crate) const WAITING_MAX: usize = 256;

/// Maximum number of response bytes in memory.
pub(crate) const ANSWERS_BYTES_MAX: usize = 64 << 20;

/// The identity of this server.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The public key of this server.
    pub(crate) key: PublicKey,
    /// The path of this server's realm file.
    pub(crate) founding: PathBuf,
}

/// The data for other servers, and the state of the exchange with them.
pub(crate) struct Federation {
    shelf: RwLock<Option<Arc<Shelf>>>,
    identity: OnceLock<Identity>,
    peers: Mutex<Vec<PeerStatus>>,
    pub(crate) paused: Paused,
    pub(crate) added: AddedPeers,
    /// The links, while they run.
    links: Mutex<Option<Arc<LinkSet>>>,
    /// Number of log bytes sent to each server.
    sent: Mutex<BTreeMap<[u8; 32], u64>>,
    /// One permit for each waiting request.
    waiting: Semaphore,
    /// One permit for each byte of a response that is not sent yet.
    answers: Arc<Semaphore>,
}

impl Default for Federation {
    fn default() -> Self {
        Self {
            shelf: RwLock::default(),
            identity: OnceLock::new(),
            peers: Mutex::default(),
            paused: Paused::default(),
            added: AddedPeers::default(),
            links: Mutex::default(),
            sent: Mutex::default(),
            waiting: Semaphore::new(WAITING_MAX),
            answers: Arc::new(Semaphore::new(ANSWERS_BYTES_MAX)),
        }
    }
}

impl Federation {
    /// Sets the logs and heads to serve.
    pub(crate) fn share(&self, shelf: Arc<Shelf>) {
        *self.shelf.write().unwrap_or_else(PoisonError::into_inner) = Some(shelf);
    }

    /// Sets this server's identity. Later calls have no effect.
    pub(crate) fn identify(&self, identity: Identity) {
        let _ = self.identity.set(identity);
    }

    /// Returns this server's public key in text form.
    pub(crate) fn key(&self) -> String {
        self.identity.get().map(|identity| identity.key.to_string()).unwrap_or_default()
    }

    /// Sets the running links.
    fn set_links(&self, links: Option<Arc<LinkSet>>) {
        *self.links.lock().unwrap_or_else(PoisonError::into_inner) = links;
    }

    /// Puts the peers of the current settings into effect.
    pub(crate) fn apply(&self) -> Result<(), FederationError> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner).clone();
        links.map_or(Ok(()), |links| links.apply())
    }

    /// Drops what is known about peers other than these.
    fn retain(&self, peers: &[PeerSettings]) {
        let keys: BTreeSet<[u8; 32]> = peers.iter().map(|peer| *peer.key.as_bytes()).collect();
        self.paused.retain(&keys);
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| keys.contains(key));
    }

    /// Stores the state of the peers.
    pub(crate) fn set_peer_status(&self, peers: Vec<PeerStatus>) {
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// Returns the state of the peers.
    pub(crate) fn peers(&self) -> Vec<PeerStatus> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts bytes sent to a server. Only peers are served, so the map stays small.
    pub(crate) fn count_sent(&self, key: [u8; 32], bytes: u64) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += bytes;
    }

    /// Returns the number of bytes sent to a server.
    pub(crate) fn sent_to(&self, key: &[u8; 32]) -> u64 {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied().unwrap_or(0)
    }

    /// Reads the realm file.
    fn founding(&self) -> io::Result<Vec<u8>> {
        let identity = self.identity.get().ok_or(io::ErrorKind::NotFound)?;
        std::fs::read(&identity.founding)
    }
}
