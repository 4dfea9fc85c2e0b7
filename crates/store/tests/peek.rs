//! Peeking into a store without a lock returns the state that opening would recover, and changes nothing.

mod common;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::SystemTime;

use bruit_store::{OpenError, Options, PEEKS_MAX, Recovery, Store, peek};
use common::*;
use tempfile::tempdir;

fn peeked(directory: &Path) -> Result<(Ledger, Recovery), OpenError> {
    peek(directory, || Ok(Ledger::new()), &mut |_| {})
}

/// Returns name, contents and modification time of every file.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>, SystemTime)> {
    let with_time = |path: &std::path::PathBuf| path.metadata().unwrap().modified().unwrap();
    files(directory, "").iter().map(|path| (name(path), fs::read(path).unwrap(), with_time(path))).collect()
}

#[test]
fn a_peek_finds_what_opening_finds_and_changes_nothing() {
    let folder = tempdir().unwrap();
    let store = try_open(folder.path(), &Options { journal_file_bytes: 300, ..options() }).unwrap();
    submit_numbers(&store, 0..10);
    store.snapshot().unwrap();
    submit_numbers(&store, 10..20);
    drop(store);
    fs::write(folder.path().join(".tmp-realm.bruit"), "half").unwrap();
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
    submit_numbers(&store, 0..10);
    drop(store);
    let journal_file = files(folder.path(), "journal-").pop().unwrap();
    let second = boundaries(&journal_file)[1];
    change(&journal_file, |bytes| bytes[second + 40] ^= 1);
    let error = peeked(folder.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("damaged at byte {second}")), "{error}");
    assert!(matches!(peeked(&folder.path().join("absent")), Err(OpenError::Io { .. })));
}

/// Takes two snapshots, which removes all older files.
fn replace_all_files(store: &Store<Ledger>) {
    for _ in 0..2 {
        let next = store.status().sequence;
        submit_numbers(store, next..next + 10);
        store.snapshot().unwrap();
    }
}

#[test]
fn records_appended_during_a_peek_are_not_read() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    submit_numbers(&store, 0..10);
    let mut next = 10;
    let append = &mut |_| {
        // Stop at 100, in case the appended records are read, too.
        if next < 100 {
            submit_numbers(&store, [next]);
            next += 1;
        }
    };
    let (ledger, recovery) = peek(folder.path(), || Ok(Ledger::new()), append).unwrap();
    assert_eq!((ledger.counts.len(), recovery.sequence, recovery.torn_bytes), (10, 10, 0));
    assert_eq!(next, 20, "one event was appended for each event read");
}

#[test]
fn a_peek_whose_files_were_removed_begins_anew_and_gives_up_some_time() {
    let folder = tempdir().unwrap();
    let store = try_open(folder.path(), &Options { journal_file_bytes: 100, ..options() }).unwrap();
    replace_all_files(&store);
    for removals in [1, PEEKS_MAX - 1, u32::MAX] {
        let tries = std::cell::Cell::new(0);
        // Called between listing the directory and reading the files.
        let make = || {
            if tries.get() < removals {
                replace_all_files(&store);
            }
            tries.set(tries.get() + 1);
            Ok(Ledger::new())
        };
        let peeked = peek(folder.path(), make, &mut |_| {});
        assert_eq!(tries.get(), removals.saturating_add(1).min(PEEKS_MAX));
        match peeked {
            Ok((ledger, recovery)) => {
                assert_eq!((ledger.counts.len() as u64, recovery.damaged), (store.status().sequence, vec![]));
            }
            Err(error) => {
                assert!(matches!(error, OpenError::FilesWent { .. }), "{error}");
                assert_eq!(removals, u32::MAX);
            }
        }
    }
}

/// Although files are created and removed all the time, a peek finds every event that was confirmed before it.
#[test]
fn a_store_in_use_can_be_peeked_into() {
    let folder = tempdir().unwrap();
    let store = try_open(folder.path(), &Options { journal_file_bytes: 600, ..options() }).unwrap();
    let done = AtomicBool::new(false);
    let (mut tried, mut found) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                submit_numbers(&store, [number]);
                if done.load(Ordering::SeqCst) {
                    break;
                }
                if number % 100 == 99 {
                    store.snapshot().unwrap();
                }
            }
        });
        while store.status().sequence < 400 {
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
    assert!(found > tried / 2, "only {found} of {tried} peeks succeeded");
}
