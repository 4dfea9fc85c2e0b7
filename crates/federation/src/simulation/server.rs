//! A server whose disk is a vector: a crash loses the events not yet synced and rebuilds the engine from the rest.
//!
//! It decides nothing about the exchange: it carries out the requests of the coordinator, as the real server does. The
//! journal reports events before they are synced, as under relaxed durability, which is the harder case.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bruit_engine::budget::Plan;
use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, Origin, OriginChange, Relation};
use bruit_engine::realm::{BookSizes, Realm};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy};
use bruit_engine::{BEHIND_LINES, Engine, Outcome};
use bruit_filters::{Fingerprint, FingerprintKey};

use crate::coordinator::Moment;
use crate::coordinator::exporter::{ExportRequest, Exporter, Surroundings, awaits_cluster};
use crate::coordinator::judge::Known;
use crate::coordinator::publisher::Publisher;
use crate::coordinator::rereader::{REREAD_BYTES, RereadRequest, Rereader};
use crate::keys::{NodeKey, PublicKey};
use crate::shelf::{MemoryLogs, Reader, Shelf};

use super::link::{End, SimLink};

pub(super) const KEY: FingerprintKey = FingerprintKey::narrow([5; 16]);
/// Start time of every run.
pub(super) const START: Time = Time(1_700_000_011);

/// Small sizes, but large enough that no two signatures of a run share all cells. When the memory of a node grows, its
/// records of large counts are copied, so they must fill less than half of the table of records.
const SIZES: BookSizes = BookSizes { spam_lines: 64, revoked_lines: 64, claim_lines: 512, bulk_lines: 512 };

/// Maximum number of the rereader's requests that one step carries out. A server can crash between two steps.
const REREAD_STEPS: usize = 12;

/// An acknowledged event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Claimed { generation: u64, claim: Claim, flag: u8, fingerprint: Fingerprint },
    Counted { generation: u64, amount: u32, fingerprints: Vec<Fingerprint> },
}

/// An event of the journal, with the fact that it acknowledged.
#[derive(Clone, Debug)]
struct Record {
    event: Event,
    fact: Option<Fact>,
}

/// The statistics of a server, over all its processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) taken: u64,
    pub(super) repairs: u64,
    pub(super) rejected: BTreeMap<&'static str, u64>,
}

/// A copy of a disk.
pub(super) struct Backup {
    pub(super) origin: Origin,
    journal: usize,
    logs: MemoryLogs,
    pub(super) ends: BTreeMap<Chain, u64>,
}

/// A server.
pub(super) struct Server {
    pub(super) key: NodeKey,
    pub(super) engine: Engine,
    pub(super) is_up: bool,
    blank: Rc<Engine>,
    pub(super) tally: Tally,
    pub(super) logs: MemoryLogs,
    pub(super) shelf: Shelf,
    exporter: Exporter,
    rereader: Rereader,
    pub(super) publisher: Option<Publisher>,
    pub(super) links: Vec<SimLink>,
    ends: Vec<End>,
    /// Seconds by which this server's clock is ahead.
    pub(super) offset: u64,
    booted_ms: u64,
    /// Number of processes so far. Messages to an earlier process get lost.
    pub(super) boots: u64,
    pub(super) known: Arc<Known>,
    /// The forgotten servers that `known` does not contain.
    unknown: Vec<[u8; 32]>,
    joins: Vec<OriginChange>,
    /// The keys in `joins`.
    others: Vec<(PublicKey, Relation)>,
    is_cluster: bool,
    journal: Vec<Record>,
    synced: usize,
    /// Number of events written when the current disk was set up.
    founded: usize,
    /// Number of events whose facts are counted by the logs of an earlier incarnation instead.
    counted_by_log: usize,
    pub(super) backup: Option<Backup>,
    /// The last sequence of each chain of listings that this server had applied when it forgot another server.
    pub(super) listed_before_forgetting: BTreeMap<Chain, u64>,
    /// The incarnation that ran on a disk that was replaced by an old copy.
    pub(super) replaced: Option<Origin>,
    /// A violated condition.
    pub(super) fault: Option<String>,
}

/// Returns the key and the relation of a server that joins.
fn joined(change: &OriginChange) -> Option<(PublicKey, Relation)> {
    let OriginChange::Join { key, terms } = change else { return None };
    Some((PublicKey::from_bytes(key).unwrap(), terms.relation))
}

pub(super) fn realm(epochs: (u64, u64)) -> Realm {
    Realm::new(KEY, epochs.0, epochs.1, SIZES).unwrap()
}

thread_local! {
    /// The initial states, by the lengths of epochs. Computing the capacity of the books takes longer than many runs.
    static BLANK: RefCell<BTreeMap<(u64, u64), Rc<Engine>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Returns an empty engine, the initial state of all servers.
pub(super) fn blank_engine(epochs: (u64, u64)) -> Rc<Engine> {
    BLANK.with_borrow_mut(|blank| Rc::clone(blank.entry(epochs).or_insert_with(|| Rc::new(new_engine(epochs)))))
}

fn new_engine(epochs: (u64, u64)) -> Engine {
    let plan = Plan {
        bytes: 1 << 20,
        sizes: SIZES,
        trust_bytes: 128 << 10,
        replica_bytes: 4 << 10,
        good_bytes: 4 << 10,
        shingle_bytes: 16 << 10,
        list_bytes: 16 << 10,
    };
    Engine::new(realm(epochs), plan, Policy::default(), START)
}

impl Server {
    /// Creates a server that accepts segments of the other servers as specified by `joins`, and asks the servers or
    /// brokers at these `ends`.
    pub(super) fn new(
        blank: &Rc<Engine>,
        key: NodeKey,
        offset: u64,
        is_cluster: bool,
        joins: Vec<OriginChange>,
        ends: Vec<End>,
    ) -> Self {
        let engine = blank.empty_like(Policy::default(), START);
        let logs = MemoryLogs::default();
        let shelf = Shelf::open(logs.clone(), key.clone(), &engine).unwrap();
        let mut server = Self {
            key,
            engine,
            blank: Rc::clone(blank),
            is_up: true,
            tally: Tally::default(),
            logs,
            shelf,
            exporter: Exporter::default(),
            rereader: Rereader::default(),
            publisher: None,
            links: Vec::new(),
            ends,
            offset,
            booted_ms: 0,
            boots: 0,
            known: Arc::default(),
            unknown: Vec::new(),
            others: joins.iter().filter_map(joined).collect(),
            joins,
            is_cluster,
            journal: Vec::new(),
            synced: 0,
            founded: 0,
            counted_by_log: 0,
            backup: None,
            listed_before_forgetting: BTreeMap::new(),
            replaced: None,
            fault: None,
        };
        server.found(START);
        server.boot(0);
        server
    }

    /// Writes the first events of a new disk.
    fn found(&mut self, now: Time) {
        for change in self.joins.clone() {
            let now = self.clock(now);
            assert_eq!(self.submit(Event::Origin { now, change }, None), Outcome::Done);
        }
        self.founded = self.journal.len();
        self.synced = self.founded;
    }

    /// Starts a process on the present disk.
    pub(super) fn boot(&mut self, now_ms: u64) {
        self.is_up = true;
        self.boots += 1;
        self.booted_ms = now_ms;
        self.note_links();
        self.shelf = Shelf::open(self.logs.clone(), self.key.clone(), &self.engine).unwrap();
        self.exporter = Exporter::default();
        self.rereader = Rereader::default();
        self.refresh_known();
        self.set_known();
        self.links = self.ends.iter().map(|end| SimLink::new(*end, self)).collect();
        let has_broker = self.ends.contains(&End::Broker);
        self.publisher = has_broker.then(|| Publisher::new(Reader::Cluster, "broker"));
        // The exporter starts before clients are served, so that every accepted entry is queued.
        self.export(now_ms);
        self.sync();
    }

    /// Adds the statistics of the links of a process that ends.
    pub(super) fn note_links(&mut self) {
        for link in self.links.drain(..) {
            let status = link.receiver.status();
            self.tally.taken += status.segments;
            self.tally.repairs += status.repairs;
            status.rejected.iter().for_each(|(why, count)| *self.tally.rejected.entry(why).or_default() += count);
        }
    }

    /// Returns the origin under which the server exports.
    pub(super) fn origin(&self) -> Option<Origin> {
        self.engine.exchange().own()
    }

    /// Returns the time of this server's clock.
    pub(super) fn clock(&self, now: Time) -> Time {
        Time(now.0 + self.offset)
    }

    /// Returns the present moment by this server's clocks.
    pub(super) fn moment(&self, now_ms: u64) -> Moment {
        let now = self.clock(Time(START.0 + now_ms / 1_000));
        Moment { now, uptime: Duration::from_millis(now_ms.saturating_sub(self.booted_ms)) }
    }

    /// Advances the books to the present time.
    pub(super) fn tick(&mut self, now: Time) {
        loop {
            let event = Event::Tick { now, lines: BEHIND_LINES };
            let outcome = self.engine.apply(&event);
            if matches!(outcome, Outcome::Refused(_)) {
                return;
            }
            self.journal.push(Record { event, fact: None });
            if matches!(outcome, Outcome::Ticked { arrived: true, .. }) {
                return;
            }
        }
    }

    /// Applies an event, and adds it to the journal unless it was refused.
    pub(super) fn submit(&mut self, event: Event, fact: Option<Fact>) -> Outcome {
        if event.time() > self.engine.now() {
            self.tick(event.time());
        }
        let forgotten = self.engine.exchange().forgotten().count();
        let outcome = self.engine.apply(&event);
        if !matches!(outcome, Outcome::Refused(_)) {
            self.journal.push(Record { event, fact });
        }
        if self.engine.exchange().forgotten().count() > forgotten {
            self.note_listed();
        }
        outcome
    }

    fn note_listed(&mut self) {
        let chains = self.engine.exchange().chains().filter(|(chain, _)| chain.book == Book::Listed);
        self.listed_before_forgetting = chains.map(|(chain, frontier)| (chain, frontier.sequence)).collect();
    }

    /// Submits events of the coordinator.
    pub(super) fn submit_all(&mut self, events: Vec<Event>) -> Vec<Outcome> {
        events.into_iter().map(|event| self.submit_one(event)).collect()
    }

    fn submit_one(&mut self, event: Event) -> Outcome {
        let before = self.origin();
        let outcome = self.submit(event, None);
        if before.is_some() && self.origin() != before && self.replaced != before {
            self.fault = Some("an incarnation started although nothing was lost".to_owned());
        }
        outcome
    }

    /// Submits a client's event. Returns true if it was accepted.
    pub(super) fn accept(&mut self, event: Event) -> bool {
        self.tick(event.time());
        let fact = self.fact(&event);
        match self.submit(event, Some(fact)) {
            Outcome::Claimed { ignored, refused, .. } => {
                let is_accepted = ignored == 0 && refused == 0;
                if !is_accepted {
                    self.journal.last_mut().unwrap().fact = None;
                }
                is_accepted
            }
            Outcome::Counted { .. } => true,
            _ => false,
        }
    }

    fn fact(&self, event: &Event) -> Fact {
        match event {
            Event::Claim { claim, flag, fingerprints, .. } => Fact::Claimed {
                generation: self.engine.spam().listed().epoch(),
                claim: *claim,
                flag: *flag,
                fingerprint: fingerprints[0],
            },
            Event::Bulk { targets, fingerprints, .. } => Fact::Counted {
                generation: self.engine.bulk().recipients().epoch(),
                amount: *targets,
                fingerprints: fingerprints.clone(),
            },
            _ => unreachable!("clients claim and count"),
        }
    }

    /// Returns the acknowledged facts that are not counted by the logs of an earlier incarnation.
    pub(super) fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.journal[..self.synced].iter().skip(self.facts_from()).filter_map(|record| record.fact.as_ref())
    }

    /// Returns the acknowledged facts in an old copy of the disk that logs already count. None of them waited in a
    /// queue.
    pub(super) fn copied_facts(&self) -> impl Iterator<Item = &Fact> {
        self.journal[..self.facts_from()].iter().filter_map(|record| record.fact.as_ref())
    }

    /// Returns the number of events whose facts the logs of an earlier incarnation already count. It is 0 if the
    /// restored copy was complete, because the server then continues its incarnation.
    fn facts_from(&self) -> usize {
        if self.origin() == self.replaced { 0 } else { self.counted_by_log }
    }

    /// Runs a step of the exporter.
    pub(super) fn export(&mut self, now_ms: u64) {
        let moment = self.moment(now_ms);
        loop {
            let links = self.links.iter().map(|link| (link.relation, link.receiver.status().own));
            let around = Surroundings {
                key: &self.key,
                realm: self.shelf.realm(),
                is_cluster: self.is_cluster,
                is_wanted: true,
                awaits_cluster: awaits_cluster(links),
                durable: self.synced as u64,
            };
            let Some(request) = self.exporter.next(&self.engine, &around, moment) else { return };
            match request {
                ExportRequest::Check => self.exporter.checked(Ok(()), moment),
                ExportRequest::Write(exports) => {
                    let written = exports.iter().try_for_each(|e| self.shelf.put_own(&e.chain, e.offset, &e.bytes));
                    self.exporter.written(written, moment);
                }
                ExportRequest::Submit(events) => {
                    let outcomes = self.submit_all(events);
                    self.exporter.submitted(Ok(outcomes), self.journal.len() as u64);
                }
                ExportRequest::Release { own, chains } => self.shelf.release(own, &chains, moment.now),
                ExportRequest::Tidy { live, now } => self.exporter.tidied(self.shelf.tidy(&live, now), moment),
            }
            if let Some(error) = self.exporter.log_error().or_else(|| self.exporter.other_error()) {
                self.fault.get_or_insert_with(|| format!("the exporter fails: {error}"));
            }
        }
    }

    /// Reads part of the own logs again, if a server is being forgotten.
    pub(super) fn reread(&mut self, now_ms: u64) {
        let now = self.moment(now_ms).now;
        for _ in 0..REREAD_STEPS {
            match self.rereader.next(&self.engine, now) {
                RereadRequest::Idle | RereadRequest::Wait => return self.refresh_known(),
                RereadRequest::Read { chain, offset } => {
                    let log = self.shelf.stored(&chain, offset, REREAD_BYTES).unwrap();
                    self.rereader.read(&log, self.shelf.realm(), now);
                }
                RereadRequest::Submit(events) => {
                    let outcomes = self.submit_all(events);
                    self.rereader.submitted(&outcomes);
                }
                RereadRequest::ForgetLog(chain) => self.shelf.forget(&chain).unwrap(),
            }
        }
    }

    /// Updates the accepted origins if a server was forgotten.
    fn refresh_known(&mut self) {
        let others = self.others.iter().map(|(key, _)| *key.as_bytes());
        let unknown: Vec<[u8; 32]> = others.filter(|key| self.has_forgotten(key)).collect();
        if unknown != self.unknown {
            self.unknown = unknown;
            self.set_known();
        }
    }

    /// Sets the accepted origins: those of other servers that are not forgotten, and our own.
    fn set_known(&mut self) {
        let others = self.others.iter().filter(|(key, _)| !self.unknown.contains(key.as_bytes())).cloned();
        let known = Known::new(others.chain([(self.key.public(), Relation::Cluster)]));
        self.known = Arc::new(known.sharing_verified(&self.known));
    }

    /// Uses the verified heads of another server, too, because signatures take most of the time of a run.
    pub(super) fn share_verified(&mut self, other: &Known) {
        self.known = Arc::new(Known::clone(&self.known).sharing_verified(other));
    }

    /// Returns true if the server with this key was forgotten here.
    pub(super) fn has_forgotten(&self, key: &[u8; 32]) -> bool {
        self.engine.exchange().is_forgotten(key)
    }

    /// Carries out an operator's command to forget the server with this key.
    pub(super) fn forget_server(&mut self, key: [u8; 32], now: Time) {
        let (now, by) = (self.clock(now), *self.key.public().as_bytes());
        self.submit(Event::Forget { now, key, by, is_forgotten: true }, None);
        // The command returns once the event is on disk.
        self.sync();
    }

    /// Lets the exporter seal at once.
    pub(super) fn forget_intervals(&mut self) {
        self.exporter = Exporter::default();
    }

    /// Makes all events durable.
    pub(super) fn sync(&mut self) {
        self.synced = self.journal.len();
    }

    /// Stops without warning, and loses all events not yet synced. Returns their number.
    pub(super) fn crash(&mut self) -> u64 {
        let forgotten = self.journal.len() - self.synced;
        self.forget(self.synced);
        self.is_up = false;
        forgotten as u64
    }

    /// Truncates the journal to its first `keep` events.
    pub(super) fn forget(&mut self, keep: usize) {
        self.journal.truncate(keep);
        self.synced = keep;
        self.engine = self.blank.empty_like(Policy::default(), START);
        for record in &self.journal {
            self.engine.apply(&record.event);
        }
    }

    /// Returns the journal lengths at which the server can restart without losing its identity.
    pub(super) fn journal(&self) -> RangeInclusive<usize> {
        self.founded..=self.journal.len()
    }

    /// Copies the disk, unless entries are queued, because these would count twice.
    pub(super) fn back_up(&mut self) {
        let is_quiet = self.engine.exchange().pending_bytes() == 0 && self.synced == self.journal.len();
        if let Some(origin) = self.origin().filter(|_| is_quiet) {
            let ends = self.engine.exchange().chains().map(|(chain, frontier)| (chain, frontier.offset)).collect();
            self.backup = Some(Backup { origin, journal: self.journal.len(), logs: self.logs.copy(), ends });
        }
    }

    /// Replaces the disk with its copy.
    pub(super) fn restore(&mut self) {
        let Some(backup) = self.backup.take() else { return };
        self.replaced = self.origin();
        self.logs = backup.logs;
        self.forget(backup.journal);
        self.counted_by_log = backup.journal;
        self.is_up = false;
    }

    /// Loses everything but the key.
    pub(super) fn lose_disk(&mut self, now: Time) {
        self.journal.clear();
        self.logs = MemoryLogs::default();
        self.engine = self.blank.empty_like(Policy::default(), START);
        (self.backup, self.counted_by_log) = (None, 0);
        self.found(now);
        self.is_up = false;
    }
}
