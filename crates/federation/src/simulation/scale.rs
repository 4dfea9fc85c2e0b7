//! A cluster without faults, to measure the exchange: bytes, heads to verify, and the time until a report is known to all
//! nodes.
//!
//! The servers are those of the other simulations: engine, coordinator, shelf, segments and heads are the production
//! code. Clock, disk and network are replaced: a disk syncs in no time, and a message takes [`NEAR_MS`] within a region
//! and [`FAR_MS`] between two regions. Processing takes no simulated time. Only the processor time of the simulation
//! shows whether a real machine could reach a figure.
//!
//! Each node has a history of [`DAYS`] days, because the length of heads depends on the number of live generations.

use std::collections::BTreeMap;
use std::rc::Rc;

use bruit_engine::Engine;
use bruit_engine::budget::Plan;
use bruit_engine::event::{By, Event};
use bruit_engine::exchange::{Book, Chain, MEMBERS_MAX, OriginChange, Relation, Terms};
use bruit_engine::realm::{BookSizes, Realm};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_engine::verdict::Kind;
use bruit_filters::Fingerprint;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use super::broker::Broker;
use super::link::End;
use super::server::{KEY, START, Server};
use crate::coordinator::publisher::PublishRequest;
use crate::coordinator::receiver::Request;
use crate::keys::NodeKey;
use crate::segment::split;
use crate::shelf::Reader;
use crate::transport::{FETCH_BYTES_MAX, Offer, TransportError};

/// Time in milliseconds that a message takes within a region.
pub const NEAR_MS: u64 = 1;
/// Time in milliseconds that a message takes between two regions.
pub const FAR_MS: u64 = 40;
/// Days of history of each node: more than a window of the spam book.
pub const DAYS: u64 = 36;
/// Interval between two steps of an exporter, as in the server.
const STEP_MS: u64 = 50;
/// Maximum time after the start until all nodes have each other's history.
const SETTLING_MS: u64 = 1_200_000;
/// Time after the last report until the figures are read.
const REST_MS: u64 = 3_000;
/// Number of relays of a region.
const RELAYS: usize = 2;
/// Length of a day in milliseconds.
const DAY_MS: u64 = 86_400_000;
/// Epochs of the spam book and the bulk book in seconds: the defaults.
const EPOCHS: (u64, u64) = (5 * 86_400, 86_400);
/// Sizes that are sufficient for the entries of a run.
const SIZES: BookSizes = BookSizes { spam_lines: 4_096, revoked_lines: 1_024, claim_lines: 4_096, bulk_lines: 8_192 };

/// The links between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every node asks every other node.
    Mesh,
    /// All nodes use one broker.
    Broker,
    /// Two regions: half of the nodes are far from the broker, behind a leaf node.
    Leaf,
    /// Two regions without a broker: each node asks the two relays of its region, and relays ask everyone in their
    /// region and the relays of the other region.
    Relays,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of nodes.
    pub nodes: usize,
    /// The links.
    pub shape: Shape,
    /// Duration of the measurement in seconds.
    pub seconds: u64,
    /// Number of reports per second and node, each with one new signature. There are as many reports of recipients,
    /// each with three new signatures.
    pub rate: u64,
    /// Seed of times and signatures.
    pub seed: u64,
}

/// The figures of a run, of all nodes together.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Milliseconds from each report to the moment when the last node lists its signature, ascending.
    pub visible_ms: Vec<u64>,
    /// Number of reports that not all nodes had listed at the end.
    pub invisible: u64,
    /// Milliseconds from the start until all nodes had each other's history, measured in steps of one second.
    pub settled_ms: u64,
    /// Number of claims and recipients' signatures reported.
    pub entries: u64,
    /// Number of offers sent.
    pub offers: u64,
    /// Bytes of heads in offers, and of heads from a broker.
    pub heads_bytes: u64,
    /// Number of logs sent.
    pub logs: u64,
    /// Number of requests for logs that had nothing new.
    pub empty: u64,
    /// Bytes of segments in these logs.
    pub segment_bytes: u64,
    /// Bytes of segments and heads that nodes sent to a broker.
    pub published_bytes: u64,
    /// Bytes that went from one region to the other.
    pub far_bytes: u64,
    /// Heads of known servers in offers.
    pub received: u64,
    /// Bytes of the heads of one node at the end.
    pub heads_length: u64,
    /// Bytes of all segments that nodes signed during the measurement: the size of one copy of all data.
    pub signed_bytes: u64,
}

/// A scheduled action.
enum ClusterAction {
    Report(usize),
    Step(usize),
    Drive { at: NodeLink, serial: u64 },
    Ask { at: NodeLink, query: ClusterQuery },
    Arrive { at: NodeLink, answer: ClusterAnswer },
    News { at: NodeLink, heads: Rc<Vec<u8>> },
}

/// A link: the node and the number of its link.
#[derive(Clone, Copy)]
struct NodeLink {
    node: usize,
    link: usize,
}

enum ClusterQuery {
    Offer { seen: Vec<u8> },
    Log { chain: Chain, offset: u64 },
}

enum ClusterAnswer {
    Offer(Rc<Offer>),
    Log(Vec<u8>),
}

/// A request that waits for news.
struct Waiter {
    at: NodeLink,
    seen: Vec<u8>,
}

/// A report that is tracked until all nodes have listed its signature.
struct Probe {
    signature: Fingerprint,
    reported_ms: u64,
    missing: usize,
}

struct Cluster {
    settings: Settings,
    random: ChaCha8Rng,
    now_ms: u64,
    queue: BTreeMap<(u64, u64), ClusterAction>,
    serial: u64,
    nodes: Vec<Server>,
    changes: Vec<watch::Receiver<u64>>,
    waiters: Vec<Vec<Waiter>>,
    broker: Broker,
    probes: Vec<Probe>,
    /// The probes that each node has not listed.
    pending: Vec<Vec<usize>>,
    is_measuring: bool,
    figures: Figures,
}

/// Runs a cluster and returns its figures.
///
/// # Errors
/// A description if the number of nodes is out of range.
pub fn run(settings: Settings) -> Result<Figures, String> {
    if !(2..=MEMBERS_MAX + 1).contains(&settings.nodes) {
        return Err(format!(
            "{} nodes: expected 2 to {}, as many as a cluster can have",
            settings.nodes,
            MEMBERS_MAX + 1
        ));
    }
    let mut cluster = Cluster::new(settings);
    cluster.build_history();
    cluster.start();
    Ok(cluster.measure())
}

/// Returns the nodes and brokers that a node asks.
fn ends(shape: Shape, nodes: usize, own: usize) -> Vec<End> {
    let region = region_of(nodes, own);
    let relays = |region: usize| (region_start(nodes, region)..).take(RELAYS);
    let others = (0..nodes).filter(|other| *other != own);
    match shape {
        Shape::Mesh => others.map(End::Node).collect(),
        Shape::Broker | Shape::Leaf => vec![End::Broker],
        Shape::Relays if relays(region).any(|relay| relay == own) => others
            .filter(|other| region_of(nodes, *other) == region || relays(1 - region).any(|r| r == *other))
            .map(End::Node)
            .collect(),
        Shape::Relays => relays(region).map(End::Node).collect(),
    }
}

fn region_of(nodes: usize, number: usize) -> usize {
    usize::from(number >= region_start(nodes, 1))
}

const fn region_start(nodes: usize, region: usize) -> usize {
    region * nodes.div_ceil(2)
}

fn blank() -> Rc<Engine> {
    let plan = Plan {
        bytes: 8 << 20,
        sizes: SIZES,
        trust_bytes: 1 << 20,
        replica_bytes: 4 << 10,
        good_bytes: 4 << 10,
        shingle_bytes: 16 << 10,
        list_bytes: 16 << 10,
    };
    Rc::new(Engine::new(Realm::new(KEY, EPOCHS.0, EPOCHS.1, SIZES).unwrap(), plan, Policy::default(), START))
}

fn key(number: usize) -> NodeKey {
    NodeKey::generate([number as u8 + 1; 32])
}

impl Cluster {
    fn new(settings: Settings) -> Self {
        let (blank, count) = (blank(), settings.nodes);
        let terms = Terms { relation: Relation::Cluster, standing: Standing::Pinned, group: 9_000, cap: 0 };
        let join = |other: usize| OriginChange::Join { key: *key(other).public().as_bytes(), terms };
        let node = |own: usize| {
            let joins = (0..count).filter(|other| *other != own).map(join).collect();
            Server::new(&blank, key(own), 0, true, joins, ends(settings.shape, count, own))
        };
        let nodes: Vec<_> = (0..count).map(node).collect();
        Self {
            settings,
            random: ChaCha8Rng::seed_from_u64(settings.seed),
            now_ms: 0,
            queue: BTreeMap::new(),
            serial: 0,
            changes: nodes.iter().map(|node| node.shelf.changes()).collect(),
            nodes,
            waiters: (0..count).map(|_| Vec::new()).collect(),
            broker: Broker::default(),
            probes: Vec::new(),
            pending: vec![Vec::new(); count],
            is_measuring: false,
            figures: Figures::default(),
        }
    }

    /// Lets every node accept something in each generation of its books, so that heads have their usual length.
    fn build_history(&mut self) {
        for day in 1..=DAYS {
            self.now_ms = day * DAY_MS;
            for number in 0..self.nodes.len() {
                let [listed, revoked, counted] = [0; 3].map(|_| self.signature());
                self.claim(number, Claim::Report, listed);
                self.claim(number, Claim::Revoke, revoked);
                self.count(number, 20, vec![counted]);
                self.export(number);
            }
        }
    }

    fn start(&mut self) {
        for node in 0..self.nodes.len() {
            let delay = self.random.random_range(0..STEP_MS);
            self.after(delay, ClusterAction::Step(node));
            for link in 0..self.nodes[node].links.len() {
                let delay = self.random.random_range(0..1_000);
                self.after(delay, ClusterAction::Drive { at: NodeLink { node, link }, serial: 0 });
            }
        }
        let end = self.now_ms + SETTLING_MS;
        while self.now_ms < end && !self.has_settled() {
            self.run_for(1_000);
            self.figures.settled_ms += 1_000;
        }
    }

    /// Returns true if every node has the segments of all nodes.
    fn has_settled(&self) -> bool {
        let own = |node: &Server| sequences(node, |chain| node.origin() == Some(chain.origin));
        let total: u64 = self.nodes.iter().map(own).sum();
        self.nodes.iter().all(|node| sequences(node, |_| true) == total)
    }

    fn measure(mut self) -> Figures {
        let before = self.signed();
        self.is_measuring = true;
        let reporting = if self.settings.rate > 0 { self.nodes.len() } else { 0 };
        for node in 0..reporting {
            let delay = self.random.random_range(0..1_000);
            self.after(delay, ClusterAction::Report(node));
        }
        self.run_for(self.settings.seconds * 1_000);
        self.is_measuring = false;
        let mut figures = std::mem::take(&mut self.figures);
        self.run_for(REST_MS);
        figures.visible_ms.append(&mut self.figures.visible_ms);
        figures.visible_ms.sort_unstable();
        figures.invisible = self.probes.iter().filter(|probe| probe.missing > 0).count() as u64;
        figures.signed_bytes = self.signed() - before;
        figures.heads_length = self.nodes[0].shelf.own_heads(Reader::Cluster).map_or(0, |heads| heads.len() as u64);
        figures
    }

    /// Returns the length of all nodes' own logs.
    fn signed(&self) -> u64 {
        self.nodes.iter().flat_map(|node| node.shelf.own_chains()).map(|(_, end)| end).sum()
    }

    fn run_for(&mut self, duration_ms: u64) {
        let end = self.now_ms + duration_ms;
        while let Some(((at, serial), action)) = self.queue.pop_first() {
            if at > end {
                self.queue.insert((at, serial), action);
                break;
            }
            self.now_ms = at;
            self.act(action);
        }
        self.now_ms = end;
    }

    fn after(&mut self, delay_ms: u64, action: ClusterAction) {
        self.serial += 1;
        self.queue.insert((self.now_ms + delay_ms, self.serial), action);
    }

    fn act(&mut self, action: ClusterAction) {
        match action {
            ClusterAction::Report(number) => self.report(number),
            ClusterAction::Step(number) => {
                self.export(number);
                self.wake(number);
                self.after(STEP_MS, ClusterAction::Step(number));
            }
            ClusterAction::Drive { at, serial } => {
                if self.nodes[at.node].links[at.link].serial == serial {
                    self.drive(at);
                }
            }
            ClusterAction::Ask { at, query } => self.ask(at, query),
            ClusterAction::Arrive { at, answer } => self.arrive(at, answer),
            ClusterAction::News { at, heads } => {
                self.nodes[at.node].links[at.link].table.put(&heads);
                self.wake_link(at);
            }
        }
    }

    fn signature(&mut self) -> Fingerprint {
        KEY.fingerprint(&self.random.random::<[u8; 16]>())
    }

    fn by(&mut self) -> By {
        let id = self.random.random_range(1..1_000);
        let now = Time(START.0 + self.now_ms / 1_000);
        By { now, reporter: Reporter { id, standing: Standing::Own, group: id } }
    }

    fn claim(&mut self, number: usize, claim: Claim, signature: Fingerprint) {
        let event = Event::Claim { by: self.by(), claim, flag: 0, fingerprints: vec![signature] };
        assert!(self.nodes[number].accept(event), "a claim was refused");
    }

    fn count(&mut self, number: usize, targets: u32, fingerprints: Vec<Fingerprint>) {
        let event = Event::Bulk { by: self.by(), targets, fingerprints };
        assert!(self.nodes[number].accept(event), "recipients were refused");
    }

    fn report(&mut self, number: usize) {
        if !self.is_measuring {
            return;
        }
        let signature = self.signature();
        self.claim(number, Claim::Report, signature);
        let sums = (0..3).map(|_| self.signature()).collect();
        self.count(number, 1, sums);
        self.figures.entries += 4;
        self.probes.push(Probe { signature, reported_ms: self.now_ms, missing: self.nodes.len() - 1 });
        let probe = self.probes.len() - 1;
        (0..self.nodes.len()).filter(|other| *other != number).for_each(|other| self.pending[other].push(probe));
        let mean = 1_000 / self.settings.rate.max(1);
        let delay = self.random.random_range(0..=2 * mean);
        self.after(delay.max(1), ClusterAction::Report(number));
    }

    /// Notes the probes that a node has listed since the last call.
    fn look(&mut self, number: usize) {
        let (engine, probes, now_ms) = (&self.nodes[number].engine, &mut self.probes, self.now_ms);
        let visible = &mut self.figures.visible_ms;
        self.pending[number].retain(|&index| {
            let probe = &mut probes[index];
            if engine.check(&probe.signature, 0).kind != Kind::Spam {
                return true;
            }
            probe.missing -= 1;
            if probe.missing == 0 {
                visible.push(now_ms - probe.reported_ms);
            }
            false
        });
    }

    /// Runs the exporter. Sealed segments are released when the journal is synced, which takes no time.
    fn export(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        for _ in 0..2 {
            node.sync();
            node.export(self.now_ms);
        }
        assert_eq!(node.fault, None);
    }

    fn drive(&mut self, at: NodeLink) {
        let now_ms = self.now_ms;
        loop {
            let server = &mut self.nodes[at.node];
            let moment = server.moment(now_ms);
            let link = &mut server.links[at.link];
            match link.receiver.next(&server.engine, moment) {
                Request::Sleep(delay) => {
                    link.serial += 1;
                    let serial = link.serial;
                    self.after(delay.as_millis() as u64, ClusterAction::Drive { at, serial });
                    break;
                }
                Request::Offer { seen, .. } => {
                    self.send_query(at, ClusterQuery::Offer { seen });
                    break;
                }
                Request::Fetch { chain, offset } => {
                    self.send_query(at, ClusterQuery::Log { chain, offset });
                    break;
                }
                // No server of a run loses its disk.
                Request::ReadOwn { .. } => link.receiver.read(&[]),
                Request::Submit(events) => {
                    let is_listing = events.iter().any(is_listing);
                    let outcomes = server.submit_all(events);
                    server.links[at.link].receiver.submitted(Ok(outcomes), moment);
                    if is_listing {
                        self.look(at.node);
                    }
                }
                Request::KeepHeads(heads) => heads.iter().for_each(|heads| server.shelf.keep_heads(heads)),
                Request::KeepSegment { chain, offset, bytes } => {
                    server.shelf.keep_segment(&chain, offset, &bytes).unwrap();
                }
                Request::ForgetLog(chain) => server.shelf.forget(&chain).unwrap(),
                Request::Finish(Ok(round)) if self.is_measuring => self.figures.received += round.accepted as u64,
                Request::Finish(_) => {}
            }
        }
        self.wake(at.node);
    }

    fn send_query(&mut self, at: NodeLink, query: ClusterQuery) {
        let is_local = self.end(at) == End::Broker && matches!(query, ClusterQuery::Offer { .. });
        let delay = if is_local { 0 } else { self.delay(at) };
        self.after(delay, ClusterAction::Ask { at, query });
    }

    fn end(&self, at: NodeLink) -> End {
        self.nodes[at.node].links[at.link].end
    }

    fn is_far(&self, at: NodeLink) -> bool {
        let region = |number| region_of(self.nodes.len(), number);
        match (self.settings.shape, self.end(at)) {
            (Shape::Leaf, End::Broker) => region(at.node) == 1,
            (Shape::Relays, End::Node(other)) => region(at.node) != region(other),
            _ => false,
        }
    }

    fn delay(&self, at: NodeLink) -> u64 {
        if self.is_far(at) { FAR_MS } else { NEAR_MS }
    }

    fn ask(&mut self, at: NodeLink, query: ClusterQuery) {
        match (query, self.end(at)) {
            (ClusterQuery::Offer { seen }, End::Node(number)) => {
                let offer = self.nodes[number].shelf.offer(Reader::Cluster);
                self.offer_or_wait(number, Waiter { at, seen }, Rc::new(offer));
            }
            (ClusterQuery::Offer { seen }, _) => {
                let offer = self.nodes[at.node].links[at.link].table.offer();
                self.offer_or_wait(at.node, Waiter { at, seen }, Rc::new(offer));
            }
            (ClusterQuery::Log { chain, offset }, End::Node(number)) => {
                let log = self.nodes[number].shelf.log(&chain, offset, FETCH_BYTES_MAX).unwrap();
                self.send_log(at, log.unwrap_or_default(), 0);
            }
            (ClusterQuery::Log { chain, offset }, _) => {
                let log = self.broker.read(&chain, offset);
                // Over NATS, each segment needs a separate request, and one more request finds that there are no more
                // segments.
                let more_ms = 2 * self.delay(at) * count_segments(&log);
                self.send_log(at, log, more_ms);
            }
        }
    }

    fn send_log(&mut self, at: NodeLink, log: Vec<u8>, more_ms: u64) {
        let bytes = log.len() as u64;
        if self.is_measuring {
            self.figures.logs += 1;
            self.figures.empty += u64::from(bytes == 0);
            self.figures.segment_bytes += bytes;
            self.figures.far_bytes += if self.is_far(at) { bytes } else { 0 };
        }
        let delay = self.delay(at) + more_ms;
        self.after(delay, ClusterAction::Arrive { at, answer: ClusterAnswer::Log(log) });
    }

    /// Answers at once if an offer is new. Otherwise the request waits; heads change long before it would time out.
    fn offer_or_wait(&mut self, source: usize, waiter: Waiter, offer: Rc<Offer>) {
        if offer.tag == waiter.seen {
            return self.waiters[source].push(waiter);
        }
        let (at, bytes) = (waiter.at, offer.heads.len() as u64);
        let is_local = self.end(at) == End::Broker;
        if self.is_measuring && !is_local {
            self.figures.offers += 1;
            self.figures.heads_bytes += bytes;
            self.figures.far_bytes += if self.is_far(at) { bytes } else { 0 };
        }
        let delay = if is_local { 0 } else { self.delay(at) };
        self.after(delay, ClusterAction::Arrive { at, answer: ClusterAnswer::Offer(offer) });
    }

    /// Runs the publisher of a node whose shelf changed, and answers the requests that wait for its news.
    fn wake(&mut self, number: usize) {
        if !self.changes[number].has_changed().unwrap_or(false) {
            return;
        }
        self.changes[number].mark_unchanged();
        self.publish(number);
        let is_remote = |cluster: &Self, waiter: &Waiter| cluster.end(waiter.at) != End::Broker;
        let waiters = std::mem::take(&mut self.waiters[number]);
        if waiters.is_empty() {
            return;
        }
        let offer = Rc::new(self.nodes[number].shelf.offer(Reader::Cluster));
        for waiter in waiters {
            if is_remote(self, &waiter) {
                self.offer_or_wait(number, waiter, Rc::clone(&offer));
            } else {
                self.waiters[number].push(waiter);
            }
        }
    }

    /// Answers a request that waits for heads from the broker.
    fn wake_link(&mut self, at: NodeLink) {
        for waiter in std::mem::take(&mut self.waiters[at.node]) {
            let offer = Rc::new(self.nodes[at.node].links[at.link].table.offer());
            self.offer_or_wait(at.node, waiter, offer);
        }
    }

    fn arrive(&mut self, at: NodeLink, answer: ClusterAnswer) {
        let server = &mut self.nodes[at.node];
        let (moment, known) = (server.moment(self.now_ms), std::sync::Arc::clone(&server.known));
        let receiver = &mut server.links[at.link].receiver;
        match answer {
            ClusterAnswer::Offer(offer) => receiver.offered(Ok(Offer::clone(&offer)), &known, moment),
            ClusterAnswer::Log(log) if log.is_empty() => receiver.fetched(Err(TransportError::Missing), moment),
            ClusterAnswer::Log(log) => receiver.fetched(Ok(log), moment),
        }
        self.drive(at);
    }

    /// Carries out what a node's publisher decides. The broker has the data at once; readers wait for the delay of
    /// their link.
    fn publish(&mut self, number: usize) {
        while let Some(mut publisher) = self.nodes[number].publisher.take() {
            let request = publisher.next(&self.nodes[number].shelf);
            let is_done = request == PublishRequest::Wait;
            let length = self.publish_one(number, request);
            let uptime = self.nodes[number].moment(self.now_ms).uptime;
            publisher.answered(Ok(length), uptime);
            self.nodes[number].publisher = Some(publisher);
            if is_done {
                return;
            }
        }
    }

    fn publish_one(&mut self, number: usize, request: PublishRequest) -> u64 {
        match request {
            PublishRequest::Length(chain) => return self.broker.published(&chain),
            PublishRequest::Publish { chain, at, end } => {
                let log = self.nodes[number].shelf.log(&chain, at, (end - at) as usize).unwrap().unwrap_or_default();
                self.note_published(number, log.len());
                let (mut at, mut rest) = (at, &log[..]);
                while let Ok(Some((segment, behind))) = split(rest) {
                    self.broker.publish(&chain, at, segment);
                    (at, rest) = (at + segment.len() as u64, behind);
                }
                return at;
            }
            PublishRequest::Announce(heads) => {
                self.note_published(number, heads.len());
                self.notify(number, Rc::new(heads));
            }
            _ => {}
        }
        0
    }

    fn note_published(&mut self, number: usize, bytes: usize) {
        let is_far = self.settings.shape == Shape::Leaf && region_of(self.nodes.len(), number) == 1;
        if self.is_measuring {
            self.figures.published_bytes += bytes as u64;
            self.figures.far_bytes += if is_far { bytes as u64 } else { 0 };
        }
    }

    /// Sends heads to all nodes. A leaf node receives the heads only once.
    fn notify(&mut self, from: usize, heads: Rc<Vec<u8>>) {
        let own = NodeLink { node: from, link: 0 };
        for node in (0..self.nodes.len()).filter(|node| *node != from) {
            let at = NodeLink { node, link: 0 };
            let delay = self.delay(own) + self.delay(at);
            self.after(delay, ClusterAction::News { at, heads: Rc::clone(&heads) });
        }
        if self.is_measuring {
            self.figures.heads_bytes += (heads.len() * (self.nodes.len() - 1)) as u64;
            let crosses = self.settings.shape == Shape::Leaf && !self.is_far(own);
            self.figures.far_bytes += if crosses { heads.len() as u64 } else { 0 };
        }
    }
}

/// Returns the number of segments of some chains that a node has applied.
fn sequences(node: &Server, filter: impl Fn(&Chain) -> bool) -> u64 {
    node.engine.exchange().chains().filter(|(chain, _)| filter(chain)).map(|(_, frontier)| frontier.sequence).sum()
}

fn count_segments(mut log: &[u8]) -> u64 {
    let mut count = 0;
    while let Ok(Some((_, behind))) = split(log) {
        (count, log) = (count + 1, behind);
    }
    count
}

fn is_listing(event: &Event) -> bool {
    matches!(event, Event::Received { segment, .. } if segment.chain.book == Book::Listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_becomes_visible_in_a_mesh_and_over_a_broker() {
        for shape in [Shape::Mesh, Shape::Broker] {
            let figures = run(Settings { nodes: 6, shape, seconds: 4, rate: 2, seed: 1 }).unwrap();
            assert!(figures.visible_ms.len() > 20 && figures.invisible == 0, "{shape:?}: {figures:?}");
            assert!(figures.visible_ms.iter().all(|ms| *ms < 4_000), "{shape:?}: {:?}", figures.visible_ms);
        }
    }

    #[test]
    fn a_cluster_larger_than_the_engine_allows_is_refused() {
        let settings = Settings { nodes: MEMBERS_MAX + 2, shape: Shape::Broker, seconds: 1, rate: 1, seed: 1 };
        assert!(run(settings).unwrap_err().contains(&format!("expected 2 to {}", MEMBERS_MAX + 1)));
    }
}
