//! A server that forgets another one reads its logs again: a crash in between loses nothing, no snapshot is made, and a
//! lost log is fetched from others.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use bruit_engine::budget::BUDGET_MIN;
use bruit_engine::bulk::MANY;
use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, OriginChange, Relation, Terms};
use bruit_engine::trust::{Claim, Policy, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{Engine, Outcome};
use bruit_federation::coordinator::export::next_segment;
use bruit_federation::coordinator::judge::accept;
use bruit_federation::coordinator::rereader::Rereader;
use bruit_federation::rereading::{Progress, reread};
use bruit_federation::shelf::{LogFolder, Shelf};
use bruit_store::{Clearinghouse, Founding, Options};

use common::{START, claim, fingerprint, key, known, node, origin, realm, recipients, seal, want};

const TERMS: Terms = Terms { relation: Relation::Cluster, standing: Standing::Pinned, group: 0, cap: MANY };
/// Maximum number of steps for a few short logs.
const STEPS_MAX: usize = 200;

/// Number of signatures of each node, within its quota.
const SIGNATURES: u32 = 30;

struct Server {
    store: Clearinghouse,
    shelf: Shelf,
    rereader: Rereader,
}

impl Server {
    /// Opens the server in a folder. The server makes a snapshot whenever it is allowed to.
    fn open(folder: &Path) -> Self {
        let options = Options { snapshot_after_bytes: 1, ..Options::default() };
        let realm = node(0, 1).realm().clone();
        let found = || Founding { realm, budget_bytes: BUDGET_MIN, policy: Policy::default(), founded: START };
        let store = Clearinghouse::open_or_found(&folder.join("data"), &options, found, &mut |_| {}).unwrap();
        let logs = LogFolder::open(&folder.join("shelf")).unwrap();
        let shelf = store.check(|engine| Shelf::open(logs, key(0), engine)).unwrap();
        Self { store, shelf, rereader: Rereader::default() }
    }

    fn submit(&self, event: Event) -> Outcome {
        self.store.submit(vec![event]).unwrap().remove(0)
    }

    /// Receives segments of a chain, as a link does.
    fn receive(&self, chain: Chain, segments: &[Vec<u8>]) {
        for segment in segments {
            let want = self.store.check(|engine| want(engine, chain));
            let (received, rejected) = accept(segment, &want, realm(), &known(3));
            assert_eq!((received.len(), rejected), (1, None));
            let event = Event::Received { now: START, segment: Box::new(received[0].clone()) };
            assert!(matches!(self.submit(event), Outcome::Taken { .. }));
            self.shelf.keep_segment(&chain, want.from.offset, segment).unwrap();
        }
    }

    fn step(&mut self) -> Progress {
        reread(&mut self.rereader, &self.store, &self.shelf, START).unwrap()
    }

    fn total(&self, signature: u32) -> u32 {
        self.store.check(|engine| engine.bulk().total(&fingerprint(signature)))
    }
}

#[test]
fn a_crash_loses_nothing_and_a_lost_log_is_fetched_again() {
    let (mut logs, folder) = (BTreeMap::new(), tempfile::tempdir().unwrap());
    for number in [1, 2] {
        let mut node = node(number, 3);
        for signature in 0..SIGNATURES {
            node.apply(&claim(Claim::Report, number.into(), u32::from(number) * 100 + signature));
            node.apply(&recipients(20 + u32::from(number), signature));
            seal(number, &mut node, &mut logs);
        }
    }
    let mut server = Server::open(folder.path());
    let begin = OriginChange::Begin { origin: origin(0), cluster: true };
    let joins = [1, 2].map(|number| OriginChange::Join { key: origin(number).key, terms: TERMS });
    for change in [begin].into_iter().chain(joins) {
        assert_eq!(server.submit(Event::Origin { now: START, change }), Outcome::Done);
    }
    logs.iter().for_each(|(chain, log)| server.receive(*chain, log));
    assert_eq!(server.total(7), 43);
    server.store.snapshot().unwrap();
    let forget = Event::Forget { now: START, key: origin(2).key, by: origin(0).key, is_forgotten: true };
    assert_eq!(server.submit(forget), Outcome::Done);
    let snapshots = server.store.status().snapshots;
    assert_eq!([(); 4].map(|()| server.step()), [Progress::Done; 4]);
    drop(server);

    let mut server = Server::open(folder.path());
    assert!(server.store.check(Engine::is_forgetting), "the journal has what the snapshots lack");
    assert_eq!(server.store.status().snapshots.last(), snapshots.last(), "no snapshot meanwhile, not even at the end");
    let lost = logs.keys().find(|chain| chain.origin == origin(1) && chain.book == Book::Recipients).unwrap();
    server.shelf.forget(lost).unwrap();
    let steps = (0..STEPS_MAX).take_while(|_| server.step() != Progress::Idle).count();
    assert!(steps < STEPS_MAX, "it ends");
    assert_eq!(server.total(7), 0);
    assert_eq!(server.store.check(|engine| engine.exchange().frontier(lost).sequence), 0, "it is fetched again");
    server.receive(*lost, &logs[lost]);
    for signature in 0..SIGNATURES {
        assert_eq!(server.total(signature), 21);
        let kinds =
            [100, 200].map(|from| server.store.check(|engine| engine.check(&fingerprint(from + signature), 0).kind));
        assert_eq!(kinds, [Kind::Spam, Kind::Unknown]);
    }
}

/// Before our own segments are released, no other server has them, so they must be read from our disk.
#[test]
fn our_own_segments_are_read_before_they_are_released() {
    let folder = tempfile::tempdir().unwrap();
    let (mut logs, mut bad) = (BTreeMap::new(), node(2, 3));
    bad.apply(&claim(Claim::Report, 2, 1));
    seal(2, &mut bad, &mut logs);
    let mut server = Server::open(folder.path());
    let begin = OriginChange::Begin { origin: origin(0), cluster: true };
    for change in [begin, OriginChange::Join { key: origin(2).key, terms: TERMS }] {
        assert_eq!(server.submit(Event::Origin { now: START, change }), Outcome::Done);
    }
    logs.iter().for_each(|(chain, log)| server.receive(*chain, log));
    server.submit(claim(Claim::Report, 1, 2));
    let next = |server: &Server| {
        let seal = |engine: &Engine| {
            next_segment(engine.exchange(), engine.exchange().pending().next()?, realm(), &key(0), START)
        };
        server.store.check(seal)
    };
    while let Some(export) = next(&server) {
        server.shelf.put_own(&export.chain, export.offset, &export.bytes).unwrap();
        assert_eq!(server.submit(export.sealed), Outcome::Done);
    }
    let forget = Event::Forget { now: START, key: origin(2).key, by: origin(0).key, is_forgotten: true };
    assert_eq!(server.submit(forget), Outcome::Done);
    let steps = (0..STEPS_MAX).take_while(|_| server.step() != Progress::Idle).count();
    assert!(steps < STEPS_MAX, "it ends");
    assert_eq!(server.store.check(|engine| engine.exchange().own()), Some(origin(0)), "nothing was lost");
    let kinds = [1, 2].map(|signature| server.store.check(|engine| engine.check(&fingerprint(signature), 0).kind));
    assert_eq!(kinds, [Kind::Unknown, Kind::Spam]);
}
