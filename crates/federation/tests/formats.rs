//! Data signed by released versions can still be read, and the same events produce the same bytes.
//!
//! `testdata/formats/segments-v1` contains a log of every book and the heads that name them. When a format changes, the
//! new version gets its own sample and this one stays.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bruit_engine::Engine;
use bruit_engine::event::{By, Event};
use bruit_engine::exchange::{Book, Chain};
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::whitelist::{self, WhitelistChange};
use bruit_federation::coordinator::judge::{drifts, offered};
use bruit_federation::heads::{Heads, SignedHeads};
use common::{START, claim, fingerprint, give, key, known, node, realm, recipients, seal};

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/segments-v1")
}

/// Returns claims, recipients and a whitelisted signature, in two batches so that some books get two segments.
fn accepted() -> [Vec<Event>; 2] {
    let by = By { now: START, reporter: Reporter { id: 3, standing: Standing::Account, group: 3 } };
    let report = Event::Claim { by, claim: Claim::Report, flag: 2, fingerprints: (1..=9).map(fingerprint).collect() };
    let whitelisted = WhitelistChange::List(fingerprint(99), whitelist::ListAuthor::Operator);
    [
        vec![claim(Claim::Report, 1, 1), claim(Claim::Report, 1, 2), claim(Claim::Revoke, 2, 3), recipients(20, 4)],
        vec![
            report,
            claim(Claim::Report, 2, 5),
            claim(Claim::Revoke, 1, 2),
            recipients(300, 5),
            recipients(1, 4),
            Event::Whitelist { now: START, change: whitelisted },
        ],
    ]
}

/// Returns the files of the sample: logs by book, and heads.
fn files() -> BTreeMap<String, Vec<u8>> {
    let (mut engine, mut logs) = (node(0, 2), BTreeMap::new());
    for events in accepted() {
        events.iter().for_each(|event| drop(engine.apply(event)));
        seal(0, &mut engine, &mut logs);
    }
    let own = engine.exchange().own().unwrap();
    let heads = Heads::new(realm(), own, START, engine.exchange().chains()).sign(&key(0));
    let logs = logs.into_iter().map(|(chain, log)| (format!("{}.log", chain.book.name()), log.concat()));
    logs.chain([("heads".to_owned(), heads)]).collect()
}

fn read(name: &str) -> Vec<u8> {
    fs::read(sample().join(name)).unwrap_or_else(|error| panic!("{name} of the sample: {error}"))
}

#[test]
#[ignore = "writes into testdata/"]
fn make_the_sample() {
    fs::create_dir_all(sample()).unwrap();
    files().into_iter().for_each(|(name, bytes)| fs::write(sample().join(name), bytes).unwrap());
}

#[test]
fn the_same_events_give_the_bytes_of_the_sample() {
    let files = files();
    assert_eq!(files.len(), Book::ALL.len() + 1);
    assert_eq!(fs::read_dir(sample()).unwrap().count(), files.len());
    files.into_iter().for_each(|(name, bytes)| assert!(read(&name) == bytes, "{name}"));
}

#[test]
fn the_sample_of_version_1_tells_what_it_told() {
    let bytes = read("heads");
    let (believed, rejected) = offered(&bytes, realm(), &known(2));
    let [SignedHeads { heads, .. }] = &believed[..] else { panic!("expected heads of one origin, found {rejected:?}") };
    let mut engine = node(1, 2);
    for (chain, _) in heads.chains() {
        let log = read(&format!("{}.log", chain.book.name()));
        assert_eq!(give(&mut engine, chain, &log, &known(2)), None);
    }
    knows_the_sample(&engine, heads);
}

fn knows_the_sample(engine: &Engine, heads: &Heads) {
    let taken = |chain: &Chain| engine.exchange().frontier(chain);
    assert!(heads.chains().all(|(chain, head)| taken(&chain) == head) && drifts(heads, engine).is_empty());
    let kinds = [1, 2, 3, 5, 6].map(|signature| engine.check(&fingerprint(signature), 0).kind);
    assert_eq!(kinds, [Kind::Spam, Kind::Ham, Kind::Ham, Kind::Spam, Kind::Unknown]);
    assert_eq!([4, 5].map(|signature| engine.bulk().total(&fingerprint(signature))), [21, 300]);
    assert_eq!(engine.spam().counts(0, &fingerprint(2)).revoke_count, 1);
    assert!(engine.whitelist().contains(&fingerprint(99)).is_some());
}
