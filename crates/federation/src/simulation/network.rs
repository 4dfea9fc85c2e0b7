//! Faults of servers and messages, in the order of a virtual clock.
//!
//! | module | contents |
//! |---|---|
//! | `faults` | what goes wrong |
//! | `traffic` | the messages between servers, and the broker |

mod faults;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bruit_engine::event::{By, Event};
use bruit_engine::exchange::{Chain, Frontier, Origin, OriginChange, Relation, Terms};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_filters::Fingerprint;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::Summary;
use super::broker::Broker;
use super::link::End;
use super::server::{KEY, START, Server, blank_engine};
use super::truth;
use crate::keys::NodeKey;
use traffic::{Answer, Query};

/// Number of claimed signatures: few, so that several servers report the same ones.
const SIGNATURES: u32 = 24;
/// Signatures that only the liar claims.
pub(super) const VICTIMS: std::ops::Range<u32> = 1_000..1_040;
/// Signatures that only an intruder claims.
pub(super) const FORGED: std::ops::Range<u32> = 2_000..2_010;
/// Maximum recipients counted from a peer.
pub(super) const PEER_CAP: u32 = 7;

/// Duration of the faulty phase, in milliseconds.
const FAULTY_MS: std::ops::Range<u64> = 30_000..140_000;
/// Maximum time for a healed network to agree: several times the longest delay between two attempts.
const HEALING_MS: u64 = 180_000;
/// Time that all links need to notice the agreement: the longest request plus the longest delay before the next one.
/// Only some runs wait that long.
const NOTICE_MS: u64 = 60_000;

/// Number of segments that a liar adds to its forked history at the end.
const FORK_SEGMENTS: u32 = 4;

/// The lengths of the epochs of the spam book and the bulk book, in seconds. With the short ones, generations end
/// during a run.
const EPOCHS: [(u64, u64); 4] = [(180, 60), (30, 15), (24, 8), (12, 6)];

/// The transports between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wiring {
    /// Every node asks every other node.
    Direct,
    /// All nodes use a broker.
    Broker,
    /// Both transports.
    Mixed,
}

/// A scheduled action.
#[derive(Clone, Debug)]
enum Action {
    /// A client reports to some server.
    Report,
    /// A server's exporter and publisher run.
    Step(usize),
    /// A server syncs its disk.
    Sync(usize),
    /// A link of a server carries out its next requests, after a pause.
    Drive { at: ProcessLink, serial: u64 },
    /// The answer to a request of a link is overdue.
    Timeout { at: ProcessLink, serial: u64 },
    /// A request arrives at a server or the broker, which may wait for news until a time.
    Ask { at: ProcessLink, query: Query, serial: u64, until_ms: u64 },
    /// An answer arrives at a link.
    Arrive { at: ProcessLink, answer: Answer, serial: u64 },
    /// Heads arrive from the broker.
    News { at: ProcessLink, heads: Vec<u8> },
    /// A link reads the heads that the broker stores.
    Refresh(ProcessLink),
    /// A fault occurs.
    Break,
    /// The operator forgets the node that an intruder used.
    Forget,
    /// A crashed server restarts.
    Start(usize),
    /// The partition ends, and the liar stops withholding segments.
    Join,
}

/// Identifies a link: its server, the number of the server's process, and the number of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessLink {
    server: usize,
    boots: u64,
    link: usize,
}

/// Servers and the messages between them.
pub(super) struct Network {
    random: ChaCha8Rng,
    now_ms: u64,
    queue: BTreeMap<(u64, u64), Action>,
    serial: u64,
    pub(super) nodes: Vec<Server>,
    /// A peer of all nodes. Its index follows those of the nodes.
    pub(super) liar: Option<Server>,
    kept: Vec<Vec<u8>>,
    /// True if the liar signs only valid data. It still floods, withholds segments and forks its history.
    is_polite: bool,
    is_withholding: bool,
    broker: Broker,
    wiring: Wiring,
    /// True if the broker has lost heads.
    has_lost_heads: bool,
    /// The node that an intruder used. It is forgotten.
    intruder: Option<usize>,
    /// Origins lost with their disks.
    lost: Vec<Origin>,
    /// The side of the partition of each server, and of the broker. Servers on different sides cannot communicate.
    sides: Vec<u8>,
    /// Probability of message loss, in thousandths.
    loss: u32,
    repetition: u32,
    delay_ms: u64,
    is_whole: bool,
    /// True if all links had the time to notice that the network was healed.
    pub(super) is_noticed: bool,
    summary: Summary,
}

impl Network {
    /// Generates the servers and the severity of faults.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let count = random.random_range(2..=6_u8);
        let with_liar = random.random_bool(0.5);
        let epochs = EPOCHS[random.random_range(0..EPOCHS.len())];
        let wiring = [Wiring::Direct, Wiring::Broker, Wiring::Mixed][random.random_range(0..3)];
        let standing = if random.random_bool(0.5) { Standing::Pinned } else { Standing::Account };
        let key = |number: u8| NodeKey::generate([number + 1; 32]);
        let join = |number: u8, relation| OriginChange::Join {
            key: *key(number).public().as_bytes(),
            terms: Terms { relation, standing, group: 9_000 + u64::from(number), cap: PEER_CAP },
        };
        let blank = blank_engine(epochs);
        let ends = |own: u8| {
            let others = (0..count).filter(move |other| *other != own && wiring != Wiring::Broker);
            let others = others.map(|other| End::Node(other.into()));
            let broker = (wiring != Wiring::Direct).then_some(End::Broker);
            others.chain(broker).chain(with_liar.then_some(End::Liar(count.into()))).collect()
        };
        let node = |number: u8, offset| {
            let others = (0..count).filter(|other| *other != number).map(|other| join(other, Relation::Cluster));
            let joins = others.chain(with_liar.then(|| join(count, Relation::Peer))).collect();
            Server::new(&blank, key(number), offset, true, joins, ends(number))
        };
        let mut nodes: Vec<_> = (0..count).map(|number| node(number, 3 + random.random_range(0..4))).collect();
        let shared = Arc::clone(&nodes[0].known);
        nodes.iter_mut().for_each(|node| node.share_verified(&shared));
        let liar = with_liar.then(|| {
            let joins = (0..count).map(|number| join(number, Relation::Peer)).collect();
            Server::new(&blank, key(count), 3, false, joins, Vec::new())
        });
        let mut network = Self {
            now_ms: 0,
            queue: BTreeMap::new(),
            serial: 0,
            sides: vec![0; nodes.len() + 2],
            nodes,
            liar,
            kept: Vec::new(),
            is_polite: random.random_bool(0.5),
            is_withholding: false,
            broker: Broker::default(),
            wiring,
            has_lost_heads: false,
            intruder: None,
            lost: Vec::new(),
            loss: random.random_range(0..300),
            repetition: random.random_range(0..300),
            delay_ms: random.random_range(20..3_000),
            is_whole: false,
            is_noticed: false,
            summary: Summary { nodes: count.into(), ..Summary::default() },
            random,
        };
        network.start();
        network
    }

    fn start(&mut self) {
        self.after(0, Action::Report);
        self.after(5_000, Action::Break);
        for server in 0..self.servers() {
            for action in [Action::Step(server), Action::Sync(server)] {
                let delay = self.random.random_range(0..2_000);
                self.after(delay, action);
            }
            self.start_links(server);
        }
    }

    fn start_links(&mut self, number: usize) {
        let (boots, links) = (self.server(number).boots, self.server(number).links.len());
        for link in 0..links {
            let at = ProcessLink { server: number, boots, link };
            let delay = self.random.random_range(0..1_000);
            self.after(delay, Action::Drive { at, serial: 0 });
            if self.server(number).links[link].end == End::Broker {
                self.after(delay, Action::Refresh(at));
            }
        }
    }

    fn servers(&self) -> usize {
        self.nodes.len() + usize::from(self.liar.is_some())
    }

    fn server(&mut self, number: usize) -> &mut Server {
        self.nodes.get_mut(number).or(self.liar.as_mut()).unwrap()
    }

    pub(super) fn now(&self) -> Time {
        Time(START.0 + self.now_ms / 1_000)
    }

    pub(super) const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn after(&mut self, delay_ms: u64, action: Action) {
        self.serial += 1;
        self.queue.insert((self.now_ms + delay_ms, self.serial), action);
    }

    /// Schedules an action at a random delay.
    fn between(&mut self, low_ms: u64, high_ms: u64, action: Action) {
        let delay = self.random.random_range(low_ms..=high_ms);
        self.after(delay, action);
    }

    /// Runs the faulty phase.
    pub(super) fn live(&mut self) {
        let end = self.random.random_range(FAULTY_MS);
        self.run_until(end);
    }

    fn run_until(&mut self, end_ms: u64) {
        while let Some(((at, serial), action)) = self.queue.pop_first() {
            if at > end_ms {
                self.queue.insert((at, serial), action);
                break;
            }
            self.now_ms = at;
            self.act(action);
        }
        self.now_ms = self.now_ms.max(end_ms);
    }

    /// Runs without faults until all servers agree.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.is_whole = true;
        (self.loss, self.repetition, self.delay_ms) = (0, 0, 50);
        self.sides.fill(0);
        self.lengthen_fork();
        self.is_withholding = false;
        for number in 0..self.servers() {
            if !self.server(number).is_up {
                self.act(Action::Start(number));
            }
        }
        self.forget_everywhere();
        let end = self.now_ms + HEALING_MS;
        while self.now_ms < end {
            let next = self.now_ms + 2_000;
            self.run_until(next);
            if self.is_settled() {
                self.is_noticed = self.random.random_bool(0.2);
                let notice = self.now_ms + if self.is_noticed { NOTICE_MS } else { 0 };
                self.run_until(notice);
                return Ok(());
            }
        }
        Err(format!("no agreement after {} seconds: {}", HEALING_MS / 1_000, truth::disagreement(self)))
    }

    /// If the liar forked its history, extends the forked version to the length of the first one, so that nodes notice the
    /// fork.
    fn lengthen_fork(&mut self) {
        let (number, now_ms) = (self.nodes.len(), self.now_ms);
        for _ in 0..if self.liar.is_some() && self.is_polite { FORK_SEGMENTS } else { 0 } {
            for _ in 0..8 {
                self.report_to(number);
            }
            let liar = self.server(number);
            liar.sync();
            // Segments of a chain have a minimum interval.
            liar.forget_intervals();
            liar.export(now_ms);
        }
    }

    /// Returns true if each node has the present version of the liar's history. This is checked only if the liar is
    /// polite and forked its history once: a chain is fetched again at most every ten minutes, and a peer that sends
    /// invalid data is asked less and less often.
    pub(super) fn has_repaired(&self) -> bool {
        let Some(liar) = self.liar.as_ref().filter(|_| self.is_polite && self.summary.forks == 1) else { return true };
        let ours = liar.engine.exchange().chains().filter(|(chain, _)| Some(chain.origin) == liar.origin());
        let shared: Vec<_> = ours.filter(|(chain, _)| chain.book.is_public()).collect();
        self.members().all(|node| {
            let is_forked = |(chain, at): &(Chain, Frontier)| {
                let taken = node.engine.exchange().frontier(chain);
                taken.sequence == at.sequence
                    && taken.hash != at.hash
                    && node.engine.is_live(chain.book, chain.generation)
            };
            !shared.iter().any(is_forked)
        })
    }

    /// Returns true if nothing is queued, and all have applied the same segments. All books agree on the time by then.
    fn is_settled(&mut self) -> bool {
        if self.members().any(|node| node.engine.is_forgetting()) {
            return false;
        }
        let latest = self.members().map(|node| node.engine.now().max(node.clock(self.now()))).max().unwrap();
        // Tick twice, because the tick that begins a generation leaves the oldest one for the next tick to clear.
        for node in &mut self.nodes {
            node.tick(latest);
            node.tick(latest);
            node.sync();
        }
        let is_sealed = self.members().all(|node| node.engine.exchange().pending_bytes() == 0);
        is_sealed && truth::frontiers_agree(self) && self.has_repaired()
    }

    pub(super) fn compare(&mut self) -> Result<(), String> {
        // Generations may have ended since the servers agreed.
        for _ in 0..20 {
            if self.is_settled() {
                return truth::compare(self);
            }
            let next = self.now_ms + 2_000;
            self.run_until(next);
        }
        Err(format!("agreement was lost: {}", truth::disagreement(self)))
    }

    pub(super) fn summary(mut self) -> Summary {
        let mut summary = self.summary.clone();
        for node in &mut self.nodes {
            node.note_links();
            summary.acknowledged += node.facts().count() as u64;
            summary.taken += node.tally.taken;
            summary.repairs += node.tally.repairs;
            node.tally.rejected.iter().for_each(|(why, count)| *summary.rejected.entry(why).or_default() += count);
        }
        summary
    }

    /// Returns the origins that ended because their disk was lost or replaced. Their entries are counted from their
    /// logs.
    pub(super) fn dead(&self) -> BTreeSet<Origin> {
        let replaced = self.nodes.iter().filter_map(|node| node.replaced.filter(|_| node.origin() != node.replaced));
        let forgotten = self.forgotten();
        self.lost.iter().copied().chain(replaced).filter(|origin| Some(origin.key) != forgotten).collect()
    }

    /// Returns true if a node, forgotten or not, lost its disk or got an old copy of it.
    pub(super) fn has_lost_disks(&self) -> bool {
        !self.lost.is_empty() || self.nodes.iter().any(|node| node.replaced.is_some())
    }

    /// Returns the nodes that are not forgotten.
    pub(super) fn members(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().enumerate().filter(|(number, _)| Some(*number) != self.intruder).map(|(_, node)| node)
    }

    /// Returns the key of the forgotten node.
    pub(super) fn forgotten(&self) -> Option<[u8; 32]> {
        Some(*self.nodes[self.intruder?].key.public().as_bytes())
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Report => self.report(),
            Action::Step(number) => self.step(number),
            Action::Sync(number) => {
                let (is_up, is_copied) = (self.server(number).is_up, self.random.random_bool(0.2));
                if is_up {
                    self.server(number).sync();
                    if is_copied && self.server(number).backup.is_none() {
                        self.server(number).back_up();
                    }
                }
                self.between(100, 3_000, Action::Sync(number));
            }
            Action::Drive { at, serial } => {
                if self.link(at).is_some_and(|link| link.serial == serial) {
                    self.drive(at);
                }
            }
            Action::Timeout { at, serial } => self.time_out(at, serial),
            Action::Ask { at, query, serial, until_ms } => self.ask(at, query, serial, until_ms),
            Action::Arrive { at, answer, serial } => self.arrive(at, answer, serial),
            Action::News { at, heads } => self.take_news(at, &heads),
            Action::Refresh(at) => self.refresh(at),
            Action::Break => self.break_something(),
            Action::Forget => self.forget(),
            Action::Start(number) => self.boot(number),
            Action::Join => {
                self.sides.fill(0);
                self.is_withholding = false;
            }
        }
    }

    fn boot(&mut self, number: usize) {
        let now_ms = self.now_ms;
        if !self.server(number).is_up {
            self.server(number).boot(now_ms);
            self.start_links(number);
        }
    }

    /// Runs a server's exporter, and publishes what it released.
    fn step(&mut self, number: usize) {
        let now_ms = self.now_ms;
        if self.server(number).is_up {
            self.server(number).reread(now_ms);
            self.server(number).export(now_ms);
            self.publish(number);
        }
        self.between(300, 2_500, Action::Step(number));
    }

    /// Lets a client report, during the faulty phase.
    fn report(&mut self) {
        if self.is_whole {
            return;
        }
        self.between(100, 1_500, Action::Report);
        let number = self.random.random_range(0..self.servers());
        self.report_to(number);
    }

    fn report_to(&mut self, number: usize) {
        let (is_liar, now) = (number == self.nodes.len(), self.now());
        let now = self.server(number).clock(now);
        let event = if self.random.random_bool(0.5) { self.claim(now, is_liar) } else { self.recipients(now, is_liar) };
        if self.server(number).is_up {
            self.server(number).accept(event);
        }
    }

    fn by(&mut self, now: Time) -> By {
        let id = self.random.random_range(1..6);
        By { now, reporter: Reporter { id, standing: Standing::Own, group: id } }
    }

    fn claim(&mut self, now: Time, is_liar: bool) -> Event {
        let claim = if !is_liar && self.random.random_bool(0.25) { Claim::Revoke } else { Claim::Report };
        let (flag, fingerprints) = (self.random.random_range(0..2), vec![self.signature(is_liar)]);
        Event::Claim { by: self.by(now), claim, flag, fingerprints }
    }

    fn recipients(&mut self, now: Time, is_liar: bool) -> Event {
        let fingerprints = (0..self.random.random_range(1..4)).map(|_| self.signature(is_liar)).collect();
        let targets = if is_liar { 100_000 } else { self.random.random_range(1..30) };
        Event::Bulk { by: self.by(now), targets, fingerprints }
    }

    fn signature(&mut self, is_liar: bool) -> Fingerprint {
        let range = if is_liar { VICTIMS } else { 0..SIGNATURES };
        signature(self.random.random_range(range))
    }
}

pub(super) fn signature(number: u32) -> Fingerprint {
    KEY.fingerprint(&number.to_le_bytes())
}

pub(super) fn signatures() -> impl Iterator<Item = Fingerprint> {
    (0..SIGNATURES).map(signature)
}
