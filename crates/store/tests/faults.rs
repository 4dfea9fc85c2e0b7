//! A full disk and a failing one: reports are refused, checks go on, nothing confirmed is lost.

mod common;

use std::sync::atomic::Ordering;

use bruit_store::{Options, SnapshotError, SubmitError};
use common::*;
use tempfile::tempdir;

#[test]
fn a_full_disk_refuses_reports_and_accepts_them_again_when_there_is_room() {
    // Room for any part of the record, and for no part of it.
    for room in 0..52 {
        let folder = tempdir().unwrap();
        let (disk, options) = faulty();
        let store = try_open(folder.path(), &options).unwrap();
        tell(&store, 0..3);
        disk.room.set(room);
        let refused = store.submit(vec![told(3)]);
        assert!(matches!(&refused, Err(SubmitError::Write(_))), "{refused:?}");
        assert!(refused.unwrap_err().to_string().contains("disk full"));
        assert_eq!(store.check(Ledger::numbers), [0, 1, 2], "checks go on");
        assert!(store.submit(vec![told(3)]).is_err(), "still full");
        disk.room.set(u64::MAX);
        tell(&store, 4..6);
        drop(store);
        let store = open(folder.path());
        assert_eq!(store.check(Ledger::numbers), [0, 1, 2, 4, 5], "what was refused is not there");
        assert_eq!(store.recovery().torn_bytes, 0);
    }
}

#[test]
fn a_disk_too_full_for_a_new_segment_refuses_and_recovers() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &Options { segment_bytes: 150, ..options }).unwrap();
    tell(&store, 0..2);
    for room in [0, 10, 48] {
        disk.room.set(room);
        assert!(matches!(store.submit(vec![told(9)]), Err(SubmitError::Write(_))), "room for {room}");
    }
    disk.room.set(u64::MAX);
    tell(&store, 2..5);
    drop(store);
    assert_eq!(numbers(folder.path()), [0, 1, 2, 3, 4]);
}

#[test]
fn after_a_failed_sync_nothing_is_accepted_until_the_store_is_opened_again() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &options).unwrap();
    tell(&store, 0..3);
    disk.sync_fails.store(true, Ordering::SeqCst);
    assert!(matches!(store.submit(vec![told(3)]), Err(SubmitError::Poisoned(_))));
    disk.sync_fails.store(false, Ordering::SeqCst);
    let refused = store.submit(vec![told(4)]);
    assert!(matches!(refused, Err(SubmitError::Poisoned(_))), "a sync that succeeds now proves nothing");
    assert_eq!(store.check(Ledger::numbers), [0, 1, 2], "checks go on");
    assert!(store.status().poisoned.is_some());
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.check(Ledger::numbers), [0, 1, 2]);
    tell(&store, [5]);
}

#[test]
fn a_write_that_cannot_be_undone_poisons() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &options).unwrap();
    tell(&store, 0..3);
    disk.room.set(20);
    disk.truncate_fails.store(true, Ordering::SeqCst);
    assert!(matches!(store.submit(vec![told(3)]), Err(SubmitError::Poisoned(_))));
    disk.room.set(u64::MAX);
    assert!(matches!(store.submit(vec![told(4)]), Err(SubmitError::Poisoned(_))));
    drop(store);
    let store = open(folder.path());
    assert_eq!((store.check(Ledger::numbers), store.recovery().torn_bytes), (vec![0, 1, 2], 20));
}

#[test]
fn a_snapshot_that_finds_no_room_fails_alone_and_leaves_nothing() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &options).unwrap();
    tell(&store, 0..200);
    disk.room.set(1000);
    let failed = store.snapshot();
    assert!(matches!(failed, Err(SnapshotError::Failed(_))), "{failed:?}");
    assert!(store.status().snapshot_failure.is_some());
    disk.room.set(u64::MAX);
    assert!(files(folder.path(), "snapshot-").is_empty() && files(folder.path(), ".tmp-").is_empty());
    tell(&store, 200..203);
    assert_eq!(store.snapshot().unwrap(), 203);
    assert!(store.status().snapshot_failure.is_none());
    drop(store);
    assert_eq!(numbers(folder.path()).len(), 203);
}
