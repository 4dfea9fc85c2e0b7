use std::io;

use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, ExchangeRefusal, OriginChange, Relation};
use bruit_engine::trust::Claim;
use bruit_engine::{Engine, Outcome, Refusal};
use bruit_federation::coordinator::exporter::{ExportRequest, Exporter, HELD_MAX, Surroundings, awaits_cluster};
use bruit_federation::coordinator::receiver::OwnChains;
use bruit_federation::shelf::{MemoryLogs, Reader, Shelf, ShelfError};

use crate::at;
use crate::common::{claim, key, node, origin, realm, recipients};

/// A server whose exporter is tested.
struct Server {
    engine: Engine,
    shelf: Shelf,
    exporter: Exporter,
    awaits_cluster: bool,
    is_wanted: bool,
    /// Number of submitted events, and how many of them are on disk.
    sequence: u64,
    durable: u64,
    /// The error of the next write.
    write_error: Option<ShelfError>,
    is_disk_full: bool,
}

impl Server {
    fn new() -> Self {
        let engine = node(0, 2);
        let shelf = Shelf::open(MemoryLogs::default(), key(0), &engine).unwrap();
        Self {
            engine,
            shelf,
            exporter: Exporter::default(),
            awaits_cluster: false,
            is_wanted: true,
            sequence: 0,
            durable: u64::MAX,
            write_error: None,
            is_disk_full: false,
        }
    }

    fn claim(&mut self, kind: Claim, signature: u32) {
        assert!(matches!(self.engine.apply(&claim(kind, 1, signature)), Outcome::Claimed { refused: 0, .. }));
    }

    /// Runs a step, and returns its requests.
    fn step(&mut self, uptime_ms: u64) -> Vec<String> {
        let (moment, key) = (at(uptime_ms), key(0));
        let mut requests = Vec::new();
        loop {
            let around = Surroundings {
                key: &key,
                realm: realm(),
                is_cluster: true,
                is_wanted: self.is_wanted,
                awaits_cluster: self.awaits_cluster,
                durable: self.durable,
            };
            let Some(request) = self.exporter.next(&self.engine, &around, moment) else { return requests };
            requests.push(name(&request));
            match request {
                ExportRequest::Check => self.exporter.checked(self.checked(), moment),
                ExportRequest::Write(exports) => {
                    let put = || exports.iter().try_for_each(|e| self.shelf.put_own(&e.chain, e.offset, &e.bytes));
                    let written = self.write_error.take().map_or_else(put, Err);
                    self.exporter.written(written, moment);
                }
                ExportRequest::Submit(events) => {
                    self.sequence += events.len() as u64;
                    let outcomes = events.iter().map(|event| self.engine.apply(event)).collect();
                    self.exporter.submitted(Ok(outcomes), self.sequence);
                }
                ExportRequest::Release { own, chains } => self.shelf.release(own, &chains, moment.now),
                ExportRequest::Tidy { live, now } => self.exporter.tidied(self.shelf.tidy(&live, now), moment),
            }
        }
    }

    fn checked(&self) -> io::Result<()> {
        if self.is_disk_full { Err(io::Error::other("disk full")) } else { Ok(()) }
    }

    fn chain(&self, book: Book) -> Chain {
        let generation = if book == Book::Recipients { self.engine.bulk().recipients().epoch() } else { self.spam() };
        Chain { origin: origin(0), book, generation }
    }

    fn spam(&self) -> u64 {
        self.engine.spam().listed().epoch()
    }
}

fn name(request: &ExportRequest) -> String {
    match request {
        ExportRequest::Check => "check".to_owned(),
        ExportRequest::Write(exports) => {
            let books: Vec<_> = exports.iter().map(|export| export.chain.book.name()).collect();
            format!("write {}", books.join(" "))
        }
        ExportRequest::Submit(events) => format!("submit {}", events.len()),
        ExportRequest::Release { .. } => "release".to_owned(),
        ExportRequest::Tidy { .. } => "tidy".to_owned(),
    }
}

#[test]
fn a_segment_is_written_then_sealed_and_readable_once_the_journal_is_on_disk() {
    let mut server = Server::new();
    (server.durable, server.sequence) = (7, 7);
    server.claim(Claim::Report, 1);
    assert_eq!(server.step(0), ["check", "write listed votes", "submit 2", "tidy"]);
    assert_eq!(server.engine.exchange().pending_bytes(), 0);
    assert!(server.shelf.own_heads(Reader::Cluster).is_none(), "the journal is not on disk");
    server.durable = 8;
    assert!(server.step(100).is_empty(), "half of it is");
    server.durable = 9;
    assert_eq!(server.step(200), ["release"]);
    assert!(server.shelf.end(&server.chain(Book::Votes)) > 0);
    assert!(server.step(2_600).is_empty());
    assert_eq!(server.step(2_700), ["release"], "a heartbeat");
}

#[test]
fn a_chain_waits_a_second_for_more_entries_and_a_revocation_a_tenth() {
    let mut server = Server::new();
    server.claim(Claim::Report, 1);
    server.claim(Claim::Revoke, 2);
    assert_eq!(server.step(0)[1], "write listed revoked votes");
    server.claim(Claim::Report, 3);
    server.claim(Claim::Revoke, 4);
    assert!(server.step(99).is_empty());
    assert_eq!(server.step(100), ["write revoked", "submit 1", "release"]);
    assert!(server.step(999).is_empty());
    assert_eq!(server.step(1_000), ["write listed votes", "submit 2", "release"]);
    server.engine.apply(&recipients(5, 1));
    assert!(server.step(1_001)[0].ends_with("recipients"), "the first entries of a chain do not wait");
}

/// A server that runs on an old copy of its disk learns from others which segments it lost.
#[test]
fn nothing_is_sealed_or_published_while_own_segments_may_be_lost() {
    let held_ms = HELD_MAX.as_millis() as u64;
    let mut server = Server::new();
    server.awaits_cluster = true;
    server.claim(Claim::Report, 1);
    assert_eq!(server.step(0), ["check", "tidy"]);
    assert!(server.step(held_ms - 1).iter().all(|request| request == "tidy"));
    assert_eq!(server.step(held_ms), ["write listed votes", "submit 2", "release"], "the others may be gone for good");
}

#[test]
fn own_segments_may_be_lost_until_a_node_was_asked_or_while_a_source_names_them() {
    let (node, peer, broker) = (Some(Relation::Cluster), Some(Relation::Peer), None);
    let (unknown, complete, lost) = (OwnChains::Unknown, OwnChains::Complete, OwnChains::Lost);
    assert!(!awaits_cluster([]));
    assert!(!awaits_cluster([(peer, unknown)]));
    assert!(awaits_cluster([(node, unknown), (peer, complete)]));
    assert!(awaits_cluster([(broker, unknown)]));
    assert!(!awaits_cluster([(node, unknown), (node, complete)]));
    assert!(!awaits_cluster([(node, unknown), (broker, complete)]));
    assert!(awaits_cluster([(node, complete), (node, lost)]));
    assert!(awaits_cluster([(node, complete), (peer, lost)]));
}

#[test]
fn after_a_failed_write_the_logs_are_checked_every_five_seconds() {
    let mut server = Server::new();
    server.claim(Claim::Report, 1);
    server.write_error = Some(ShelfError::Io { log: "x.log".to_owned(), source: io::Error::other("disk full") });
    assert_eq!(server.step(0), ["check", "write listed votes"]);
    assert!(server.exporter.log_error().is_some_and(|error| error.contains("disk full")));
    assert!(server.step(4_999).is_empty());
    server.is_disk_full = true;
    assert_eq!(server.step(5_000), ["check"]);
    server.is_disk_full = false;
    assert_eq!(server.step(10_000), ["check", "write listed votes", "submit 2", "release", "tidy"]);
    assert_eq!(server.exporter.log_error(), None);
}

#[test]
fn a_log_that_is_gone_starts_another_incarnation() {
    let mut server = Server::new();
    server.claim(Claim::Report, 1);
    server.write_error = Some(ShelfError::Gap { log: "x.log".to_owned(), length: 0, offset: 200 });
    assert_eq!(server.step(0), ["check", "write listed votes", "submit 1"]);
    let own = server.engine.exchange().own().unwrap();
    assert!(own.key == origin(0).key && own.incarnation > origin(0).incarnation, "{own:?}");
    assert_eq!(server.step(1_000), ["write listed votes", "submit 2", "release", "tidy"]);
    assert!(server.engine.exchange().chains().all(|(chain, _)| chain.origin == own));
}

#[test]
fn logs_without_readers_are_given_up_after_ten_seconds() {
    let mut server = Server::new();
    server.is_wanted = false;
    server.step(0);
    server.claim(Claim::Report, 1);
    server.write_error = Some(ShelfError::Io { log: "x.log".to_owned(), source: io::Error::other("disk full") });
    server.is_disk_full = true;
    assert_eq!(server.step(1_000), ["write listed votes"]);
    assert_eq!(server.step(10_999), ["check"]);
    assert_eq!(server.step(11_000), ["submit 1"], "the end of the export");
    let exchange = server.engine.exchange();
    assert_eq!((exchange.own(), exchange.pending_bytes()), (None, 0));
    server.is_disk_full = false;
    assert!(server.step(20_000).starts_with(&["check".to_owned(), "submit 1".to_owned()]), "it begins again");
    assert!(server.engine.exchange().own().is_some_and(|own| own.incarnation > origin(0).incarnation));
}

#[test]
fn logs_with_readers_are_never_given_up() {
    let mut server = Server::new();
    server.claim(Claim::Report, 1);
    server.write_error = Some(ShelfError::Io { log: "x.log".to_owned(), source: io::Error::other("disk full") });
    server.is_disk_full = true;
    for seconds in 0..60 {
        server.step(1_000 * seconds);
    }
    assert_eq!(server.engine.exchange().own(), Some(origin(0)));
    assert!(server.engine.exchange().pending_bytes() > 0);
}

#[test]
fn a_refused_event_shows_unless_its_entries_are_gone() {
    for (refusal, is_shown) in [(ExchangeRefusal::NothingWaits, false), (ExchangeRefusal::NotBegun, true)] {
        let mut server = Server::new();
        server.claim(Claim::Report, 1);
        let (key, moment) = (key(0), at(0));
        let around = Surroundings {
            key: &key,
            realm: realm(),
            is_cluster: true,
            is_wanted: true,
            awaits_cluster: false,
            durable: 0,
        };
        while let Some(request) = server.exporter.next(&server.engine, &around, moment) {
            match request {
                ExportRequest::Check => server.exporter.checked(Ok(()), moment),
                ExportRequest::Write(_) => server.exporter.written(Ok(()), moment),
                ExportRequest::Submit(_) => {
                    server.exporter.submitted(Ok(vec![Outcome::Refused(Refusal::Exchange(refusal))]), 1);
                }
                ExportRequest::Release { .. } | ExportRequest::Tidy { .. } => {}
            }
        }
        assert_eq!(server.exporter.other_error().is_some(), is_shown, "{refusal}");
    }
}

#[test]
fn an_exporter_with_another_setting_begins_again_under_the_same_origin() {
    let mut server = Server::new();
    let begin = OriginChange::Begin { origin: origin(0), cluster: false };
    server.engine.apply(&Event::Origin { now: at(0).now, change: begin });
    assert_eq!(server.step(0)[0], "submit 1");
    assert!(server.engine.exchange().is_cluster() && server.engine.exchange().own() == Some(origin(0)));
}

#[test]
fn old_logs_are_removed_every_ten_minutes() {
    let mut server = Server::new();
    let tidied: Vec<u64> =
        (0..1_300).filter(|seconds| server.step(1_000 * seconds).contains(&"tidy".to_owned())).collect();
    assert_eq!(tidied, [0, 600, 1_200]);
}
