//! The server whose data the transports carry.

use std::sync::Arc;
use std::time::Duration;

use bruit_engine::budget::{BUDGET_MIN, Plan};
use bruit_engine::event::{By, Event};
use bruit_engine::exchange::{Book, Chain, Encoding, Frontier, NO_HASH, Origin as Identity, PAYLOAD_BYTES_MAX};
use bruit_engine::realm::{BookSizes, Realm};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_engine::{BEHIND_LINES, Engine, Outcome};
use bruit_federation::coordinator::Moment;
use bruit_federation::coordinator::exporter::{ExportRequest, Exporter, Surroundings};
use bruit_federation::keys::NodeKey;
use bruit_federation::segment::{Segment, hash, split};
use bruit_federation::shelf::{MemoryLogs, Reader, Shelf};
use bruit_filters::FingerprintKey;

/// Length of all epochs, in seconds.
pub(crate) const EPOCH: u64 = 100;

const KEY: FingerprintKey = FingerprintKey::narrow([9; 16]);
const START: Time = Time(1_700_000_000);
const SIZES: BookSizes = BookSizes { spam_lines: 64, revoked_lines: 64, claim_lines: 256, bulk_lines: 256 };

/// A server that exports.
pub(crate) struct Origin {
    pub(crate) engine: Engine,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) now: Time,
    exporter: Exporter,
    uptime: Duration,
}

/// Returns an empty engine of the realm.
pub(crate) fn blank(now: Time) -> Engine {
    let realm = Realm::new(KEY, EPOCH, EPOCH, SIZES).unwrap();
    let plan = Plan { sizes: SIZES, ..Plan::for_budget(BUDGET_MIN).unwrap() };
    Engine::new(realm, plan, Policy::default(), now)
}

/// Advances an engine to a time.
pub(crate) fn tick(engine: &mut Engine, now: Time) {
    while !matches!(engine.apply(&Event::Tick { now, lines: BEHIND_LINES }), Outcome::Ticked { arrived: true, .. }) {}
}

impl Origin {
    pub(crate) fn new() -> Self {
        let engine = blank(START);
        let shelf = Shelf::open(MemoryLogs::default(), NodeKey::generate([1; 32]), &engine).unwrap();
        let exporter = Exporter::default();
        let mut origin = Self { engine, shelf: Arc::new(shelf), now: START, exporter, uptime: Duration::ZERO };
        origin.export();
        origin
    }

    /// Advances the clock.
    pub(crate) fn advance(&mut self, seconds: u64) {
        self.now = Time(self.now.0 + seconds);
        tick(&mut self.engine, self.now);
        self.export();
    }

    /// Lists a signature, and makes the segments readable.
    pub(crate) fn list(&mut self, number: u32) {
        let by = By { now: self.now, reporter: Reporter { id: 1, standing: Standing::Own, group: 1 } };
        let fingerprints = vec![KEY.fingerprint(&number.to_le_bytes())];
        let claimed = self.engine.apply(&Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints });
        assert!(matches!(claimed, Outcome::Claimed { .. }), "{claimed:?}");
        self.export();
    }

    fn export(&mut self) {
        self.uptime += Duration::from_secs(2);
        let moment = Moment { now: self.now, uptime: self.uptime };
        loop {
            let shelf = &self.shelf;
            let around = Surroundings {
                key: shelf.key(),
                realm: shelf.realm(),
                is_cluster: true,
                is_wanted: true,
                awaits_cluster: false,
                durable: u64::MAX,
            };
            let Some(request) = self.exporter.next(&self.engine, &around, moment) else { return };
            match request {
                ExportRequest::Check => self.exporter.checked(Ok(()), moment),
                ExportRequest::Write(exports) => {
                    let written = exports.iter().try_for_each(|e| shelf.put_own(&e.chain, e.offset, &e.bytes));
                    self.exporter.written(written, moment);
                }
                ExportRequest::Submit(events) => {
                    let outcomes = events.iter().map(|event| self.engine.apply(event)).collect();
                    self.exporter.submitted(Ok(outcomes), 0);
                }
                ExportRequest::Release { own, chains } => shelf.release(own, &chains, moment.now),
                ExportRequest::Tidy { live, now } => self.exporter.tidied(shelf.tidy(&live, now), moment),
            }
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        self.engine.exchange().own().unwrap()
    }

    /// Returns a chain of the current generation.
    pub(crate) fn chain(&self, book: Book) -> Chain {
        Chain { origin: self.identity(), book, generation: self.now.epoch(EPOCH) }
    }

    pub(crate) fn at(&self, chain: &Chain) -> Frontier {
        self.engine.exchange().frontier(chain)
    }

    /// Returns the number of segments of all live chains.
    pub(crate) fn segments(&self) -> u64 {
        self.engine.exchange().chains().map(|(_, at)| at.sequence).sum()
    }

    /// Returns the current heads, with all books.
    pub(crate) fn heads(&self) -> Vec<u8> {
        self.shelf.own_heads(Reader::Cluster).unwrap()
    }

    pub(crate) fn log(&self, chain: &Chain) -> Vec<u8> {
        self.shelf.log(chain, 0, usize::MAX).unwrap().unwrap()
    }

    /// Returns the offsets of the segments of a chain.
    pub(crate) fn offsets(&self, chain: &Chain) -> Vec<u64> {
        let (log, mut offsets, mut at) = (self.log(chain), Vec::new(), 0);
        while let Ok(Some((segment, _))) = split(&log[at..]) {
            offsets.push(at as u64);
            at += segment.len();
        }
        offsets
    }

    /// Loses everything but the key, and exports again. Its shelf keeps the segments that readers have not fetched.
    pub(crate) fn be_reborn(&mut self) {
        self.now = Time(self.now.0 + 5);
        self.engine = blank(self.now);
        self.exporter = Exporter::default();
        self.export();
    }

    /// Fills a chain with segments of the maximum length, without an engine. Returns the length of the log.
    pub(crate) fn fill(&mut self, bytes_min: usize) -> usize {
        let (chain, shelf) = (self.chain(Book::Votes), Arc::clone(&self.shelf));
        // A vote on 64 signatures, none of which is flagged as counted: 20 bytes of fields, 8 bytes of flags, and the
        // signatures.
        let vote = [&[1_u8; 8][..], &[1; 8], &[1, 0, 0, 64], &[0; 8], &[7; 8 * 64]].concat();
        let votes = PAYLOAD_BYTES_MAX / vote.len();
        let payload = vote.repeat(votes);
        let (mut at, mut log) = (Frontier { hash: NO_HASH, ..Frontier::default() }, Vec::new());
        while log.len() < bytes_min {
            let (sequence, previous) = (at.sequence + 1, at.hash);
            let (realm, encoding, entries) = (shelf.realm(), Encoding::InOrder, votes as u32);
            let segment = Segment { realm, chain, sequence, previous, encoding, entries, payload: &payload };
            let signed = segment.sign(shelf.key());
            at = Frontier { sequence, hash: hash(&signed), entries: at.entries + u64::from(entries), ..at };
            log.extend(signed);
        }
        at.offset = log.len() as u64;
        shelf.put_own(&chain, 0, &log).unwrap();
        shelf.release(chain.origin, &[(chain, at)], self.now);
        log.len()
    }

    /// Adds a chain whose segments have an invalid signature.
    pub(crate) fn forge(&mut self, book: Book) {
        let chain = self.chain(book);
        let mut log = self.log(&chain);
        let last = log.len() - 1;
        log[last] ^= 1;
        let at = self.offsets(&chain)[0];
        self.shelf.put_own(&chain, at, &log[at as usize..]).unwrap();
    }
}
