//! A network of servers in memory, generated from one seed: it runs the production coordinator under loss, duplication,
//! delay, partitions, crashes, lost and old disks, clocks that differ and jump, memory that grows, brokers that forget,
//! lying peers, and nodes that are forgotten after a break-in.
//!
//! [`run`] lets two to six nodes of a cluster accept claims and recipients under all of these faults, linked directly,
//! over a broker, or both. Then it heals the network and checks every count against the exact sum. It also compares
//! listings, revocations, all frontiers, and the state that every link shows. Engine, coordinator, shelf, segments and
//! heads are those of the server; clock, disk and network are replaced.
//!
//! | module | contents |
//! |---|---|
//! | `server` | a server whose unsynced journal end can be lost |
//! | `link` | the links of a server |
//! | `broker` | a broker that forgets |
//! | `network` | faults and messages in virtual time |
//! | `liar` | a peer that forges, replays and floods |
//! | `truth` | the conditions at the end |
//! | [`scale`] | a cluster without faults, to measure bytes and delays |
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a harness that panics has found something")]

mod broker;
mod liar;
mod link;
mod network;
pub mod scale;
mod server;
mod truth;

use std::collections::BTreeMap;
use std::panic;

pub use broker::Broker;

/// Statistics of a run, to judge how much it tested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of nodes of the cluster.
    pub nodes: u64,
    /// Number of acknowledged claims and reports of recipients.
    pub acknowledged: u64,
    /// Number of segments applied, by all nodes together.
    pub taken: u64,
    /// Number of messages lost or stopped by a partition.
    pub lost: u64,
    /// Number of messages delivered twice.
    pub repeated: u64,
    /// Number of crashes.
    pub crashes: u64,
    /// Number of events lost in crashes because they were not synced.
    pub forgotten: u64,
    /// Number of lost disks.
    pub disks_lost: u64,
    /// Number of disks replaced by old copies.
    pub disks_replaced: u64,
    /// Number of clock steps.
    pub jumps: u64,
    /// Number of nodes whose memory grew.
    pub grown: u64,
    /// Number of times that a broker lost data.
    pub forgotten_by_broker: u64,
    /// Number of chains of which a node's copy was damaged.
    pub damaged: u64,
    /// Number of nodes that an intruder used and that the operator then forgot.
    pub nodes_forgotten: u64,
    /// Number of forked histories of lying peers.
    pub forks: u64,
    /// Number of chains fetched again from the start.
    pub repairs: u64,
    /// Number of refusals, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
}

/// A run that violated a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {what}")]
pub struct Failure {
    /// The seed that reproduces it.
    pub seed: u64,
    /// The violated condition.
    pub what: String,
}

/// Runs a network generated from `seed` under faults, heals it, and compares the servers.
///
/// # Errors
/// [`Failure`] with the violated condition.
pub fn run(seed: u64) -> Result<Summary, Failure> {
    let run = panic::catch_unwind(|| {
        let mut network = network::Network::new(seed);
        network.live();
        let result = network.heal().and_then(|()| network.compare());
        let summary = network.summary();
        result.map(|()| summary.clone()).map_err(|what| format!("{what}; {summary:?}"))
    });
    run.unwrap_or_else(|_| Err("it panicked".to_owned())).map_err(|what| Failure { seed, what })
}

impl Summary {
    /// Adds the statistics of another run.
    pub fn add(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.acknowledged += other.acknowledged;
        self.taken += other.taken;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.crashes += other.crashes;
        self.forgotten += other.forgotten;
        self.disks_lost += other.disks_lost;
        self.disks_replaced += other.disks_replaced;
        self.jumps += other.jumps;
        self.grown += other.grown;
        self.forgotten_by_broker += other.forgotten_by_broker;
        self.damaged += other.damaged;
        self.nodes_forgotten += other.nodes_forgotten;
        self.forks += other.forks;
        self.repairs += other.repairs;
        other.rejected.iter().for_each(|(reason, count)| *self.rejected.entry(reason).or_default() += count);
    }
}
