//! Simulates a year in an hour. Runs real `bruit serve` processes in a realm with epochs of a few seconds, injects
//! faults, and compares the nodes' answers with a plain model of all requests.
//!
//! ```text
//!   traffic ──► nodes (bruit serve) ◄── faults: kills, clocks, full disks, partitions, floods, lost disks, growth
//!      │          │
//!      ▼          ▼
//!    model ──► judge: nothing acknowledged lost, nothing counted twice, no listing early or late; every fault visible
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `node`, `broker`, `proxy` | the processes, and connections between them that can be cut |
//! | `traffic`, `model` | the clients, and the expected answers |
//! | `faults` | the faults, and the health states expected for each |
//! | `judge` | comparison of nodes with the model |
//! | `fleet` | a run of one network from start to end |

mod broker;
mod faults;
mod fleet;
mod judge;
mod model;
mod node;
mod proxy;
mod traffic;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

pub use fleet::{Report, run};

/// The kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// One server, without peers.
    Alone,
    /// Three nodes that fetch from each other over HTTPS.
    Https,
    /// Three nodes over a NATS broker.
    Nats,
}

impl Network {
    /// Returns the network's name for the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Https => "https",
            Self::Nats => "nats",
        }
    }

    /// Returns the number of servers.
    #[must_use]
    pub const fn nodes(self) -> usize {
        match self {
            Self::Alone => 1,
            Self::Https | Self::Nats => 3,
        }
    }
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `bruit` program.
    pub bruit: PathBuf,
    /// The kind of network.
    pub network: Network,
    /// The duration of the run.
    pub duration: Duration,
    /// Length of a spam epoch in seconds.
    pub spam_epoch: u64,
    /// Length of a bulk epoch in seconds.
    pub bulk_epoch: u64,
    /// The seed for the traffic and the faults.
    pub seed: u64,
    /// True to inject every kind of fault. False to inject only a kill, a clock 40 days ahead, a looping reporter and,
    /// in a cluster, a node that is away.
    pub all_faults: bool,
}

/// Returns the path of the library that fakes the wall clock of a process.
///
/// # Errors
/// Returns an error if the library is not installed.
pub fn faketime() -> Result<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"];
    let found =
        folders.iter().map(|folder| PathBuf::from(folder).join("libfaketimeMT.so.1")).find(|path| path.exists());
    found.ok_or_else(|| anyhow::anyhow!("libfaketime is missing: install Debian's package libfaketime"))
}
