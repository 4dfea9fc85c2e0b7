//! Keeping a replica current: asks a source what there is, and takes what is missing of the books it follows.

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

/// How long a source is asked to wait for news.
const WAIT: Duration = Duration::from_secs(30);

/// Between two tries of a source that gives nothing, at first and at most.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(60);

/// What is fetched before it is written: so much is fetched again after a crash.
const COMMIT_BYTES: usize = 16 << 20;

/// A replica, and where its news come from.
#[derive(Debug)]
pub struct Follower<S> {
    source: S,
    file: ReplicaFile,
    /// Whom to believe; everyone whom the source offers, if nobody is named.
    believed: Vec<PublicKey>,
    /// The last offer of which everything was taken.
    seen: Vec<u8>,
    unwritten: usize,
}

/// How far a round has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of logs that were fetched.
    pub bytes: u64,
    /// Bytes that were missing when the round began.
    pub bytes_missing: u64,
}

/// What a round came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Heads that the source offered, accepted or not.
    pub offered: usize,
    /// Heads that were accepted.
    pub accepted: usize,
    /// Chains with new segments.
    pub chains: usize,
    /// Signatures that were taken.
    pub signatures: u64,
    /// Segments they came in.
    pub segments: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Whether all there is was taken, but for what was rejected.
    pub is_complete: bool,
    /// What was not believed.
    pub rejected: Vec<Rejected>,
}

impl Round {
    /// The reason why nothing was accepted; none if something was, or if nothing is new.
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
    /// The source has nothing of any server.
    #[error("no server publishes anything there")]
    Empty,
    /// The source has nothing of the servers to be believed.
    #[error("none of the {offered} servers that publish there has one of the given keys")]
    OtherKeys {
        /// The number of servers that it has something of.
        offered: usize,
    },
    /// Everything new was refused.
    #[error("what it offers was refused: {0}")]
    Refused(Rejected),
}

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The source gives nothing.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// What was taken cannot be kept.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
}

impl<S: Source> Follower<S> {
    /// Keeps `file` current from `source`, and believes these servers only, or if there are none, every one that it offers.
    #[must_use]
    pub const fn new(source: S, file: ReplicaFile, believed: Vec<PublicKey>) -> Self {
        Self { source, file, believed, seen: Vec::new(), unwritten: 0 }
    }

    /// The replica.
    #[must_use]
    pub const fn file(&self) -> &ReplicaFile {
        &self.file
    }

    /// Follows for ever: ends when the replica cannot be written, or the future is dropped. `tell` hears how every round ended.
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

    /// Asks once what there is, waits up to `wait` for something new, and takes and writes it.
    ///
    /// # Errors
    /// [`FollowError`]; what was taken before is kept.
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
        // Chains that went wrong do not make the others old: what is rejected is told, and never comes.
        if let Some(newest) = heads.iter().map(Heads::time).max().filter(|_| taken.is_ok() && round.is_complete) {
            self.file.hear(newest.min(now()));
        }
        self.write()?;
        taken?;
        self.seen = if round.is_complete { offer.tag } else { Vec::new() };
        Ok(round)
    }

    /// Those who are believed, of those who are offered.
    fn known(&self, offer: &[u8]) -> Known {
        let origins = Heads::read_all(offer).into_iter().flatten().map(|heads| heads.origin());
        let keys: BTreeMap<[u8; 32], PublicKey> =
            origins.filter_map(|Origin { key, .. }| Some((key, PublicKey::from_bytes(&key).ok()?))).collect();
        let is_believed = |key: &PublicKey| self.believed.is_empty() || self.believed.contains(key);
        // As peers: conclusions are all that is wanted of them.
        Known::new(keys.into_values().filter(is_believed).map(|key| (key, Relation::Peer)))
    }

    /// Chains whose origin wrote them twice are taken again. What the first had is kept until it expires: the server knows better.
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

    /// Takes one chain as far as it goes.
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
                // Taken again from the start, should it have been another chain from somewhere on.
                if rejected == Rejected::Forked {
                    self.file.forget(&want.chain);
                }
                round.rejected.push(rejected);
                return Ok(());
            }
            if want.from.sequence == before {
                // Told of, and not there yet.
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
