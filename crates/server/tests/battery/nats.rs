//! A real broker. The publisher's requests are carried out at once.

use std::sync::Arc;
use std::time::Duration;

use bruit_federation::coordinator::publisher::{PublishRequest, Publisher};
use bruit_federation::keys::NodeKey;
use bruit_federation::segment::split;
use bruit_federation::shelf::{Reader, Shelf};
use bruit_federation::transport::nats::{Login, NatsBroker, NatsSettings, ReadLog};
use bruit_federation::transport::{Sink, TransportError};
use tokio::runtime::Runtime;

use super::brokers::Brokers;
use super::{Carrier, until};

pub(crate) struct Nats {
    writer: NatsBroker,
    reader: NatsBroker,
    _brokers: Brokers,
}

impl Carrier for Nats {
    type Source = NatsBroker;

    fn start(runtime: &Runtime, shelf: &Arc<Shelf>) -> Self {
        let brokers = Brokers::start(1);
        let settings = NatsSettings {
            urls: brokers.urls(),
            login: Login::Anonymous,
            tls_roots: None,
            domain: None,
            replicas: 1,
            max_age: Duration::from_secs(3600),
            max_bytes: 256 << 20,
        };
        let key = *shelf.key().public().as_bytes();
        let connect = async |own: [u8; 32]| {
            // No other node answers, so that everything comes from the streams.
            let nothing: ReadLog = Arc::new(|_, _, _| None);
            let realm = (shelf.realm(), shelf.epochs());
            let broker = NatsBroker::start(&settings, realm, own, [key], nothing).await.unwrap();
            until("it connects", async || broker.is_connected().then_some(())).await;
            broker
        };
        let other = *NodeKey::generate([2; 32]).public().as_bytes();
        let (writer, reader) = runtime.block_on(async { (connect(key).await, connect(other).await) });
        Self { writer, reader, _brokers: brokers }
    }

    fn source(&self) -> &NatsBroker {
        &self.reader
    }

    async fn publish(&self, shelf: &Shelf) {
        publish_all(&self.writer, shelf, Reader::Cluster).await;
    }

    async fn announce(&self, heads: &[u8]) {
        announce(&self.writer, heads).await;
    }

    async fn repeat(&self, shelf: &Shelf) {
        repeat(&self.writer, shelf).await;
    }
}

pub(crate) async fn announce<S: Sink>(sink: &S, heads: &[u8]) {
    until("heads are announced", async || sink.announce(heads).await.ok()).await;
}

/// Publishes everything on a shelf.
pub(crate) async fn publish_all<S: Sink>(sink: &S, shelf: &Shelf, reader: Reader) {
    let mut publisher = Publisher::new(reader, "sink");
    loop {
        let result = match publisher.next(shelf) {
            PublishRequest::Wait => return,
            PublishRequest::Sleep(delay) => {
                tokio::time::sleep(delay).await;
                Ok(0)
            }
            PublishRequest::Retain(chains) => sink.retain(&chains).await.map(|()| 0),
            PublishRequest::Length(chain) => sink.published(&chain).await,
            PublishRequest::Publish { chain, at, end } => {
                let log = shelf.log(&chain, at, (end - at) as usize).unwrap().unwrap_or_default();
                publish_log(sink, &chain, at, &log).await
            }
            PublishRequest::Announce(heads) => sink.announce(&heads).await.map(|()| 0),
            PublishRequest::Archive(..) => Ok(0),
        };
        publisher.answered(result, Duration::ZERO);
    }
}

/// Publishes all segments on a shelf again.
pub(crate) async fn repeat<S: Sink>(sink: &S, shelf: &Shelf) {
    for (chain, end) in shelf.own_chains() {
        let log = shelf.log(&chain, 0, end as usize).unwrap().unwrap_or_default();
        publish_log(sink, &chain, 0, &log).await.unwrap();
    }
}

async fn publish_log<S: Sink>(
    sink: &S,
    chain: &bruit_engine::exchange::Chain,
    mut at: u64,
    log: &[u8],
) -> Result<u64, TransportError> {
    let mut rest = log;
    while let Ok(Some((segment, behind))) = split(rest) {
        sink.publish(chain, at, segment).await?;
        (at, rest) = (at + segment.len() as u64, behind);
    }
    Ok(at)
}
