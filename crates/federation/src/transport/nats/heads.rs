//! The latest heads of every followed origin, as received from the broker.
//!
//! This module verifies them: every client with permission can publish heads, and forged heads or those of unknown
//! servers must neither take up space nor replace others.

use std::collections::BTreeMap;
use std::time::Duration;

use bruit_engine::exchange::Origin;
use bruit_engine::realm::RealmId;
use tokio::sync::watch;

use crate::epochs::Epochs;
use crate::heads::{HEADS_BYTES_MAX, Heads as Signed, UnverifiedHeads};
use crate::keys::PublicKey;
use crate::transport::{OFFER_BYTES_MAX, Offer};

/// Maximum number of incarnations of a server whose heads are kept: the latest ones.
pub const INCARNATIONS_MAX: usize = 4;
/// Maximum number of followed servers, so that all their heads fit into an offer.
pub const SERVERS_MAX: usize = OFFER_BYTES_MAX / HEADS_BYTES_MAX / INCARNATIONS_MAX;

/// A table of heads. Tasks can wait for its changes.
#[derive(Debug)]
pub(super) struct HeadsTable {
    realm: RealmId,
    epochs: Epochs,
    known: watch::Sender<HeadsState>,
}

/// The heads, and the number of changes.
#[derive(Debug, Default)]
struct HeadsState {
    changes: u64,
    servers: BTreeMap<[u8; 32], PublicKey>,
    heads: BTreeMap<Origin, (Signed, Vec<u8>)>,
}

impl HeadsTable {
    pub(super) fn new(realm: RealmId, epochs: Epochs) -> Self {
        Self { realm, epochs, known: watch::Sender::default() }
    }

    /// Sets the followed servers, the first [`SERVERS_MAX`] of these keys, and removes all others.
    pub(super) fn follow(&self, keys: impl IntoIterator<Item = [u8; 32]>) {
        let named = |key: [u8; 32]| Some((key, PublicKey::from_bytes(&key).ok()?));
        let servers: BTreeMap<_, _> = keys.into_iter().filter_map(named).take(SERVERS_MAX).collect();
        self.known.send_modify(|known| {
            let before = known.heads.len();
            known.heads.retain(|origin, _| servers.contains_key(&origin.key));
            known.changes += u64::from(known.heads.len() != before);
            known.servers = servers;
        });
    }

    /// Returns the keys of the followed servers.
    pub(super) fn servers(&self) -> Vec<[u8; 32]> {
        self.known.borrow().servers.keys().copied().collect()
    }

    /// Stores heads, if they are signed by a followed server and not older than its stored ones.
    pub(super) fn put(&self, heads: &[u8]) {
        self.known.send_if_modified(|known| known.put(heads, self.realm, &self.epochs).is_some());
    }

    /// Waits up to `wait` for an offer whose tag differs from `seen`, and returns the present offer.
    pub(super) async fn offer(&self, seen: &[u8], wait: Duration) -> Offer {
        let mut receiver = self.known.subscribe();
        let news = receiver.wait_for(|known| known.tag() != seen);
        if let Ok(Ok(known)) = tokio::time::timeout(wait, news).await {
            return known.offer();
        }
        self.known.borrow().offer()
    }
}

impl HeadsState {
    fn put(&mut self, bytes: &[u8], realm: RealmId, epochs: &Epochs) -> Option<()> {
        let heads = UnverifiedHeads::decode(bytes).ok()?;
        let origin = heads.origin();
        let old = self.heads.get(&origin);
        if old.is_some_and(|(_, old)| old == bytes) {
            return None;
        }
        let heads = heads.verify(realm, self.servers.get(&origin.key)?).ok()?;
        if old.is_some_and(|(old, _)| !heads.replaces(old, epochs)) {
            return None;
        }
        self.heads.insert(origin, (heads, bytes.to_vec()));
        self.forget_incarnations(origin.key);
        self.changes += 1;
        Some(())
    }

    /// Removes all but the latest incarnations.
    fn forget_incarnations(&mut self, key: [u8; 32]) {
        let all = Origin { key, incarnation: 0 }..=Origin { key, incarnation: u64::MAX };
        while self.heads.range(all.clone()).count() > INCARNATIONS_MAX {
            let Some(first) = self.heads.range(all.clone()).next().map(|(origin, _)| *origin) else { return };
            self.heads.remove(&first);
        }
    }

    /// Returns the offer's tag. It is empty for an empty offer, so that the first heads are new to a caller without a
    /// tag.
    fn tag(&self) -> Vec<u8> {
        match self.changes {
            0 => Vec::new(),
            changes => changes.to_le_bytes().to_vec(),
        }
    }

    fn offer(&self) -> Offer {
        let heads = self.heads.values().flat_map(|(_, bytes)| bytes).copied().collect();
        Offer { tag: self.tag(), heads }
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::exchange::{Book, Chain, Frontier};
    use bruit_engine::generations::LIVE_GENERATIONS;
    use bruit_engine::time::Time;

    use super::*;
    use crate::heads::GENERATIONS_MAX;
    use crate::keys::NodeKey;

    const REALM: RealmId = RealmId([1; 16]);
    const EPOCH: u64 = 4;

    fn key(number: u8) -> NodeKey {
        NodeKey::generate([number; 32])
    }

    fn public(number: u8) -> [u8; 32] {
        *key(number).public().as_bytes()
    }

    /// Returns heads of the maximum length.
    fn signed(number: u8, incarnation: u64, time: u64) -> Vec<u8> {
        let origin = Origin { key: public(number), incarnation };
        let frontier = Frontier { sequence: 1, hash: [7; 32], offset: 200, entries: 1, digest: 5 };
        let books = Book::ALL.into_iter().flat_map(|book| (0..GENERATIONS_MAX as u64).map(move |epoch| (book, epoch)));
        let chains = books.map(|(book, generation)| (Chain { origin, book, generation }, frontier));
        Signed::new(REALM, origin, Time(time), chains).sign(&key(number))
    }

    fn following(count: u8) -> HeadsTable {
        let heads = HeadsTable::new(REALM, Epochs::new(EPOCH, EPOCH));
        heads.follow((0..count).map(public));
        heads
    }

    async fn offered(heads: &HeadsTable) -> Vec<u8> {
        heads.offer(b"", Duration::ZERO).await.heads
    }

    #[tokio::test]
    async fn an_offer_has_the_last_heads_of_each_origin_of_interest() {
        let heads = following(1);
        let (old, new) = (signed(0, 1, 10), signed(0, 1, 11));
        for bytes in [&old, &new, &old, &signed(9, 1, 12), &signed(0, 1, 13)[1..]] {
            heads.put(bytes);
        }
        assert_eq!(offered(&heads).await, new);
        let next = signed(0, 2, 5);
        heads.put(&next);
        assert_eq!(offered(&heads).await, [new, next].concat());
        heads.follow([public(9)]);
        assert!(offered(&heads).await.is_empty());
    }

    #[tokio::test]
    async fn heads_are_taken_across_many_generations() {
        let (heads, origin) = (following(1), Origin { key: public(0), incarnation: 1 });
        let mut before = Vec::new();
        // Three times as many generations as are live, with a segment in each and heartbeats in between.
        for time in 0..3 * LIVE_GENERATIONS * EPOCH {
            let current = time / EPOCH;
            let live = (current.saturating_sub(LIVE_GENERATIONS - 1)..=current).map(|generation| {
                let frontier = Frontier { sequence: 1, hash: [7; 32], offset: 200, entries: 1, digest: 5 };
                (Chain { origin, book: Book::Listed, generation }, frontier)
            });
            let now = Signed::new(REALM, origin, Time(time), live).sign(&key(0));
            heads.put(&now);
            assert_eq!(offered(&heads).await, now, "at {time}");
            heads.put(&before);
            assert_eq!(offered(&heads).await, now, "removed heads are not restored");
            before = now;
        }
    }

    #[tokio::test]
    async fn forged_heads_and_those_of_another_realm_are_not_taken() {
        let heads = following(1);
        let mut forged = signed(0, 1, 10);
        *forged.last_mut().unwrap() ^= 1;
        heads.put(&forged);
        let origin = Origin { key: public(0), incarnation: 1 };
        heads.put(&Signed::new(RealmId([2; 16]), origin, Time(1), []).sign(&key(0)));
        heads.put(&Signed::new(REALM, origin, Time(1), []).sign(&key(9)));
        assert!(offered(&heads).await.is_empty());
    }

    #[tokio::test]
    async fn an_offer_waits_for_news_only() {
        let heads = following(1);
        heads.put(&signed(0, 1, 10));
        let first = heads.offer(b"", Duration::MAX).await;
        heads.put(&signed(0, 1, 10));
        assert_eq!(heads.offer(&first.tag, Duration::ZERO).await, first);
        let news = async { heads.put(&signed(0, 1, 11)) };
        let (second, ()) = tokio::join!(heads.offer(&first.tag, Duration::from_secs(60)), news);
        assert_eq!(second.heads, signed(0, 1, 11));
        assert_ne!(second.tag, first.tag);
    }

    #[tokio::test]
    async fn heads_take_bounded_room() {
        let heads = following(u8::MAX);
        assert_eq!(heads.servers().len(), SERVERS_MAX);
        for number in 0..u8::MAX {
            (0..=INCARNATIONS_MAX as u64).for_each(|incarnation| heads.put(&signed(number, incarnation, 1)));
        }
        let offered = offered(&heads).await;
        assert_eq!(offered.len(), SERVERS_MAX * INCARNATIONS_MAX * HEADS_BYTES_MAX);
        assert!(offered.len() <= OFFER_BYTES_MAX);
        assert!(Signed::read_all(&offered).into_iter().all(|heads| heads.unwrap().origin().incarnation > 0));
    }
}
