//! Tests that a clearinghouse filled to capacity stays within its memory budget and its planned error rates, and warns
//! in time.
//!
//! This test uses a small budget; `cargo xtask bench --only engine` fills the default one.

mod common;

use std::fs;

use bruit_engine::budget::{COUNT_RATE, Capacities, Plan};
use bruit_engine::event::{Event, FINGERPRINTS_MAX, TextChange};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_engine::verdict::{Kind, Verdict};
use bruit_engine::{CheckScratch, Engine, Outcome};
use bruit_filters::Fingerprint;
use bruit_signatures::bruit::Features;

use common::{BULK_EPOCH, KEY, SPAM_EPOCH, START, by, tick};

const BUDGET: u64 = 32 << 20;
const BULK_FROM: u64 = 1 << 40;
const ABSENT_FROM: u64 = 1 << 50;

fn key(number: u64) -> Fingerprint {
    KEY.fingerprint(&number.to_le_bytes())
}

fn batches(start: u64, count: u64) -> impl Iterator<Item = Vec<Fingerprint>> {
    let step = FINGERPRINTS_MAX as u64;
    (start..start + count)
        .step_by(FINGERPRINTS_MAX)
        .map(move |at| (at..(at + step).min(start + count)).map(key).collect())
}

fn fill(engine: &mut Engine, capacities: &Capacities) {
    let days = LIVE_GENERATIONS * SPAM_EPOCH / Time::DAY;
    let per_day = capacities.spam * LIVE_GENERATIONS / days;
    for day in 0..days {
        let now = Time(START.0 + day * Time::DAY);
        tick(engine, now);
        for fingerprints in batches(day * per_day, per_day) {
            let event = Event::Claim { by: by(now, Standing::Own, 1), claim: Claim::Report, flag: 0, fingerprints };
            assert!(matches!(engine.apply(&event), Outcome::Claimed { refused: 0, .. }));
        }
        if day + LIVE_GENERATIONS * BULK_EPOCH / Time::DAY >= days {
            for (at, fingerprints) in batches(BULK_FROM + day * capacities.bulk, capacities.bulk).enumerate() {
                let reporter = Reporter { id: 1, standing: Standing::Own, group: at as u64 % 3 };
                let by = bruit_engine::event::By { now, reporter };
                let event = Event::Bulk { by, targets: 1 + u32::from(at % 40 == 0) * 20, fingerprints };
                let outcome = engine.apply(&event);
                assert!(matches!(outcome, Outcome::Counted { refused: 0, .. }), "day {day}, batch {at}: {outcome:?}");
            }
        }
    }
    fill_texts(engine);
}

fn fill_texts(engine: &mut Engine) {
    for at in 0..20_000 {
        // Own users count as one group, which may fill half of an index per day.
        let own = by(engine.now(), Standing::Own, at % 8);
        let features = Features { pairs: (at * 100..at * 100 + 60).collect(), ..Features::default() };
        let text = engine.replicas().text(&features);
        engine.apply(&Event::Text { by: own, fingerprint: key(at), text });
        let features = engine.replicas().good_features_of(&features);
        engine.apply(&Event::Good { by: own, features });
        let mut digest = Box::new([0; 64]);
        digest[..8].copy_from_slice(&at.to_le_bytes());
        let shingles = Some(Box::new(std::array::from_fn(|shingle| at << 32 | shingle as u64)));
        let change = TextChange::Write { flag: 1, weight: 1 };
        engine.apply(&Event::Shingles { by: own, change, digest, shingles });
    }
}

/// Returns the peak memory of this process in bytes. Every test runs in its own process.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is available");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the peak is listed");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
}

#[test]
fn a_full_clearinghouse_stays_within_its_budget_and_error_rates() {
    let plan = Plan::for_budget(BUDGET).unwrap();
    let realm = Realm::new(KEY, SPAM_EPOCH, BULK_EPOCH, plan.sizes).unwrap();
    let capacities = Capacities::per_generation(&plan.sizes);
    let before = peak();
    let mut engine = Engine::new(realm, plan, Policy::default(), START);
    assert_eq!(engine.status().warnings(), [""; 0]);
    fill(&mut engine, &capacities);
    let used = (peak() - before) as f64 / BUDGET as f64;
    assert!(used <= 1.05, "{used} of the budget");
    assert!(engine.status().bytes <= BUDGET, "{}", engine.status().bytes);

    let warnings = engine.status().warnings();
    assert!(warnings.iter().any(|warning| warning.starts_with("the listed signatures are 1")), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.starts_with("the counts of recipients are")), "{warnings:?}");

    let absent: Vec<_> = (ABSENT_FROM..ABSENT_FROM + 2_000_000).map(key).collect();
    let mut verdicts = vec![Verdict::default(); absent.len()];
    engine.check_batch(&absent, 0, &mut verdicts, &mut CheckScratch::default());
    let false_positives = verdicts.iter().filter(|verdict| verdict.kind == Kind::Spam).count();
    // At a rate of one in a million, two false positives are expected. Ten or more occur in one of 20,000 runs.
    assert!(false_positives < 10, "{false_positives} of {}", absent.len());

    let day = LIVE_GENERATIONS * SPAM_EPOCH / Time::DAY - 1;
    let sample = 100_000;
    let start = BULK_FROM + day * capacities.bulk;
    let keys: Vec<_> = (start..start + sample).map(key).collect();
    let mut totals = vec![0; keys.len()];
    engine.bulk_totals(&keys, &mut totals);
    let truth = |at: usize| if (at / FINGERPRINTS_MAX).is_multiple_of(40) { 21 } else { 1 };
    assert!(totals.iter().enumerate().all(|(at, &total)| total >= truth(at)), "no count is too low");
    let wrong = totals.iter().enumerate().filter(|&(at, &total)| total > truth(at)).count();
    let bound = COUNT_RATE * 1.1;
    assert!((wrong as f64) < bound * sample as f64, "{wrong} of {sample} wrong, expected a share of at most {bound}");
}
