//! Measures what durability costs a clearinghouse, and how long a clearinghouse takes to recover.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bruit_engine::budget::BUDGET_DEFAULT;
use bruit_engine::event::{By, Event};
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_store::{Clearinghouse, Durability, Founding, Options};

use crate::keys::key;
use crate::report::{Figure, Report, Target};

const START: Time = Time(4_000 * Realm::SPAM_EPOCH_SECONDS);
/// Patterns of reports: number of threads, reports per submit, and submits in flight per thread. In the first two
/// patterns, the thread of a listener submits batches from `recvmmsg` without waiting. In the third, clients wait for
/// the answer to each report.
const LOADS: [Load; 3] = [
    Load { threads: 1, at_once: 64, under_way: 2, target: Target::AtLeast(0.7) },
    Load { threads: 1, at_once: 64, under_way: 8, target: Target::AtLeast(0.7) },
    Load { threads: 32, at_once: 1, under_way: 1, target: Target::AtLeast(0.7) },
];
/// Number of reports in a round.
const REPORTS: u64 = 19_200;
const ROUNDS: usize = 7;
/// Number of events in the journal that is replayed.
const REPLAYED: u64 = 10_000_000;
/// Number of events per submit when the journal to be replayed is written.
const SUBMITTED: u64 = 1_000;

#[derive(Clone, Copy)]
struct Load {
    threads: u64,
    at_once: u64,
    under_way: u64,
    target: Target,
}

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    durable_reports(report, folder.path())?;
    recovery(report, folder.path())
}

fn open(directory: &Path, durability: Durability) -> Clearinghouse {
    // Disable snapshots. Their cost is measured with the engine.
    let options =
        Options { durability, snapshot_on_close: false, snapshot_after_bytes: u64::MAX, ..Options::default() };
    // Use twice the default budget. The default budget accepts only some 300,000 new signatures per day from a site.
    let found = || Founding::new([5; 16], 2 * BUDGET_DEFAULT, Policy::default(), START).expect("a valid budget");
    Clearinghouse::open_or_found(directory, &options, found, &mut |_| {}).expect("a valid directory")
}

/// Compares durable reports with a loop that makes the same number of appends and disk syncs.
fn durable_reports(report: &mut Report, folder: &Path) -> io::Result<()> {
    let store = open(&folder.join("reports"), Durability::Strict);
    let mut first = 0;
    for load in LOADS {
        let (mut ratios, mut per_second, mut per_record) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let before = store.status();
            let seconds = report_from_all(&store, load, first);
            first += REPORTS;
            let after = store.status();
            let (records, bytes) = (after.records - before.records, after.journal_bytes - before.journal_bytes);
            ratios.push(append_bare(&folder.join("bare"), records, bytes)? / seconds);
            per_second.push(REPORTS as f64 / seconds);
            per_record.push(REPORTS as f64 / records as f64);
        }
        let Load { threads, at_once, under_way, target } = load;
        let name = format!(
            "durable reports / append + fdatasync: {threads} threads x {under_way} submits x {at_once} reports"
        );
        let note = format!("{:.0} reports/s, {:.1} per fdatasync", median(per_second), median(per_record));
        report.add(Figure::new(name, median(ratios), target, note))?;
    }
    Ok(())
}

/// Submits the reports, an equal share from every thread. Returns the elapsed seconds.
fn report_from_all(store: &Clearinghouse, load: Load, first: u64) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..load.threads {
            let own = first + thread * REPORTS / load.threads..first + (thread + 1) * REPORTS / load.threads;
            scope.spawn(move || report_from(store, load, own));
        }
    });
    start.elapsed().as_secs_f64()
}

fn report_from(store: &Clearinghouse, load: Load, numbers: std::ops::Range<u64>) {
    let (sender, receiver) = mpsc::channel();
    let mut under_way = 0;
    for start in numbers.step_by(load.at_once as usize) {
        if under_way == load.under_way {
            receiver.recv().expect("every submit is answered");
            under_way -= 1;
        }
        let events = (start..start + load.at_once).map(|number| claim(START, number % 8, number)).collect();
        let done = sender.clone();
        store.submit_with(events, move |result| {
            result.expect("the disk is not full");
            done.send(()).expect("the receiver still exists");
        });
        under_way += 1;
    }
    (0..under_way).for_each(|_| receiver.recv().expect("every submit is answered"));
}

fn claim(now: Time, reporter: u64, number: u64) -> Event {
    let reporter = Reporter { id: reporter, standing: Standing::Own, group: reporter };
    let by = By { now, reporter };
    Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints: vec![key(number)] }
}

/// Appends `bytes` in `records` writes, each followed by `fdatasync`. Returns the elapsed seconds.
fn append_bare(path: &Path, records: u64, bytes: u64) -> io::Result<f64> {
    let mut file: File = OpenOptions::new().create(true).append(true).open(path)?;
    let record = vec![7; (bytes / records) as usize];
    let start = Instant::now();
    for _ in 0..records {
        file.write_all(&record)?;
        file.sync_data()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(seconds)
}

/// Measures the time to open a clearinghouse from its journal alone, and then from a snapshot.
fn recovery(report: &mut Report, folder: &Path) -> io::Result<()> {
    let directory = folder.join("replayed");
    let store = open(&directory, Durability::Relaxed { window: Duration::from_secs(10) });
    write_journal(&store);
    let bytes = store.close().journal_bytes;
    let start = Instant::now();
    let store = open(&directory, Durability::Strict);
    let seconds = start.elapsed().as_secs_f64();
    let replayed = store.recovery().replayed_events;
    assert_eq!(replayed, store.status().sequence, "everything was replayed");
    let note = format!(
        "{replayed} events, {:.0} MB of journal, {:.2} µs each",
        bytes as f64 / 1e6,
        seconds * 1e6 / replayed as f64
    );
    report.add(Figure::new("seconds for recovery without a snapshot", seconds, Target::None, note))?;
    store.snapshot().expect("the disk is not full");
    drop(store);
    let start = Instant::now();
    drop(open(&directory, Durability::Strict));
    let note = "snapshot of twice the default budget";
    report.add(Figure::new("seconds for recovery from a snapshot", start.elapsed().as_secs_f64(), Target::None, note))
}

/// Writes a journal of ten days, in which reports and recipient counts alternate.
fn write_journal(store: &Clearinghouse) {
    let waiting = Arc::new(AtomicU64::new(0));
    for start in (0..REPLAYED).step_by(SUBMITTED as usize) {
        let now = Time(START.0 + start * 10 * Time::DAY / REPLAYED);
        if start % (REPLAYED / 10) == 0 {
            store.catch_up(now).expect("the disk is not full");
        }
        let event = |number: u64| match number % 2 {
            0 => claim(now, number % 8, number),
            _ => bulk(now, number % 8, number),
        };
        while waiting.load(Ordering::Acquire) > 8 {
            std::thread::yield_now();
        }
        waiting.fetch_add(1, Ordering::AcqRel);
        let done = Arc::clone(&waiting);
        store.submit_with((start..start + SUBMITTED).map(event).collect(), move |result| {
            result.expect("the disk is not full");
            done.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

fn bulk(now: Time, reporter: u64, number: u64) -> Event {
    let reporter = Reporter { id: reporter, standing: Standing::Own, group: reporter };
    // Some messages have many copies.
    Event::Bulk { by: By { now, reporter }, targets: 1, fingerprints: vec![key((1 << 40) + number / 16)] }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
