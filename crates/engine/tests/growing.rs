//! Changes of the memory budget: contents and counts stay the same, and the engine continues to work.

mod common;

use bruit_engine::accounts::{AccountChange, Credential, Protocol, Registration, Secret};
use bruit_engine::budget::{BUDGET_MIN, Capacities, Plan};
use bruit_engine::bulk::MANY;
use bruit_engine::event::{Event, TextChange};
use bruit_engine::exchange::{Chain, Origin, OriginChange, Received, Relation, Terms};
use bruit_engine::realm::Realm;
use bruit_engine::shingles::SHINGLES;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::whitelist::{ListAuthor, WhitelistChange};
use bruit_engine::{CheckScratch, Engine, Outcome, Refusal, Status};
use bruit_signatures::bruit::Features;

use common::{BULK_EPOCH, KEY, SPAM_EPOCH, START, by, fingerprint, snapshot, tick};

/// Number of reported signatures. The same number of further signatures is never reported.
const SIGNATURES: u32 = 6_000;
const TEXTS: u32 = 60;

const CLUSTER: Terms = Terms { relation: Relation::Cluster, standing: Standing::Pinned, group: 5, cap: MANY };
const PEER: Terms = Terms { relation: Relation::Peer, standing: Standing::Pinned, group: 77, cap: 100 };

fn realm_of(budget: u64) -> Realm {
    Realm::new(KEY, SPAM_EPOCH, BULK_EPOCH, Plan::for_budget(budget).unwrap().sizes).unwrap()
}

fn empty(budget: u64) -> Engine {
    Engine::new(realm_of(budget), Plan::for_budget(budget).unwrap(), Policy::default(), START)
}

fn origin(number: u8) -> Origin {
    Origin { key: [number; 32], incarnation: 1 }
}

fn features(text: u32) -> Features {
    let first = u64::from(text) * 1_000;
    Features { pairs: (first..first + 60).collect(), ..Features::default() }
}

fn shingles(text: u32) -> [u64; SHINGLES] {
    std::array::from_fn(|at| u64::from(text) * 1_000 + at as u64)
}

fn digest(text: u32) -> [u8; 64] {
    [text as u8; 64]
}

/// Returns all pending entries of a server as segments.
fn segments(engine: &mut Engine) -> Vec<Received> {
    let origin = engine.exchange().own().unwrap();
    let mut segments = Vec::new();
    while let Some((book, generation)) = { engine.exchange().pending().next() } {
        let chain = Chain { origin, book, generation };
        let sealable = engine.exchange().sealable(book, generation).unwrap();
        let frontier = engine.exchange().frontier(&chain);
        let (sequence, bytes) = (frontier.sequence + 1, 176 + sealable.payload.len() as u32);
        let hash = [book as u8 + 10 * sequence as u8; 32];
        let sealed = Event::Sealed { now: engine.now(), chain, sequence, taken: sealable.taken, bytes, hash };
        assert_eq!(engine.apply(&sealed), Outcome::Done);
        let (encoding, payload) = (sealable.encoding, sealable.payload);
        segments.push(Received { chain, sequence, previous: frontier.hash, hash, bytes, encoding, payload });
    }
    segments
}

/// Returns the segments of another server that counted some of the same signatures.
fn other(number: u8, cluster: bool) -> Vec<Received> {
    let mut engine = empty(BUDGET_MIN);
    let begin = OriginChange::Begin { origin: origin(number), cluster };
    engine.apply(&Event::Origin { now: START, change: begin });
    let own = by(START, Standing::Own, 40 + u64::from(number));
    for first in (0..600).step_by(60) {
        let fingerprints: Vec<_> = (first..first + 60).map(fingerprint).collect();
        let targets = if first < 200 { 3 } else { 50_000 };
        engine.apply(&Event::Bulk { by: own, targets, fingerprints: fingerprints.clone() });
        engine.apply(&Event::Claim { by: own, claim: Claim::Report, flag: 1, fingerprints });
    }
    let is_heard = |segment: &Received| cluster || segment.chain.book.is_public();
    segments(&mut engine).into_iter().filter(is_heard).collect()
}

fn account_name(number: u32) -> Vec<u8> {
    format!("someone{number}").into_bytes()
}

fn account_and_lists() -> Vec<Event> {
    let mut events = Vec::new();
    for number in 0..50 {
        let name = account_name(number);
        let credential = Credential::new(&name, &Secret::Razor { password: b"tin whistle 7" }).unwrap();
        let change = AccountChange::Register {
            name: name.into(),
            credential,
            group: 7,
            standing: Standing::Account,
            registration: Registration::Operator,
        };
        events.push(Event::Account { now: START, change });
        let change = WhitelistChange::List(fingerprint(500_000 + number), ListAuthor::Operator);
        events.push(Event::Whitelist { now: START, change });
    }
    let change = WhitelistChange::AddSender(b"@example.org".as_slice().into());
    events.push(Event::Whitelist { now: START, change });
    events
}

fn claims(now: Time, first: u32) -> Vec<Event> {
    let fingerprints = |from: u32, to: u32| (first + from..first + to).map(fingerprint).collect::<Vec<_>>();
    let claim =
        |standing, id, claim, flag, fingerprints| Event::Claim { by: by(now, standing, id), claim, flag, fingerprints };
    let bulk = |targets, fingerprints| Event::Bulk { by: by(now, Standing::Own, 1), targets, fingerprints };
    let mut events = vec![
        claim(Standing::Own, 1, Claim::Report, 0, fingerprints(0, 50)),
        claim(Standing::Own, 2, Claim::Report, 3, fingerprints(0, 20)),
        claim(Standing::Own, 3, Claim::Revoke, 0, fingerprints(30, 40)),
        // These claims stay unsettled, and their reporter has no record.
        claim(Standing::Account, 5, Claim::Report, 0, fingerprints(60, 64)),
        bulk(1, fingerprints(0, 30)),
        bulk(14, fingerprints(10, 20)),
        bulk(70_000, fingerprints(25, 28)),
    ];
    // A signature is listed, revoked, and listed again.
    for (id, verb) in [(11, Claim::Report), (12, Claim::Revoke), (13, Claim::Report), (14, Claim::Report)] {
        events.push(claim(Standing::Own, id, verb, 0, fingerprints(70, 71)));
    }
    events
}

fn texts(engine: &Engine, now: Time, text: u32) -> Vec<Event> {
    // No anchor contradicts this reporter, who therefore keeps its weight.
    let own = by(now, Standing::Own, 21);
    let shingles = Some(Box::new(shingles(text)));
    let write = TextChange::Write { flag: 2, weight: 3 };
    vec![
        Event::Text { by: own, fingerprint: fingerprint(text), text: engine.replicas().text(&features(text)) },
        Event::Good { by: own, features: engine.replicas().good_features_of(&features(10_000 + text / 2)) },
        Event::Shingles { by: own, change: write, digest: Box::new(digest(text)), shingles },
    ]
}

/// Returns an engine with contents of every kind, in several generations, and the events that created them.
fn filled(budget: u64) -> (Engine, Vec<Event>) {
    let mut engine = empty(budget);
    let mut events = Vec::new();
    let mut feed = |engine: &mut Engine, event: Event| {
        let outcome = engine.apply(&event);
        assert!(!matches!(outcome, Outcome::Refused(_)), "{event:?}: {outcome:?}");
        events.push(event);
    };
    for change in [
        OriginChange::Begin { origin: origin(1), cluster: true },
        OriginChange::Join { key: [2; 32], terms: CLUSTER },
        OriginChange::Join { key: [3; 32], terms: PEER },
    ] {
        feed(&mut engine, Event::Origin { now: START, change });
    }
    account_and_lists().into_iter().for_each(|event| feed(&mut engine, event));
    for segment in other(2, true).into_iter().chain(other(3, false)) {
        feed(&mut engine, Event::Received { now: START, segment: Box::new(segment) });
    }
    for round in 0..SIGNATURES / 100 {
        let now = engine.now();
        claims(now, round * 100).into_iter().for_each(|event| feed(&mut engine, event));
        texts(&engine, now, round % TEXTS).into_iter().for_each(|event| feed(&mut engine, event));
        // Clear too few lines for some generations, so that the structures also grow while a generation is half
        // cleared.
        let lines = 8_000 * (budget / BUDGET_MIN) as u32;
        feed(&mut engine, Event::Tick { now: Time(now.0 + 3 * Time::HOUR), lines });
    }
    (engine, events)
}

/// Returns the answers to every possible query.
fn knowledge(engine: &Engine) -> Vec<String> {
    let mut facts = Vec::new();
    for signature in 0..2 * SIGNATURES {
        let fingerprint = fingerprint(signature);
        let verdicts = [0, 1, 3].map(|flag| engine.check(&fingerprint, flag));
        let (entry, total) = (engine.spam().entry(&fingerprint), engine.bulk().total(&fingerprint));
        facts.push(format!("{signature}: {verdicts:?} {entry:?} {total}"));
    }
    let mut scratch = CheckScratch::default();
    for text in 0..2 * TEXTS {
        let found = engine.find_text(&features(text), &mut scratch).map(|found| found.fingerprint);
        let mut similar = shingles(text);
        similar[..10].fill(0);
        let by_shingles = engine.check_shingles(&digest(200), Some(&similar), &mut scratch);
        let by_digest = engine.check_shingles(&digest(text), None, &mut scratch);
        facts.push(format!("text {text}: {found:?} {by_shingles:?} {by_digest:?}"));
        // If the message is known to be good, its text has no features.
        facts.push(format!("good {text}: {:?}", engine.replicas().text(&features(10_000 + text))));
    }
    for number in 0..50 {
        let account = engine.accounts().get(Protocol::Razor, &account_name(number)).is_some();
        facts.push(format!("{account} {:?}", engine.whitelist().contains(&fingerprint(500_000 + number))));
    }
    let mut trust = Vec::new();
    engine.trust().encode(&mut trust);
    let pending: Vec<_> = engine.exchange().pending().collect();
    facts.push(format!("{trust:?} {pending:?} {:?}", engine.exchange()));
    facts
}

/// Compares the sizes of all generations as shown to operators. Sizes are estimates, except those of rings of counts.
fn assert_same_generations(engine: &Engine, before: &Status) {
    for (ring, before) in engine.status().rings.iter().zip(&before.rings) {
        for (&(epoch, signatures), &(epoch_before, expected)) in ring.generations.iter().zip(&before.generations) {
            assert_eq!(epoch, epoch_before);
            assert!(signatures.abs_diff(expected) <= 32, "{}: {signatures} instead of {expected}", ring.name);
        }
        let (rate, expected) = (ring.error_rate, before.error_rate);
        assert!((rate - expected).abs() <= expected * 1e-6, "{}: {rate:e} instead of {expected:e}", ring.name);
    }
}

fn resize(engine: &mut Engine, budget_bytes: u64) -> Outcome {
    engine.apply(&Event::Resize { now: engine.now(), budget_bytes })
}

fn restored(bytes: &[u8], founded: u64) -> Engine {
    let mut input = bytes;
    let engine = Engine::restore(realm_of(founded), Plan::for_budget(founded).unwrap(), &mut input).unwrap();
    assert!(input.is_empty());
    engine
}

fn assert_same(found: &[String], expected: &[String]) {
    let differs = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert_eq!((differs, found.len()), (None, expected.len()));
}

#[test]
fn growing_loses_nothing_and_changes_no_count() {
    let (mut engine, events) = filled(BUDGET_MIN);
    let before = knowledge(&engine);
    assert!(before.iter().any(|facts| facts.contains("reinstated: true")), "something is reinstated");
    assert!(before.iter().filter(|facts| facts.contains("kind: Spam")).count() > 1_000);
    let (old, status_before) = (snapshot(&mut engine), engine.status());
    for budget in [32 << 20, 128 << 20] {
        let (from, sizes) = (*engine.plan(), engine.plan().sizes);
        assert_eq!(resize(&mut engine, budget), Outcome::Done);
        let plan = *engine.plan();
        assert_eq!((plan.bytes, plan.sizes.spam_lines), (budget, sizes.spam_lines * (budget / from.bytes)));
        assert_same(&knowledge(&engine), &before);
        assert_same_generations(&engine, &status_before);
        let bytes = snapshot(&mut engine);
        let mut again = restored(&bytes, BUDGET_MIN);
        assert_same(&knowledge(&again), &before);
        assert_eq!((*again.plan(), again.realm().id()), (plan, engine.realm().id()));
        assert!(snapshot(&mut again) == bytes, "after restoring and writing it again");
        let status = engine.status();
        // The counts of other servers are not part of the budget.
        let others: u64 = status.rings[4..].iter().map(|ring| ring.bytes).sum();
        let bytes = status.bytes - status.tables[0].bytes - others;
        assert!(bytes <= budget && bytes > budget / 10 * 7, "{bytes} of {budget}");
        assert_eq!(status.rings[0].capacity, Capacities::per_generation(&plan.sizes).spam);
    }
    // An old snapshot plus the change, and a replay of all events, give the same result.
    let grown = snapshot(&mut engine);
    let mut from_snapshot = restored(&old, BUDGET_MIN);
    let mut from_events = empty(BUDGET_MIN);
    events.iter().for_each(|event| drop(from_events.apply(event)));
    for replayed in [&mut from_snapshot, &mut from_events] {
        resize(replayed, 32 << 20);
        resize(replayed, 128 << 20);
        assert!(snapshot(replayed) == grown);
    }
}

#[test]
fn a_grown_clearinghouse_continues_and_expires_on_time() {
    let (mut grown, _) = filled(BUDGET_MIN);
    let (mut same, _) = filled(BUDGET_MIN);
    resize(&mut grown, 32 << 20);
    for engine in [&mut grown, &mut same] {
        let now = engine.now();
        tick(engine, now);
        for event in claims(now, 900_000).into_iter().chain(texts(engine, now, 190)) {
            engine.apply(&event);
        }
    }
    let found = |engine: &Engine| {
        let listed = |range: std::ops::Range<u32>| {
            range.filter(|&signature| engine.check(&fingerprint(signature), 0).kind == Kind::Spam).collect::<Vec<_>>()
        };
        let totals: Vec<_> = (900_000..900_030).map(|signature| engine.bulk().total(&fingerprint(signature))).collect();
        let text = engine.find_text(&features(190), &mut CheckScratch::default()).map(|found| found.fingerprint);
        (listed(0..SIGNATURES), listed(900_000..900_100), totals, text)
    };
    assert_eq!(found(&grown), found(&same));
    assert_eq!(found(&grown).2[26], 70_001);
    for _ in 0..8 {
        for engine in [&mut grown, &mut same] {
            let next = Time(engine.now().0 + SPAM_EPOCH);
            tick(engine, next);
        }
        assert_eq!(found(&grown), found(&same));
    }
    assert!(found(&grown).0.is_empty() && found(&grown).1.is_empty());
    let bytes = snapshot(&mut grown);
    assert!(snapshot(&mut restored(&bytes, BUDGET_MIN)) == bytes);
}

#[test]
fn structures_without_room_for_twice_their_lines_keep_their_size() {
    let (mut engine, _) = filled(BUDGET_MIN);
    let before = knowledge(&engine);
    let preview = engine.preview_resize(15 << 20).unwrap();
    assert_eq!(resize(&mut engine, 15 << 20), Outcome::Done);
    assert_same(&knowledge(&engine), &before);
    for structure in &preview.structures {
        let (now, then) = structure.capacity;
        match structure.lines {
            Some((lines, lines_then)) => assert_eq!((lines, now), (lines_then, then), "{structure:?}"),
            None => assert!(then > now * 3 / 2, "{structure:?}"),
        }
    }
    let bytes = snapshot(&mut engine);
    assert!(snapshot(&mut restored(&bytes, BUDGET_MIN)) == bytes);
    // Only exact tables grew, so the budget can shrink again.
    assert_eq!(resize(&mut engine, BUDGET_MIN), Outcome::Done);
    assert_same(&knowledge(&engine), &before);
    assert_eq!(*engine.plan(), Plan::for_budget(BUDGET_MIN).unwrap());
}

#[test]
fn the_preview_matches_the_growth() {
    let (mut engine, _) = filled(BUDGET_MIN);
    let preview = engine.preview_resize(64 << 20).unwrap();
    assert_eq!(resize(&mut engine, 64 << 20), Outcome::Done);
    let after = engine.preview_resize(64 << 20).unwrap();
    for (then, now) in preview.structures.iter().zip(&after.structures) {
        assert_eq!((then.name, then.capacity.1), (now.name, now.capacity.0));
        assert_eq!(then.lines.map(|lines| lines.1), now.lines.map(|lines| lines.0), "{}", then.name);
        // Rings of counts get slightly more memory for their records than a whole factor would give them.
        assert!(now.bytes.0.abs_diff(then.bytes.1) * 100 <= now.bytes.0, "{then:?} {now:?}");
        // Tables of texts are rounded down to whole pairs of lines, so the factor may be one too low.
        assert!(then.factor().is_none_or(|factor| matches!(factor, 7 | 8)), "{then:?}");
    }
}

#[test]
fn a_smaller_budget_is_refused_where_something_does_not_fit() {
    let (mut engine, _) = filled(2 * BUDGET_MIN);
    let bytes = snapshot(&mut engine);
    let refusal = Refusal::DoesNotShrink { what: "books", from: 2 * BUDGET_MIN, to: BUDGET_MIN };
    assert_eq!(resize(&mut engine, BUDGET_MIN), Outcome::Refused(refusal));
    assert!(refusal.to_string().contains("16777216") && refusal.to_string().contains("8388608"), "{refusal}");
    assert!(snapshot(&mut engine) == bytes, "nothing has changed");
    let outcome = engine.apply(&Event::Resize { now: engine.now(), budget_bytes: BUDGET_MIN - 1 });
    assert_eq!(outcome, Outcome::Refused(Refusal::OutOfBounds));
}

#[test]
fn nothing_grows_while_a_snapshot_is_written() {
    let mut engine = empty(BUDGET_MIN);
    let mut bytes = Vec::new();
    engine.begin_snapshot(&mut bytes);
    assert_eq!(resize(&mut engine, 32 << 20), Outcome::Refused(Refusal::SnapshotRuns));
    while !engine.continue_snapshot(1 << 20, &mut bytes) {}
    assert_eq!(resize(&mut engine, 32 << 20), Outcome::Done);
}

/// Two servers of one realm, one with four times the memory of the other, exchange all their entries.
#[test]
fn servers_of_one_realm_may_have_different_memory() {
    let mut large = empty(BUDGET_MIN);
    resize(&mut large, 4 * BUDGET_MIN);
    for change in [
        OriginChange::Begin { origin: origin(1), cluster: true },
        OriginChange::Join { key: [2; 32], terms: CLUSTER },
        OriginChange::Join { key: [3; 32], terms: PEER },
    ] {
        assert_eq!(large.apply(&Event::Origin { now: START, change }), Outcome::Done);
    }
    for segment in other(2, true).into_iter().chain(other(3, false)) {
        let outcome = large.apply(&Event::Received { now: START, segment: Box::new(segment) });
        assert!(matches!(outcome, Outcome::Taken { refused: 0, .. }), "{outcome:?}");
    }
    assert_eq!(large.spam().claims_of_nodes().unwrap().lines(), 2 * large.plan().sizes.claim_lines);
    assert!((0..180).all(|signature| large.bulk().total(&fingerprint(signature)) >= 3));
    assert!((240..600).all(|signature| large.bulk().total(&fingerprint(signature)) >= 50_000));
}
