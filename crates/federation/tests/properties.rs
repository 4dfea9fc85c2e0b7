//! Laws of the exchange. Segments produce the same books in any order, any number of times, and through any relays. A
//! snapshot and the later segments produce the complete state. Bytes that are not the next segment change nothing.

mod common;

use std::collections::BTreeMap;

use bruit_engine::Engine;
use bruit_engine::event::Event;
use bruit_engine::exchange::Chain;
use bruit_engine::trust::Claim;
use bruit_federation::keys::SIGNATURE_BYTES;
use common::{claim, fingerprint, give, known, node, recipients, seal, state};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Number of nodes that accept events. They are numbered from 0; the receiver of their segments has the next number.
const ORIGINS: u8 = 3;
const RECEIVER: u8 = ORIGINS;
const NODES: u8 = ORIGINS + 1;

type Logs = BTreeMap<Chain, Vec<Vec<u8>>>;

/// Generates events, each with the node that accepts it. The bool is true if that node then seals its queued entries.
fn accepted() -> impl Strategy<Value = Vec<(u8, Event, bool)>> {
    let event = prop_oneof![
        (any::<bool>(), 0..4_u64, 0..20_u32).prop_map(|(is_report, user, signature)| {
            claim(if is_report { Claim::Report } else { Claim::Revoke }, user, signature)
        }),
        (1..40_u32, 0..20_u32).prop_map(|(targets, signature)| recipients(targets, signature)),
    ];
    vec((0..ORIGINS, event, prop::bool::weighted(0.3)), 1..60)
}

/// Returns the logs of nodes that accepted these events without exchanging anything.
fn logs(accepted: &[(u8, Event, bool)]) -> (Vec<Engine>, Logs) {
    let mut engines: Vec<_> = (0..ORIGINS).map(|number| node(number, NODES)).collect();
    let mut logs = Logs::new();
    for (number, event, is_sealed) in accepted {
        let engine = &mut engines[usize::from(*number)];
        engine.apply(event);
        if *is_sealed {
            seal(*number, engine, &mut logs);
        }
    }
    engines.iter_mut().zip(0..).for_each(|(engine, number)| seal(number, engine, &mut logs));
    (engines, logs)
}

/// Returns a node that received logs chain by chain.
fn in_order(logs: &Logs) -> Engine {
    let mut engine = node(RECEIVER, NODES);
    for (chain, log) in logs {
        assert_eq!(give(&mut engine, *chain, &log.concat(), &known(NODES)), None);
    }
    engine
}

fn same_books(ours: &Engine, theirs: &Engine) {
    assert!(ours.spam().listed() == theirs.spam().listed() && ours.spam().revoked() == theirs.spam().revoked());
    assert_eq!(counts(ours), counts(theirs));
    let frontiers = |engine: &Engine| engine.exchange().chains().collect::<Vec<_>>();
    assert_eq!(frontiers(ours), frontiers(theirs));
}

/// Returns the claims and recipients counted for every signature.
fn counts(engine: &Engine) -> Vec<[u32; 3]> {
    let of = |signature: u32| {
        let fingerprint = fingerprint(signature);
        let claims = engine.spam().counts(0, &fingerprint);
        [claims.report_count, claims.revoke_count, engine.bulk().total(&fingerprint)]
    };
    (0..20).map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_and_any_number_of_times_give_the_same_books(
        accepted in accepted(),
        deliveries in vec((any::<Index>(), any::<Index>(), 1..4_usize), 0..80),
    ) {
        let (origins, logs) = logs(&accepted);
        let expected = in_order(&logs);
        let mut engine = node(RECEIVER, NODES);
        let chains: Vec<_> = logs.iter().collect();
        for (which, at, count) in deliveries.iter().filter(|_| !chains.is_empty()) {
            // Take some of its segments, from anywhere: before the frontier, after a gap, or the next ones.
            let (chain, log) = which.get(&chains);
            let first = at.index(log.len());
            give(&mut engine, **chain, &log[first..log.len().min(first + count)].concat(), &known(NODES));
        }
        for (chain, log) in &logs {
            let taken = engine.exchange().frontier(chain).sequence as usize;
            prop_assert_eq!(give(&mut engine, *chain, &log[taken..].concat(), &known(NODES)), None);
        }
        same_books(&engine, &expected);
        let add = |sum: Vec<[u32; 3]>, own: Vec<[u32; 3]>| {
            sum.into_iter().zip(own).map(|(sum, own)| [sum[0] + own[0], sum[1] + own[1], sum[2] + own[2]]).collect()
        };
        let sums = origins.iter().map(counts).fold(vec![[0; 3]; 20], add);
        prop_assert_eq!(counts(&engine), sums);
    }

    #[test]
    fn what_a_relay_cuts_anywhere_is_the_same_in_the_end(accepted in accepted(), cuts in vec(1..4_000_usize, 1..20)) {
        let (_, logs) = logs(&accepted);
        let mut engine = node(RECEIVER, NODES);
        for (chain, log) in &logs {
            let log = log.concat();
            for cut in cuts.iter().cycle() {
                let offset = engine.exchange().frontier(chain).offset as usize;
                let rest = &log[offset..];
                if rest.is_empty() {
                    break;
                }
                // A source returns at least one complete segment.
                let first = bruit_federation::segment::split(rest).unwrap().unwrap().0.len();
                let fetched = &rest[..rest.len().min(first.max(*cut))];
                prop_assert_eq!(give(&mut engine, *chain, fetched, &known(NODES)), None);
            }
        }
        same_books(&engine, &in_order(&logs));
    }

    #[test]
    fn bytes_that_are_no_next_segment_are_refused_with_a_reason_and_change_nothing(
        accepted in accepted(),
        which in any::<Index>(),
        bit in any::<Index>(),
        cut in any::<Index>(),
    ) {
        let (_, logs) = logs(&accepted);
        prop_assume!(!logs.is_empty());
        let (chain, log) = logs.iter().nth(which.index(logs.len())).unwrap();
        let mut engine = node(RECEIVER, NODES);
        prop_assert_eq!(give(&mut engine, *chain, &log[0], &known(NODES)), None);
        let (before, next) = (state(&mut engine), log.get(1));
        let mut refused = |bytes: &[u8]| {
            let reason = give(&mut engine, *chain, bytes, &known(NODES));
            assert!(state(&mut engine) == before, "a rejected log ({reason:?}) changed the state");
            reason
        };
        prop_assert_eq!(refused(&log[0]), Some("already_taken"));
        if let Some(later) = log.get(2) {
            prop_assert_eq!(refused(later), Some("not_next"));
        }
        if let Some(next) = next {
            let mut forged = next.clone();
            let bits = 8 * SIGNATURE_BYTES;
            let at = next.len() - SIGNATURE_BYTES + bit.index(bits) / 8;
            forged[at] ^= 1 << (bit.index(bits) % 8);
            prop_assert_eq!(refused(&forged), Some("forged"));
            prop_assert_eq!(refused(&next[..1 + cut.index(next.len() - 1)]), Some("malformed"));
            let with = |at: usize| {
                let mut other = next.clone();
                other[at] ^= 0x40;
                other
            };
            prop_assert_eq!(refused(&with(8)), Some("version"));
            prop_assert_eq!(refused(&with(16)), Some("foreign_realm"));
            prop_assert_eq!(refused(&with(32)), Some("wrong_chain"));
        }
    }
}

proptest! {
    // Few cases, because restoring recomputes the contents of the books.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_base_and_the_segments_after_it_are_the_whole(accepted in accepted(), cut in any::<Index>()) {
        let (_, logs) = logs(&accepted);
        let mut engine = node(RECEIVER, NODES);
        let base = |log: &[Vec<u8>]| cut.index(log.len() + 1);
        for (chain, log) in &logs {
            prop_assert_eq!(give(&mut engine, *chain, &log[..base(log)].concat(), &known(NODES)), None);
        }
        let bytes = state(&mut engine);
        let mut restored = Engine::restore(engine.realm().clone(), *engine.plan(), &mut &bytes[..]).unwrap();
        for (chain, log) in &logs {
            for engine in [&mut engine, &mut restored] {
                prop_assert_eq!(give(engine, *chain, &log[base(log)..].concat(), &known(NODES)), None);
            }
        }
        prop_assert!(state(&mut restored) == state(&mut engine), "a snapshot holds the complete state");
        same_books(&restored, &in_order(&logs));
    }
}
