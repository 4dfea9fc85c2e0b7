//! The broker of the simulated networks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bruit_engine::exchange::Chain;
use bruit_federation::coordinator::heads_table::HeadsTable;
use bruit_federation::shelf::{Reader, Shelf};
use bruit_federation::simulation::Broker;
use bruit_federation::transport::{FETCH_BYTES_MAX, Offer, Sink, Source, TransportError};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::{Carrier, nats};

/// The broker and the heads that the reader has received from it.
pub(crate) struct Simulated(Mutex<(Broker, HeadsTable)>);

impl Carrier for Simulated {
    type Source = Self;

    fn start(_runtime: &Runtime, shelf: &Arc<Shelf>) -> Self {
        let mut table = HeadsTable::new(shelf.realm(), shelf.epochs());
        table.follow([*shelf.key().public().as_bytes()]);
        Self(Mutex::new((Broker::default(), table)))
    }

    fn source(&self) -> &Self {
        self
    }

    async fn publish(&self, shelf: &Shelf) {
        nats::publish_all(self, shelf, Reader::Cluster).await;
    }

    async fn announce(&self, heads: &[u8]) {
        nats::announce(self, heads).await;
    }

    async fn repeat(&self, shelf: &Shelf) {
        nats::repeat(self, shelf).await;
    }
}

impl Sink for Simulated {
    async fn publish(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), TransportError> {
        self.0.lock().unwrap().0.publish(chain, offset, segment);
        Ok(())
    }

    async fn published(&self, chain: &Chain) -> Result<u64, TransportError> {
        Ok(self.0.lock().unwrap().0.published(chain))
    }

    async fn announce(&self, heads: &[u8]) -> Result<(), TransportError> {
        let (broker, table) = &mut *self.0.lock().unwrap();
        broker.announce(heads);
        table.put(heads);
        Ok(())
    }
}

impl Source for Simulated {
    async fn offer(&self, seen: &[u8], wait: Duration) -> Result<Offer, TransportError> {
        let end = Instant::now() + wait;
        loop {
            let offer = self.0.lock().unwrap().1.offer();
            if offer.tag != seen || Instant::now() >= end {
                return Ok(offer);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn fetch(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        let mut log = self.0.lock().unwrap().0.read(chain, offset);
        log.truncate(FETCH_BYTES_MAX);
        if log.is_empty() { Err(TransportError::Missing) } else { Ok(log) }
    }
}
