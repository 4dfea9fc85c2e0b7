//! Small servers for tests, which exchange the events that they accepted.

#![allow(dead_code, reason = "every test uses a part of it")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bruit_engine::budget::{BUDGET_MIN, Plan};
use bruit_engine::bulk::MANY;
use bruit_engine::event::{By, Event};
use bruit_engine::exchange::{Chain, Origin, OriginChange, Relation, Terms};
use bruit_engine::realm::{BookSizes, Realm, RealmId};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_engine::{Engine, Outcome};
use bruit_federation::coordinator::export::next_segment;
use bruit_federation::coordinator::judge::{Known, Want, accept};
use bruit_federation::keys::NodeKey;
use bruit_filters::{Fingerprint, FingerprintKey};

pub(crate) const KEY: FingerprintKey = FingerprintKey::narrow([9; 16]);
pub(crate) const START: Time = Time(1_728_432_000);

const SIZES: BookSizes = BookSizes { spam_lines: 64, revoked_lines: 64, claim_lines: 256, bulk_lines: 256 };

/// The initial engine of all servers, shared because creating one takes a while.
static BLANK: LazyLock<Engine> = LazyLock::new(|| {
    let realm = Realm::new(KEY, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, SIZES).unwrap();
    let plan = Plan { sizes: SIZES, ..Plan::for_budget(BUDGET_MIN).unwrap() };
    Engine::new(realm, plan, Policy::default(), START)
});

pub(crate) fn realm() -> RealmId {
    BLANK.realm().id()
}

pub(crate) fn key(number: u8) -> NodeKey {
    NodeKey::generate([number; 32])
}

pub(crate) fn origin(number: u8) -> Origin {
    Origin { key: *key(number).public().as_bytes(), incarnation: 1 }
}

/// Returns the nodes with numbers below `count`.
pub(crate) fn known(count: u8) -> Known {
    Known::new((0..count).map(|number| (key(number).public(), Relation::Cluster)))
}

/// Returns the node with this number in a cluster of `count` nodes.
pub(crate) fn node(number: u8, count: u8) -> Engine {
    let mut engine = BLANK.empty_like(Policy::default(), START);
    let terms = Terms { relation: Relation::Cluster, standing: Standing::Pinned, group: 0, cap: MANY };
    let joins = (0..count).filter(|other| *other != number);
    let joins = joins.map(|other| OriginChange::Join { key: *key(other).public().as_bytes(), terms });
    let begin = OriginChange::Begin { origin: origin(number), cluster: true };
    for change in [begin].into_iter().chain(joins) {
        assert_eq!(engine.apply(&Event::Origin { now: START, change }), Outcome::Done);
    }
    engine
}

pub(crate) fn fingerprint(signature: u32) -> Fingerprint {
    KEY.fingerprint(&signature.to_le_bytes())
}

/// Returns a claim of a local user.
pub(crate) fn claim(claim: Claim, user: u64, signature: u32) -> Event {
    let by = By { now: START, reporter: Reporter { id: user, standing: Standing::Own, group: user } };
    Event::Claim { by, claim, flag: 0, fingerprints: vec![fingerprint(signature)] }
}

/// Returns recipients counted by a local user.
pub(crate) fn recipients(targets: u32, signature: u32) -> Event {
    let by = By { now: START, reporter: Reporter { id: 1, standing: Standing::Own, group: 1 } };
    Event::Bulk { by, targets, fingerprints: vec![fingerprint(signature)] }
}

/// Seals all queued entries into segments, and appends these to their logs.
pub(crate) fn seal(number: u8, engine: &mut Engine, logs: &mut BTreeMap<Chain, Vec<Vec<u8>>>) {
    while let Some(waiting) = { engine.exchange().pending().next() } {
        let export = next_segment(engine.exchange(), waiting, realm(), &key(number), START).unwrap();
        assert_eq!(engine.apply(&export.sealed), Outcome::Done);
        logs.entry(export.chain).or_default().push(export.bytes);
    }
}

/// Returns a request for all remaining segments of a chain.
pub(crate) fn want(engine: &Engine, chain: Chain) -> Want {
    let from = engine.exchange().frontier(&chain);
    Want { chain, from, to: bruit_engine::exchange::Frontier { sequence: u64::MAX, ..from } }
}

/// Applies bytes that may be the next segments of a chain. Returns the reason if they were rejected.
pub(crate) fn give(engine: &mut Engine, chain: Chain, bytes: &[u8], known: &Known) -> Option<&'static str> {
    let (received, rejected) = accept(bytes, &want(engine, chain), realm(), known);
    for segment in received {
        let outcome = engine.apply(&Event::Received { now: START, segment: Box::new(segment) });
        assert!(matches!(outcome, Outcome::Taken { .. }), "{outcome:?}");
    }
    rejected.map(|rejected| rejected.name())
}

/// Returns the encoded state of an engine.
pub(crate) fn state(engine: &mut Engine) -> Vec<u8> {
    let mut bytes = Vec::new();
    engine.begin_snapshot(&mut bytes);
    while !engine.continue_snapshot(1 << 20, &mut bytes) {}
    bytes
}
