//! The server that follows the origin: an engine and a receiver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bruit_engine::Engine;
use bruit_engine::bulk::MANY;
use bruit_engine::event::Event;
use bruit_engine::exchange::{Chain, Frontier, Origin as Identity, OriginChange, Relation, Terms};
use bruit_engine::trust::Standing;
use bruit_federation::coordinator::Moment;
use bruit_federation::coordinator::judge::Known;
use bruit_federation::coordinator::receiver::{Receiver, Request, Retry};
use bruit_federation::epochs::Epochs;
use bruit_federation::keys::NodeKey;
use bruit_federation::transport::Source;

use super::origin::{Origin, blank, tick};
use super::{PATIENCE, SHORT};

/// A server that follows an origin.
pub(crate) struct Reader {
    engine: Engine,
    receiver: Receiver,
    known: Arc<Known>,
    origin: [u8; 32],
    began: Instant,
}

impl Reader {
    /// Creates a node of the origin's cluster.
    pub(crate) fn of(origin: &Origin) -> Self {
        let mut engine = blank(origin.now);
        let key = origin.shelf.key().public();
        let terms = Terms { relation: Relation::Cluster, standing: Standing::Pinned, group: 0, cap: MANY };
        let own = Identity { key: *NodeKey::generate([2; 32]).public().as_bytes(), incarnation: 1 };
        for change in
            [OriginChange::Begin { origin: own, cluster: true }, OriginChange::Join { key: *key.as_bytes(), terms }]
        {
            engine.apply(&Event::Origin { now: origin.now, change });
        }
        let epochs = Epochs::of(engine.realm());
        let receiver = Receiver::new("origin", engine.realm().id(), epochs, Retry::LINK);
        let (known, origin) = (Arc::new(Known::new([(key, Relation::Cluster)])), *key.as_bytes());
        Self { engine, receiver, known, origin, began: Instant::now() }
    }

    pub(crate) fn advance_to(&mut self, origin: &Origin) {
        tick(&mut self.engine, origin.now);
    }

    pub(crate) fn at(&self, chain: &Chain) -> Frontier {
        self.engine.exchange().frontier(chain)
    }

    pub(crate) fn segments(&self) -> u64 {
        self.engine.exchange().chains().map(|(_, at)| at.sequence).sum()
    }

    /// Returns the number of refused segments and heads.
    pub(crate) fn refusals(&self) -> u64 {
        let transient = ["not_yet", "expired", "not_next", "already_taken"];
        let rejected = self.receiver.status().rejected.iter();
        rejected.filter(|(reason, _)| !transient.contains(reason)).map(|(_, count)| count).sum()
    }

    /// Returns the number of refused bytes of the origin.
    pub(crate) fn charged(&self) -> u64 {
        self.receiver.refused_bytes(&self.origin)
    }

    /// Follows a source until all chains of the reader equal the origin's.
    pub(crate) async fn follow_until_like<S: Source>(&mut self, source: &S, origin: &Origin) {
        tick(&mut self.engine, origin.now);
        let heads = bruit_federation::heads::Heads::read_all(&origin.heads()).remove(0).unwrap().unverified().clone();
        let is_like = |reader: &Self| heads.chains().all(|(chain, at)| reader.at(&chain).sequence == at.sequence);
        self.follow_until(source, is_like).await;
    }

    pub(crate) async fn follow_until<S: Source>(&mut self, source: &S, is_done: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_done(self) {
            assert!(began.elapsed() < PATIENCE, "never done: {:?}", self.receiver.status());
            self.step(source).await;
        }
    }

    /// Follows a source for a while.
    pub(crate) async fn follow_for<S: Source>(&mut self, source: &S, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.step(source).await;
        }
    }

    /// Carries out a request.
    async fn step<S: Source>(&mut self, source: &S) {
        let moment = Moment { now: self.engine.now(), uptime: self.began.elapsed() };
        match self.receiver.next(&self.engine, moment) {
            Request::Sleep(delay) => tokio::time::sleep(delay.min(SHORT)).await,
            Request::Offer { seen, wait } => {
                let offer = source.offer(&seen, wait.min(SHORT)).await;
                self.receiver.offered(offer, &self.known, moment);
            }
            Request::Fetch { chain, offset } => {
                let log = source.fetch(&chain, offset).await;
                self.receiver.fetched(log, moment);
            }
            Request::Submit(events) => {
                let outcomes = events.iter().map(|event| self.engine.apply(event)).collect();
                self.receiver.submitted(Ok(outcomes), moment);
            }
            Request::ReadOwn { .. } => self.receiver.read(&[]),
            Request::KeepHeads(_) | Request::KeepSegment { .. } | Request::ForgetLog(_) | Request::Finish(_) => {}
        }
    }
}
