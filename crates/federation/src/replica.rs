//! A local replica: a mail site's own copy of what servers listed, in one small file, so that most checks need no network.
//!
//! This is the idea of Summary Cache, applied to mail. Most messages are unknown to everyone. A replica answers those by
//! itself, and a server is asked only about what the replica has seen, or seems to have: one in a hundred signatures is a false
//! hit when the replica is as full as it was made for.
//!
//! It promises that whatever was taken is found until its generation ends, whenever the machine stops: what is written over was
//! there before, bits are only ever set, and how far chains were taken is written after what was taken. It refuses to know what
//! was revoked, how often anything was reported, and near replicas of texts: those are a server's to tell.
//!
//! Whoever follows believes every origin that its server offers, unless told which: a hit is confirmed by the server, and a
//! missing entry is a spam that is not recognised, so there is little to win by lying. Segments must be signed by their origins
//! all the same.
//!
//! | module | what it is |
//! |---|---|
//! | `format` | the bytes of the file; `docs/design/replica-file.md` |
//! | `reader` | two lines of 64 bytes per signature and ring, and nothing loaded |
//! | `writer` | the rings in memory, and the order of writes |
//! | `follower` | asking a source again and again |

mod follower;
mod format;
mod reader;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

use bruit_engine::exchange::Book;
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_filters::sizing::ring_lines_for_rate;

pub use follower::{FollowError, Follower, NothingTaken, Progress, Round};
pub use format::CHAINS_MAX;
pub use reader::{LookUp, Replica};
pub use writer::ReplicaFile;

/// The fewest signatures that a replica is made for.
pub const CAPACITY_MIN: u64 = 1_000;

/// The most: about three gigabytes.
pub const CAPACITY_MAX: u64 = 1_000_000_000;

/// The share of false hits of each ring, if it is as full as it was made for.
pub const FALSE_HIT_RATE: f64 = 0.01;

/// The share of false hits above which a replica is overfull: ten times the planned one.
pub const OVERFULL_RATE: f64 = 10.0 * FALSE_HIT_RATE;

/// Listed signatures for each that reached many recipients: the latter are fewer, and are kept for a fifth of the time.
const LISTED_PER_BULK: u64 = 4;

/// Generations over which the capacity is spread.
const LIVE_GENERATIONS: u64 = 7;

/// The books that a replica follows, in the order of its rings.
const BOOKS: [Book; 2] = [Book::Listed, Book::Bulk];

/// Why there is no replica, or it cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// The disk says no.
    #[error("failed to {action} the replica {}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error("{} is not a replica", .path.display())]
    Magic {
        /// Which file.
        path: PathBuf,
    },
    /// It is of another program.
    #[error("the replica {} has version {version}, which this program does not read", .path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It cannot be believed.
    #[error("the replica {} is damaged in {what}: remove it, and it is fetched again", .path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where.
        what: &'static str,
    },
    /// Somebody else follows.
    #[error("another program keeps the replica {} current", .path.display())]
    Busy {
        /// Which file.
        path: PathBuf,
    },
    /// Too small or too large.
    #[error("a replica is made for {CAPACITY_MIN} to {CAPACITY_MAX} signatures, not for {0}")]
    Capacity(u64),
    /// A realm from before servers exchanged anything.
    #[error("the server's realm is of an old version, which cannot be exchanged")]
    OldRealm,
    /// More chains than there is room for.
    #[error("there are more than {CHAINS_MAX} chains: name the servers to believe")]
    TooManyChains,
}

impl ReplicaError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the file is not there, so that it may be made.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// What a replica holds, and how old that is.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The realm, with its secret key.
    pub realm: Realm,
    /// For how many signatures it was made.
    pub capacity: u64,
    /// About how many distinct signatures are listed in it.
    pub listed: u64,
    /// About how many distinct signatures in it reached many recipients.
    pub bulk: u64,
    /// The share of unknown signatures that it takes for known ones, by how full it is.
    pub false_hit_rate: f64,
    /// When the servers it followed last said what they have, if ever.
    pub heard: Option<Time>,
    /// The bytes of the file.
    pub bytes: u64,
}

impl Status {
    /// True if it takes far more unknown signatures for known ones than planned, so that most checks ask the server.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.false_hit_rate > OVERFULL_RATE
    }

    /// How many seconds ago servers last said what they have; none if they never did.
    #[must_use]
    pub fn age_seconds(&self, now: Time) -> Option<u64> {
        self.heard.map(|heard| now.since(heard))
    }
}

/// The lines of the two rings of a replica for so many listed signatures.
fn lines_for(capacity: u64) -> Result<[usize; 2], ReplicaError> {
    if !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity) {
        return Err(ReplicaError::Capacity(capacity));
    }
    let lines = |keys: u64| {
        let lines = ring_lines_for_rate(keys.div_ceil(LIVE_GENERATIONS), FALSE_HIT_RATE).ok();
        lines.and_then(|lines| usize::try_from(lines).ok()).ok_or(ReplicaError::Capacity(capacity))
    };
    Ok([lines(capacity)?, lines(capacity / LISTED_PER_BULK)?])
}

#[cfg(test)]
mod tests;
