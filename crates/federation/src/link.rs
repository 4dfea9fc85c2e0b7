//! Links: the tasks that carry out what the coordinator decides, over any transport.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use bruit_engine::Outcome;
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_store::{Clearinghouse, SubmitError};
use tokio::sync::oneshot;

use crate::coordinator::Moment;
use crate::coordinator::judge::Known;
use crate::coordinator::publisher::{PublishRequest, Publisher};
use crate::coordinator::receiver::{LinkStatus, PeerView, Receiver, Request, Retry};
use crate::coordinator::rereader::REREAD_BYTES;
use crate::describe;
use crate::segment::split;
use crate::shelf::{Reader, Shelf};
use crate::transport::{FETCH_BYTES_MAX, Sink, Source, TransportError};

/// The server at this end of a link.
#[derive(Clone, Copy)]
pub struct Local<'a> {
    /// The clearinghouse.
    pub store: &'a Clearinghouse,
    /// The logs for other servers.
    pub shelf: &'a Shelf,
    /// The servers whose data is accepted. They may change.
    pub known: &'a RwLock<Arc<Known>>,
    /// The clock.
    pub clock: &'a (dyn Fn() -> Time + Send + Sync),
}

/// A link to a source.
#[derive(Debug)]
pub struct Link {
    started: Instant,
    receiver: Mutex<Receiver>,
}

impl Link {
    /// Creates a link to a server or broker called `name` in the log.
    #[must_use]
    pub fn new(name: &str, shelf: &Shelf) -> Self {
        let receiver = Receiver::new(name, shelf.realm(), shelf.epochs(), Retry::LINK);
        Self { started: Instant::now(), receiver: Mutex::new(receiver) }
    }

    /// Returns the condition of the link.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        self.receiver().status().clone()
    }

    /// Returns the state of the server with this key, according to the source's offer.
    #[must_use]
    pub fn view(&self, key: &[u8; 32], local: Local<'_>) -> PeerView {
        let moment = self.moment(local);
        let receiver = self.receiver();
        local.store.check(|engine| receiver.view(key, engine, moment))
    }

    /// Returns the number of refused bytes of a server.
    #[must_use]
    pub fn refused_bytes(&self, key: &[u8; 32]) -> u64 {
        self.receiver().refused_bytes(key)
    }

    /// Follows a source until the future is dropped.
    pub async fn follow<S: Source>(&self, source: &S, local: Local<'_>) {
        loop {
            let request = self.next(local);
            self.carry_out(request, source, local).await;
        }
    }

    fn next(&self, local: Local<'_>) -> Request {
        let moment = self.moment(local);
        // Lock the receiver before the engine, in the same order as `view`.
        let mut receiver = self.receiver();
        local.store.check(|engine| receiver.next(engine, moment))
    }

    async fn carry_out<S: Source>(&self, request: Request, source: &S, local: Local<'_>) {
        match request {
            Request::Sleep(delay) => tokio::time::sleep(delay).await,
            Request::Offer { seen, wait } => {
                let offer = source.offer(&seen, wait).await;
                let known = Arc::clone(&local.known.read().unwrap_or_else(PoisonError::into_inner));
                self.receiver().offered(offer, &known, self.moment(local));
            }
            Request::Fetch { chain, offset } => {
                let log = source.fetch(&chain, offset).await;
                self.receiver().fetched(log, self.moment(local));
            }
            Request::ReadOwn { chain, offset } => {
                let log = local.shelf.stored(&chain, offset, REREAD_BYTES).unwrap_or_else(|error| {
                    tracing::warn!(%error, "failed to read a log in shelf/");
                    Vec::new()
                });
                self.receiver().read(&log);
            }
            Request::Submit(events) => {
                let outcomes = submit(local.store, events).await.map_err(|error| describe(&error));
                self.receiver().submitted(outcomes, self.moment(local));
            }
            Request::KeepHeads(heads) => heads.iter().for_each(|heads| local.shelf.keep_heads(heads)),
            Request::KeepSegment { chain, offset, bytes } => {
                if let Err(error) = local.shelf.keep_segment(&chain, offset, &bytes) {
                    tracing::warn!(%error, "segment will not be forwarded");
                }
            }
            Request::ForgetLog(chain) => {
                if let Err(error) = local.shelf.forget(&chain) {
                    tracing::warn!(%error, "failed to remove the log of a chain to fetch again");
                }
            }
            Request::Finish(_) => {}
        }
    }

    fn moment(&self, local: Local<'_>) -> Moment {
        Moment { now: (local.clock)(), uptime: self.started.elapsed() }
    }

    /// Locks the receiver. A poisoned lock is ignored, because no code here panics between related changes.
    fn receiver(&self) -> MutexGuard<'_, Receiver> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn submit(store: &Clearinghouse, events: Vec<Event>) -> Result<Vec<Outcome>, SubmitError> {
    let (sender, receiver) = oneshot::channel();
    store.submit_with(events, move |result| drop(sender.send(result)));
    receiver.await.unwrap_or(Err(SubmitError::Closed))
}

/// Publishes our own chains that `reader` may read, until the future is dropped. The sink is called `name` in the log.
pub async fn publish<S: Sink>(sink: &S, shelf: &Shelf, reader: Reader, name: &str) {
    let (mut publisher, mut changes, started) = (Publisher::new(reader, name), shelf.changes(), Instant::now());
    loop {
        // A change during the following requests is noticed when they are done.
        changes.mark_unchanged();
        loop {
            let request = publisher.next(shelf);
            if request == PublishRequest::Wait {
                break;
            }
            let result = carry_out(request, sink, shelf).await;
            publisher.answered(result, started.elapsed());
        }
        // The shelf is gone, so no more changes are reported.
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn carry_out<S: Sink>(request: PublishRequest, sink: &S, shelf: &Shelf) -> Result<u64, TransportError> {
    match request {
        PublishRequest::Retain(chains) => sink.retain(&chains).await.map(|()| 0),
        PublishRequest::Length(chain) => sink.published(&chain).await,
        PublishRequest::Publish { chain, at, end } => {
            let mut at = at;
            while at < end {
                let before = at;
                let log = shelf
                    .log(&chain, at, FETCH_BYTES_MAX)
                    .map_err(|error| TransportError::Unreachable(error.into()))?;
                let mut rest = log.as_deref().unwrap_or_default();
                while let Ok(Some((segment, behind))) = split(rest) {
                    sink.publish(&chain, at, segment).await?;
                    (at, rest) = (at + segment.len() as u64, behind);
                }
                if at == before {
                    return Err(TransportError::Malformed("a log on the shelf ends within a segment".into()));
                }
            }
            Ok(at)
        }
        PublishRequest::Announce(heads) => sink.announce(&heads).await.map(|()| 0),
        PublishRequest::Archive(chain, end) => {
            let log = shelf.log(&chain, 0, end as usize).map_err(|error| TransportError::Unreachable(error.into()))?;
            match log {
                Some(log) => sink.archive(&chain, &log).await.map(|()| 0),
                None => Ok(0),
            }
        }
        PublishRequest::Wait => Ok(0),
        PublishRequest::Sleep(delay) => {
            tokio::time::sleep(delay).await;
            Ok(0)
        }
    }
}
