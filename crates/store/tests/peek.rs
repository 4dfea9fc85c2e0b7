//! A store looked into without a lock: what opening would find, and nothing changed.

mod common;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::SystemTime;

use bruit_store::{OpenError, Options, Recovery, peek};
use common::*;
use tempfile::tempdir;

fn peeked(directory: &Path) -> Result<(Ledger, Recovery), OpenError> {
    peek(directory, || Ok(Ledger::new()), &mut |_| {})
}

/// Name, bytes and time of the last change of every file.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>, SystemTime)> {
    let with_time = |path: &std::path::PathBuf| path.metadata().unwrap().modified().unwrap();
    files(directory, "").iter().map(|path| (name(path), fs::read(path).unwrap(), with_time(path))).collect()
}

#[test]
fn a_peek_finds_what_opening_finds_and_changes_nothing() {
    let folder = tempdir().unwrap();
    let store = try_open(folder.path(), &Options { segment_bytes: 300, ..options() }).unwrap();
    tell(&store, 0..10);
    store.snapshot().unwrap();
    tell(&store, 10..20);
    drop(store);
    fs::write(folder.path().join(".tmp-unfinished"), "half").unwrap();
    change(&files(folder.path(), "journal-").pop().unwrap(), |bytes| bytes.extend(b"\xB5rec torn"));

    let before = contents(folder.path());
    let (ledger, recovery) = peeked(folder.path()).unwrap();
    assert!(contents(folder.path()) == before, "a file was changed");
    assert_eq!((recovery.snapshot, recovery.replayed_events, recovery.torn_bytes), (Some(10), 10, 9));
    let store = open(folder.path());
    assert_eq!(&recovery, store.recovery());
    assert_eq!(ledger, store.check(Ledger::settled));
}

#[test]
fn a_peek_fails_where_opening_does() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    tell(&store, 0..10);
    drop(store);
    let segment = files(folder.path(), "journal-").pop().unwrap();
    let second = boundaries(&segment)[1];
    change(&segment, |bytes| bytes[second + 40] ^= 1);
    let error = peeked(folder.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("damaged at byte {second}")), "{error}");
    assert!(matches!(peeked(&folder.path().join("absent")), Err(OpenError::Io { .. })));
}

/// Files come and go all the time here, faster than anywhere else, and a peek still finds all that was confirmed before.
#[test]
fn a_store_in_use_can_be_peeked_into() {
    let folder = tempdir().unwrap();
    let store = try_open(folder.path(), &Options { segment_bytes: 600, ..options() }).unwrap();
    let done = AtomicBool::new(false);
    let (mut tried, mut found) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                tell(&store, [number]);
                if done.load(Ordering::SeqCst) {
                    break;
                }
                if number % 100 == 99 {
                    store.snapshot().unwrap();
                }
            }
        });
        while store.status().sequence < 800 {
            tried += 1;
            let confirmed = store.check(|ledger| ledger.counts.len());
            if let Ok((ledger, recovery)) = peeked(folder.path()) {
                assert!(ledger.counts.len() >= confirmed);
                assert!(ledger.counts.values().all(|count| *count == 1));
                assert_eq!((recovery.sequence, recovery.damaged), (ledger.counts.len() as u64, vec![]));
                found += 1;
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(found > tried / 2, "only {found} of {tried} peeks came through");
}
