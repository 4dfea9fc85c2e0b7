//! Measures reports per second through a store, without the cost of the disk's syncs.
//!
//! `cargo run --release -p bruit-store --example report_speed -- FOLDER`
//!
//! Each round uses new signatures and texts. The printed figures are medians of the rounds. A folder in memory, such as
//! one in `/dev/shm`, excludes the disk.

#![expect(clippy::print_stdout, reason = "a command-line program")]

use std::error::Error;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bruit_engine::event::{By, Event};
use bruit_engine::message::claim_events;
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_filters::FingerprintKey;
use bruit_signatures::{Context, sign};
use bruit_store::{Clearinghouse, Durability, Founding, Options};

const START: Time = Time(4_000 * Realm::SPAM_EPOCH_SECONDS);
const ROUNDS: u64 = 15;
/// Number of reports in a round.
const REPORTS: u64 = 12_800;
/// Number of reports in a submission, and number of submissions in flight, as with a listener under load.
const TOGETHER: usize = 64;
const IN_FLIGHT: usize = 8;
/// Number of accounts that report. Each has a daily quota of new signatures.
const ACCOUNTS: u64 = 4_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("the first argument is a folder")?;
    measure(&Path::new(&folder).join("own"), "signatures reported by an own user", |store, number| {
        let _ = store;
        vec![claim(Standing::Own, number, &[number])]
    })?;
    measure(&Path::new(&folder).join("account"), "signatures reported by accounts", |store, number| {
        let _ = store;
        vec![claim(Standing::Account, number, &[number])]
    })?;
    measure(&Path::new(&folder).join("message"), "messages reported by accounts", message)
}

fn measure(
    folder: &Path,
    what: &str,
    report: impl Fn(&Clearinghouse, u64) -> Vec<Event>,
) -> Result<(), Box<dyn Error>> {
    let durability = Durability::Relaxed { window: Duration::from_secs(3_600) };
    let options =
        Options { durability, snapshot_on_close: false, snapshot_after_bytes: u64::MAX, ..Options::default() };
    let founded = || Founding::new([5; 16], 1 << 30, Policy::default(), START).expect("a valid budget");
    let store = Clearinghouse::open_or_found(folder, &options, founded, &mut |_| {})?;
    let mut rates = Vec::new();
    for round in 0..ROUNDS {
        let events: Vec<_> = (round * REPORTS..(round + 1) * REPORTS).map(|number| report(&store, number)).collect();
        let began = Instant::now();
        submit_all(&store, events);
        rates.push(REPORTS as f64 / began.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    println!("{what}: {:.0} reports/s", rates[rates.len() / 2]);
    Ok(())
}

fn submit_all(store: &Clearinghouse, reports: Vec<Vec<Event>>) {
    let (done, answers) = mpsc::channel();
    let mut in_flight = 0;
    let mut reports = reports.into_iter().peekable();
    while reports.peek().is_some() {
        if in_flight == IN_FLIGHT {
            answers.recv().expect("every submission is answered");
            in_flight -= 1;
        }
        let done = done.clone();
        store.submit_with(reports.by_ref().take(TOGETHER).flatten().collect(), move |outcomes| {
            outcomes.expect("the store accepts events");
            done.send(()).expect("the receiver is alive");
        });
        in_flight += 1;
    }
    (0..in_flight).for_each(|_| answers.recv().expect("every submission is answered"));
}

fn reporter(standing: Standing, number: u64) -> Reporter {
    let id = if standing == Standing::Own { 1 } else { number % ACCOUNTS };
    Reporter { id, standing, group: id }
}

fn claim(standing: Standing, number: u64, names: &[u64]) -> Event {
    let key = FingerprintKey::PUBLIC;
    let fingerprints = names.iter().map(|name| key.fingerprint(&name.to_le_bytes())).collect();
    let by = By { now: START, reporter: reporter(standing, number) };
    Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints }
}

/// Returns the events for a message whose text is different from that of every other message.
fn message(store: &Clearinghouse, number: u64) -> Vec<Event> {
    let words = (0..80).map(|at| {
        format!("w{:x}", FingerprintKey::PUBLIC.fingerprint(&[number, at].map(u64::to_le_bytes).concat()).high() >> 40)
    });
    let text = words.collect::<Vec<_>>().join(" ");
    let signed =
        sign(format!("Subject: x\n\n{text}\n").as_bytes(), &bruit_signatures::Wanted::ALL, &Context::default());
    let by = By { now: START, reporter: reporter(Standing::Account, number) };
    store.check(|engine| claim_events(engine, &signed, Claim::Report, by))
}
