//! A server whose disk is a vector: a crash loses the events not yet synced and rebuilds the engine from the rest.
//!
//! As in the real server, a segment is in its log before the event that moves the frontier, and nothing is offered
//! before that event is synced. Heads are stored before the segments that they name are applied.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

use bruit_engine::budget::Plan;
use bruit_engine::event::Event;
use bruit_engine::exchange::{Chain, Origin, OriginChange, Relation};
use bruit_engine::realm::{BookSizes, Realm};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy};
use bruit_engine::{BEHIND_LINES, Engine, Outcome};
use bruit_filters::{Fingerprint, FingerprintKey};

use crate::epochs::Epochs;
use crate::export;
use crate::heads::{Heads, UnverifiedHeads};
use crate::judge::{self, Known, Want};
use crate::keys::{NodeKey, PublicKey};
use crate::rejected::Rejected;

pub(super) const KEY: FingerprintKey = FingerprintKey::narrow([5; 16]);
/// Short epochs, so that generations begin and end within a few minutes.
pub(super) const SPAM_EPOCH: u64 = 180;
pub(super) const BULK_EPOCH: u64 = 60;
/// Start time of every run, in the middle of both epochs.
pub(super) const START: Time = Time(1_700_000_000 / SPAM_EPOCH * SPAM_EPOCH + 31);

/// Small sizes, but large enough that no two signatures of a run share all cells.
const SIZES: BookSizes = BookSizes { spam_lines: 64, revoked_lines: 64, claim_lines: 256, bulk_lines: 256 };

/// Maximum number of chains that a server fetches again: a liar that keeps forking its chain must not keep it busy.
const REPAIRS_MAX: u64 = 6;

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

/// The statistics of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) taken: u64,
    pub(super) repairs: u64,
    pub(super) rejected: BTreeMap<&'static str, u64>,
}

/// A server.
pub(super) struct Server {
    pub(super) key: NodeKey,
    pub(super) engine: Engine,
    pub(super) is_up: bool,
    blank: Rc<Engine>,
    pub(super) tally: Tally,
    /// The shelf: the log of every chain.
    pub(super) logs: BTreeMap<Chain, Vec<u8>>,
    /// Seconds by which this server's clock is ahead.
    skew: u64,
    known: Known,
    joins: Vec<OriginChange>,
    is_cluster: bool,
    lives: u64,
    journal: Vec<Record>,
    synced: usize,
    /// Number of events that began this incarnation.
    founded: usize,
    heads: BTreeMap<Origin, (Heads, Vec<u8>)>,
    /// The offer as of the last sync.
    offer: Vec<u8>,
    shown: BTreeMap<Chain, u64>,
}

pub(super) fn realm() -> Realm {
    Realm::new(KEY, SPAM_EPOCH, BULK_EPOCH, SIZES).unwrap()
}

/// Returns an empty engine, the initial state of all servers.
pub(super) fn blank_engine() -> Engine {
    let plan = Plan {
        bytes: 1 << 20,
        sizes: SIZES,
        trust_bytes: 128 << 10,
        replica_bytes: 4 << 10,
        good_bytes: 4 << 10,
        shingle_bytes: 16 << 10,
        list_bytes: 16 << 10,
    };
    Engine::new(realm(), plan, Policy::default(), START)
}

impl Server {
    /// Creates a server that accepts segments of the other servers as specified by `joins`.
    pub(super) fn new(blank: &Rc<Engine>, key: NodeKey, skew: u64, is_cluster: bool, joins: Vec<OriginChange>) -> Self {
        let heard = joins.iter().filter_map(|join| match join {
            OriginChange::Join { key, terms } => Some((PublicKey::from_bytes(key).unwrap(), terms.relation)),
            _ => None,
        });
        let known = Known::new(heard.chain([(key.public(), Relation::Cluster)]));
        let mut server = Self {
            key,
            engine: blank.empty_like(Policy::default(), START),
            blank: Rc::clone(blank),
            is_up: true,
            tally: Tally::default(),
            logs: BTreeMap::new(),
            skew,
            known,
            joins,
            is_cluster,
            lives: 0,
            journal: Vec::new(),
            synced: 0,
            founded: 0,
            heads: BTreeMap::new(),
            offer: Vec::new(),
            shown: BTreeMap::new(),
        };
        server.begin(START);
        server
    }

    /// Begins an incarnation: the first, or another one after the disk was lost.
    fn begin(&mut self, now: Time) {
        self.lives += 1;
        let origin = Origin { key: *self.key.public().as_bytes(), incarnation: self.lives };
        let begin = OriginChange::Begin { origin, cluster: self.is_cluster };
        for change in [vec![begin], self.joins.clone()].concat() {
            let now = self.clock(now);
            assert_eq!(self.submit(Event::Origin { now, change }, None), Outcome::Done);
        }
        self.founded = self.journal.len();
        self.sync(now);
    }

    pub(super) fn origin(&self) -> Origin {
        self.engine.exchange().own().unwrap()
    }

    pub(super) fn lives(&self) -> u64 {
        self.lives
    }

    /// Returns the time of this server's clock.
    pub(super) fn clock(&self, now: Time) -> Time {
        Time(now.0 + self.skew)
    }

    /// Advances the books to the present time.
    pub(super) fn tick(&mut self, now: Time) {
        loop {
            let event = Event::Tick { now, lines: BEHIND_LINES };
            let arrived = matches!(self.engine.apply(&event), Outcome::Ticked { arrived: true, .. });
            self.journal.push(Record { event, fact: None });
            if arrived {
                return;
            }
        }
    }

    /// Applies an event, and adds it to the journal unless it was refused.
    fn submit(&mut self, event: Event, fact: Option<Fact>) -> Outcome {
        if event.time() > self.engine.now() {
            self.tick(event.time());
        }
        let outcome = self.engine.apply(&event);
        if !matches!(outcome, Outcome::Refused(_)) {
            self.journal.push(Record { event, fact });
        }
        outcome
    }

    /// Submits a client's event. Returns true if it was accepted.
    pub(super) fn accept(&mut self, event: Event) -> bool {
        self.tick(event.time());
        let fact = self.fact(&event);
        match self.submit(event, Some(fact)) {
            Outcome::Claimed { ignored, refused, .. } => {
                let is_heard = ignored == 0 && refused == 0;
                if !is_heard {
                    self.journal.last_mut().unwrap().fact = None;
                }
                is_heard
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

    /// Returns the acknowledged facts.
    pub(super) fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.journal[..self.synced].iter().filter_map(|record| record.fact.as_ref())
    }

    /// Seals all queued entries into segments.
    pub(super) fn seal(&mut self, now: Time) {
        let (realm, now) = (realm().id(), self.clock(now));
        while let Some(waiting) = { self.engine.exchange().pending().next() } {
            let export = export::next_segment(self.engine.exchange(), waiting, realm, &self.key, now).unwrap();
            self.append(export.chain, export.offset, &export.bytes);
            if self.submit(export.sealed, None) != Outcome::Done {
                return;
            }
        }
    }

    fn append(&mut self, chain: Chain, offset: u64, bytes: &[u8]) {
        let log = self.logs.entry(chain).or_default();
        assert_eq!(log.len() as u64, offset, "a log ends at the frontier");
        log.extend(bytes);
    }

    /// Makes all events durable, and updates the offer.
    pub(super) fn sync(&mut self, now: Time) {
        self.synced = self.journal.len();
        let exchange = self.engine.exchange();
        let own = Heads::new(realm().id(), self.origin(), self.clock(now), exchange.chains()).sign(&self.key);
        self.offer = self.heads.values().fold(own, |offer, (_, bytes)| [offer, bytes.clone()].concat());
        self.shown = exchange.chains().map(|(chain, frontier)| (chain, frontier.offset)).collect();
    }

    /// Loses all events not yet synced. Returns their number.
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
        let exchange = self.engine.exchange();
        for (chain, log) in &mut self.logs {
            log.truncate(exchange.frontier(chain).offset as usize);
        }
    }

    /// Returns the journal lengths at which the server can restart without losing its identity.
    pub(super) fn journal(&self) -> RangeInclusive<usize> {
        self.founded..=self.journal.len()
    }

    /// Loses everything but the key, and begins another incarnation.
    pub(super) fn lose_disk(&mut self, now: Time) {
        self.journal.clear();
        self.logs.clear();
        self.heads.clear();
        self.engine = self.blank.empty_like(Policy::default(), START);
        self.begin(now);
    }

    /// Returns the present offer.
    pub(super) fn offer(&self) -> &[u8] {
        &self.offer
    }

    /// Returns the log of a chain, starting at an offset; it may be cut off within a segment.
    pub(super) fn serve(&self, chain: &Chain, offset: u64, bytes_max: usize) -> &[u8] {
        let shown = self.shown.get(chain).copied().unwrap_or(0) as usize;
        let log = self.logs.get(chain).map_or(&[][..], |log| &log[..shown.min(log.len())]);
        let rest = log.get(offset as usize..).unwrap_or_default();
        &rest[..rest.len().min(bytes_max)]
    }

    /// Handles another server's offer. Returns the parts to request.
    pub(super) fn hear(&mut self, offer: &[u8], now: Time) -> Vec<Want> {
        let offer = self.without_kept(offer);
        let (believed, rejected) = judge::offered(&offer, realm().id(), &self.known);
        rejected.iter().for_each(|rejected| self.reject(rejected));
        for (heads, bytes) in believed {
            assert!(
                !self.is_cluster || !judge::has_lost_segments(&heads, &self.engine),
                "offered segments were synced before"
            );
            if heads.origin() != self.origin() {
                self.keep_heads(heads, bytes);
            }
        }
        self.repair_drifted(now);
        let heads: Vec<Heads> = self.heads.values().map(|(heads, _)| heads.clone()).collect();
        judge::wanted(&heads, &self.engine, &self.known)
    }

    /// Returns an offer without heads that are already stored: verifying signatures takes most of a run's time.
    fn without_kept(&self, offer: &[u8]) -> Vec<u8> {
        let Ok(all) = Heads::read_all(offer).into_iter().collect::<Result<Vec<_>, _>>() else { return offer.to_vec() };
        let is_kept = |heads: &UnverifiedHeads<'_>| {
            self.heads.get(&heads.origin()).is_some_and(|(_, bytes)| bytes == heads.bytes())
        };
        all.iter().filter(|heads| !is_kept(heads)).flat_map(|heads| heads.bytes()).copied().collect()
    }

    fn keep_heads(&mut self, heads: Heads, bytes: &[u8]) {
        let older = self.heads.get(&heads.origin());
        if older.is_none_or(|(older, _)| heads.replaces(older, &Epochs::of(self.engine.realm()))) {
            self.heads.insert(heads.origin(), (heads, bytes.to_vec()));
        }
    }

    fn repair_drifted(&mut self, now: Time) {
        let drifts = self.heads.values().flat_map(|(heads, _)| judge::drifts(heads, &self.engine));
        let drifted: Vec<Chain> = drifts.map(|(chain, _)| chain).collect();
        drifted.iter().for_each(|chain| self.repair(chain, now));
    }

    /// Applies the valid segments of a log.
    pub(super) fn take(&mut self, log: &[u8], want: &Want, now: Time) {
        let (received, rejected) = judge::accept(log, want, realm().id(), &self.known);
        let mut rest = log;
        for segment in received {
            let (bytes, behind) = rest.split_at(segment.bytes as usize);
            rest = behind;
            let chain = segment.chain;
            let offset = self.engine.exchange().frontier(&chain).offset;
            match self.submit(Event::Received { now: self.clock(now), segment: Box::new(segment) }, None) {
                Outcome::Taken { .. } => {
                    self.append(chain, offset, bytes);
                    self.tally.taken += 1;
                }
                Outcome::Refused(refusal) => self.reject(&refusal.into()),
                outcome => panic!("unexpected outcome for a segment: {outcome:?}"),
            }
        }
        if let Some(rejected) = rejected {
            self.reject(&rejected);
            if rejected == Rejected::Forked {
                self.repair(&want.chain, now);
            }
        }
    }

    fn repair(&mut self, chain: &Chain, now: Time) {
        if self.tally.repairs < REPAIRS_MAX {
            self.tally.repairs += 1;
            self.submit(Event::Repair { now: self.clock(now), chain: *chain }, None);
            self.logs.remove(chain);
        }
    }

    fn reject(&mut self, rejected: &Rejected) {
        *self.tally.rejected.entry(rejected.name()).or_default() += 1;
    }
}
