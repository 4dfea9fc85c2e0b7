//! What goes wrong: crashes, lost and old disks, partitions, clocks, memory, brokers, chains, liars and intruders.
//!
//! To add a kind of fault, add a variant of [`Fault`] and a function.

use bruit_engine::Outcome;
use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, Frontier};
use bruit_engine::trust::Claim;
use rand::RngExt;

use super::super::server::Server;
use super::{Action, FORGED, Network, Wiring, signature};

/// Maximum number of lost disks in a run, because tables of origins are bounded.
const DISKS_LOST_MAX: u64 = 3;

/// Seconds by which a clock may jump in a run, ahead or back.
const JUMP_SECONDS: u64 = 3;

/// Budget to which a node's memory grows: the smallest possible budget.
const BUDGET_BYTES: u64 = 8 << 20;

/// Number of events by which an intruder claims and counts.
const FORGERIES: usize = 12;

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Crash,
    LostDisk,
    OldDisk,
    Partition,
    Fork,
    Withhold,
    Flood,
    Jump,
    Growth,
    Forgetful,
    BreakIn,
    Damage,
}

/// The faults, each repeated in proportion to its frequency.
const FAULTS: [Fault; 24] = [
    Fault::Crash,
    Fault::Crash,
    Fault::Crash,
    Fault::LostDisk,
    Fault::OldDisk,
    Fault::OldDisk,
    Fault::Partition,
    Fault::Partition,
    Fault::Fork,
    Fault::Fork,
    Fault::Fork,
    Fault::Withhold,
    Fault::Flood,
    Fault::Flood,
    Fault::OldDisk,
    Fault::Jump,
    Fault::Jump,
    Fault::Growth,
    Fault::Forgetful,
    Fault::Forgetful,
    Fault::BreakIn,
    Fault::BreakIn,
    Fault::Damage,
    Fault::Damage,
];

impl Network {
    pub(super) fn break_something(&mut self) {
        if self.is_whole {
            return;
        }
        self.between(2_000, 20_000, Action::Break);
        let number = self.random.random_range(0..self.nodes.len());
        match FAULTS[self.random.random_range(0..FAULTS.len())] {
            Fault::Crash => self.crash(number),
            Fault::LostDisk => self.lose_disk(number),
            Fault::OldDisk => self.restore(number),
            Fault::Partition => self.part(),
            Fault::Fork => self.fork(),
            Fault::Withhold => {
                self.is_withholding = self.liar.is_some();
                self.between(2_000, 40_000, Action::Join);
            }
            Fault::Flood => self.flood(),
            Fault::Jump => self.jump(number),
            Fault::Growth => self.grow(number),
            Fault::BreakIn => self.break_in(number),
            Fault::Damage => self.damage(number),
            Fault::Forgetful => {
                // If nodes use only a broker, nothing else has the heads of an incarnation that ended with its disk.
                let has_dead = self.wiring == Wiring::Broker && !self.lost.is_empty();
                let kind = self.random.random_range(if has_dead { 2..4 } else { 0..4 });
                self.has_lost_heads |= kind < 2;
                self.broker.forget(kind);
                self.summary.forgotten_by_broker += u64::from(self.wiring != Wiring::Direct);
            }
        }
    }

    fn crash(&mut self, number: usize) {
        if self.nodes[number].is_up {
            self.summary.crashes += 1;
            self.summary.forgotten += self.nodes[number].crash();
            self.between(100, 30_000, Action::Start(number));
        }
    }

    fn lose_disk(&mut self, number: usize) {
        let now = self.now();
        let node = &mut self.nodes[number];
        let Some(origin) = node.origin() else { return };
        // With a clock that went back, the next incarnation could have the number of this one.
        let is_later = node.clock(now).0 > origin.incarnation + 1;
        // Replacing a disk by an old copy may have removed the last copy of segments from a lost disk.
        let is_known = self.summary.disks_replaced == 0 && !(self.wiring == Wiring::Broker && self.has_lost_heads);
        if self.summary.disks_lost < DISKS_LOST_MAX && is_known && node.is_up && is_later {
            self.summary.disks_lost += 1;
            self.lost.push(origin);
            node.lose_disk(now);
            self.between(100, 10_000, Action::Start(number));
        }
    }

    /// Restarts a node on an old copy of its disk, if every other node has later segments of it. The restarted node may
    /// seal as soon as it has reached one other node, and a broker may have lost its heads.
    fn restore(&mut self, number: usize) {
        let node = &self.nodes[number];
        // The last copy of what the first node has to fetch back may be on the second disk.
        let is_first = self.summary.disks_replaced == 0;
        let is_first = is_first && node.is_up && self.wiring == Wiring::Direct && self.lost.is_empty();
        let Some(backup) = node.backup.as_ref().filter(|_| is_first) else { return };
        let Some(own) = node.origin().filter(|own| backup.origin == *own) else { return };
        let is_missing = |(chain, at): (Chain, Frontier)| {
            chain.origin == own && at.offset > backup.ends.get(&chain).copied().unwrap_or(0)
        };
        let is_known = |(_, other): (usize, &Server)| {
            other.engine.exchange().chains().any(|(chain, at)| {
                is_missing((chain, at))
                    && self.nodes.iter().all(|node| node.engine.is_live(chain.book, chain.generation + 1))
            })
        };
        if self.nodes.iter().enumerate().filter(|(other, _)| *other != number).all(is_known) {
            self.summary.disks_replaced += 1;
            self.nodes[number].restore();
            self.between(100, 2_000, Action::Start(number));
        }
    }

    /// Lets an intruder use a node. The operator notices a little later.
    fn break_in(&mut self, number: usize) {
        if self.intruder.is_some() || self.nodes.len() < 3 || !self.nodes[number].is_up {
            return;
        }
        self.intruder = Some(number);
        self.summary.nodes_forgotten += 1;
        for _ in 0..FORGERIES {
            let event = self.forgery(number);
            self.nodes[number].accept(event);
        }
        self.between(1_000, 20_000, Action::Forget);
    }

    fn forgery(&mut self, number: usize) -> Event {
        let now = self.nodes[number].clock(self.now());
        let (by, fingerprints) = (self.by(now), vec![signature(self.random.random_range(FORGED))]);
        match self.random.random_bool(0.5) {
            true => Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints },
            false => Event::Bulk { by, targets: self.random.random_range(1..30), fingerprints },
        }
    }

    /// Forgets the node that the intruder used, by a command on another node.
    pub(super) fn forget(&mut self) {
        let (Some(key), now) = (self.forgotten(), self.now()) else { return };
        let number = self.random.random_range(0..self.nodes.len());
        if Some(number) == self.intruder || !self.nodes[number].is_up {
            return self.between(100, 2_000, Action::Forget);
        }
        self.nodes[number].forget_server(key, now);
    }

    /// Repeats the command on all nodes: the decision may have been lost with a disk.
    pub(super) fn forget_everywhere(&mut self) {
        let (Some(key), now) = (self.forgotten(), self.now()) else { return };
        let nodes = self.nodes.iter_mut().enumerate().filter(|(number, _)| Some(*number) != self.intruder);
        nodes.for_each(|(_, node)| node.forget_server(key, now));
    }

    /// Lets a node fetch a chain of another node again, as if the digests differed.
    fn damage(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let own = *node.key.public().as_bytes();
        let counts = |chain: &Chain| matches!(chain.book, Book::Votes | Book::Recipients) && chain.origin.key != own;
        let chains: Vec<Chain> = node.engine.exchange().chains().map(|(chain, _)| chain).filter(counts).collect();
        if !node.is_up || chains.is_empty() {
            return;
        }
        let chain = chains[self.random.random_range(0..chains.len())];
        let now = node.engine.now();
        if !matches!(node.submit(Event::Repair { now, chain }, None), Outcome::Refused(_)) {
            node.shelf.forget(&chain).unwrap();
            self.summary.damaged += 1;
        }
    }

    fn part(&mut self) {
        let random = &mut self.random;
        self.sides.iter_mut().for_each(|side| *side = random.random_range(0..2));
        self.between(2_000, 40_000, Action::Join);
    }

    /// Lets the liar fork its history.
    fn fork(&mut self) {
        let now_ms = self.now_ms;
        let Some(liar) = &mut self.liar else { return };
        let keep = self.random.random_range(liar.journal());
        liar.forget(keep);
        liar.boot(now_ms);
        self.summary.forks += 1;
    }

    /// Lets the liar make many valid segments.
    fn flood(&mut self) {
        if self.liar.is_none() {
            return;
        }
        let (number, now_ms) = (self.nodes.len(), self.now_ms);
        for _ in 0..self.random.random_range(5..60) {
            self.report_to(number);
        }
        self.server(number).sync();
        self.server(number).export(now_ms);
    }

    /// Lets a clock jump.
    fn jump(&mut self, number: usize) {
        self.nodes[number].offset = self.random.random_range(3..=3 + 2 * JUMP_SECONDS);
        self.summary.jumps += 1;
    }

    /// Lets a node's memory grow.
    fn grow(&mut self, number: usize) {
        // Large engines make a run slow.
        if self.summary.grown > 0 || !self.nodes[number].is_up || self.random.random_bool(0.8) {
            return;
        }
        let now = self.nodes[number].engine.now();
        self.nodes[number].submit(Event::Resize { now, budget_bytes: BUDGET_BYTES }, None);
        self.summary.grown += 1;
    }
}
