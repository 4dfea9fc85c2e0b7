//! Measurements of a clearinghouse with the default memory budget, filled as on a server: errors, memory use, speed of
//! checks, and longest waits.

use std::fs;
use std::io;

use bruit_engine::budget::{BUDGET_DEFAULT, Plan};
use bruit_engine::event::{By, Event, FINGERPRINTS_MAX, TextChange};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::realm::Realm;
use bruit_engine::shingles::{Digest, SHINGLES, Shingles};
use bruit_engine::time::Time;
use bruit_engine::trust::Claim;
use bruit_engine::trust::{Policy, Reporter, Standing};
use bruit_engine::verdict::{Kind, Verdict};
use bruit_engine::{BEHIND_LINES, CheckScratch, Engine, Outcome, TICK_LINES};
use bruit_filters::FingerprintKey;
use bruit_filters::owners::Votes;
use bruit_filters::ring::{CountsRing, Generations, StagedScratch};
use bruit_signatures::bruit::Features;

use crate::keys::{key, keys, mixed};
use crate::report::{Figure, Report, Target};
use crate::timing::{compare, time};

const SPAM_SIGNATURES: u64 = 10_000_000;
const BULK_SIGNATURES: u64 = 20_000_000;
/// First number of the signatures in the bulk book.
const BULK_FROM: u64 = 1 << 40;
/// First number of the signatures that are never reported.
const ABSENT_FROM: u64 = 1 << 50;
const CHECKS: usize = 250_000;
/// The start of an epoch of both books.
const START: Time = Time(4_000 * Realm::SPAM_EPOCH_SECONDS);
/// Number of days over which the clearinghouse is filled: seven epochs.
const DAYS: u64 = LIVE_GENERATIONS * Realm::SPAM_EPOCH_SECONDS / Time::DAY;
const GIB: usize = 1 << 30;

const OWN: Reporter = Reporter { id: 1, standing: Standing::Own, group: 1 };

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    let before = resident_kib("VmRSS");
    reset_peak();
    let mut engine = filled();
    memory(report, &mut engine, before)?;
    errors(report, &engine)?;
    checks(report, &engine)?;
    space(report, &engine)?;
    drop(engine);
    shingles(report)?;
    expiry(report)
}

/// Fills seven generations of both books, each generation with the same number of signatures.
fn filled() -> Engine {
    let plan = Plan::for_budget(BUDGET_DEFAULT).expect("the default budget is valid");
    let key = FingerprintKey::narrow([5; 16]);
    let realm =
        Realm::new(key, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, plan.sizes).expect("valid epochs");
    let mut engine = Engine::new(realm, plan, Policy::default(), START);
    let days = DAYS;
    for day in 0..days {
        let now = Time(START.0 + day * Time::DAY);
        tick(&mut engine, now);
        let part = |all: u64, parts: u64, at: u64| all * at / parts..all * (at + 1) / parts;
        report_all(&mut engine, now, part(SPAM_SIGNATURES, days, day));
        // A quarter of the signatures is reported twice.
        report_all(&mut engine, now, part(SPAM_SIGNATURES, 4 * days, 4 * day));
        // The bulk book covers the last seven days.
        if let Some(at) = day.checked_sub(days - LIVE_GENERATIONS) {
            count_all(&mut engine, now, part(BULK_SIGNATURES, LIVE_GENERATIONS, at));
        }
    }
    teach_all(&mut engine);
    engine
}

/// Adds texts, good messages and texts with shingles: slightly more of each than the limits allow.
fn teach_all(engine: &mut Engine) {
    for number in 0..100_000 {
        let by = By { now: engine.now(), reporter: Reporter { group: number % 8, ..OWN } };
        let features = Features { pairs: (number * 100..number * 100 + 60).collect(), ..Features::default() };
        let text = engine.replicas().text(&features);
        engine.apply(&Event::Text { by, fingerprint: key(number), text });
        let features = engine.replicas().good_features_of(&features);
        engine.apply(&Event::Good { by, features });
        let (digest, shingles) = text_of(number);
        let change = TextChange::Write { flag: 1, weight: 1 };
        engine.apply(&Event::Shingles { by, change, digest: Box::new(digest), shingles: Some(Box::new(shingles)) });
    }
}

/// Returns the digest and shingles of text number `number`.
fn text_of(number: u64) -> (Digest, [u64; SHINGLES]) {
    let mut digest = [0; 64];
    digest[..8].copy_from_slice(&number.to_le_bytes());
    (digest, std::array::from_fn(|at| mixed(number << 8 | at as u64)))
}

/// Measures the memory for a million texts with shingles, and how many texts are found by 17 of their shingles.
fn shingles(report: &mut Report) -> io::Result<()> {
    const RECORDS: u64 = 1_000_000;
    let mut index = Shingles::new(FingerprintKey::new([5; 16]), RECORDS, LIVE_GENERATIONS, 0);
    for number in 0..RECORDS {
        let (digest, shingles) = text_of(number);
        index.write(&digest, Some(&shingles), 1, 1, START);
    }
    let mut votes = Votes::new();
    let found = (0..RECORDS).step_by(10).filter(|&number| {
        let (_, mut shingles) = text_of(number);
        shingles[..15].fill(0);
        index.check(&[0xff; 64], Some(&shingles), &mut votes).is_some_and(|found| found.agreed >= 17)
    });
    let note = format!("17 of 32 shingles were enough to find {} of {}", found.count(), RECORDS / 10);
    let bytes = index.bytes() as f64 / RECORDS as f64;
    report.add(Figure::new("bytes per text with 32 shingles, for 1,000,000 texts", bytes, Target::AtMost(170.0), note))
}

fn tick(engine: &mut Engine, now: Time) {
    while !matches!(engine.apply(&Event::Tick { now, lines: BEHIND_LINES }), Outcome::Ticked { arrived: true, .. }) {}
}

fn report_all(engine: &mut Engine, now: Time, numbers: std::ops::Range<u64>) {
    for start in numbers.clone().step_by(FINGERPRINTS_MAX) {
        let count = (numbers.end - start).min(FINGERPRINTS_MAX as u64) as usize;
        let by = By { now, reporter: OWN };
        let event = Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints: keys(start, count) };
        assert!(matches!(engine.apply(&event), Outcome::Claimed { refused: 0, .. }), "within all limits");
    }
}

fn count_all(engine: &mut Engine, now: Time, numbers: std::ops::Range<u64>) {
    for start in numbers.clone().step_by(FINGERPRINTS_MAX) {
        let count = (numbers.end - start).min(FINGERPRINTS_MAX as u64) as usize;
        // Count in three groups. The groups do not matter for any limit: recipients counted by own users have no quota.
        let reporter = Reporter { group: 1 + start / 64 % 3, ..OWN };
        let event = Event::Bulk { by: By { now, reporter }, targets: 1, fingerprints: keys(BULK_FROM + start, count) };
        assert!(matches!(engine.apply(&event), Outcome::Counted { .. }), "within all limits");
    }
}

/// Measures peak memory of the filled clearinghouse, before and during a snapshot.
fn memory(report: &mut Report, engine: &mut Engine, before: u64) -> io::Result<()> {
    let budget = BUDGET_DEFAULT as f64;
    let share = |peak: u64| (peak - before) as f64 * 1024.0 / budget;
    let note = format!(
        "{SPAM_SIGNATURES} listed and {BULK_SIGNATURES} counted signatures, budget {} MiB",
        BUDGET_DEFAULT >> 20
    );
    report.add(Figure::new(
        "peak memory of a filled clearinghouse / budget",
        share(resident_kib("VmHWM")),
        Target::AtMost(1.05),
        note,
    ))?;
    let (longest, bytes) = snapshot_beside_events(engine);
    let note = "with an event after every 64 KiB of the snapshot";
    report.add(Figure::new(
        "peak memory during a snapshot / budget",
        share(resident_kib("VmHWM")),
        Target::None,
        note,
    ))?;
    let note = format!("{:.0} MB, in steps of 256 KiB", bytes as f64 / 1e6);
    report.add(Figure::new("longest step of a snapshot in ms", longest, Target::AtMost(10.0), note))
}

/// Writes a snapshot and discards it. Returns the longest time for which checks were blocked (in ms of CPU time), and
/// the size of the snapshot in bytes.
fn snapshot_beside_events(engine: &mut Engine) -> (f64, usize) {
    let (mut bytes, mut events) = (0, 0);
    let mut out = Vec::new();
    engine.snapshot_start(&mut out);
    let mut longest = time(|| engine.begin_lines());
    loop {
        bytes += out.len();
        out.clear();
        let mut complete = false;
        longest = longest.max(time(|| complete = engine.continue_snapshot(256 << 10, &mut out)));
        if complete {
            return (longest / 1e6, bytes + out.len());
        }
        let now = engine.now();
        report_all(engine, now, events..events + 4);
        events += 4;
    }
}

/// Measures the errors of a full clearinghouse.
fn errors(report: &mut Report, engine: &Engine) -> io::Result<()> {
    let rounds = 20_u64;
    let mut found = 0;
    let mut verdicts = vec![Verdict::default(); 1_000_000];
    let mut scratch = CheckScratch::default();
    for round in 0..rounds {
        let absent = keys(ABSENT_FROM + round * 1_000_000, 1_000_000);
        engine.check_batch(&absent, 0, &mut verdicts, &mut scratch);
        found += verdicts.iter().filter(|verdict| verdict.kind == Kind::Spam).count();
    }
    let rate = found as f64 / (rounds * 1_000_000) as f64;
    let note = format!("{found} in {} million checks", rounds);
    report.add(Figure::new(
        "false positives over the window, per million checks",
        rate * 1e6,
        Target::AtMost(1.0),
        note,
    ))?;
    let listed = keys(0, CHECKS);
    engine.check_batch(&listed, 0, &mut verdicts[..CHECKS], &mut scratch);
    let kept = verdicts[..CHECKS].iter().filter(|verdict| verdict.kind == Kind::Spam).count();
    let note = "checks of the oldest generation";
    report.add(Figure::new(
        "share of listed signatures that are found",
        kept as f64 / CHECKS as f64,
        Target::AtLeast(1.0),
        note,
    ))?;
    // The first quarter of the day's signatures was reported twice.
    let truth = |at: usize| if (at as u64) < SPAM_SIGNATURES / DAYS / 4 { 2 } else { 1 };
    let over: u32 =
        verdicts[..CHECKS].iter().enumerate().map(|(at, verdict)| verdict.counts.report_count - truth(at)).sum();
    let note = "a quarter of all listed signatures was reported twice";
    report.add(Figure::new("mean over-count of claims", f64::from(over) / CHECKS as f64, Target::None, note))?;
    let mut totals = vec![0; CHECKS];
    engine.bulk_totals(&keys(BULK_FROM, CHECKS), &mut totals);
    let over: u32 = totals.iter().map(|total| total - 1).sum();
    report.add(Figure::new("mean over-count of recipients", f64::from(over) / CHECKS as f64, Target::None, ""))
}

/// Compares checks through the engine with checks of its spam ring alone.
fn checks(report: &mut Report, engine: &Engine) -> io::Result<()> {
    let absent = keys(ABSENT_FROM, CHECKS);
    let mut found = vec![Generations::default(); CHECKS];
    let mut verdicts = vec![Verdict::default(); CHECKS];
    let (mut staged, mut scratch) = (StagedScratch::default(), CheckScratch::default());
    let pair = compare(
        CHECKS,
        || {
            for (keys, found) in absent.chunks(64).zip(found.chunks_mut(64)) {
                engine.spam().listed().check_batch(keys, found, &mut staged);
            }
        },
        || {
            for (keys, verdicts) in absent.chunks(64).zip(verdicts.chunks_mut(64)) {
                engine.check_batch(keys, 0, verdicts, &mut scratch);
            }
        },
    );
    let note = format!("in batches of 64: {:.1} ns, spam ring alone {:.1} ns", pair.subject_ns, pair.reference_ns);
    report.add(Figure::new(
        "speed of checks through the engine / through the ring alone",
        pair.ratio,
        Target::AtLeast(0.7),
        note,
    ))
}

/// Measures the bytes per signature in the books.
fn space(report: &mut Report, engine: &Engine) -> io::Result<()> {
    let status = engine.status();
    let bytes = |name: &str| status.rings.iter().find(|ring| ring.name == name).map_or(0.0, |ring| ring.bytes as f64);
    let spam = (bytes("listed signatures") + bytes("counts of claims")) / SPAM_SIGNATURES as f64;
    let note = format!(
        "{:.2} listed, {:.2} counts of claims",
        bytes("listed signatures") / 1e7,
        spam - bytes("listed signatures") / 1e7
    );
    report.add(Figure::new("bytes per signature, spam book", spam, Target::AtMost(8.0), note))?;
    let bulk = bytes("counts of recipients") / BULK_SIGNATURES as f64;
    report.add(Figure::new("bytes per signature, bulk book", bulk, Target::AtMost(6.0), ""))?;
    let warnings = status.warnings();
    let rates = status.rings.iter().map(|ring| format!("{} {:.0} %", ring.name, ring.fill() * 100.0));
    let note = rates.collect::<Vec<_>>().join(", ");
    report.add(Figure::new("rings with a warning", warnings.len() as f64, Target::None, note))
}

/// Measures the longest tick while a ring of 1 GiB changes generations.
fn expiry(report: &mut Report) -> io::Result<()> {
    let mut ring = CountsRing::new(GIB / 64, bruit_filters::KeyId(1), 0).unwrap();
    // Touch every page, because untouched pages would be cleared unrealistically fast.
    for start in (0..16).map(|part| part << 30) {
        ring.insert_batch(&keys(start, 1 << 20));
    }
    let step = |ring: &mut CountsRing, lines: u32| {
        let mut is_clear = false;
        let ns = time(|| is_clear = ring.expire(lines as usize));
        (ns / 1e6, is_clear)
    };
    for (name, lines) in [("of one second", TICK_LINES), ("when behind", BEHIND_LINES)] {
        let mut longest = 0.0_f64;
        loop {
            let (ms, is_clear) = step(&mut ring, lines);
            longest = longest.max(ms);
            if is_clear {
                break;
            }
        }
        ring.advance();
        let note = format!("ring of 1 GiB, {lines} lines at a time");
        report.add(Figure::new(format!("longest tick {name}, in ms"), longest, Target::AtMost(10.0), note))?;
    }
    Ok(())
}

/// Reads a memory figure of the process, in KiB.
fn resident_kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Restarts the measurement of peak memory.
fn reset_peak() {
    // Ignore errors. Without permission, the figure includes the peak of earlier benchmarks and is visibly too high.
    let _ = fs::write("/proc/self/clear_refs", "5");
}
