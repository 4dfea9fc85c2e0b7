//! Snapshots contain the state at their start, regardless of later events; other bytes are refused.

mod common;

use bruit_engine::budget::{BUDGET_MIN, Plan};
use bruit_engine::event::{Event, TextChange};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::{Engine, RestoreError, TICK_LINES};
use bruit_signatures::bruit::Features;

use common::{SPAM_EPOCH, START, by, engine, fingerprint, realm, restore, snapshot, tick};

/// Applies a few events of every kind.
fn feed(engine: &mut Engine, round: u32) {
    let own = by(engine.now(), Standing::Own, 1 + u64::from(round % 5));
    let at = round * 10;
    let fingerprints: Vec<_> = (at..at + 10).map(fingerprint).collect();
    let claim = |claim, flag, from: usize| {
        let fingerprints = fingerprints[from..].to_vec();
        Event::Claim { by: own, claim, flag, fingerprints }
    };
    let features = Features { pairs: (u64::from(at) * 100..u64::from(at) * 100 + 60).collect(), ..Features::default() };
    let text = engine.replicas().text(&features);
    let events = [
        claim(Claim::Report, 0, 0),
        claim(Claim::Revoke, 1, 5),
        Event::Bulk { by: own, targets: 1 + round % 40, fingerprints: fingerprints.clone() },
        Event::Text { by: own, fingerprint: fingerprints[0], text },
        Event::Good { by: own, features: engine.replicas().good_features_of(&features) },
        Event::Shingles {
            by: own,
            change: TextChange::Write { flag: 2, weight: 3 },
            digest: Box::new([round as u8; 64]),
            shingles: Some(Box::new(std::array::from_fn(|shingle| u64::from(at) + shingle as u64))),
        },
        Event::Tick { now: Time(engine.now().0 + 7 * Time::HOUR), lines: TICK_LINES },
    ];
    events.iter().for_each(|event| drop(engine.apply(event)));
}

#[test]
fn a_snapshot_has_the_state_at_its_start() {
    let mut engine = engine();
    (0..100).for_each(|round| feed(&mut engine, round));
    let at_beginning = snapshot(&mut engine);
    let mut bytes = Vec::new();
    engine.begin_snapshot(&mut bytes);
    let mut round = 100;
    while !engine.continue_snapshot(64 << 10, &mut bytes) {
        feed(&mut engine, round);
        round += 1;
    }
    assert!(round > 300, "events were applied during the snapshot");
    assert!(bytes == at_beginning);
    let after = snapshot(&mut engine);
    assert!(snapshot(&mut restore(&after)) == after);
}

/// While a snapshot is written, the filters of good mail start three generations, and the rings start more than three.
#[test]
fn generations_may_turn_while_a_snapshot_is_written() {
    let mut engine = engine();
    (0..50).for_each(|round| feed(&mut engine, round));
    let at_beginning = snapshot(&mut engine);
    let mut bytes = Vec::new();
    engine.begin_snapshot(&mut bytes);
    let mut epochs = 0;
    while !engine.continue_snapshot(1 << 20, &mut bytes) {
        epochs += 1;
        tick(&mut engine, Time(START.0 + epochs * SPAM_EPOCH));
    }
    assert!(epochs > 9);
    assert!(bytes == at_beginning);
}

#[test]
fn a_snapshot_of_another_realm_or_version_or_with_impossible_sizes_is_refused() {
    let mut engine = engine();
    feed(&mut engine, 1);
    let bytes = snapshot(&mut engine);
    let plan = *engine.plan();
    let smaller = Plan { bytes: BUDGET_MIN, ..plan };
    let restored = |bytes: &[u8], plan| Engine::restore(realm(), plan, &mut &*bytes).map(drop);
    assert!(restored(&bytes, smaller).is_ok(), "the snapshot contains its budget");
    let mut of_version_2 = bytes.clone();
    of_version_2[8] = 2;
    assert!(matches!(restored(&of_version_2, smaller), Err(RestoreError::OtherBudget { .. })));
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] ^= byte;
        restored(&bytes, plan)
    };
    assert!(matches!(with(0, 1), Err(RestoreError::NotASnapshot)));
    assert!(matches!(with(8, 15), Err(RestoreError::UnknownVersion { found: 8 })));
    // Numbers of lines that do not fit in the budget, and a budget out of range.
    for (at, byte) in [(52, 0xff), (65, 0xff), (33, 0xff)] {
        assert!(matches!(with(at, byte), Err(RestoreError::Sizes { .. })), "{at}");
    }
    let mut empty = bytes.clone();
    empty[74..82].fill(0);
    assert!(matches!(restored(&empty, plan), Err(RestoreError::Sizes { .. })));
    assert!(matches!(with(10, 1), Err(RestoreError::OtherRealm)));
}

/// Even damage that a checksum would detect must not crash the program.
#[test]
fn damaged_bytes_never_panic() {
    let mut engine = engine();
    (0..20).for_each(|round| feed(&mut engine, round));
    let bytes = snapshot(&mut engine);
    let plan = *engine.plan();
    let small = 82 + u64::from_le_bytes(bytes[42..50].try_into().unwrap()) as usize;
    for at in (0..small).step_by(409) {
        let mut damaged = bytes[..small].to_vec();
        damaged[at] = damaged[at].wrapping_add(1 + (at % 255) as u8);
        // End the input after the small state, because only its decoder is tested here.
        assert!(Engine::restore(realm(), plan, &mut &damaged[..]).is_err());
        assert!(Engine::restore(realm(), plan, &mut &bytes[..at]).is_err());
    }
    for part in 1..10 {
        assert!(Engine::restore(realm(), plan, &mut &bytes[..bytes.len() * part / 10]).is_err());
    }
}
