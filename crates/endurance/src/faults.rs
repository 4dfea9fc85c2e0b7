//! Faults, and the health states expected for each of them.

use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::{Network, Options};

/// Seconds in a day.
const DAY: i64 = 86_400;

/// A fault that is injected at a node or at the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// SIGKILL, then an immediate restart.
    Kill,
    /// SIGTERM, then an immediate restart.
    Restart,
    /// The wall clock is wrong by some seconds for a while, then right again.
    SmallStep(i64),
    /// The wall clock is wrong by days to years for a while, then right again.
    Clock(i64),
    /// The node is stopped for longer than two bulk generations.
    Away,
    /// The node is stopped for longer than the system keeps any data.
    LongAway,
    /// A network partition isolates the node from all others.
    Partition,
    /// The node's disk is full.
    DiskFull,
    /// The node's disk is lost, except for its key.
    DiskLoss,
    /// The broker is killed and restarted.
    BrokerKill,
    /// The broker is killed and restarted with an empty disk.
    BrokerLoss,
    /// A script reports in a loop.
    ReportLoop,
    /// A script revokes in a loop.
    RevokeLoop,
    /// The node is restarted with twice the memory. All other nodes follow, because a smaller node could not hold all
    /// the listings of a larger one.
    Grow,
}

impl Fault {
    /// Returns the fault's name for the report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kill => "SIGKILL and start",
            Self::Restart => "SIGTERM and start",
            Self::SmallStep(_) => "clock step of seconds",
            Self::Clock(1..) => "clock days to years ahead",
            Self::Clock(_) => "clock days to years behind",
            Self::Away => "away for two bulk generations",
            Self::LongAway => "away for longer than the window",
            Self::Partition => "partition",
            Self::DiskFull => "full disk",
            Self::DiskLoss => "lost disk",
            Self::BrokerKill => "broker killed",
            Self::BrokerLoss => "broker and its disk lost",
            Self::ReportLoop => "looping reporter",
            Self::RevokeLoop => "looping revoker",
            Self::Grow => "memory doubled",
        }
    }

    /// Returns health states of which the faulty node must show at least one. If the list is empty, none is required.
    pub(crate) const fn own_states(self) -> &'static [&'static str] {
        match self {
            Self::Clock(_) => &["clock_jump"],
            Self::DiskFull => &["writes_fail"],
            Self::ReportLoop | Self::RevokeLoop => &["book_full", "reports_refused"],
            _ => &[],
        }
    }

    /// Returns health states of which each of the other nodes must show at least one. If the list is empty, none is
    /// required.
    pub(crate) const fn others_states(self) -> &'static [&'static str] {
        match self {
            Self::Away | Self::LongAway | Self::Partition | Self::BrokerKill | Self::BrokerLoss => PEER_STATES,
            _ => &[],
        }
    }
}

/// The health states of a node that receives nothing from another node.
const PEER_STATES: &[&str] = &["peer_unreachable", "peer_silent", "peer_behind"];

/// Faults in random order. Every kind is drawn once before any kind is repeated.
pub(crate) struct Deck {
    random: ChaCha8Rng,
    kinds: Vec<Fault>,
    left: Vec<Fault>,
}

impl Deck {
    pub(crate) fn new(options: &Options) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(options.seed), kinds: kinds(options), left: Vec::new() }
    }

    /// Draws the next fault and the index of its node.
    pub(crate) fn draw(&mut self, nodes: usize) -> (Fault, usize) {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
            self.left.shuffle(&mut self.random);
        }
        let fault = self.left.pop().expect("there is at least one kind");
        (fault, self.random.random_range(0..nodes))
    }

    /// Returns the number of fault kinds.
    pub(crate) const fn len(&self) -> usize {
        self.kinds.len()
    }
}

fn kinds(options: &Options) -> Vec<Fault> {
    let mut kinds = vec![Fault::Kill, Fault::Clock(40 * DAY), Fault::ReportLoop];
    let is_cluster = options.network != Network::Alone;
    if is_cluster {
        kinds.push(Fault::Away);
    }
    if !options.all_faults {
        return kinds;
    }
    kinds.extend([
        Fault::Restart,
        Fault::SmallStep(2),
        Fault::SmallStep(-2),
        Fault::Clock(400 * DAY),
        Fault::Clock(3_000 * DAY),
        Fault::Clock(-2 * DAY),
        Fault::Clock(-900 * DAY),
        Fault::DiskFull,
        Fault::RevokeLoop,
        Fault::Grow,
    ]);
    if is_cluster {
        kinds.extend([Fault::LongAway, Fault::Partition, Fault::DiskLoss]);
    }
    if options.network == Network::Nats {
        kinds.extend([Fault::BrokerKill, Fault::BrokerLoss]);
    }
    kinds
}
