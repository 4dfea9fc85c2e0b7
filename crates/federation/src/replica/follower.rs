//! The follower of a source: keeps a replica current by fetching the missing segments of its books.

use std::sync::Arc;
use std::time::Instant;

use bruit_engine::event::Event;
use bruit_engine::exchange::{ExchangeRefusal, Relation};
use bruit_engine::time::Time;
use bruit_engine::{Outcome, Refusal};

use super::{ReplicaError, ReplicaFile};
use crate::coordinator::Moment;
use crate::coordinator::judge::Known;
use crate::coordinator::receiver::{LinkError, Receiver, Request, Retry, Round};
use crate::epochs::Epochs;
use crate::keys::PublicKey;
use crate::transport::{Source, TransportError};

/// Number of fetched bytes after which the replica is written. Bytes fetched since the last write are lost in a crash,
/// and fetched again.
const COMMIT_BYTES: usize = 16 << 20;

/// A replica and its source.
#[derive(Debug)]
pub struct Follower<S> {
    source: S,
    file: ReplicaFile,
    receiver: Receiver,
    known: Arc<Known>,
    started: Instant,
    unwritten: usize,
}

/// The progress of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of logs fetched.
    pub bytes: u64,
    /// Bytes that were missing when the round began.
    pub bytes_missing: u64,
}

impl Round {
    /// Returns the reason why nothing was accepted; `None` if something was, or if there was nothing new.
    #[must_use]
    pub fn nothing_taken(&self) -> Option<NothingTaken> {
        let is_up_to_date = self.accepted > 0 && self.chains == 0;
        if self.segments > 0 || is_up_to_date {
            return None;
        }
        match (self.rejected.last(), self.accepted) {
            (Some(rejected), _) => Some(NothingTaken::Refused(*rejected)),
            (None, 0) if self.offered == 0 => Some(NothingTaken::Empty),
            (None, 0) => Some(NothingTaken::OtherKeys { offered: self.offered }),
            (None, _) => None,
        }
    }
}

/// The reason why nothing was accepted from a source that answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NothingTaken {
    /// The offer is empty.
    #[error("the source offers no data")]
    Empty,
    /// The offer has no heads of a trusted server.
    #[error("none of the {offered} offered servers has a key given with --key")]
    OtherKeys {
        /// The number of servers in the offer.
        offered: usize,
    },
    /// Everything new was refused.
    #[error("its offer was refused: {0}")]
    Refused(ExchangeRefusal),
}

/// The reason why a round failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The source could not be read.
    #[error(transparent)]
    Transport(TransportError),
    /// The replica could not be written.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
}

impl<S: Source> Follower<S> {
    /// Creates a follower that updates `file` from `source`. It trusts the given servers, or if there are none, every
    /// server in the offer.
    #[must_use]
    pub fn new(source: S, file: ReplicaFile, believed: Vec<PublicKey>) -> Self {
        let epochs = Epochs::of(&file.status().realm);
        let receiver = Receiver::new("source", file.realm_id(), epochs, Retry::REPLICA);
        let known = match believed.is_empty() {
            true => Known::anyone(),
            // Treat the servers as peers, because a replica needs only their public books.
            false => Known::new(believed.into_iter().map(|key| (key, Relation::Peer))),
        };
        Self { source, file, receiver, known: Arc::new(known), started: Instant::now(), unwritten: 0 }
    }

    /// Returns the replica.
    #[must_use]
    pub const fn file(&self) -> &ReplicaFile {
        &self.file
    }

    /// Follows the source until the replica cannot be written or the future is dropped. Calls `tell` with the result of
    /// each round.
    pub async fn follow(
        &mut self,
        now: impl Fn() -> Time,
        mut tell: impl FnMut(&ReplicaFile, Result<&Round, &TransportError>),
    ) -> ReplicaError {
        loop {
            match self.round(&now, |_| {}).await {
                Ok(round) => tell(&self.file, Ok(&round)),
                Err(FollowError::Transport(error)) => tell(&self.file, Err(&error)),
                Err(FollowError::Replica(error)) => return error,
            }
        }
    }

    /// Carries out the receiver's requests until the end of a round, and writes the replica.
    ///
    /// # Errors
    /// [`FollowError`]; parts applied before the failure are kept.
    pub async fn round(
        &mut self,
        now: impl Fn() -> Time,
        mut progress: impl FnMut(Progress),
    ) -> Result<Round, FollowError> {
        loop {
            let moment = Moment { now: now(), uptime: self.started.elapsed() };
            match self.receiver.next(&self.file, moment) {
                Request::Sleep(delay) => tokio::time::sleep(delay).await,
                Request::Offer { seen, wait } => {
                    let offer = self.source.offer(&seen, wait).await;
                    self.file.turn(now())?;
                    self.receiver.offered(offer, &self.known, moment);
                }
                Request::Fetch { chain, offset } => {
                    let log = self.source.fetch(&chain, offset).await;
                    self.receiver.fetched(log, moment);
                }
                Request::Submit(events) => {
                    let outcomes = self.apply(&events)?;
                    self.receiver.submitted(Ok(outcomes), moment);
                    let Round { bytes, bytes_missing, .. } = *self.receiver.round();
                    progress(Progress { bytes, bytes_missing });
                }
                Request::Finish(result) => return self.finish(result, now()),
                // A replica has no chains of its own.
                Request::ReadOwn { .. } => self.receiver.read(&[]),
                // A replica forwards nothing.
                Request::KeepHeads(_) | Request::KeepSegment { .. } | Request::ForgetLog(_) => {}
            }
        }
    }

    fn finish(&mut self, result: Result<Box<Round>, LinkError>, now: Time) -> Result<Round, FollowError> {
        // Refused chains are reported, but they do not make the replica stale: waiting for them would be useless.
        if let Some(newest) = result.as_ref().ok().filter(|round| round.is_complete).and_then(|round| round.newest) {
            self.file.hear(newest.min(now));
        }
        self.write()?;
        match result {
            Ok(round) => Ok(*round),
            Err(LinkError::Transport(error)) => Err(FollowError::Transport(error)),
            Err(LinkError::Submit(error)) => Err(FollowError::Transport(TransportError::Malformed(error))),
        }
    }

    /// Applies segments, and discards the frontiers of chains to fetch again. Entries of a forked chain stay until they
    /// expire: the server confirms hits anyway.
    fn apply(&mut self, events: &[Event]) -> Result<Vec<Outcome>, ReplicaError> {
        let mut outcomes = Vec::with_capacity(events.len());
        for event in events {
            outcomes.push(match event {
                Event::Received { segment, .. } if !self.file.has_room(&segment.chain) => {
                    self.write()?;
                    return Err(ReplicaError::TooManyChains);
                }
                Event::Received { segment, .. } => {
                    self.unwritten += segment.bytes as usize;
                    match self.file.take(segment) {
                        Ok(entries) => Outcome::Taken { entries: entries as u32, refused: 0 },
                        Err(malformed) => Outcome::Refused(Refusal::Exchange(ExchangeRefusal::Payload(malformed))),
                    }
                }
                Event::Repair { chain, .. } => {
                    self.file.forget(chain);
                    Outcome::Done
                }
                _ => Outcome::Refused(Refusal::Exchange(ExchangeRefusal::NotBegun)),
            });
        }
        if self.unwritten > COMMIT_BYTES {
            self.write()?;
        }
        Ok(outcomes)
    }

    fn write(&mut self) -> Result<(), ReplicaError> {
        self.unwritten = 0;
        self.file.commit()
    }
}
