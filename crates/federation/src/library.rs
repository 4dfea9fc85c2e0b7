//! The library: a shelf of logs, the heads that describe them, and the readable part of each log.
//!
//! This server signs new heads whenever a segment is sealed, and every [`HEARTBEAT`], so that peers can distinguish an
//! idle server from a dead one. It signs two versions: all books for nodes of the cluster, and public books for
//! everyone else. Heads of other servers are forwarded unchanged.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bruit_engine::Engine;
use bruit_engine::exchange::{Chain, Frontier, Origin, Relation};
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;
use tokio::sync::watch;

use crate::epochs::Epochs;
use crate::heads::{Heads, UnverifiedHeads};
use crate::keys::{NodeKey, PublicKey};
use crate::segment::hash;
use crate::shelf::{Shelf, ShelfError};
use crate::stock::{Reader, Stock};
use crate::transport::Offer;

/// Interval at which heads are signed when nothing changes. Peers must notice silence within 10 s, which allows for
/// three heartbeats.
pub const HEARTBEAT: Duration = Duration::from_millis(2_500);

/// Length of an offer's tag in bytes.
const TAG_BYTES: usize = 16;

/// The logs and heads that this server offers to others.
#[derive(Debug)]
pub struct Library {
    shelf: Shelf,
    realm: RealmId,
    epochs: Epochs,
    key: NodeKey,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

/// The key of stored heads: their origin, and whether they contain public books only.
type Place = (Origin, bool);

/// Heads, and the bytes that their origin signed.
type SignedHeads = (Heads, Vec<u8>);

#[derive(Debug, Default)]
struct State {
    /// Signed heads by origin and version.
    heads: BTreeMap<Place, SignedHeads>,
    /// The readable length of each log.
    ends: BTreeMap<Chain, u64>,
}

impl Library {
    /// Opens the library on a shelf. Each log is offered up to the point to which `engine` has applied it.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn open(shelf: Shelf, key: NodeKey, engine: &Engine) -> io::Result<Self> {
        let mut ends = BTreeMap::new();
        for (chain, frontier) in engine.exchange().chains() {
            ends.insert(chain, shelf.length(&chain)?.min(frontier.offset));
        }
        let heads = shelf.heads()?.into_iter().filter_map(|bytes| believed(bytes, engine.realm().id())).collect();
        let state = Mutex::new(State { heads, ends });
        let (realm, epochs) = (engine.realm().id(), Epochs::of(engine.realm()));
        Ok(Self { shelf, realm, epochs, key, state, changed: watch::Sender::new(0) })
    }

    /// Creates a library on a shelf that cannot be read or written at the moment. It offers nothing until the shelf
    /// works; the logs are not changed.
    #[must_use]
    pub fn closed(shelf: Shelf, key: NodeKey, engine: &Engine) -> Self {
        let (realm, epochs) = (engine.realm().id(), Epochs::of(engine.realm()));
        Self { shelf, realm, epochs, key, state: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Checks that the shelf can be written.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn check_shelf(&self) -> io::Result<()> {
        self.shelf.check()
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

    /// Returns the epoch lengths of its realm.
    #[must_use]
    pub const fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// Writes a segment of our own to the shelf and syncs it. It is not readable before [`release`](Self::release).
    ///
    /// # Errors
    /// [`ShelfError`].
    pub fn put_own(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), ShelfError> {
        self.shelf.put(chain, offset, segment, true)
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
            state.heads.insert((own, is_public), (heads, bytes));
        }
        drop(state);
        self.tell();
    }

    /// Stores heads of another server for forwarding, if they are later than the stored ones.
    pub fn keep(&self, heads: &Heads, bytes: &[u8]) {
        let place = place_of(heads);
        let mut state = self.lock();
        let kept = state.heads.get(&place).map(|(kept, _)| kept);
        if kept.is_some_and(|kept| heads == kept || !heads.replaces(kept, &self.epochs)) {
            return;
        }
        // Heads are on disk before any segment that they name is accepted: if their origin loses its disk, others can
        // still learn of these segments from us. A heartbeat names no new segments and needs no write.
        let names_the_same = kept.is_some_and(|kept| heads.chains().eq(kept.chains()));
        if !names_the_same && let Err(error) = self.shelf.put_heads(&heads.origin(), place.1, bytes) {
            tracing::warn!(%error, "failed to store the heads of another server");
        }
        state.heads.insert(place, (heads.clone(), bytes.to_vec()));
        drop(state);
        self.tell();
    }

    /// Stores a segment of another server for forwarding. If our log does not end where the segment begins, because a
    /// crash lost the part in between, the segment is not forwarded.
    ///
    /// # Errors
    /// [`ShelfError`]; other servers still have the segment.
    pub fn keep_segment(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), ShelfError> {
        // Hold the lock throughout, because two sources may deliver the same segment.
        let mut state = self.lock();
        let end = state.ends.entry(*chain).or_default();
        if *end != offset {
            return Ok(());
        }
        self.shelf.put(chain, offset, segment, false)?;
        *end += segment.len() as u64;
        Ok(())
    }

    /// Discards the log of a chain, so that the chain is fetched again from the start.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn forget(&self, chain: &Chain) -> io::Result<()> {
        let mut state = self.lock();
        state.ends.remove(chain);
        self.shelf.remove(chain)
    }

    /// Removes logs of expired generations and of servers that are no longer known. Returns their number.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn tidy(&self, engine_keeps: impl Fn(&Chain) -> bool) -> io::Result<usize> {
        let mut state = self.lock();
        state.ends.retain(|chain, _| engine_keeps(chain));
        let origins: Vec<_> = state.ends.keys().map(|chain| chain.origin).collect();
        let own = *self.key.public().as_bytes();
        let lives = state.heads.keys().filter(|(origin, _)| origin.key == own).map(|(origin, _)| origin.incarnation);
        let latest = lives.max();
        let is_ours = |origin: &Origin| origin.key == own && Some(origin.incarnation) == latest;
        state.heads.retain(|(origin, _), _| is_ours(origin) || origins.contains(origin));
        self.shelf.tidy_heads(|origin| origins.contains(origin))?;
        drop(state);
        self.shelf.tidy(engine_keeps)
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
        ours.next_back().map(|(_, (_, bytes))| bytes.clone())
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Locks the state. A poisoned lock is ignored, because no code here panics between related changes.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stock for Library {
    fn offer(&self, reader: Reader) -> Offer {
        let state = self.lock();
        let may_have = |is_public: bool| is_public || reader == Reader::Cluster;
        let offered = state.heads.iter().filter(|((_, is_public), _)| may_have(*is_public));
        let heads: Vec<u8> = offered.flat_map(|(_, (_, bytes))| bytes.iter().copied()).collect();
        let tag = hash(&heads).into_iter().take(TAG_BYTES).collect();
        Offer { tag, heads }
    }

    fn log(&self, chain: &Chain, offset: u64, bytes_max: usize) -> Result<Option<Vec<u8>>, io::Error> {
        let end = self.lock().ends.get(chain).copied();
        match end {
            Some(end) => self.shelf.read(chain, offset, end, bytes_max),
            None => Ok(None),
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// Decodes stored heads, if their signature is valid.
fn believed(bytes: Vec<u8>, realm: RealmId) -> Option<(Place, SignedHeads)> {
    let read = UnverifiedHeads::decode(&bytes).ok()?;
    let key = PublicKey::from_bytes(&read.origin().key).ok()?;
    let heads = read.verify(realm, &key).ok()?;
    Some((place_of(&heads), (heads, bytes)))
}

/// Returns the key under which heads are stored.
fn place_of(heads: &Heads) -> Place {
    (heads.origin(), heads.chains().all(|(chain, _)| chain.book.is_public()))
}

/// Returns true if a server's segments are forwarded: those of nodes, and our own.
#[must_use]
pub fn is_passed_on(engine: &Engine, origin: &Origin) -> bool {
    engine.exchange().relation(origin) == Some(Relation::Cluster)
}
