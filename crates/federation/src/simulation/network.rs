//! Faults of servers and messages, in the order of a virtual clock.

use std::collections::BTreeMap;
use std::rc::Rc;

use bruit_engine::event::{By, Event};
use bruit_engine::exchange::{Origin, OriginChange, Relation, Terms};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_filters::Fingerprint;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::Summary;
use super::liar::mangle;
use super::server::{KEY, START, Server, blank_engine};
use super::truth;
use crate::judge::Want;
use crate::keys::NodeKey;

/// Number of claimed signatures: few, so that several servers report the same ones.
const SIGNATURES: u32 = 24;
/// Signatures that only the liar claims.
pub(super) const VICTIMS: std::ops::Range<u32> = 1_000..1_040;
/// Maximum recipients counted from a peer.
pub(super) const PEER_CAP: u32 = 7;

/// Duration of the faulty phase, in milliseconds.
const FAULTY_MS: std::ops::Range<u64> = 40_000..300_000;
/// Maximum time for a healed network to agree.
const HEALING_MS: u64 = 120_000;
/// Speed-up of a healed network.
const SPEED_UP: u64 = 8;
/// Maximum number of lost disks in a run, and of incarnations of a server, because tables of origins are bounded.
const DISKS_LOST_MAX: u64 = 3;
const LIVES_MAX: u64 = 3;

/// Maximum number of messages that the liar keeps for replay.
const KEPT_MAX: usize = 64;

/// A scheduled action.
#[derive(Clone, Debug)]
enum Action {
    /// A client reports to some server.
    Report,
    /// A server seals its queued entries into segments.
    Seal(usize),
    /// A server syncs its disk.
    Sync(usize),
    /// A server polls another one.
    Poll(usize),
    /// A fault occurs.
    Break,
    /// A crashed server restarts.
    Start(usize),
    /// The partition ends.
    Join,
    /// A message arrives.
    Arrive { from: usize, to: usize, message: Message },
}

#[derive(Clone, Debug)]
enum Message {
    Ask,
    Offer(Vec<u8>),
    Fetch(Box<Want>),
    Log(Box<Want>, Vec<u8>),
}

impl Message {
    const fn is_answer(&self) -> bool {
        matches!(self, Self::Offer(_) | Self::Log(..))
    }
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
    /// Origins lost with their disks.
    pub(super) dead: Vec<Origin>,
    /// The side of the partition of each server. Servers on different sides cannot communicate.
    sides: Vec<u8>,
    /// Probability of message loss, in thousandths.
    loss: u32,
    repetition: u32,
    delay_ms: u64,
    is_whole: bool,
    summary: Summary,
}

impl Network {
    /// Generates the servers and the severity of faults.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let count = random.random_range(3..=7_u8);
        let with_liar = random.random_bool(0.5);
        let key = |number: u8| NodeKey::generate([number + 1; 32]);
        let standing = if random.random_bool(0.5) { Standing::Pinned } else { Standing::Account };
        let join = |number: u8, relation| OriginChange::Join {
            key: *key(number).public().as_bytes(),
            terms: Terms { relation, standing, group: 9_000 + u64::from(number), cap: PEER_CAP },
        };
        let blank = Rc::new(blank_engine());
        let node = |number: u8, skew| {
            let others = (0..count).filter(|other| *other != number).map(|other| join(other, Relation::Cluster));
            let joins = others.chain(with_liar.then(|| join(count, Relation::Peer)));
            Server::new(&blank, key(number), skew, true, joins.collect())
        };
        let nodes: Vec<_> = (0..count).map(|number| node(number, random.random_range(0..3))).collect();
        let servers = nodes.len() + 1;
        let liar = with_liar.then(|| {
            Server::new(&blank, key(count), 0, false, (0..count).map(|number| join(number, Relation::Peer)).collect())
        });
        let mut network = Self {
            now_ms: 0,
            queue: BTreeMap::new(),
            serial: 0,
            nodes,
            liar,
            kept: Vec::new(),
            dead: Vec::new(),
            sides: vec![0; servers],
            loss: random.random_range(0..400),
            repetition: random.random_range(0..300),
            delay_ms: random.random_range(20..5_000),
            is_whole: false,
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
            let actions = [Action::Seal(server), Action::Sync(server), Action::Poll(server)];
            actions.into_iter().for_each(|action| {
                let delay = self.random.random_range(0..3_000);
                self.after(delay, action);
            });
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

    fn after(&mut self, delay_ms: u64, action: Action) {
        self.serial += 1;
        self.queue.insert((self.now_ms + delay_ms, self.serial), action);
    }

    /// Schedules an action at a random delay. A healed network is faster, because the test waits for it.
    fn between(&mut self, low_ms: u64, high_ms: u64, action: Action) {
        let hurry = if self.is_whole { SPEED_UP } else { 1 };
        let delay = self.random.random_range(low_ms..=high_ms) / hurry;
        self.after(delay, action);
    }

    /// Runs the faulty phase.
    pub(super) fn live(&mut self) {
        let end = self.random.random_range(FAULTY_MS);
        self.run_until(end);
    }

    fn run_until(&mut self, end_ms: u64) {
        while let Some(((at, _), action)) = self.queue.pop_first() {
            if at > end_ms {
                self.queue.insert((at, 0), action);
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
        let now = self.now();
        for number in 0..self.servers() {
            self.server(number).is_up = true;
        }
        let end = self.now_ms + HEALING_MS;
        while self.now_ms < end {
            let next = self.now_ms + 2_000;
            self.run_until(next);
            if self.is_settled() {
                return Ok(());
            }
        }
        Err(format!("no agreement {} seconds after {now:?}: {}", HEALING_MS / 1_000, truth::disagreement(self)))
    }

    /// Returns true if nothing is queued, and all have applied the same segments. All clocks agree by now.
    fn is_settled(&mut self) -> bool {
        let latest = self.nodes.iter().map(|node| node.clock(self.now())).max().unwrap();
        // Tick twice, because the tick that begins a generation leaves the oldest one for the next tick to clear.
        for node in &mut self.nodes {
            node.tick(latest);
            node.tick(latest);
        }
        let now = self.now();
        self.nodes.iter_mut().for_each(|node| node.sync(now));
        self.nodes.iter().all(|node| node.engine.exchange().pending_bytes() == 0) && truth::frontiers_agree(self)
    }

    pub(super) fn compare(&self) -> Result<(), String> {
        truth::compare(self)
    }

    pub(super) fn summary(&self) -> Summary {
        let mut summary = self.summary.clone();
        for node in &self.nodes {
            summary.acknowledged += node.facts().count() as u64;
            summary.taken += node.tally.taken;
            summary.repairs += node.tally.repairs;
            node.tally.rejected.iter().for_each(|(why, count)| *summary.rejected.entry(why).or_default() += count);
        }
        summary
    }

    fn act(&mut self, action: Action) {
        let now = self.now();
        match action {
            Action::Report => self.report(),
            Action::Seal(number) => {
                if self.server(number).is_up {
                    self.server(number).seal(now);
                }
                self.between(1_000, 8_000, Action::Seal(number));
            }
            Action::Sync(number) => {
                if self.server(number).is_up {
                    self.server(number).sync(now);
                }
                self.between(100, 3_000, Action::Sync(number));
            }
            Action::Poll(number) => self.poll(number),
            Action::Break => self.break_something(),
            Action::Start(number) => self.server(number).is_up = true,
            Action::Join => self.sides.fill(0),
            Action::Arrive { from, to, message } if self.server(to).is_up => self.arrive(from, to, message),
            Action::Arrive { .. } => self.summary.lost += 1,
        }
    }

    /// Lets a client report, during the faulty phase.
    fn report(&mut self) {
        if self.is_whole {
            return;
        }
        self.between(200, 4_000, Action::Report);
        let number = self.random.random_range(0..self.servers());
        let is_liar = number == self.nodes.len();
        let now = self.now();
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

    fn break_something(&mut self) {
        if self.is_whole {
            return;
        }
        self.between(3_000, 40_000, Action::Break);
        let number = self.random.random_range(0..self.nodes.len());
        match self.random.random_range(0..6) {
            0 | 1 => self.crash(number),
            2 => self.lose_disk(number),
            3 | 4 => self.part(),
            _ => self.fork(),
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
        let node = &mut self.nodes[number];
        if self.summary.disks_lost < DISKS_LOST_MAX && node.lives() < LIVES_MAX && node.is_up {
            self.summary.disks_lost += 1;
            self.dead.push(node.origin());
            let now = Time(START.0 + self.now_ms / 1_000);
            node.lose_disk(now);
            // The crash closed the server's connections: the new process gets no answers to old requests. Messages that
            // the old process had sent may still arrive.
            self.queue.retain(|_, action| match action {
                Action::Arrive { to, .. } if *to == number => false,
                Action::Arrive { from, message, .. } => *from != number || message.is_answer(),
                _ => true,
            });
        }
    }

    fn part(&mut self) {
        let random = &mut self.random;
        self.sides.iter_mut().for_each(|side| *side = random.random_range(0..2));
        self.between(2_000, 60_000, Action::Join);
    }

    /// Lets the liar fork its history.
    fn fork(&mut self) {
        let Some(liar) = &mut self.liar else { return };
        let keep = self.random.random_range(liar.journal());
        liar.forget(keep);
    }

    fn poll(&mut self, number: usize) {
        self.between(2_000, 12_000, Action::Poll(number));
        let other = self.random.random_range(0..self.servers());
        if other != number && self.server(number).is_up {
            self.send(number, other, Message::Ask);
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        if self.sides[from] != self.sides[to] || self.random.random_range(0..1_000) < self.loss {
            self.summary.lost += 1;
            return;
        }
        let is_repeated = self.random.random_range(0..1_000) < self.repetition;
        self.summary.repeated += u64::from(is_repeated);
        for _ in 0..1 + u32::from(is_repeated) {
            let delay = self.random.random_range(1..=self.delay_ms);
            self.after(delay, Action::Arrive { from, to, message: message.clone() });
        }
    }

    fn arrive(&mut self, from: usize, to: usize, message: Message) {
        let now = self.now();
        match message {
            Message::Ask => {
                let offer = self.server(to).offer().to_vec();
                let offer = self.bytes_sent_by(to, offer);
                self.send(to, from, Message::Offer(offer));
            }
            Message::Offer(offer) => {
                let wants = self.server(to).hear(&offer, now);
                wants.into_iter().for_each(|want| self.send(to, from, Message::Fetch(Box::new(want))));
            }
            Message::Fetch(want) => {
                let bytes_max = self.random.random_range(300..20_000);
                let log = self.server(to).serve(&want.chain, want.from.offset, bytes_max).to_vec();
                let log = self.bytes_sent_by(to, log);
                self.send(to, from, Message::Log(want, log));
            }
            Message::Log(want, log) => self.server(to).take(&log, &want, now),
        }
    }

    /// Returns the bytes that a server sends: an honest server sends `bytes`, and the liar distorts them.
    fn bytes_sent_by(&mut self, number: usize, bytes: Vec<u8>) -> Vec<u8> {
        if number < self.nodes.len() {
            return bytes;
        }
        let said = mangle(&mut self.random, &bytes, &self.kept);
        let at = self.random.random_range(0..KEPT_MAX);
        if self.kept.len() < KEPT_MAX {
            self.kept.push(bytes);
        } else {
            self.kept[at] = bytes;
        }
        said
    }
}

pub(super) fn signature(number: u32) -> Fingerprint {
    KEY.fingerprint(&number.to_le_bytes())
}

pub(super) fn signatures() -> impl Iterator<Item = Fingerprint> {
    (0..SIGNATURES).map(signature)
}
