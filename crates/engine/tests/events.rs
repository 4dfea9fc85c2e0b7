//! Tests of the encoding and the bounds of events.

mod common;

use bruit_engine::accounts::{AccountChange, ChangeError, Credential, Protocol, RegisterError, Registration, Secret};
use bruit_engine::budget::BUDGET_MIN;
use bruit_engine::event::{Event, FINGERPRINTS_MAX, IDENTIFIED_EVENTS_MAX, TextChange};
use bruit_engine::replicas::GOOD_FEATURES;
use bruit_engine::spam::{FLAGS, REINSTATED_MAX};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::whitelist::{ListAuthor, WhitelistChange};
use bruit_engine::{CheckScratch, Engine, Outcome, Refusal, SETTLED_PER_TICK};
use bruit_signatures::bruit::Features;

use common::{START, by, engine, fingerprint, tick};

fn claim(flag: u8, fingerprints: usize) -> Event {
    let fingerprints = (0..fingerprints as u32).map(fingerprint).collect();
    Event::Claim { by: by(START, Standing::Pinned, 77), claim: Claim::Revoke, flag, fingerprints }
}

fn good(features: u64) -> Event {
    Event::Good { by: by(START, Standing::Own, 1), features: (0..features).collect() }
}

fn good_features(features: u64) -> Event {
    Event::GoodFeatures { by: by(START, Standing::Own, 1), features: (0..features).collect() }
}

fn identified(events: Vec<Event>) -> Event {
    Event::IdentifiedClaim { now: START, id: fingerprint(9), events }
}

fn account(name: &[u8]) -> Event {
    let credential = Credential::new(name, &Secret::Razor { password: b"tin whistle 7" }).unwrap();
    let change = AccountChange::Register {
        name: name.into(),
        credential,
        group: 5,
        standing: Standing::Account,
        registration: Registration::Operator,
    };
    Event::Account { now: START, change }
}

/// Returns events of each kind, at their bounds.
fn events() -> Vec<Event> {
    let own = by(START, Standing::Own, 1);
    let features = Features { pairs: (0..500).collect(), whole: Some(3), ..Features::default() };
    let text = engine().replicas().text(&features);
    let shingles = Some(Box::new(std::array::from_fn(|at| at as u64)));
    let write = TextChange::Write { flag: 255, weight: -7 };
    vec![
        Event::Tick { now: Time(u64::MAX), lines: u32::MAX },
        claim(FLAGS - 1, FINGERPRINTS_MAX),
        claim(0, 0),
        Event::Bulk { by: own, targets: u32::MAX, fingerprints: vec![fingerprint(1)] },
        Event::Text { by: own, fingerprint: fingerprint(2), text: text.clone() },
        identified(vec![Event::Text { by: own, fingerprint: fingerprint(2), text }, claim(0, 3), good_features(2)]),
        identified(vec![claim(1, FINGERPRINTS_MAX)]),
        identified(vec![claim(1, 0); IDENTIFIED_EVENTS_MAX]),
        good(GOOD_FEATURES),
        good_features(GOOD_FEATURES),
        good_features(0),
        Event::Shingles { by: own, change: write, digest: Box::new([7; 64]), shingles },
        Event::Shingles { by: own, change: TextChange::Delete, digest: Box::new([8; 64]), shingles: None },
        account(b"alice"),
        Event::Account { now: START, change: AccountChange::Remove(Protocol::Razor, b"alice".as_slice().into()) },
        Event::Whitelist { now: START, change: WhitelistChange::List(fingerprint(3), ListAuthor::Operator) },
        Event::Whitelist { now: START, change: WhitelistChange::AddSender(b"example.org".as_slice().into()) },
        Event::Policy { now: START, policy: Box::new(Policy { own_reports_needed: 2, ..Policy::default() }) },
        Event::Resize { now: START, budget_bytes: 1 << 30 },
    ]
}

fn encoded(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    event.encode(&mut bytes);
    bytes
}

#[test]
fn every_event_round_trips_and_no_prefix_or_extension_decodes() {
    for event in events() {
        let mut bytes = encoded(&event);
        assert_eq!(Event::decode(&bytes).as_ref(), Ok(&event));
        (0..bytes.len()).for_each(|cut| assert!(Event::decode(&bytes[..cut]).is_err(), "{event:?} cut at {cut}"));
        bytes.push(0);
        assert!(Event::decode(&bytes).is_err(), "{event:?} with an extra byte");
    }
    assert!((0..=255).filter(|&kind| Event::decode(&[kind]).is_ok()).count() == 0);
}

#[test]
fn events_out_of_bounds_are_refused() {
    let long: Box<[u8]> = [b'a'; 700].into();
    let nonsense = Box::new(Policy { block_score: f64::NAN, ..Policy::default() });
    let events = [
        claim(FLAGS, 1),
        claim(0, FINGERPRINTS_MAX + 1),
        good(GOOD_FEATURES + 1),
        identified(vec![]),
        identified(vec![claim(0, 1); IDENTIFIED_EVENTS_MAX + 1]),
        identified(vec![claim(0, FINGERPRINTS_MAX + 1)]),
        identified(vec![claim(0, 1), good(1)]),
        identified(vec![identified(vec![claim(0, 1)])]),
        good_features(GOOD_FEATURES + 1),
        Event::Account { now: START, change: AccountChange::Remove(Protocol::Razor, [b'a'; 129].into()) },
        Event::Account { now: START, change: AccountChange::Remove(Protocol::Razor, long.clone()) },
        Event::Whitelist { now: START, change: WhitelistChange::AddSender(long) },
        Event::Policy { now: START, policy: nonsense },
        Event::Resize { now: START, budget_bytes: BUDGET_MIN - 1 },
        Event::Resize { now: START, budget_bytes: u64::MAX },
    ];
    for event in events {
        assert!(Event::decode(&encoded(&event)).is_err(), "{event:?}");
        assert_eq!(
            engine().apply(&event),
            Outcome::Refused(Refusal::OutOfBounds),
            "an event that cannot be encoded is not applied"
        );
    }
}

/// Every admitted event can be decoded from the journal.
#[test]
fn events_within_bounds_can_be_decoded() {
    for event in events() {
        assert!(event.is_within_bounds() && Event::decode(&encoded(&event)).is_ok(), "{event:?}");
    }
}

/// No event exceeds the maximum size of a journal entry.
#[test]
fn events_fit_a_journal() {
    assert!(events().iter().all(|event| encoded(event).len() < 8 << 10));
}

#[test]
fn accounts_and_whitelists_are_bounded_by_their_memory() {
    let mut engine = engine();
    let capacity = |engine: &Engine, name: &str| {
        engine.status().tables.iter().find(|table| table.name == name).map_or(0, |table| table.capacity)
    };
    let accounts = capacity(&engine, "accounts");
    for at in 0..accounts {
        assert_eq!(engine.apply(&account(format!("user{at}").as_bytes())), Outcome::Done);
    }
    assert_eq!(engine.apply(&account(b"alice")), Outcome::Refused(Refusal::AccountsFull));
    let list = |at: u64| {
        let change = WhitelistChange::List(fingerprint(at as u32), ListAuthor::Operator);
        Event::Whitelist { now: START, change }
    };
    let signatures = capacity(&engine, "whitelisted signatures");
    (0..signatures).for_each(|at| assert_eq!(engine.apply(&list(at)), Outcome::Done));
    assert_eq!(engine.apply(&list(signatures)), Outcome::Refused(Refusal::WhitelistFull));
    let sender = |at: usize| {
        let pattern = format!("{}.{at}@example.org", "long".repeat(15)).into_bytes().into();
        Event::Whitelist { now: START, change: WhitelistChange::AddSender(pattern) }
    };
    let full = (0..).find(|&at| engine.apply(&sender(at)) == Outcome::Refused(Refusal::WhitelistFull));
    assert!(full.is_some_and(|senders| senders > 100));
    let bytes = engine.accounts().bytes() + engine.whitelist().bytes();
    assert!(bytes <= engine.plan().list_bytes, "{bytes} of {}", engine.plan().list_bytes);
}

/// Changes that would fail are refused before they are journalled, because anyone may try to register.
#[test]
fn changes_that_cannot_be_made_are_not_admitted() {
    let mut engine = engine();
    let alice: Box<[u8]> = b"alice".as_slice().into();
    let remove = Event::Account { now: START, change: AccountChange::Remove(Protocol::Razor, alice) };
    assert_eq!(engine.admit(&remove), Err(Refusal::Account(ChangeError::Unknown)));
    assert_eq!(engine.apply(&account(b"alice")), Outcome::Done);
    assert_eq!(engine.admit(&account(b"alice")), Err(Refusal::Register(RegisterError::NameTaken)));
    assert_eq!(engine.apply(&remove), Outcome::Done);
    let unlist = Event::Whitelist { now: START, change: WhitelistChange::Unlist(fingerprint(1)) };
    assert_eq!(engine.admit(&unlist), Err(Refusal::NotListed));
}

/// Lists a signature, revokes it and lists it again. Returns true if the signature is spam afterwards.
fn reinstate(engine: &mut Engine, signature: u32) -> bool {
    let claims = [(1, Claim::Report), (2, Claim::Revoke), (3, Claim::Report), (4, Claim::Report)];
    for (id, claim) in claims {
        let by = by(engine.now(), Standing::Own, id);
        engine.apply(&Event::Claim { by, claim, flag: 0, fingerprints: vec![fingerprint(signature)] });
    }
    engine.check(&fingerprint(signature), 0).kind == Kind::Spam
}

/// Own users can reinstate a limited number of signatures in a generation. Other signatures stay revoked until the next
/// generation.
#[test]
fn reinstated_signatures_have_a_bound() {
    let mut engine = engine();
    let most = REINSTATED_MAX as u32;
    let mut reinstate_on_its_day = |at: u32| {
        // Spread the revocations over several days, because their daily quota is smaller than that bound.
        tick(&mut engine, Time(START.0 + u64::from(at / 900) * Time::DAY));
        reinstate(&mut engine, at)
    };
    assert_eq!((0..most + 10).filter(|&at| reinstate_on_its_day(at)).count(), REINSTATED_MAX);
    tick(&mut engine, Time(START.0 + common::SPAM_EPOCH));
    assert_eq!(engine.check(&fingerprint(0), 0).kind, Kind::Spam);
    assert!(reinstate(&mut engine, most + 20), "a new generation has capacity again");
}

#[test]
fn only_own_users_delete_texts() {
    let mut engine = engine();
    let shingles = Some(Box::new(std::array::from_fn(|at| at as u64)));
    let change = |standing, change| Event::Shingles {
        by: by(START, standing, 1),
        change,
        digest: Box::new([7; 64]),
        shingles: shingles.clone(),
    };
    let known = |engine: &Engine| engine.check_shingles(&[7; 64], None, &mut CheckScratch::default()).is_some();
    engine.apply(&change(Standing::Own, TextChange::Write { flag: 1, weight: 5 }));
    for standing in [Standing::Account, Standing::Stranger, Standing::Pinned] {
        let outcome = engine.apply(&change(standing, TextChange::Delete));
        assert_eq!((outcome, known(&engine)), (Outcome::Refused(Refusal::NotOwn), true));
    }
    assert_eq!(engine.apply(&change(Standing::Own, TextChange::Delete)), Outcome::Done);
    assert!(!known(&engine));
}

/// Ticks are enough to advance the time and settle claims: a reporter who was right gains weight.
#[test]
fn ticks_settle_claims() {
    let mut engine = engine();
    for at in 0..20 {
        let fingerprints = vec![fingerprint(at)];
        let early = Event::Claim {
            by: by(START, Standing::Account, 9),
            claim: Claim::Report,
            flag: 0,
            fingerprints: fingerprints.clone(),
        };
        engine.apply(&early);
        engine.apply(&Event::Claim { by: by(START, Standing::Trap, 1), claim: Claim::Report, flag: 0, fingerprints });
    }
    let weight = |engine: &Engine| engine.trust().reporter(engine.now(), 9).map_or(0.0, |reporter| reporter.weight);
    assert_eq!(weight(&engine), 0.0);
    for hours in 1..72 {
        tick(&mut engine, Time(START.0 + hours * Time::HOUR));
    }
    assert!(weight(&engine) > 0.5, "{}", weight(&engine));
}

/// A tick settles a bounded number of claims; the next tick continues with the rest.
#[test]
fn a_tick_settles_a_bounded_number_of_claims() {
    let mut engine = engine();
    let signatures = SETTLED_PER_TICK as u32 + 50;
    for at in 0..signatures {
        for (standing, id) in [(Standing::Account, 9), (Standing::Trap, 1)] {
            let fingerprints = vec![fingerprint(at)];
            engine.apply(&Event::Claim { by: by(START, standing, id), claim: Claim::Report, flag: 0, fingerprints });
        }
    }
    let now = Time(START.0 + 48 * Time::HOUR);
    let settled = |engine: &mut Engine| {
        engine.apply(&Event::Tick { now, lines: 1 });
        engine.trust().reporter(now, 9).unwrap().confirmed
    };
    assert_eq!(settled(&mut engine), SETTLED_PER_TICK as u32);
    assert_eq!(settled(&mut engine), signatures);
}
