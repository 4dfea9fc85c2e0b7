//! Peers whose links an operator has paused. The server sends them no requests until they are resumed or the server
//! restarts.
//!
//! The link does not know about the pause. Its source, which requests the segments, does not answer while the peer is
//! paused. So no request is lost halfway, and after the pause the link continues where it was.

use std::collections::BTreeSet;
use std::time::Duration;

use bruit_engine::exchange::Chain;
use bruit_federation::transport::{Offer, Source, TransportError};
use tokio::sync::watch;

/// The name of the state of a paused peer.
pub(crate) const PAUSED_STATE: &str = "paused";

/// The keys of the paused peers. Only current peers can be paused, so the set stays small.
#[derive(Debug)]
pub(crate) struct Paused(watch::Sender<BTreeSet<[u8; 32]>>);

impl Default for Paused {
    fn default() -> Self {
        Self(watch::Sender::new(BTreeSet::new()))
    }
}

impl Paused {
    /// Pauses or resumes a peer. Returns true if anything changed.
    pub(crate) fn set(&self, key: [u8; 32], is_paused: bool) -> bool {
        self.0.send_if_modified(|paused| if is_paused { paused.insert(key) } else { paused.remove(&key) })
    }

    /// Resumes all peers other than these.
    pub(super) fn retain(&self, keys: &BTreeSet<[u8; 32]>) {
        self.0.send_if_modified(|paused| {
            let before = paused.len();
            paused.retain(|key| keys.contains(key));
            paused.len() < before
        });
    }

    /// Returns true if a peer is paused.
    pub(crate) fn has(&self, key: &[u8; 32]) -> bool {
        self.0.borrow().contains(key)
    }

    /// Returns the source of a peer's segments that waits while the peer is paused.
    pub(super) fn pausable<S>(&self, key: [u8; 32], source: S) -> PausableSource<S> {
        PausableSource { source, key, paused: self.0.subscribe() }
    }
}

/// A source that waits while its peer is paused.
pub(super) struct PausableSource<S> {
    source: S,
    key: [u8; 32],
    paused: watch::Receiver<BTreeSet<[u8; 32]>>,
}

impl<S> PausableSource<S> {
    /// If `is_paused` is true, waits until the peer is paused. If it is false, waits until the peer is not paused.
    /// Never returns if the server stops first.
    async fn until(&self, is_paused: bool) {
        let mut paused = self.paused.clone();
        let reached = paused.wait_for(|paused| paused.contains(&self.key) == is_paused).await.is_ok();
        if !reached {
            std::future::pending::<()>().await;
        }
    }
}

impl<S: Source> Source for PausableSource<S> {
    async fn offer(&self, seen: &[u8], wait: Duration) -> Result<Offer, TransportError> {
        loop {
            self.until(false).await;
            // A peer may take a minute to answer. If a pause begins in the meantime, drop the request, because its
            // offer would be used despite the pause.
            tokio::select! {
                offer = self.source.offer(seen, wait) => return offer,
                () = self.until(true) => {}
            }
        }
    }

    async fn fetch(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        self.until(false).await;
        self.source.fetch(chain, offset).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt as _;

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    /// Answers every request at once, except that the first offer never arrives.
    #[derive(Default)]
    struct Peer {
        asked: AtomicU32,
    }

    impl Source for Peer {
        async fn offer(&self, _seen: &[u8], _wait: Duration) -> Result<Offer, TransportError> {
            if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
                std::future::pending::<()>().await;
            }
            Err(TransportError::Missing)
        }

        async fn fetch(&self, _chain: &Chain, _offset: u64) -> Result<Vec<u8>, TransportError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_paused_peer_is_not_asked_and_a_request_under_way_is_dropped() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let paused = Paused::default();
        let source = paused.pausable(KEY, Peer::default());
        assert!(paused.set([8; 32], true), "another peer");
        runtime.block_on(async {
            let mut offer = Box::pin(source.offer(b"", Duration::ZERO));
            assert!((&mut offer).now_or_never().is_none());
            assert!(paused.set(KEY, true) && !paused.set(KEY, true) && paused.has(&KEY));
            assert!((&mut offer).now_or_never().is_none());
            assert_eq!(source.source.asked.load(Ordering::SeqCst), 1);
            assert!(paused.set(KEY, false) && !paused.has(&KEY));
            assert!(offer.await.is_err(), "it is asked again");
            assert_eq!(source.source.asked.load(Ordering::SeqCst), 2);
        });
    }
}
