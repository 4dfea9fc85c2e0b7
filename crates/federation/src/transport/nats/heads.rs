//! The heads received from the broker. Tasks can wait until they change.

use std::time::Duration;

use tokio::sync::watch;

use crate::coordinator::heads_table::HeadsTable;
use crate::transport::Offer;

/// A table of heads. Tasks can wait for its changes.
#[derive(Debug)]
pub(super) struct WatchedHeads(watch::Sender<HeadsTable>);

impl WatchedHeads {
    pub(super) fn new(table: HeadsTable) -> Self {
        Self(watch::Sender::new(table))
    }

    pub(super) fn follow(&self, keys: impl IntoIterator<Item = [u8; 32]>) {
        self.0.send_modify(|table| table.follow(keys));
    }

    pub(super) fn servers(&self) -> Vec<[u8; 32]> {
        self.0.borrow().servers()
    }

    pub(super) fn put(&self, heads: &[u8]) {
        self.0.send_if_modified(|table| table.put(heads));
    }

    /// Waits up to `wait` for an offer whose tag differs from `seen`, and returns the present offer.
    pub(super) async fn offer(&self, seen: &[u8], wait: Duration) -> Offer {
        let mut receiver = self.0.subscribe();
        let news = receiver.wait_for(|table| table.tag() != seen);
        if let Ok(Ok(table)) = tokio::time::timeout(wait, news).await {
            return table.offer();
        }
        self.0.borrow().offer()
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::exchange::Origin;
    use bruit_engine::realm::RealmId;
    use bruit_engine::time::Time;

    use super::*;
    use crate::epochs::Epochs;
    use crate::heads::Heads;
    use crate::keys::NodeKey;

    fn signed(time: u64) -> Vec<u8> {
        let key = NodeKey::generate([1; 32]);
        let origin = Origin { key: *key.public().as_bytes(), incarnation: 1 };
        Heads::new(RealmId([1; 16]), origin, Time(time), []).sign(&key)
    }

    #[tokio::test]
    async fn an_offer_waits_for_news_only() {
        let heads = WatchedHeads::new(HeadsTable::new(RealmId([1; 16]), Epochs::new(4, 4)));
        heads.follow([*NodeKey::generate([1; 32]).public().as_bytes()]);
        heads.put(&signed(10));
        let first = heads.offer(b"", Duration::MAX).await;
        heads.put(&signed(10));
        assert_eq!(heads.offer(&first.tag, Duration::ZERO).await, first);
        let news = async { heads.put(&signed(11)) };
        let (second, ()) = tokio::join!(heads.offer(&first.tag, Duration::from_secs(60)), news);
        assert_eq!(second.heads, signed(11));
        assert_ne!(second.tag, first.tag);
    }
}
