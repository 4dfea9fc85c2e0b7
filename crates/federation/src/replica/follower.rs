//! The follower of a source: keeps a replica current by fetching the missing segments of its books.

use std::collections::BTreeMap;
use std::time::Duration;

use bruit_engine::exchange::{Origin, Relation};
use bruit_engine::time::Time;

use super::{ReplicaError, ReplicaFile};
use crate::heads::Heads;
use crate::judge::{Drift, Frontiers, Known, Want, accept, drift, offered, wanted};
use crate::keys::PublicKey;
use crate::rejected::Rejected;
use crate::transport::{Source, TransportError};

/// Maximum time that a source may wait for news before it answers.
const WAIT: Duration = Duration::from_secs(30);

/// Minimum and maximum delay before a failing source is tried again.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Number of bytes fetched between two commits; after a crash, this much is fetched again.
const COMMIT_BYTES: usize = 16 << 20;

/// A replica and its source.
#[derive(Debug)]
pub struct Follower<S> {
    source: S,
    file: ReplicaFile,
    /// Trusted servers. If empty, every server in the source's offer is trusted.
    believed: Vec<PublicKey>,
    /// The tag of the last offer that was completely applied.
    seen: Vec<u8>,
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

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Number of heads that the source offered, accepted or not.
    pub offered: usize,
    /// Number of accepted heads.
    pub accepted: usize,
    /// Number of chains with new segments.
    pub chains: usize,
    /// Number of signatures applied.
    pub signatures: u64,
    /// Number of segments that contained these signatures.
    pub segments: u64,
    /// Number of bytes of these segments.
    pub bytes: u64,
    /// True if the whole offer was applied, except for refused parts.
    pub is_complete: bool,
    /// The refusals.
    pub rejected: Vec<Rejected>,
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
            (Some(rejected), _) => Some(NothingTaken::Refused(rejected.clone())),
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
    Refused(Rejected),
}

/// The reason why a round failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The source could not be read.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The replica could not be written.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
}

impl<S: Source> Follower<S> {
    /// Creates a follower that updates `file` from `source`. It trusts the given servers, or if there are none, every
    /// server in the offer.
    #[must_use]
    pub const fn new(source: S, file: ReplicaFile, believed: Vec<PublicKey>) -> Self {
        Self { source, file, believed, seen: Vec::new(), unwritten: 0 }
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
        let mut retry = RETRY_MIN;
        loop {
            let pause = match self.round(WAIT, &now, |_| {}).await {
                Ok(round) => {
                    tell(&self.file, Ok(&round));
                    retry = RETRY_MIN;
                    (!round.is_complete).then_some(RETRY_MIN)
                }
                Err(FollowError::Transport(error)) => {
                    tell(&self.file, Err(&error));
                    let pause = retry;
                    retry = (retry * 2).min(RETRY_MAX);
                    Some(pause)
                }
                Err(FollowError::Replica(error)) => return error,
            };
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Requests the offer once, waiting up to `wait` for a new one, then applies and writes it.
    ///
    /// # Errors
    /// [`FollowError`]; parts applied before the failure are kept.
    pub async fn round(
        &mut self,
        wait: Duration,
        now: impl Fn() -> Time,
        mut progress: impl FnMut(Progress),
    ) -> Result<Round, FollowError> {
        let offer = self.source.offer(&self.seen, wait).await?;
        self.file.turn(now())?;
        let known = self.known(&offer.heads);
        let (heads, rejected) = offered(&offer.heads, self.file.realm_id(), &known);
        let heads: Vec<Heads> = heads.into_iter().map(|(heads, _)| heads).collect();
        let offered = Heads::read_all(&offer.heads).len();
        let mut round = Round { offered, accepted: heads.len(), is_complete: true, rejected, ..Round::default() };
        self.forget_forks(&heads, &mut round);
        let taken = self.take_all(&heads, &known, &mut round, &mut progress).await;
        // Refused chains are reported, but they do not make the replica stale: waiting for them would be useless.
        if let Some(newest) = heads.iter().map(Heads::time).max().filter(|_| taken.is_ok() && round.is_complete) {
            self.file.hear(newest.min(now()));
        }
        self.write()?;
        taken?;
        self.seen = if round.is_complete { offer.tag } else { Vec::new() };
        Ok(round)
    }

    /// Returns the trusted servers in an offer.
    fn known(&self, offer: &[u8]) -> Known {
        let origins = Heads::read_all(offer).into_iter().flatten().map(|heads| heads.origin());
        let keys: BTreeMap<[u8; 32], PublicKey> =
            origins.filter_map(|Origin { key, .. }| Some((key, PublicKey::from_bytes(&key).ok()?))).collect();
        let is_believed = |key: &PublicKey| self.believed.is_empty() || self.believed.contains(key);
        // Treat the servers as peers, because a replica needs only their conclusions.
        Known::new(keys.into_values().filter(is_believed).map(|key| (key, Relation::Peer)))
    }

    /// Discards the frontiers of forked chains, so that they are fetched again. Entries of the first version stay until
    /// they expire: the server confirms hits anyway.
    fn forget_forks(&mut self, heads: &[Heads], round: &mut Round) {
        let chains = heads.iter().flat_map(Heads::chains);
        let is_forked = |(chain, head)| {
            let is_forked = drift(&head, &self.file.frontier(&chain)) == Some(Drift::Forked);
            (is_forked && self.file.is_live(chain.book, chain.generation)).then_some(chain)
        };
        let forked: Vec<_> = chains.filter_map(is_forked).collect();
        for chain in forked {
            self.file.forget(&chain);
            round.rejected.push(Rejected::Forked);
        }
    }

    async fn take_all(
        &mut self,
        heads: &[Heads],
        known: &Known,
        round: &mut Round,
        progress: &mut impl FnMut(Progress),
    ) -> Result<(), FollowError> {
        let wants = wanted(heads, &self.file, known);
        round.chains = wants.len();
        let bytes_missing = wants.iter().map(|want| want.to.offset.saturating_sub(want.from.offset)).sum();
        for want in wants {
            if !self.file.has_room(&want.chain) {
                return Err(ReplicaError::TooManyChains.into());
            }
            self.take(want, known, round, &mut |bytes| progress(Progress { bytes, bytes_missing })).await?;
        }
        Ok(())
    }

    /// Fetches and applies one chain to its end.
    async fn take(
        &mut self,
        mut want: Want,
        known: &Known,
        round: &mut Round,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), FollowError> {
        while want.from.sequence < want.to.sequence {
            let log = self.source.fetch(&want.chain, want.from.offset).await?;
            let (received, rejected) = accept(&log, &want, self.file.realm_id(), known);
            let before = want.from.sequence;
            let malformed = received.iter().find_map(|segment| self.take_segment(segment, round).err());
            want.from = self.file.frontier(&want.chain);
            progress(round.bytes);
            if self.unwritten > COMMIT_BYTES {
                self.write()?;
            }
            if let Some(rejected) = malformed.or(rejected) {
                // Fetch the chain again from the start, because the fork may begin at an earlier segment.
                if rejected == Rejected::Forked {
                    self.file.forget(&want.chain);
                }
                round.rejected.push(rejected);
                return Ok(());
            }
            if want.from.sequence == before {
                // The heads name the chain, but the source does not have it yet.
                round.is_complete = false;
                return Ok(());
            }
        }
        Ok(())
    }

    fn take_segment(&mut self, segment: &bruit_engine::exchange::Received, round: &mut Round) -> Result<(), Rejected> {
        let signatures = self.file.take(segment)?;
        round.signatures += signatures as u64;
        round.segments += 1;
        round.bytes += u64::from(segment.bytes);
        self.unwritten += segment.bytes as usize;
        Ok(())
    }

    fn write(&mut self) -> Result<(), ReplicaError> {
        self.unwritten = 0;
        self.file.commit()
    }
}
