//! A full disk and a failing disk. Events are refused, checks continue, and no confirmed event is lost.

mod common;

use std::sync::atomic::Ordering;

use bruit_store::{Options, SnapshotError, SubmitError};
use common::*;
use tempfile::tempdir;

#[test]
fn a_full_disk_refuses_reports_and_accepts_them_again_when_there_is_room() {
    // There is free space for none of the record, for one byte of it, and so on up to all of it.
    for room in 0..52 {
        let folder = tempdir().unwrap();
        let (disk, options) = faulty();
        let store = try_open(folder.path(), &options).unwrap();
        submit_numbers(&store, 0..3);
        disk.room.set(room);
        let refused = store.submit(vec![numbered(3)]);
        assert!(matches!(&refused, Err(SubmitError::Write(_))), "{refused:?}");
        assert!(refused.unwrap_err().to_string().contains("disk full"));
        assert_eq!(store.check(Ledger::numbers), [0, 1, 2], "checks still work");
        assert!(store.submit(vec![numbered(3)]).is_err(), "still full");
        disk.room.set(u64::MAX);
        submit_numbers(&store, 4..6);
        drop(store);
        let store = open(folder.path());
        assert_eq!(store.check(Ledger::numbers), [0, 1, 2, 4, 5], "refused events are not stored");
        assert_eq!(store.recovery().torn_bytes, 0);
    }
}

#[test]
fn a_disk_too_full_for_a_new_journal_file_refuses_and_recovers() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &Options { journal_file_bytes: 150, ..options }).unwrap();
    submit_numbers(&store, 0..2);
    for room in [0, 10, 48] {
        disk.room.set(room);
        assert!(matches!(store.submit(vec![numbered(9)]), Err(SubmitError::Write(_))), "space for {room} bytes");
    }
    disk.room.set(u64::MAX);
    submit_numbers(&store, 2..5);
    drop(store);
    assert_eq!(numbers(folder.path()), [0, 1, 2, 3, 4]);
}

#[test]
fn after_a_failed_sync_nothing_is_accepted_until_the_store_is_opened_again() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &options).unwrap();
    submit_numbers(&store, 0..3);
    disk.sync_fails.store(true, Ordering::SeqCst);
    assert!(matches!(store.submit(vec![numbered(3)]), Err(SubmitError::Poisoned(_))));
    disk.sync_fails.store(false, Ordering::SeqCst);
    let refused = store.submit(vec![numbered(4)]);
    assert!(matches!(refused, Err(SubmitError::Poisoned(_))), "a successful sync after a failed one proves nothing");
    assert_eq!(store.check(Ledger::numbers), [0, 1, 2], "checks still work");
    assert!(store.status().poisoned.is_some());
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.check(Ledger::numbers), [0, 1, 2]);
    submit_numbers(&store, [5]);
}

#[test]
fn a_write_that_cannot_be_undone_poisons() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &options).unwrap();
    submit_numbers(&store, 0..3);
    disk.room.set(20);
    disk.truncate_fails.store(true, Ordering::SeqCst);
    assert!(matches!(store.submit(vec![numbered(3)]), Err(SubmitError::Poisoned(_))));
    disk.room.set(u64::MAX);
    assert!(matches!(store.submit(vec![numbered(4)]), Err(SubmitError::Poisoned(_))));
    drop(store);
    let store = open(folder.path());
    assert_eq!((store.check(Ledger::numbers), store.recovery().torn_bytes), (vec![0, 1, 2], 20));
}

#[test]
fn a_snapshot_on_a_full_disk_fails_alone_and_leaves_nothing() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &options).unwrap();
    submit_numbers(&store, 0..200);
    disk.room.set(1000);
    let failed = store.snapshot();
    assert!(matches!(failed, Err(SnapshotError::Failed(_))), "{failed:?}");
    assert!(store.status().snapshot_failure.is_some());
    disk.room.set(u64::MAX);
    assert!(files(folder.path(), "snapshot-").is_empty() && files(folder.path(), ".tmp-").is_empty());
    submit_numbers(&store, 200..203);
    assert_eq!(store.snapshot().unwrap(), 203);
    assert!(store.status().snapshot_failure.is_none());
    drop(store);
    assert_eq!(numbers(folder.path()).len(), 203);
}
