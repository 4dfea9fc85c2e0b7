//! A local replica: a mail site's copy of listed signatures, in one small file, so that most checks need no network.
//!
//! It applies the idea of Summary Cache to mail. Most messages are unknown to all servers. A replica answers checks of
//! unknown messages itself, and a server is queried only about signatures found in the replica. One in a hundred
//! unknown signatures is a false hit when the replica is filled to its capacity.
//!
//! Guarantee: an applied entry is found until its generation expires, even after a crash at any moment. Writes only set
//! bits in live generations, and the frontiers of chains are written after the entries. The replica does not contain
//! revocations, report counts or near replicas of texts: only a server knows these.
//!
//! A follower accepts every origin in its server's offer, unless origins are configured. An origin that lies gains
//! little: the server confirms each hit, and a missing entry only means that some spam is not recognised. Segments must
//! still be signed by their origins.
//!
//! | module | contents |
//! |---|---|
//! | `format` | the bytes of the file; `docs/design/replica-file.md` |
//! | `reader` | lookups: two lines of 64 bytes per signature and ring, without loading the file |
//! | `writer` | the rings in memory, and the order of writes |
//! | `follower` | polling a source |

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

pub use crate::coordinator::receiver::Round;
pub use follower::{FollowError, Follower, NothingTaken, Progress};
pub use format::CHAINS_MAX;
pub use reader::{LookUp, Replica};
pub use writer::ReplicaFile;

/// Minimum capacity of a replica in signatures.
pub const CAPACITY_MIN: u64 = 1_000;

/// Maximum capacity in signatures. The file of such a replica has about three gigabytes.
pub const CAPACITY_MAX: u64 = 1_000_000_000;

/// False positive rate of each ring when filled to capacity.
pub const FALSE_HIT_RATE: f64 = 0.01;

/// False positive rate above which a replica is overfull: ten times the planned one.
pub const OVERFULL_RATE: f64 = 10.0 * FALSE_HIT_RATE;

/// Ratio of listed signatures to bulk signatures. Bulk signatures are fewer, and are kept for a fifth of the time.
const LISTED_PER_BULK: u64 = 4;

/// Number of generations that share the capacity.
const LIVE_GENERATIONS: u64 = 7;

/// The books that a replica follows, in the order of its rings.
const BOOKS: [Book; 2] = [Book::Listed, Book::Bulk];

/// The reason why a replica cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// An I/O operation failed.
    #[error("failed to {action} the replica {}", .path.display())]
    Io {
        /// The operation, such as "read".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file is not a replica.
    #[error("{} is not a replica", .path.display())]
    Magic {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version of the program.
    #[error("the replica {} has version {version}, which this program cannot read", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        version: u32,
    },
    /// The file is damaged.
    #[error("the replica {} is damaged in {what}; remove it to have it fetched again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damaged part.
        what: &'static str,
    },
    /// Another process is updating the file.
    #[error("another process is updating the replica {}", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The capacity is out of range.
    #[error("invalid capacity {0}: expected {CAPACITY_MIN} to {CAPACITY_MAX} signatures")]
    Capacity(u64),
    /// The realm was founded before servers could exchange segments.
    #[error("the server's realm has an old format version without support for exchange")]
    OldRealm,
    /// There are more chains than fit into the file.
    #[error("the offer has more than {CHAINS_MAX} chains; give the public keys of the servers to trust")]
    TooManyChains,
}

impl ReplicaError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Returns true if the file does not exist, so that it may be created.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The contents and age of a replica.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The realm, with its secret key.
    pub realm: Realm,
    /// Capacity in signatures.
    pub capacity: u64,
    /// Estimated number of distinct listed signatures.
    pub listed: u64,
    /// Estimated number of distinct bulk signatures.
    pub bulk: u64,
    /// Present false positive rate, computed from the fill.
    pub false_hit_rate: f64,
    /// Time of the latest heads from the followed servers, if there were any.
    pub heard: Option<Time>,
    /// The length of the file.
    pub bytes: u64,
}

impl Status {
    /// Returns true if far more unknown signatures are false hits than planned, so that most checks query the server.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.false_hit_rate > OVERFULL_RATE
    }

    /// Returns the age of the latest heads in seconds; `None` if there were none.
    #[must_use]
    pub fn age_seconds(&self, now: Time) -> Option<u64> {
        self.heard.map(|heard| now.since(heard))
    }
}

/// Returns the number of lines in each of the two rings, for a replica with this capacity.
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
