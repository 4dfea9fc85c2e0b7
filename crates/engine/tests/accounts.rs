//! Accounts over time: reporter ids, and eviction when the table is full.

mod common;

use bruit_engine::accounts::{
    AccountChange, AccountUpdate, ChangeError, Credential, Protocol, RegisterError, Registration, Secret,
};
use bruit_engine::event::{By, Event};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_engine::{Engine, Outcome, Refusal};

use common::{KEY, START, by, engine, fingerprint, restore, snapshot, tick};

fn name(at: u64) -> Box<[u8]> {
    format!("user{at}").into_bytes().into()
}

fn credential(password: &[u8]) -> Credential {
    Credential::new(b"any", &Secret::Razor { password }).expect("a good password")
}

fn register_as(registration: Registration, now: Time, name: &[u8]) -> Event {
    let credential = credential(b"tin whistle 7");
    let (group, standing) = (5, Standing::Account);
    let change = AccountChange::Register { name: name.into(), credential, group, standing, registration };
    Event::Account { now, change }
}

fn register(now: Time, name: &[u8]) -> Event {
    register_as(Registration::Itself, now, name)
}

fn update(now: Time, name: &[u8], update: AccountUpdate) -> Event {
    Event::Account { now, change: AccountChange::Update { protocol: Protocol::Razor, name: name.into(), update } }
}

fn remove(now: Time, name: &[u8]) -> Event {
    Event::Account { now, change: AccountChange::Remove(Protocol::Razor, name.into()) }
}

fn at(seconds: u64) -> Time {
    Time(START.0 + seconds)
}

fn has(engine: &Engine, name: &[u8]) -> bool {
    engine.accounts().get(Protocol::Razor, name).is_some()
}

fn reporter_id(engine: &Engine, name: &[u8]) -> u64 {
    engine.accounts().get(Protocol::Razor, name).expect("an account").reporter_id(name, &KEY)
}

/// Makes an account report signatures before a trap reports them, and settles these claims.
fn confirm(engine: &mut Engine, name: &[u8], signatures: std::ops::Range<u32>) {
    let now = engine.now();
    let account =
        By { now, reporter: Reporter { id: reporter_id(engine, name), standing: Standing::Account, group: 5 } };
    for signature in signatures {
        for by in [account, by(now, Standing::Trap, 99)] {
            let fingerprints = vec![fingerprint(signature)];
            engine.apply(&Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints });
        }
    }
    tick(engine, Time(now.0 + 2 * Time::DAY));
}

/// Returns an engine with the maximum number of self-registered accounts. One account was created per second.
fn full() -> Engine {
    let mut engine = engine();
    for number in 0..engine.self_registered_limit() {
        assert_eq!(engine.apply(&register(at(number), &name(number))), Outcome::Done);
    }
    engine
}

#[test]
fn a_reused_name_inherits_no_weight() {
    let mut engine = engine();
    engine.apply(&register(START, b"alice"));
    confirm(&mut engine, b"alice", 0..5);
    let (now, first) = (engine.now(), reporter_id(&engine, b"alice"));
    assert!(engine.trust().reporter(now, first).is_some_and(|view| view.weight > 0.0 && view.confirmed == 5));
    engine.apply(&remove(now, b"alice"));
    engine.apply(&register(now, b"alice"));
    assert_eq!(engine.trust().reporter(now, reporter_id(&engine, b"alice")), None);
}

#[test]
fn an_update_keeps_the_account_and_its_weight() {
    let mut engine = engine();
    engine.apply(&register(START, b"alice"));
    confirm(&mut engine, b"alice", 0..5);
    let (now, id) = (engine.now(), reporter_id(&engine, b"alice"));
    let all = AccountUpdate {
        credential: Some(credential(b"brass whistle 8")),
        standing: Some(Standing::Pinned),
        group: Some(6),
        enabled: Some(false),
    };
    assert_eq!(engine.apply(&update(now, b"alice", all)), Outcome::Done);
    let account = engine.accounts().get(Protocol::Razor, b"alice").expect("an account");
    assert_eq!((account.created, account.reporter_id(b"alice", &KEY)), (START, id));
    assert_eq!((account.standing, account.group, account.enabled), (Standing::Pinned, 6, false));
    assert_eq!(account.credential, credential(b"brass whistle 8"));
    assert_eq!(account.registration, Registration::Operator, "the operator vouches for it now");
    let unknown = update(now, b"bob", AccountUpdate::default());
    assert_eq!(engine.admit(&unknown), Err(Refusal::Account(ChangeError::Unknown)));
}

#[test]
fn legacy_accounts_keep_their_reporter_id() {
    let mut engine = engine();
    engine.apply(&register_as(Registration::Legacy, START, b"alice"));
    let before = reporter_id(&engine, b"alice");
    assert_eq!(before, KEY.fingerprint(b"account:razor:alice").high());
    engine.apply(&update(at(1), b"alice", AccountUpdate { standing: Some(Standing::Own), ..AccountUpdate::default() }));
    let engine = restore(&snapshot(&mut engine));
    assert_eq!(reporter_id(&engine, b"alice"), before);
}

#[test]
fn a_full_table_evicts_the_oldest_self_registered_account() {
    let mut engine = full();
    let limit = engine.self_registered_limit();
    for new in [limit, limit + 1] {
        let event = register(at(new), &name(new));
        assert_eq!((engine.admit(&event), engine.apply(&event)), (Ok(()), Outcome::Done));
    }
    assert_eq!([0, 1, 2, limit, limit + 1].map(|at| has(&engine, &name(at))), [false, false, true, true, true]);
    assert_eq!(engine.accounts().len() as u64, limit);
    let mut copy = restore(&snapshot(&mut engine));
    let next = register(at(limit + 2), b"next");
    for engine in [&mut engine, &mut copy] {
        assert_eq!(engine.apply(&next), Outcome::Done);
        assert!(!has(engine, &name(2)), "the same account is evicted after a restart");
    }
}

#[test]
fn accounts_that_are_vouched_for_are_not_evicted() {
    let mut engine = full();
    let limit = engine.self_registered_limit();
    confirm(&mut engine, &name(0), 0..1);
    let now = engine.now();
    engine.apply(&update(now, &name(1), AccountUpdate { group: Some(9), ..AccountUpdate::default() }));
    engine.apply(&update(now, &name(2), AccountUpdate { enabled: Some(false), ..AccountUpdate::default() }));
    engine.apply(&register(now, &name(limit)));
    assert_eq!([0, 1, 2, 3].map(|at| has(&engine, &name(at))), [true, true, true, false]);
}

#[test]
fn echoes_do_not_prevent_eviction() {
    let mut engine = full();
    let now = engine.now();
    let listed = || vec![fingerprint(7)];
    let own = by(now, Standing::Own, 1);
    engine.apply(&Event::Claim { by: own, claim: Claim::Report, flag: 0, fingerprints: listed() });
    let echo =
        By { now, reporter: Reporter { id: reporter_id(&engine, &name(0)), standing: Standing::Account, group: 5 } };
    engine.apply(&Event::Claim { by: echo, claim: Claim::Report, flag: 0, fingerprints: listed() });
    tick(&mut engine, Time(now.0 + 2 * Time::DAY));
    engine.apply(&register(engine.now(), b"next"));
    assert!(!has(&engine, &name(0)));
}

#[test]
fn a_quarter_of_the_table_is_reserved_for_accounts_of_the_operator() {
    let mut engine = full();
    let (limit, capacity) = (engine.self_registered_limit(), engine.account_capacity());
    for number in limit..capacity {
        let event = register_as(Registration::Operator, at(number), &name(number));
        assert_eq!(engine.apply(&event), Outcome::Done);
    }
    assert!((0..capacity).all(|number| has(&engine, &name(number))));
    // The table is full, so each new account evicts a self-registered one until none is left.
    for number in capacity..capacity + limit {
        let event = register_as(Registration::Operator, at(number), &name(number));
        assert_eq!(engine.apply(&event), Outcome::Done);
    }
    assert!(!(0..limit).any(|number| has(&engine, &name(number))));
    assert_eq!(engine.accounts().len() as u64, capacity);
    for registration in [Registration::Operator, Registration::Itself] {
        let event = register_as(registration, at(2 * capacity), b"next");
        assert_eq!(engine.admit(&event), Err(Refusal::AccountsFull));
        assert_eq!(engine.apply(&event), Outcome::Refused(Refusal::AccountsFull));
    }
}

#[test]
fn a_refused_registration_evicts_no_account() {
    let mut engine = full();
    let before = engine.accounts().clone();
    let taken = register(at(1 << 20), &name(5));
    assert_eq!(engine.apply(&taken), Outcome::Refused(Refusal::Register(RegisterError::NameTaken)));
    let bad = register(at(1 << 20), b"not one");
    assert!(matches!(engine.apply(&bad), Outcome::Refused(Refusal::Register(RegisterError::Name(_)))));
    assert_eq!(*engine.accounts(), before);
}
