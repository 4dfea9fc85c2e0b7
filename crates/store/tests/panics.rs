//! If a thread panics, every submitter receives an answer, and no snapshot claims to contain events that were not
//! applied.

mod common;

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use bruit_engine::codec::Malformed;
use bruit_store::{Machine, Options, RestoreError, SnapshotError, Store};
use common::*;
use tempfile::tempdir;

/// A number that makes the machine panic.
const FATAL: u64 = 666;

/// A ledger that panics at [`FATAL`], on one of the store's threads.
struct Fragile {
    ledger: Ledger,
    thread: &'static str,
}

impl Machine for Fragile {
    type Event = NumberEvent;
    type Outcome = u64;

    fn encode(event: &NumberEvent, out: &mut Vec<u8>) {
        Ledger::encode(event, out);
    }

    fn decode(bytes: &[u8]) -> Result<NumberEvent, Malformed> {
        Ledger::decode(bytes)
    }

    fn admit(&self, event: &NumberEvent) -> Result<(), u64> {
        self.ledger.admit(event)
    }

    fn apply(&mut self, event: &NumberEvent) -> u64 {
        assert!(event.number != FATAL || thread::current().name() != Some(self.thread), "an invariant is broken");
        self.ledger.apply(event)
    }

    fn begin_snapshot(&mut self, out: &mut Vec<u8>) {
        self.ledger.begin_snapshot(out);
    }

    fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        self.ledger.continue_snapshot(bytes, out)
    }

    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError> {
        Ok(Self { ledger: self.ledger.restore(input)?, thread: self.thread })
    }

    fn realm(&self) -> [u8; 16] {
        REALM
    }
}

/// Returns a store that takes a snapshot when it is closed. (During a snapshot, the writer applies events itself.)
fn fragile(directory: &Path, thread: &'static str) -> Store<Fragile> {
    Store::open(directory, &Options::default(), || Ok(Fragile { ledger: Ledger::new(), thread }), &mut |_| {}).unwrap()
}

#[test]
fn events_left_by_a_dead_applier_are_applied_on_reopening() {
    // The applier gets a batch only if another one is queued. So there are many fatal numbers, and sooner or later one
    // of them reaches it.
    let folder = tempdir().unwrap();
    let store = fragile(folder.path(), "bruit-applier");
    let (sender, answers) = mpsc::channel();
    for number in 0..20_000 {
        let sender = sender.clone();
        let number = if number % 50 == 49 { FATAL } else { number };
        store.submit_with(vec![numbered(number)], move |result| {
            let _ = sender.send(result.is_ok());
        });
    }
    drop(sender);
    let confirmed = answers.iter().filter(|is_ok| *is_ok).count() as u64;
    assert!(store.submit(vec![numbered(1)]).is_err(), "submits are refused");
    assert!(matches!(store.snapshot(), Err(SnapshotError::Closed)));
    let status = store.close();
    assert!(status.poisoned.is_some() && status.waiting_events == 0, "{status:?}");
    assert!(status.durable >= confirmed);
    let store = open(folder.path());
    assert_eq!(store.check(|ledger| ledger.counts.values().sum::<u64>()), status.durable, "{}", store.recovery());
}

#[test]
fn events_left_by_a_dead_writer_are_applied_on_reopening() {
    let folder = tempdir().unwrap();
    let store = fragile(folder.path(), "bruit-writer");
    for number in 0..10 {
        store.submit(vec![numbered(number)]).unwrap();
    }
    assert!(store.submit(vec![numbered(FATAL)]).is_err());
    assert!(store.submit(vec![numbered(11)]).is_err());
    assert!(matches!(store.snapshot(), Err(SnapshotError::Closed)));
    assert_eq!(store.check(|fragile| fragile.ledger.counts.len()), 10, "checks still work");
    assert!(store.close().poisoned.is_some());
    assert!(files(folder.path(), "snapshot-").is_empty());
    assert_eq!(numbers(folder.path()), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, FATAL]);
}

#[test]
fn a_panic_of_the_snapshot_thread_is_a_failed_snapshot() {
    let folder = tempdir().unwrap();
    let disk = WatchedDisk(Box::new(|path| assert!(!name(path).contains("snapshot-"), "a bug in a snapshot")));
    let options = Options { disk: Arc::new(disk), snapshot_on_close: true, ..options() };
    let store = try_open(folder.path(), &options).unwrap();
    submit_numbers(&store, 0..3);
    assert!(matches!(store.snapshot(), Err(SnapshotError::Failed(_))));
    submit_numbers(&store, 3..5);
    assert!(store.close().snapshot_failure.is_some());
    assert_eq!(numbers(folder.path()), [0, 1, 2, 3, 4]);
}
