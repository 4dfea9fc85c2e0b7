//! A network of servers that exists in memory only, drawn from one seed: what production code makes of loss, duplication,
//! delay, partitions, crashes, lost disks and liars.
//!
//! [`run`] lets three to seven nodes of a cluster accept claims and recipients while all of that happens to them, then heals the
//! network and compares: every count with the exact sum, every ring of every origin cell for cell, both sets, all frontiers.
//! Engine, segments, heads, export and judge are those of the server; clock, disk and network are replaced.
//!
//! | module | what it is |
//! |---|---|
//! | `server` | a server with a journal whose end can be lost |
//! | `network` | what happens to servers and messages, by a virtual clock |
//! | `liar` | a peer that forges, replays and floods |
//! | `truth` | what must hold in the end |
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a harness that panics has found something")]

mod liar;
mod network;
mod server;
mod truth;

use std::collections::BTreeMap;
use std::panic;

/// What happened in a run, to tell whether it was worth its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Nodes of the cluster.
    pub nodes: u64,
    /// Claims and reports of recipients that were acknowledged.
    pub acknowledged: u64,
    /// Segments that were taken, by all nodes together.
    pub taken: u64,
    /// Messages that were lost or cut off by a partition.
    pub lost: u64,
    /// Messages that came twice.
    pub repeated: u64,
    /// Crashes.
    pub crashes: u64,
    /// Events that crashes took with them, as they were not on disk.
    pub forgotten: u64,
    /// Disks that were lost.
    pub disks_lost: u64,
    /// Chains that were taken again from the start.
    pub repairs: u64,
    /// What was rejected, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
}

/// A run that ended otherwise than it must.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {what}")]
pub struct Failure {
    /// The seed that shows it.
    pub seed: u64,
    /// What was found.
    pub what: String,
}

/// Lets a network drawn from `seed` live, heal and be compared.
///
/// # Errors
/// [`Failure`] says what is not as it must be.
pub fn run(seed: u64) -> Result<Summary, Failure> {
    let run = panic::catch_unwind(|| {
        let mut network = network::Network::new(seed);
        network.live();
        network.heal().and_then(|()| network.compare()).map(|()| network.summary())
    });
    run.unwrap_or_else(|_| Err("it panicked".to_owned())).map_err(|what| Failure { seed, what })
}

impl Summary {
    /// Adds what happened in another run.
    pub fn add(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.acknowledged += other.acknowledged;
        self.taken += other.taken;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.crashes += other.crashes;
        self.forgotten += other.forgotten;
        self.disks_lost += other.disks_lost;
        self.repairs += other.repairs;
        other.rejected.iter().for_each(|(reason, count)| *self.rejected.entry(reason).or_default() += count);
    }
}
