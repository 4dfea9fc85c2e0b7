//! The shelf: the logs that this server offers to others, the heads that describe them, and the readable part of each
//! log.
//!
//! It contains the logs of this server's own chains and of the other nodes' chains, byte for byte as their origins
//! wrote them. This server signs new heads whenever a segment is sealed, and every [`HEARTBEAT`], so that peers can
//! distinguish an idle server from a dead one. It signs two versions: all books for nodes of the cluster, and public
//! books for everyone else. Heads of other servers are forwarded unchanged.
//!
//! | module | contents |
//! |---|---|
//! | `folder` | logs as files |
//! | `memory` | logs in memory, for tests and simulations |

mod folder;
mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use bruit_engine::Engine;
use bruit_engine::exchange::{Book, Chain, Frontier, Origin};
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;
use tokio::sync::watch;

pub use folder::LogFolder;
pub use memory::MemoryLogs;

use crate::epochs::Epochs;
use crate::heads::{Heads, SignedHeads, UnverifiedHeads};
use crate::keys::{NodeKey, PublicKey};
use crate::segment::hash;
use crate::transport::Offer;

/// Interval at which heads are signed when nothing changes. Peers must notice silence within 10 s, which allows for
/// three heartbeats.
pub const HEARTBEAT: Duration = Duration::from_millis(2_500);

/// Length of an offer's tag in bytes.
const TAG_BYTES: usize = 16;

/// A kind of reader, which decides the books it may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// A mail site with a local replica, which may read public books.
    Replica,
    /// Another operator's server, which may read public books.
    Peer,
    /// A node of the same operator, which may read all books.
    Cluster,
}

impl Reader {
    /// All kinds of readers.
    pub const ALL: [Self; 3] = [Self::Replica, Self::Peer, Self::Cluster];

    /// Returns true if the reader may read this book.
    #[must_use]
    pub const fn may_have(self, book: Book) -> bool {
        matches!(self, Self::Cluster) || book.is_public()
    }
}

/// The bytes of a shelf: logs and signed heads.
pub trait Logs: fmt::Debug + Send + Sync {
    /// Checks that logs can be written.
    ///
    /// # Errors
    /// Any I/O error.
    fn check(&self) -> io::Result<()>;

    /// Writes a segment at `offset` of its chain's log. Truncates the log there first, in case a crash left more bytes.
    /// With `sync`, the segment is on disk afterwards.
    ///
    /// # Errors
    /// [`ShelfError`]; the log is unchanged, or longer than its chain.
    fn put(&self, chain: &Chain, offset: u64, segment: &[u8], sync: bool) -> Result<(), ShelfError>;

    /// Reads the log of a chain from `offset` to at most `end`, and at most `bytes_max` bytes; returns `None` if there
    /// is no log.
    ///
    /// # Errors
    /// Any I/O error.
    fn read(&self, chain: &Chain, offset: u64, end: u64, bytes_max: usize) -> io::Result<Option<Vec<u8>>>;

    /// Returns the length of a chain's log.
    ///
    /// # Errors
    /// Any I/O error; a missing log is empty.
    fn length(&self, chain: &Chain) -> io::Result<u64>;

    /// Removes the log of a chain, if it exists.
    ///
    /// # Errors
    /// Any I/O error.
    fn remove(&self, chain: &Chain) -> io::Result<()>;

    /// Removes all logs except those to keep. Returns the number of removed logs.
    ///
    /// # Errors
    /// Any I/O error.
    fn tidy(&self, keep: &dyn Fn(&Chain) -> bool) -> io::Result<usize>;

    /// Stores signed heads of another server, replacing older ones.
    ///
    /// # Errors
    /// Any I/O error.
    fn put_heads(&self, origin: &Origin, is_public: bool, bytes: &[u8]) -> io::Result<()>;

    /// Returns all stored heads, and the contents of any other files in the same folder.
    ///
    /// # Errors
    /// Any I/O error.
    fn heads(&self) -> io::Result<Vec<Vec<u8>>>;

    /// Removes the heads of all origins except those to keep.
    ///
    /// # Errors
    /// Any I/O error.
    fn tidy_heads(&self, keep: &dyn Fn(&Origin) -> bool) -> io::Result<()>;
}

/// The reason why a segment could not be written to the shelf.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShelfError {
    /// An I/O operation failed.
    #[error("failed to write the log {log}")]
    Io {
        /// The log's file.
        log: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The log ends before the segment's offset.
    #[error("the log {log} is {length} bytes long, but the next segment begins at byte {offset}: data is missing")]
    Gap {
        /// The log's file.
        log: String,
        /// Length of the log in bytes.
        length: u64,
        /// The offset of the segment.
        offset: u64,
    },
}

/// The logs and heads that this server offers to others.
#[derive(Debug)]
pub struct Shelf {
    logs: Box<dyn Logs>,
    realm: RealmId,
    epochs: Epochs,
    key: NodeKey,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

/// The key of stored heads: their origin, and whether they contain public books only.
type HeadsKey = (Origin, bool);

#[derive(Debug, Default)]
struct State {
    /// Signed heads by origin and version.
    heads: BTreeMap<HeadsKey, SignedHeads>,
    /// The readable length of each log.
    ends: BTreeMap<Chain, u64>,
}

impl Shelf {
    /// Opens the shelf with these logs. Each log is offered up to the point to which `engine` has applied it.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn open(logs: impl Logs + 'static, key: NodeKey, engine: &Engine) -> io::Result<Self> {
        let mut ends = BTreeMap::new();
        for (chain, frontier) in engine.exchange().chains() {
            ends.insert(chain, logs.length(&chain)?.min(frontier.offset));
        }
        let heads = logs.heads()?.into_iter().filter_map(|bytes| believed(bytes, engine.realm().id())).collect();
        let state = Mutex::new(State { heads, ends });
        let (realm, epochs) = (engine.realm().id(), Epochs::of(engine.realm()));
        Ok(Self { logs: Box::new(logs), realm, epochs, key, state, changed: watch::Sender::new(0) })
    }

    /// Creates a shelf whose logs cannot be read or written at the moment. It offers nothing until the logs can be read
    /// and written, and does not change them.
    #[must_use]
    pub fn closed(logs: impl Logs + 'static, key: NodeKey, engine: &Engine) -> Self {
        let (realm, epochs) = (engine.realm().id(), Epochs::of(engine.realm()));
        Self { logs: Box::new(logs), realm, epochs, key, state: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Checks that the logs can be written.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn check(&self) -> io::Result<()> {
        self.logs.check()
    }

    /// Returns the signing key.
    #[must_use]
    pub const fn key(&self) -> &NodeKey {
        &self.key
    }

    /// Returns the realm.
    #[must_use]
    pub const fn realm(&self) -> RealmId {
        self.realm
    }

    /// Returns the epoch lengths of the shelf's realm.
    #[must_use]
    pub const fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// Writes a segment of our own to the shelf and syncs it. It is not readable before [`release`](Self::release).
    ///
    /// # Errors
    /// [`ShelfError`].
    pub fn put_own(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), ShelfError> {
        self.logs.put(chain, offset, segment, true)
    }

    /// Makes sealed segments of our own chains readable, and signs new heads.
    pub fn release(&self, own: Origin, chains: &[(Chain, Frontier)], now: Time) {
        let mut state = self.lock();
        for (chain, frontier) in chains {
            state.ends.insert(*chain, frontier.offset);
        }
        for (reader, is_public) in [(Reader::Peer, true), (Reader::Cluster, false)] {
            let readable = chains.iter().filter(|(chain, _)| reader.may_have(chain.book));
            let heads = Heads::new(self.realm, own, now, readable.copied());
            let bytes = heads.sign(&self.key);
            state.heads.insert((own, is_public), SignedHeads { heads, bytes });
        }
        drop(state);
        self.notify();
    }

    /// Stores heads of another server for forwarding, if they are later than the stored ones.
    pub fn keep_heads(&self, signed: &SignedHeads) {
        let SignedHeads { heads, bytes } = signed;
        let place = place_of(heads);
        let mut state = self.lock();
        let kept = state.heads.get(&place).map(|kept| &kept.heads);
        if !heads.is_news(kept, &self.epochs) {
            return;
        }
        // Heads are on disk before any segment that they name is accepted: if their origin loses its disk, others can
        // still learn of these segments from us. A heartbeat names no new segments and needs no write.
        let names_the_same = kept.is_some_and(|kept| heads.chains().eq(kept.chains()));
        if !names_the_same && let Err(error) = self.logs.put_heads(&heads.origin(), place.1, bytes) {
            tracing::warn!(%error, "failed to store the heads of another server");
        }
        state.heads.insert(place, signed.clone());
        drop(state);
        self.notify();
    }

    /// Stores a segment of another server for forwarding. If our log does not end where the segment begins, because a
    /// crash lost the part in between, the segment is not forwarded.
    ///
    /// A log that already contains other bytes at this offset belongs to another version of the origin's history, and
    /// is discarded.
    ///
    /// # Errors
    /// [`ShelfError`] if the segment could not be stored. It is not lost, because other servers still have it.
    pub fn keep_segment(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), ShelfError> {
        // Hold the lock throughout, because two sources may deliver the same segment.
        let mut state = self.lock();
        let end = state.ends.entry(*chain).or_default();
        if offset < *end {
            let failed = |source| ShelfError::Io { log: format!("{chain:?}"), source };
            if self.logs.read(chain, offset, *end, segment.len()).map_err(failed)?.as_deref() == Some(segment) {
                return Ok(());
            }
            *end = 0;
            self.logs.remove(chain).map_err(failed)?;
        }
        if *end != offset {
            return Ok(());
        }
        if !self.has_own(chain, offset, segment) {
            self.logs.put(chain, offset, segment, false)?;
        }
        *end += segment.len() as u64;
        Ok(())
    }

    /// Returns true if this is a segment of our own, and its log already has it at this offset. When the log of an
    /// earlier incarnation is read again, [`keep_segment`](Self::keep_segment) is called for each segment read. Writing
    /// the segment again would truncate the log, and lose the part that has not been read yet.
    fn has_own(&self, chain: &Chain, offset: u64, segment: &[u8]) -> bool {
        let is_own = chain.origin.key == *self.key.public().as_bytes();
        let stored = || self.logs.read(chain, offset, u64::MAX, segment.len());
        is_own && stored().is_ok_and(|stored| stored.as_deref() == Some(segment))
    }

    /// Discards the log of a chain, so that the chain is fetched again from the start.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn forget(&self, chain: &Chain) -> io::Result<()> {
        let mut state = self.lock();
        state.ends.remove(chain);
        self.logs.remove(chain)
    }

    /// Removes the logs of all chains that are not `live`, and the heads of origins without chains. Returns the number
    /// of removed logs.
    ///
    /// Logs of our own chains are kept until their generation is over at `now`. The logs of an earlier incarnation will
    /// be read again, and may be the only copy.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn tidy(&self, live: &BTreeSet<Chain>, now: Time) -> io::Result<usize> {
        let mut state = self.lock();
        state.ends.retain(|chain, _| live.contains(chain));
        let origins: Vec<_> = state.ends.keys().map(|chain| chain.origin).collect();
        let own = *self.key.public().as_bytes();
        let lives = state.heads.keys().filter(|(origin, _)| origin.key == own).map(|(origin, _)| origin.incarnation);
        let latest = lives.max();
        let is_ours = |origin: &Origin| origin.key == own && Some(origin.incarnation) == latest;
        state.heads.retain(|(origin, _), _| is_ours(origin) || origins.contains(origin));
        self.logs.tidy_heads(&|origin| origins.contains(origin))?;
        drop(state);
        let is_needed =
            |chain: &Chain| chain.origin.key == own && !self.epochs.is_over(chain.book, chain.generation, now);
        self.logs.tidy(&|chain| live.contains(chain) || is_needed(chain))
    }

    /// Returns the readable length of a log.
    #[must_use]
    pub fn end(&self, chain: &Chain) -> u64 {
        self.lock().ends.get(chain).copied().unwrap_or(0)
    }

    /// Returns our own chains and their readable lengths.
    #[must_use]
    pub fn own_chains(&self) -> Vec<(Chain, u64)> {
        let own = *self.key.public().as_bytes();
        self.lock()
            .ends
            .iter()
            .filter(|(chain, _)| chain.origin.key == own)
            .map(|(&chain, &end)| (chain, end))
            .collect()
    }

    /// Returns our latest heads for a reader, if there are any.
    #[must_use]
    pub fn own_heads(&self, reader: Reader) -> Option<Vec<u8>> {
        let own = *self.key.public().as_bytes();
        let state = self.lock();
        let mut ours = state
            .heads
            .iter()
            .filter(|((origin, is_public), _)| origin.key == own && *is_public == (reader != Reader::Cluster));
        // The latest incarnation comes last.
        ours.next_back().map(|(_, signed)| signed.bytes.clone())
    }

    /// Returns the number of tasks that hold a counter returned by [`changes`](Self::changes).
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.changed.receiver_count()
    }

    fn notify(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Locks the state. A poisoned lock is ignored, because no code here panics between related changes.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// Returns the heads of every origin, restricted to the books that the reader may read.
    #[must_use]
    pub fn offer(&self, reader: Reader) -> Offer {
        let state = self.lock();
        let may_have = |is_public: bool| is_public || reader == Reader::Cluster;
        let offered = state.heads.iter().filter(|((_, is_public), _)| may_have(*is_public));
        let heads: Vec<u8> = offered.flat_map(|(_, signed)| signed.bytes.iter().copied()).collect();
        let tag = hash(&heads).into_iter().take(TAG_BYTES).collect();
        Offer { tag, heads }
    }

    /// Returns the log of a chain starting at `offset`, at most `bytes_max` bytes. Returns `None` if there is no such
    /// chain.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn log(&self, chain: &Chain, offset: u64, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let end = self.lock().ends.get(chain).copied();
        match end {
            Some(end) => self.logs.read(chain, offset, end, bytes_max),
            None => Ok(None),
        }
    }

    /// Returns the log of a chain starting at `offset`, at most `bytes_max` bytes. Unlike [`log`](Self::log), it
    /// includes segments of our own that are not released yet, and any bytes that a crash left behind.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn stored(&self, chain: &Chain, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
        Ok(self.logs.read(chain, offset, u64::MAX, bytes_max)?.unwrap_or_default())
    }

    /// Returns a counter that grows whenever an offer changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// Decodes stored heads, if their signature is valid.
fn believed(bytes: Vec<u8>, realm: RealmId) -> Option<(HeadsKey, SignedHeads)> {
    let read = UnverifiedHeads::decode(&bytes).ok()?;
    let key = PublicKey::from_bytes(&read.origin().key).ok()?;
    let heads = read.verify(realm, &key).ok()?;
    Some((place_of(&heads), SignedHeads { heads, bytes }))
}

/// Returns the key under which heads are stored.
fn place_of(heads: &Heads) -> HeadsKey {
    (heads.origin(), heads.chains().all(|(chain, _)| chain.book.is_public()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_of_the_same_operator_may_read_claims() {
        for book in Book::ALL {
            assert!(Reader::Cluster.may_have(book));
            let is_conclusion = matches!(book, Book::Listed | Book::Revoked | Book::Bulk);
            assert_eq!([Reader::Replica, Reader::Peer].map(|reader| reader.may_have(book)), [is_conclusion; 2]);
        }
    }
}
