//! A year in an hour: real `bruit serve` processes in a realm whose epochs are seconds long, traffic, faults, and a plain model
//! of what was acknowledged beside them.
//!
//! ```text
//!   traffic ──► nodes (bruit serve) ◄── faults: kills, clocks, full disks, partitions, floods, lost disks, growth
//!      │          │
//!      ▼          ▼
//!    model ──► judge: nothing acknowledged lost, nothing counted twice, no listing early or late; every fault visible
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `node`, `broker`, `proxy` | the processes, and the wires between them that can be cut |
//! | `traffic`, `model` | what is reported, and what must follow from what was acknowledged |
//! | `faults` | what goes wrong, and by which health states it must show |
//! | `judge` | compares nodes with the model |
//! | `fleet` | one network of nodes from start to end |

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

/// How nodes exchange what they learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// One server, without peers.
    Alone,
    /// Three nodes that ask each other over HTTPS.
    Https,
    /// Three nodes over a NATS broker.
    Nats,
}

impl Network {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Https => "https",
            Self::Nats => "nats",
        }
    }

    /// How many servers it has.
    #[must_use]
    pub const fn nodes(self) -> usize {
        match self {
            Self::Alone => 1,
            Self::Https | Self::Nats => 3,
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub bruit: PathBuf,
    /// How the nodes are linked.
    pub network: Network,
    /// How long to go on.
    pub duration: Duration,
    /// Seconds of an epoch of the spam book.
    pub spam_epoch: u64,
    /// Seconds of an epoch of the bulk book.
    pub bulk_epoch: u64,
    /// What traffic and faults are drawn from.
    pub seed: u64,
    /// Whether to inject every kind of fault; if not, only kills, a clock and a node that is away.
    pub all_faults: bool,
}

/// The library that fakes the wall clock of a process, if it is installed.
///
/// # Errors
/// If it is not.
pub fn faketime() -> Result<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"];
    let found =
        folders.iter().map(|folder| PathBuf::from(folder).join("libfaketimeMT.so.1")).find(|path| path.exists());
    found.ok_or_else(|| anyhow::anyhow!("libfaketime is missing: install Debian's package libfaketime"))
}
