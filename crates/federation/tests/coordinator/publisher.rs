use std::collections::BTreeMap;

use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain};
use bruit_engine::time::Time;
use bruit_engine::trust::Claim;
use bruit_engine::{BEHIND_LINES, Engine, Outcome};
use bruit_federation::coordinator::publisher::{PublishRequest, Publisher};
use bruit_federation::heads::{Heads, SignedHeads, UnverifiedHeads};
use bruit_federation::shelf::{MemoryLogs, Reader, Shelf};

use crate::common::{START, claim, key, node, origin, realm, seal};
use crate::{at, unreachable};

/// A server with a shelf, and a sink that records published data.
struct Server {
    engine: Engine,
    shelf: Shelf,
    publisher: Publisher,
    written: BTreeMap<Chain, usize>,
    sink: BTreeMap<Chain, u64>,
    now: Time,
    /// The name of the request that fails.
    fails: Option<&'static str>,
}

impl Server {
    fn new(reader: Reader) -> Self {
        let engine = node(0, 2);
        let shelf = Shelf::open(MemoryLogs::default(), key(0), &engine).unwrap();
        let publisher = Publisher::new(reader, "sink");
        let (written, sink) = (BTreeMap::new(), BTreeMap::new());
        Self { engine, shelf, publisher, written, sink, now: START, fails: None }
    }

    /// Reports a signature, and makes it readable.
    fn report(&mut self, signature: u32) {
        let mut event = claim(Claim::Report, 1, signature);
        if let Event::Claim { by, .. } = &mut event {
            by.now = self.now;
        }
        assert!(matches!(self.engine.apply(&event), Outcome::Claimed { listed: 1, .. }));
        let mut logs = BTreeMap::new();
        seal(0, &mut self.engine, &mut logs);
        for (chain, segments) in logs {
            let offset = self.written.entry(chain).or_default();
            for segment in segments {
                self.shelf.put_own(&chain, *offset as u64, &segment).unwrap();
                *offset += segment.len();
            }
        }
        self.release();
    }

    fn release(&self) {
        let chains: Vec<_> = self.engine.exchange().chains().filter(|(chain, _)| chain.origin == origin(0)).collect();
        self.shelf.release(origin(0), &chains, self.now);
    }

    /// Begins the next generation.
    fn advance(&mut self) {
        self.now = Time(self.now.0 + self.engine.realm().spam_epoch_seconds());
        while self.engine.needs_tick(self.now) {
            self.engine.apply(&Event::Tick { now: self.now, lines: BEHIND_LINES });
        }
    }

    /// Carries out all requests until there is nothing to do. Returns their names.
    fn publish(&mut self) -> Vec<String> {
        let mut requests = Vec::new();
        loop {
            let request = self.publisher.next(&self.shelf);
            if request == PublishRequest::Wait {
                return requests;
            }
            let named = name(&request);
            let is_failing = self.fails.take_if(|fails| named.starts_with(*fails)).is_some();
            requests.push(named);
            let result = if is_failing { Err(unreachable()) } else { Ok(self.carry_out(&request)) };
            self.publisher.answered(result, at(0).uptime);
        }
    }

    fn carry_out(&mut self, request: &PublishRequest) -> u64 {
        match request {
            PublishRequest::Length(chain) => return self.sink.get(chain).copied().unwrap_or(0),
            PublishRequest::Publish { chain, at, end } => {
                assert!(*at == self.sink.get(chain).copied().unwrap_or(0), "from where the sink ends");
                self.sink.insert(*chain, *end);
                return *end;
            }
            PublishRequest::Retain(chains) => self.sink.retain(|chain, _| chains.contains(chain)),
            PublishRequest::Archive(chain, end) => assert_eq!(*end, self.shelf.end(chain)),
            PublishRequest::Announce(_) | PublishRequest::Wait | PublishRequest::Sleep(_) => {}
        }
        0
    }
}

fn name(request: &PublishRequest) -> String {
    match request {
        PublishRequest::Retain(chains) => format!("retain {}", chains.len()),
        PublishRequest::Length(chain) => format!("length of {}", chain.book.name()),
        PublishRequest::Publish { chain, .. } => format!("publish {}", chain.book.name()),
        PublishRequest::Announce(_) => "announce".to_owned(),
        PublishRequest::Archive(chain, _) => format!("archive {}", chain.book.name()),
        PublishRequest::Wait => "wait".to_owned(),
        PublishRequest::Sleep(delay) => format!("sleep {} ms", delay.as_millis()),
    }
}

const START_UP: [&str; 3] = ["retain 2", "length of listed", "length of votes"];
const SEGMENTS: [&str; 3] = ["publish listed", "publish votes", "announce"];

#[test]
fn segments_are_published_before_the_heads_that_name_them() {
    let mut server = Server::new(Reader::Cluster);
    server.report(1);
    assert_eq!(server.publish(), [START_UP, SEGMENTS].concat());
    server.report(2);
    assert_eq!(server.publish(), SEGMENTS);
    server.now = Time(server.now.0 + 3);
    server.release();
    assert_eq!(server.publish(), ["announce"], "a heartbeat");
}

#[test]
fn heads_that_did_not_change_are_not_published_again() {
    let mut server = Server::new(Reader::Cluster);
    server.report(1);
    server.publish();
    let mut changes = server.shelf.changes();
    changes.mark_unchanged();
    let signed = Heads::new(realm(), origin(1), START, []).sign(&key(1));
    let heads = UnverifiedHeads::decode(&signed).unwrap().verify(realm(), &key(1).public()).unwrap();
    server.shelf.keep_heads(&SignedHeads { heads, bytes: signed });
    assert!(changes.has_changed().unwrap(), "heads of another node");
    assert!(server.publish().is_empty());
}

#[test]
fn a_sink_for_others_gets_conclusions_only() {
    for reader in [Reader::Replica, Reader::Peer] {
        let mut server = Server::new(reader);
        server.report(1);
        assert_eq!(server.publish(), ["retain 2", "length of listed", "publish listed", "announce"]);
        assert!(server.sink.keys().all(|chain| chain.book == Book::Listed));
    }
}

#[test]
fn after_a_failure_the_sink_is_asked_again_for_what_it_has() {
    let mut server = Server::new(Reader::Cluster);
    server.report(1);
    server.fails = Some("publish votes");
    let failed = ["publish listed", "publish votes", "sleep 250 ms"];
    assert_eq!(server.publish(), [&START_UP[..], &failed, &START_UP, &["publish votes", "announce"]].concat());
    for fails in ["retain", "length of votes", "announce"] {
        server.release();
        server.publisher = Publisher::new(Reader::Cluster, "sink");
        server.fails = Some(fails);
        let requests = server.publish();
        assert!(requests.contains(&"sleep 250 ms".to_owned()), "{requests:?}");
        assert_eq!(requests[requests.len() - 4..], [&START_UP[..], &["announce"]].concat(), "{fails}");
    }
}

#[test]
fn failures_in_a_row_are_further_and_further_apart() {
    let mut server = Server::new(Reader::Cluster);
    server.report(1);
    let mut delays = Vec::new();
    while delays.len() < 8 {
        let request = server.publisher.next(&server.shelf);
        if let PublishRequest::Sleep(delay) = request {
            delays.push(delay.as_millis());
            server.publisher.answered(Ok(0), at(0).uptime);
        } else {
            server.publisher.answered(Err(unreachable()), at(0).uptime);
        }
    }
    assert_eq!(delays, [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    server.publish();
    server.report(2);
    server.fails = Some("publish");
    assert!(server.publish().contains(&"sleep 250 ms".to_owned()), "an announcement ends the outage");
}

#[test]
fn a_generation_that_is_over_is_archived_once() {
    let mut server = Server::new(Reader::Cluster);
    server.report(1);
    server.publish();
    server.advance();
    server.report(2);
    let second = ["length of listed", "length of votes", "publish listed", "publish votes", "announce"];
    assert_eq!(server.publish(), [&second[..], &["archive listed", "archive votes"]].concat());
    server.report(3);
    assert_eq!(server.publish(), SEGMENTS);
    server.advance();
    server.report(4);
    server.fails = Some("archive listed");
    assert!(server.publish().ends_with(&["archive listed".to_owned(), "archive votes".to_owned()]));
    assert!(server.publish().is_empty(), "a failed archive is not repeated before the next start");
}

#[test]
fn chains_that_expired_are_removed_from_the_sink() {
    let mut server = Server::new(Reader::Cluster);
    server.report(1);
    server.publish();
    (0..8).for_each(|_| server.advance());
    server.report(2);
    let live = server.engine.exchange().chains().map(|(chain, _)| chain).collect();
    server.shelf.tidy(&live, server.engine.now()).unwrap();
    assert_eq!(server.publish()[0], "retain 2");
    assert_eq!(server.sink.len(), 2);
}
