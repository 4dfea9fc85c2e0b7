//! Tests of the books' limits: reporters are charged only for entries that use capacity, and no source can overfill a
//! book.

#![expect(clippy::print_stdout, reason = "the tests that are run by name print the figures of docs/reliability.md")]

mod common;

use bruit_engine::budget::{Capacities, Plan, REVOKED_RATE, SPAM_RATE};
use bruit_engine::bulk::MANY;
use bruit_engine::event::{By, Event, FINGERPRINTS_MAX};
use bruit_engine::exchange::Book;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{Engine, Outcome, Refusal, RingStatus};
use bruit_filters::Fingerprint;

use common::{KEY, START, by, tick};

/// Creates an engine with the minimum memory and default epochs.
fn engine() -> Engine {
    let plan = Plan::for_budget(8 << 20).unwrap();
    let realm = bruit_engine::realm::Realm::new(KEY, 5 * Time::DAY, Time::DAY, plan.sizes).unwrap();
    Engine::new(realm, plan, Policy::default(), START)
}

fn capacities(engine: &Engine) -> Capacities {
    Capacities::per_generation(&engine.plan().sizes)
}

fn key(number: u64) -> Fingerprint {
    KEY.fingerprint(&number.to_le_bytes())
}

fn ring(engine: &Engine, name: &str) -> RingStatus {
    engine.status().rings.into_iter().find(|ring| ring.name == name).unwrap()
}

fn count(engine: &mut Engine, by: By, targets: u32, fingerprints: Vec<Fingerprint>) -> (Vec<u32>, u32) {
    match engine.apply(&Event::Bulk { by, targets, fingerprints }) {
        Outcome::Counted { totals, refused, .. } => (totals.iter().map(|total| total.current).collect(), refused),
        Outcome::Refused(refusal) => panic!("{refusal}"),
        outcome => panic!("{outcome:?}"),
    }
}

/// Claims `count` signatures starting at `first`. Returns the number accepted, and the reason for the last refusal.
fn claim_many(engine: &mut Engine, by: By, claim: Claim, first: u64, count: u64) -> (u64, Option<Refusal>) {
    let (mut accepted, mut reason) = (0, None);
    for start in (first..first + count).step_by(FINGERPRINTS_MAX) {
        let end = (start + FINGERPRINTS_MAX as u64).min(first + count);
        let fingerprints = (start..end).map(key).collect();
        match engine.apply(&Event::Claim { by, claim, flag: 0, fingerprints }) {
            Outcome::Claimed { refused, reason: why, .. } => {
                accepted += end - start - u64::from(refused);
                reason = why.or(reason);
            }
            Outcome::Refused(refusal) => reason = Some(refusal),
            outcome => panic!("{outcome:?}"),
        }
    }
    (accepted, reason)
}

/// Counting a known message again is not charged to the daily quota. Otherwise, counting would stop for the day after
/// 16,187 reports of one message.
#[test]
fn counting_is_limited_only_by_room() {
    let (mut engine, own) = (engine(), by(START, Standing::Own, 1));
    let message: Vec<_> = (0..3).map(key).collect();
    let mut totals = Vec::new();
    for _ in 0..40_000 {
        (totals, _) = count(&mut engine, own, 1, message.clone());
    }
    assert_eq!(totals, [40_000; 3]);
    for at in 1..=6_000 {
        let (totals, refused) = count(&mut engine, own, 1, (3 * at..3 * at + 3).map(key).collect());
        assert!(refused == 0 && totals.iter().all(|total| *total >= 1), "{at}: {totals:?}");
    }
    for _ in 0..30 {
        (totals, _) = count(&mut engine, own, 1, vec![key(1 << 40)]);
    }
    assert_eq!(totals, [30]);
}

/// A full generation refuses new signatures, gives the reason, and still counts known ones.
#[test]
fn a_full_bulk_book_refuses_new_signatures_and_counts_the_known_ones() {
    let (mut engine, own) = (engine(), by(START, Standing::Own, 1));
    let most = ring(&engine, "counts of recipients").limit;
    let mut refused = 0;
    for start in (0..2 * most).step_by(FINGERPRINTS_MAX) {
        let fingerprints = (start..start + FINGERPRINTS_MAX as u64).map(key).collect();
        refused += match engine.apply(&Event::Bulk { by: own, targets: 1, fingerprints }) {
            Outcome::Counted { refused, .. } => u64::from(refused),
            Outcome::Refused(Refusal::BookFull { book: Book::Recipients, .. }) => FINGERPRINTS_MAX as u64,
            outcome => panic!("{outcome:?}"),
        };
    }
    assert!(refused > most / 2, "{refused} of {}", 2 * most);
    let ring = ring(&engine, "counts of recipients");
    assert!(ring.is_full() && ring.error_rate < 0.5, "{ring:?}");
    assert!(count(&mut engine, own, 5, vec![key(0)]).0[0] >= 6);
    tick(&mut engine, Time(START.0 + Time::DAY));
    let tomorrow = by(engine.now(), Standing::Own, 1);
    assert_eq!(count(&mut engine, tomorrow, 1, vec![key(1 << 40)]).1, 0, "the next generation has capacity");
}

/// Counts without a record stop at fifteen once all records are used. If they continued without records of their own,
/// all of these counts would rise to the highest of them.
#[test]
fn counts_stop_at_fifteen_when_no_record_is_left() {
    let (mut engine, own) = (engine(), by(START, Standing::Own, 1));
    let (_, records) = ring(&engine, "counts of recipients").records.unwrap();
    let counted = |engine: &mut Engine, at, targets| count(engine, own, targets, vec![key(at)]);
    for at in 0..records as u64 {
        assert_eq!(counted(&mut engine, at, 20).1, 0);
    }
    let warning = ring(&engine, "counts of recipients").warning().unwrap();
    assert!(warning.contains("stop at 15"), "{warning}");
    assert_eq!(counted(&mut engine, 1 << 40, 7), (vec![7], 0));
    assert_eq!(counted(&mut engine, 1 << 40, MANY), (vec![15], 1));
    assert_eq!(counted(&mut engine, 1 << 41, MANY), (vec![15], 1));
    assert_eq!(counted(&mut engine, 0, 1), (vec![21], 0));
}

/// Without limits, a looping script with 22 million own listings made 95 % of all mail look like spam.
#[test]
fn own_listings_cannot_overfill_the_book() {
    let mut engine = engine();
    let before = 1_000;
    claim_many(&mut engine, by(START, Standing::Own, 1), Claim::Report, 0, before);
    let flood = 10 * capacities(&engine).spam;
    let (accepted, reason) = claim_many(&mut engine, by(START, Standing::Own, 2), Claim::Report, 1 << 30, flood);
    let day = capacities(&engine).spam / 5;
    assert_eq!(accepted, day - before, "own users of all networks share one daily limit");
    assert!(
        matches!(reason, Some(Refusal::DailyShare { book: Book::Listed, again }) if again.0 == START.0 + Time::DAY)
    );
    for day in 1..35 {
        tick(&mut engine, Time(START.0 + day * Time::DAY));
        let own = by(engine.now(), Standing::Own, 2);
        let first = (1 << 30) + (day << 26);
        let flood = 2 * capacities(&engine).spam / 5;
        assert!(claim_many(&mut engine, own, Claim::Report, first, flood).0 > 0, "day {day}");
    }
    let ring = ring(&engine, "listed signatures");
    assert!(ring.error_rate < 2.0 * SPAM_RATE, "{ring:?}");
    assert!((0..before).all(|at| engine.check(&key(at), 0).kind == Kind::Spam));
}

/// Without limits, 2.9 million own revocations made 89 % of the listings invisible.
#[test]
fn own_revocations_cannot_hide_listings() {
    let mut engine = engine();
    let listed = 5_000;
    let own = by(START, Standing::Own, 1);
    claim_many(&mut engine, own, Claim::Report, 0, listed);
    let capacity = capacities(&engine).revoked;
    let (accepted, reason) = claim_many(&mut engine, own, Claim::Revoke, 1 << 30, 20 * capacity);
    assert_eq!(accepted, capacity / 5);
    assert!(matches!(reason, Some(Refusal::DailyShare { book: Book::Revoked, .. })), "{reason:?}");
    let found = (0..listed).filter(|at| engine.check(&key(*at), 0).kind == Kind::Spam).count() as f64;
    assert!(found >= listed as f64 * (1.0 - 10.0 * REVOKED_RATE), "{found} of {listed}");
}

/// A daily quota does not stop a source if generations are shorter than a day. Then the book's own limit stops it.
#[test]
fn a_book_stops_before_its_error_is_ten_times_the_planned_one() {
    let plan = Plan::for_budget(8 << 20).unwrap();
    let realm = bruit_engine::realm::Realm::new(KEY, Time::HOUR, Time::HOUR, plan.sizes).unwrap();
    let mut engine = Engine::new(realm, plan, Policy::default(), START);
    let planned = capacities(&engine).spam;
    for hour in 0..8 {
        tick(&mut engine, Time(START.0 + hour * Time::HOUR));
        let own = by(engine.now(), Standing::Own, 1);
        let (accepted, reason) = claim_many(&mut engine, own, Claim::Report, hour << 30, 3 * planned);
        assert!(accepted > planned && accepted < 2 * planned, "{accepted} of {planned}");
        assert!(
            matches!(reason, Some(Refusal::BookFull { book: Book::Listed, again }) if again.0 == engine.now().0 + Time::HOUR)
        );
    }
    let ring = ring(&engine, "listed signatures");
    assert!(ring.is_full() && ring.error_rate < 10.0 * SPAM_RATE, "{ring:?}");
    // Beyond the planned capacity only anchors may add signatures.
    let account = by(engine.now(), Standing::Account, 7);
    let claimed = claim_many(&mut engine, account, Claim::Report, 1 << 50, 1);
    assert_eq!((claimed, engine.check(&key(1 << 50), 0).kind), ((1, None), Kind::Unknown), "accepted, but not listed");
}

/// Applies the load described in `docs/operators/sizing.md`: 10 million DCC requests a day for a week, each with three
/// new checksums. This needs about 2.5 GiB and a few minutes. Run this test by name after a change of the budget's
/// shares.
#[test]
#[ignore = "needs 2.5 GiB and takes minutes"]
fn ten_million_requests_a_day_fit_the_budget_of_the_sizing_page() {
    let plan = Plan::for_budget(2_560 << 20).unwrap();
    let realm = bruit_engine::realm::Realm::new(KEY, 5 * Time::DAY, Time::DAY, plan.sizes).unwrap();
    let mut engine = Engine::new(realm, plan, Policy::default(), START);
    const REQUESTS: u64 = 10_000_000;
    for day in 0..7 {
        tick(&mut engine, Time(START.0 + day * Time::DAY));
        let own = by(engine.now(), Standing::Own, 1);
        for request in 0..REQUESTS {
            let first = (day << 40) + 3 * request;
            let (_, refused) = count(&mut engine, own, 1, (first..first + 3).map(key).collect());
            assert_eq!(refused, 0, "day {day}, request {request}");
        }
    }
    let ring = ring(&engine, "counts of recipients");
    assert!(ring.error_rate < 0.22 && !ring.is_full(), "{ring:?}");
    let wrong = (0..100_000).filter(|at| engine.bulk().total(&key((6 << 40) + 300 * at)) != 1).count();
    println!("error rate {:.3}, {wrong} of 100,000 counts too high", ring.error_rate);
    assert!((0..100_000).all(|at| engine.bulk().total(&key((6 << 40) + 300 * at)) >= 1));
}

/// A looping script makes 30 million own reports and 10 million own revocations. The budget is the default.
#[test]
#[ignore = "takes a minute"]
fn a_default_server_survives_forty_million_claims_of_a_looping_script() {
    let plan = Plan::for_budget(bruit_engine::budget::BUDGET_DEFAULT).unwrap();
    let realm = bruit_engine::realm::Realm::new(KEY, 5 * Time::DAY, Time::DAY, plan.sizes).unwrap();
    let mut engine = Engine::new(realm, plan, Policy::default(), START);
    let own = by(START, Standing::Own, 1);
    let before = 100_000;
    claim_many(&mut engine, own, Claim::Report, 0, before);
    let (listed, _) = claim_many(&mut engine, own, Claim::Report, 1 << 40, 30_000_000);
    let (revoked, _) = claim_many(&mut engine, own, Claim::Revoke, 1 << 41, 10_000_000);
    let found = (0..before).filter(|at| engine.check(&key(*at), 0).kind == Kind::Spam).count();
    let absent = (0..10_000_000).filter(|at| engine.check(&key((1 << 42) + at), 0).kind == Kind::Spam).count();
    println!(
        "{listed} listed, {revoked} revoked; {found} of {before} earlier listings found; \
         {absent} false hits in 10,000,000 checks"
    );
    assert!(found as u64 >= before - before / 1_000 && absent < 100);
    tick(&mut engine, Time(START.0 + Time::DAY));
    let tomorrow = by(engine.now(), Standing::Own, 1);
    assert_eq!(claim_many(&mut engine, tomorrow, Claim::Report, 1 << 43, 1_000), (1_000, None));
}
