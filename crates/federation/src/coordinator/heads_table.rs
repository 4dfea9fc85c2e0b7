//! The latest heads of every followed origin, as received from a broker.
//!
//! Heads are verified, because every client with permission can publish heads. Forged heads and heads of unknown
//! servers must neither take up space nor replace other heads.

use std::collections::BTreeMap;

use bruit_engine::exchange::Origin;
use bruit_engine::realm::RealmId;

use crate::epochs::Epochs;
use crate::heads::{HEADS_BYTES_MAX, SignedHeads, UnverifiedHeads};
use crate::keys::PublicKey;
use crate::transport::{OFFER_BYTES_MAX, Offer};

/// Maximum number of incarnations per server. The heads of older incarnations are not kept.
pub const INCARNATIONS_MAX: usize = 4;
/// Maximum number of followed servers, so that all their heads fit into an offer.
pub const SERVERS_MAX: usize = OFFER_BYTES_MAX / HEADS_BYTES_MAX / INCARNATIONS_MAX;

/// A table of heads.
#[derive(Debug)]
pub struct HeadsTable {
    realm: RealmId,
    epochs: Epochs,
    changes: u64,
    servers: BTreeMap<[u8; 32], PublicKey>,
    heads: BTreeMap<Origin, SignedHeads>,
}

impl HeadsTable {
    /// Creates a table that follows no servers.
    #[must_use]
    pub const fn new(realm: RealmId, epochs: Epochs) -> Self {
        Self { realm, epochs, changes: 0, servers: BTreeMap::new(), heads: BTreeMap::new() }
    }

    /// Follows the servers with the first [`SERVERS_MAX`] of these keys, and removes the heads of all other servers.
    pub fn follow(&mut self, keys: impl IntoIterator<Item = [u8; 32]>) {
        let named = |key: [u8; 32]| Some((key, PublicKey::from_bytes(&key).ok()?));
        let servers: BTreeMap<_, _> = keys.into_iter().filter_map(named).take(SERVERS_MAX).collect();
        let before = self.heads.len();
        self.heads.retain(|origin, _| servers.contains_key(&origin.key));
        self.changes += u64::from(self.heads.len() != before);
        self.servers = servers;
    }

    /// Returns the keys of the followed servers.
    #[must_use]
    pub fn servers(&self) -> Vec<[u8; 32]> {
        self.servers.keys().copied().collect()
    }

    /// Stores heads, if they are signed by a followed server and newer than the stored heads of the same origin.
    /// Returns true if they were stored.
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        self.verified(bytes).is_some_and(|signed| {
            let origin = signed.heads.origin();
            self.heads.insert(origin, signed);
            self.forget_incarnations(origin.key);
            self.changes += 1;
            true
        })
    }

    fn verified(&self, bytes: &[u8]) -> Option<SignedHeads> {
        let heads = UnverifiedHeads::decode(bytes).ok()?;
        let origin = heads.origin();
        let kept = self.heads.get(&origin);
        // Verifying a signature is slow, and notifications are often repeated.
        if kept.is_some_and(|kept| kept.bytes == bytes) {
            return None;
        }
        let heads = heads.verify(self.realm, self.servers.get(&origin.key)?).ok()?;
        let is_news = heads.is_news(kept.map(|kept| &kept.heads), &self.epochs);
        is_news.then(|| SignedHeads { heads, bytes: bytes.to_vec() })
    }

    /// Removes all but the latest incarnations.
    fn forget_incarnations(&mut self, key: [u8; 32]) {
        let all = Origin { key, incarnation: 0 }..=Origin { key, incarnation: u64::MAX };
        while self.heads.range(all.clone()).count() > INCARNATIONS_MAX {
            let Some(first) = self.heads.range(all.clone()).next().map(|(origin, _)| *origin) else { return };
            self.heads.remove(&first);
        }
    }

    /// Returns the offer's tag. An empty offer has an empty tag. A caller that has seen no offer yet also sends an
    /// empty tag, so the first heads are news for that caller.
    #[must_use]
    pub fn tag(&self) -> Vec<u8> {
        match self.changes {
            0 => Vec::new(),
            changes => changes.to_le_bytes().to_vec(),
        }
    }

    /// Returns the latest heads of all followed origins.
    #[must_use]
    pub fn offer(&self) -> Offer {
        let heads = self.heads.values().flat_map(|signed| &signed.bytes).copied().collect();
        Offer { tag: self.tag(), heads }
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::exchange::{Book, Chain, Frontier};
    use bruit_engine::generations::LIVE_GENERATIONS;
    use bruit_engine::time::Time;

    use super::*;
    use crate::heads::{GENERATIONS_MAX, Heads as Signed};
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
        let mut heads = HeadsTable::new(REALM, Epochs::new(EPOCH, EPOCH));
        heads.follow((0..count).map(public));
        heads
    }

    fn offered(heads: &HeadsTable) -> Vec<u8> {
        heads.offer().heads
    }

    #[test]
    fn an_offer_has_the_last_heads_of_each_origin_of_interest() {
        let mut heads = following(1);
        let (old, new) = (signed(0, 1, 10), signed(0, 1, 11));
        for bytes in [&old, &new, &old, &signed(9, 1, 12), &signed(0, 1, 13)[1..]] {
            heads.put(bytes);
        }
        assert_eq!(offered(&heads), new);
        let next = signed(0, 2, 5);
        heads.put(&next);
        assert_eq!(offered(&heads), [new, next].concat());
        heads.follow([public(9)]);
        assert!(offered(&heads).is_empty());
    }

    #[test]
    fn heads_are_taken_across_many_generations() {
        let (mut heads, origin) = (following(1), Origin { key: public(0), incarnation: 1 });
        let mut before = Vec::new();
        // Runs through three times as many generations as are live. Each has a segment, with heartbeats in between.
        for time in 0..3 * LIVE_GENERATIONS * EPOCH {
            let current = time / EPOCH;
            let live = (current.saturating_sub(LIVE_GENERATIONS - 1)..=current).map(|generation| {
                let frontier = Frontier { sequence: 1, hash: [7; 32], offset: 200, entries: 1, digest: 5 };
                (Chain { origin, book: Book::Listed, generation }, frontier)
            });
            let now = Signed::new(REALM, origin, Time(time), live).sign(&key(0));
            heads.put(&now);
            assert_eq!(offered(&heads), now, "at {time}");
            heads.put(&before);
            assert_eq!(offered(&heads), now, "removed heads are not restored");
            before = now;
        }
    }

    #[test]
    fn forged_heads_and_those_of_another_realm_are_not_taken() {
        let mut heads = following(1);
        let mut forged = signed(0, 1, 10);
        *forged.last_mut().unwrap() ^= 1;
        heads.put(&forged);
        let origin = Origin { key: public(0), incarnation: 1 };
        heads.put(&Signed::new(RealmId([2; 16]), origin, Time(1), []).sign(&key(0)));
        heads.put(&Signed::new(REALM, origin, Time(1), []).sign(&key(9)));
        assert!(offered(&heads).is_empty());
    }

    #[test]
    fn heads_take_bounded_room() {
        let mut heads = following(u8::MAX);
        assert_eq!(heads.servers().len(), SERVERS_MAX);
        for number in 0..u8::MAX {
            for incarnation in 0..=INCARNATIONS_MAX as u64 {
                heads.put(&signed(number, incarnation, 1));
            }
        }
        let offered = offered(&heads);
        assert_eq!(offered.len(), SERVERS_MAX * INCARNATIONS_MAX * HEADS_BYTES_MAX);
        assert!(offered.len() <= OFFER_BYTES_MAX);
        assert!(Signed::read_all(&offered).into_iter().all(|heads| heads.unwrap().origin().incarnation > 0));
    }
}
