//! A small clearinghouse for tests.

#![allow(dead_code, reason = "each test uses only a part of it")]

use bruit_engine::budget::Plan;
use bruit_engine::event::{By, Event};
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::{Policy, Reporter, Standing};
use bruit_engine::{BEHIND_LINES, Engine, Outcome};
use bruit_filters::{Fingerprint, FingerprintKey};

pub(crate) const SPAM_EPOCH: u64 = Realm::SPAM_EPOCH_SECONDS;
pub(crate) const BULK_EPOCH: u64 = Realm::BULK_EPOCH_SECONDS;
/// The start of an epoch of both books.
pub(crate) const START: Time = Time(4_000 * SPAM_EPOCH);

pub(crate) const KEY: FingerprintKey = FingerprintKey::narrow([5; 16]);

pub(crate) fn plan() -> Plan {
    Plan::for_budget(16 << 20).expect("a small budget")
}

pub(crate) fn realm() -> Realm {
    Realm::new(KEY, SPAM_EPOCH, BULK_EPOCH, plan().sizes).expect("usual epochs")
}

/// Creates an empty clearinghouse.
pub(crate) fn engine() -> Engine {
    Engine::new(realm(), plan(), Policy::default(), START)
}

/// Returns a reporter in its own group, and the time of its claim.
pub(crate) fn by(now: Time, standing: Standing, id: u64) -> By {
    By { now, reporter: Reporter { id, standing, group: id } }
}

/// Applies ticks until the books have reached the epochs of `now`.
pub(crate) fn tick(engine: &mut Engine, now: Time) {
    while !matches!(engine.apply(&Event::Tick { now, lines: BEHIND_LINES }), Outcome::Ticked { arrived: true, .. }) {}
}

/// Returns the fingerprint of the signature with this number.
pub(crate) fn fingerprint(signature: u32) -> Fingerprint {
    KEY.fingerprint(&signature.to_le_bytes())
}

/// Returns a snapshot, written without interruption.
pub(crate) fn snapshot(engine: &mut Engine) -> Vec<u8> {
    let mut bytes = Vec::new();
    engine.begin_snapshot(&mut bytes);
    while !engine.continue_snapshot(1 << 20, &mut bytes) {}
    bytes
}

/// Restores a clearinghouse from a snapshot.
pub(crate) fn restore(bytes: &[u8]) -> Engine {
    let mut input = bytes;
    let engine = Engine::restore(realm(), plan(), &mut input).expect("a snapshot of this realm");
    assert!(input.is_empty(), "{} bytes are left", input.len());
    engine
}
