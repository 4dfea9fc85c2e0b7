//! What this server has for others: its shelf of logs, the heads that say what is on it, and how far each log may be read.
//!
//! Heads of this server are signed anew whenever something was sealed, and every [`HEARTBEAT`] so that others can tell silence
//! from absence. Twice: all books for nodes of the cluster, and public books for everyone else. Heads of other servers are
//! passed on as they were signed.

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

/// The interval at which heads are signed when nothing changes. Others must notice silence within 10 s, which leaves room for
/// three.
pub const HEARTBEAT: Duration = Duration::from_millis(2_500);

/// The bytes of an offer's name.
const TAG_BYTES: usize = 16;

/// What this server has for others.
#[derive(Debug)]
pub struct Library {
    shelf: Shelf,
    realm: RealmId,
    epochs: Epochs,
    key: NodeKey,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

/// Under which heads are kept: whose they are, and whether of public books only.
type Place = (Origin, bool);

/// Heads, and the bytes that their origin signed.
type Signed = (Heads, Vec<u8>);

#[derive(Debug, Default)]
struct State {
    /// Signed heads, and whether they are of public books only.
    heads: BTreeMap<Place, Signed>,
    /// How far each log may be read.
    ends: BTreeMap<Chain, u64>,
}

impl Library {
    /// The library on a shelf. What is on it is offered as far as `engine` knows of it.
    ///
    /// # Errors
    /// The error of the disk.
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

    /// The library on a shelf that cannot be read or written now. It offers nothing until the shelf works; the logs stay as they
    /// are.
    #[must_use]
    pub fn closed(shelf: Shelf, key: NodeKey, engine: &Engine) -> Self {
        let (realm, epochs) = (engine.realm().id(), Epochs::of(engine.realm()));
        Self { shelf, realm, epochs, key, state: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Checks that the shelf can be written.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn check_shelf(&self) -> io::Result<()> {
        self.shelf.check()
    }

    /// The key that signs.
    #[must_use]
    pub const fn key(&self) -> &NodeKey {
        &self.key
    }

    /// The realm.
    #[must_use]
    pub const fn realm(&self) -> RealmId {
        self.realm
    }

    /// The lengths of its realm's epochs.
    #[must_use]
    pub const fn epochs(&self) -> Epochs {
        self.epochs
    }

    /// Puts a segment of our own on the shelf, synced, which nobody may read before [`release`](Self::release).
    ///
    /// # Errors
    /// [`ShelfError`].
    pub fn put_own(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), ShelfError> {
        self.shelf.put(chain, offset, segment, true)
    }

    /// Lets others read what is sealed of our own chains, and says so in new heads.
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

    /// Keeps heads of another server, to pass them on, if they are later than those that are kept.
    pub fn keep(&self, heads: &Heads, bytes: &[u8]) {
        let place = place_of(heads);
        let mut state = self.lock();
        let kept = state.heads.get(&place).map(|(kept, _)| kept);
        if kept.is_some_and(|kept| heads == kept || !heads.replaces(kept, &self.epochs)) {
            return;
        }
        // Heads are on disk before any segment that they name is accepted: if their origin loses its disk, others learn from us
        // how far it got. A heartbeat names nothing new and needs no write.
        let names_the_same = kept.is_some_and(|kept| heads.chains().eq(kept.chains()));
        if !names_the_same && let Err(error) = self.shelf.put_heads(&heads.origin(), place.1, bytes) {
            tracing::warn!(%error, "failed to keep the heads of another server");
        }
        state.heads.insert(place, (heads.clone(), bytes.to_vec()));
        drop(state);
        self.tell();
    }

    /// Keeps a segment of another server, to pass it on. One whose log here does not end where it begins is not passed on: a crash
    /// lost the part between.
    ///
    /// # Errors
    /// [`ShelfError`]; others still have it.
    pub fn keep_segment(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), ShelfError> {
        // Under the lock: two sources may bring the same segment.
        let mut state = self.lock();
        let end = state.ends.entry(*chain).or_default();
        if *end != offset {
            return Ok(());
        }
        self.shelf.put(chain, offset, segment, false)?;
        *end += segment.len() as u64;
        Ok(())
    }

    /// Forgets how much of a chain is there: it is taken again from the start.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn forget(&self, chain: &Chain) -> io::Result<()> {
        let mut state = self.lock();
        state.ends.remove(chain);
        self.shelf.remove(chain)
    }

    /// Removes what is of generations that are over, or of servers that are no longer heard.
    ///
    /// # Errors
    /// The error of the disk.
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

    /// How far a log may be read.
    #[must_use]
    pub fn end(&self, chain: &Chain) -> u64 {
        self.lock().ends.get(chain).copied().unwrap_or(0)
    }

    /// Our own chains, and how far they may be read.
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

    /// The latest heads of our own that a reader may have, if there are any.
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

    /// Nothing here panics half-way, so a poisoned state is a good one.
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

/// Heads that were kept, if their origin signed them.
fn believed(bytes: Vec<u8>, realm: RealmId) -> Option<(Place, Signed)> {
    let read = UnverifiedHeads::decode(&bytes).ok()?;
    let key = PublicKey::from_bytes(&read.origin().key).ok()?;
    let heads = read.verify(realm, &key).ok()?;
    Some((place_of(&heads), (heads, bytes)))
}

/// Under which name heads are kept: whose they are, and whether of public books only.
fn place_of(heads: &Heads) -> Place {
    (heads.origin(), heads.chains().all(|(chain, _)| chain.book.is_public()))
}

/// Whether a server's segments are passed on: those of nodes, and our own.
#[must_use]
pub fn is_passed_on(engine: &Engine, origin: &Origin) -> bool {
    engine.exchange().relation(origin) == Some(Relation::Cluster)
}
