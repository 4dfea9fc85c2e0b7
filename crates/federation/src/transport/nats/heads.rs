//! The latest heads of every origin of interest, as far as the broker told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;

use crate::transport::{OFFER_BYTES_MAX, Offer};

/// The most bytes of one origin's heads.
pub const HEADS_BYTES_MAX: usize = 16 << 10;
/// The most origins whose heads are followed, so that an offer has room for them all.
pub const ORIGINS_MAX: usize = OFFER_BYTES_MAX / HEADS_BYTES_MAX;

/// What is known, and how often that changed.
#[derive(Debug, Default)]
struct Known {
    changes: u64,
    origins: BTreeSet<[u8; 32]>,
    heads: BTreeMap<[u8; 32], Vec<u8>>,
}

/// A table that many may wait on.
#[derive(Debug)]
pub(super) struct Heads {
    known: watch::Sender<Known>,
}

impl Heads {
    pub(super) fn new() -> Self {
        Self { known: watch::Sender::default() }
    }

    /// Follows these origins from now on, the first [`ORIGINS_MAX`] of them, and forgets all others.
    pub(super) fn follow(&self, origins: impl IntoIterator<Item = [u8; 32]>) {
        let origins: BTreeSet<_> = origins.into_iter().take(ORIGINS_MAX).collect();
        self.known.send_modify(|known| {
            let before = known.heads.len();
            known.heads.retain(|key, _| origins.contains(key));
            known.changes += u64::from(known.heads.len() != before);
            known.origins = origins;
        });
    }

    /// Whose heads are of interest.
    pub(super) fn origins(&self) -> Vec<[u8; 32]> {
        self.known.borrow().origins.iter().copied().collect()
    }

    /// Takes the heads of an origin. Those of origins without interest, and those that are too long, are passed over: what anyone
    /// may publish must not take room here.
    pub(super) fn put(&self, key: [u8; 32], heads: &[u8]) {
        self.known.send_if_modified(|known| {
            let is_news = known.heads.get(&key).is_none_or(|old| old != heads);
            let is_taken = is_news && known.origins.contains(&key) && heads.len() <= HEADS_BYTES_MAX;
            if is_taken {
                known.heads.insert(key, heads.to_vec());
                known.changes += 1;
            }
            is_taken
        });
    }

    /// Waits up to `wait` for an offer other than `seen`, and gives what there is then.
    pub(super) async fn offer(&self, seen: &[u8], wait: Duration) -> Offer {
        let mut receiver = self.known.subscribe();
        let news = receiver.wait_for(|known| known.tag() != seen);
        if let Ok(Ok(known)) = tokio::time::timeout(wait, news).await {
            return known.offer();
        }
        self.known.borrow().offer()
    }
}

impl Known {
    /// Nothing for an offer of nothing, so that the first heads are news to whoever has seen none.
    fn tag(&self) -> Vec<u8> {
        match self.changes {
            0 => Vec::new(),
            changes => changes.to_le_bytes().to_vec(),
        }
    }

    fn offer(&self) -> Offer {
        let heads = self.heads.values().flatten().copied().collect();
        Offer { tag: self.tag(), heads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn following(count: u8) -> Heads {
        let heads = Heads::new();
        heads.follow((0..count).map(|number| [number; 32]));
        heads
    }

    async fn offer(heads: &Heads) -> Offer {
        heads.offer(b"", Duration::ZERO).await
    }

    #[tokio::test]
    async fn an_offer_has_the_last_heads_of_each_origin_of_interest() {
        let heads = following(2);
        heads.put([1; 32], b"old");
        heads.put([1; 32], b"new");
        heads.put([0; 32], b"zero ");
        heads.put([9; 32], b"stranger");
        assert_eq!(offer(&heads).await.heads, b"zero new");
        heads.follow([[0; 32]]);
        assert_eq!(offer(&heads).await.heads, b"zero ");
    }

    #[tokio::test]
    async fn an_offer_waits_for_news_only() {
        let heads = following(1);
        heads.put([0; 32], b"one");
        let first = heads.offer(b"", Duration::MAX).await;
        heads.put([0; 32], b"one");
        assert_eq!(heads.offer(&first.tag, Duration::ZERO).await, first);
        let (second, ()) =
            tokio::join!(heads.offer(&first.tag, Duration::from_secs(60)), async { heads.put([0; 32], b"two") });
        assert_eq!(second.heads, b"two");
        assert_ne!(second.tag, first.tag);
    }

    #[tokio::test]
    async fn heads_take_bounded_room() {
        let heads = following(u8::MAX);
        for number in 0..u8::MAX {
            heads.put([number; 32], &[number; HEADS_BYTES_MAX]);
            heads.put([number; 32], &[number; HEADS_BYTES_MAX + 1]);
        }
        assert_eq!(offer(&heads).await.heads.len(), OFFER_BYTES_MAX);
    }
}
