//! A store in normal use: submitting events, checking, closing, opening again and copying.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use bruit_store::{
    Durability, EVENT_BYTES_MAX, OpenError, Options, QUEUE_BYTES_MAX, QUEUE_EVENTS_MAX, RECORD_BYTES_MAX, SubmitError,
};
use common::*;
use tempfile::tempdir;

#[test]
fn submitted_events_are_there_after_reopening() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    assert_eq!(store.submit(vec![numbered(5), numbered(5), numbered(7)]).unwrap(), [1, 2, 1]);
    assert_eq!(store.submit(vec![]).unwrap(), []);
    let before = store.check(Ledger::clone);
    assert_eq!((store.status().sequence, store.status().durable), (3, 3));
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.check(Ledger::clone), before);
    let recovery = store.recovery();
    assert_eq!((recovery.snapshot, recovery.replayed_events, recovery.sequence), (None, 3, 3));
}

#[test]
fn refused_events_are_answered_and_never_written() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    assert_eq!(store.submit(vec![numbered(1), numbered(REFUSED), numbered(1)]).unwrap(), [1, 0, 2]);
    assert_eq!(store.submit(vec![numbered(REFUSED)]).unwrap(), [0]);
    assert_eq!((store.status().sequence, store.status().records), (2, 1));
    drop(store);
    assert_eq!(open(folder.path()).recovery().replayed_events, 2);
}

#[test]
fn a_snapshot_shortens_the_replay_and_closing_takes_one() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    submit_numbers(&store, 0..50);
    assert_eq!(store.snapshot().unwrap(), 50);
    assert_eq!(store.snapshot().unwrap(), 50, "nothing is written without new events");
    submit_numbers(&store, 50..53);
    drop(store);
    let store = try_open(folder.path(), &Options::default()).unwrap();
    assert_eq!((store.recovery().snapshot, store.recovery().replayed_events), (Some(50), 3));
    assert_eq!(store.close().snapshots, [50, 53]);
    let store = open(folder.path());
    assert_eq!((store.recovery().snapshot, store.recovery().replayed_events), (Some(53), 0));
    assert_eq!(store.check(Ledger::numbers), (0..53).collect::<Vec<_>>());
}

#[test]
fn the_status_has_when_the_newest_snapshot_was_written() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    assert_eq!(store.status().snapshot_written, None);
    submit_numbers(&store, 0..5);
    store.snapshot().unwrap();
    let written = store.close().snapshot_written.expect("closing returns the time of the snapshot");
    assert!(written.elapsed().unwrap().as_secs() < 600, "{written:?}");
    let store = open(folder.path());
    assert_eq!(store.status().snapshot_written, Some(written), "the time is taken from the file");
}

#[test]
fn the_two_newest_snapshots_and_the_journal_since_the_older_are_kept() {
    let folder = tempdir().unwrap();
    let store = try_open(folder.path(), &Options { journal_file_bytes: 200, ..options() }).unwrap();
    for round in 0..5 {
        submit_numbers(&store, round * 20..(round + 1) * 20);
        store.snapshot().unwrap();
    }
    assert_eq!(store.status().snapshots, [80, 100]);
    drop(store);
    assert_eq!(files(folder.path(), "snapshot-").len(), 2);
    let first = name(&files(folder.path(), "journal-")[0]);
    assert!(
        ("journal-00000000000000000075.bruit"..="journal-00000000000000000081.bruit").contains(&&*first),
        "{first}"
    );
    assert_eq!(numbers(folder.path()).len(), 100);
}

#[test]
fn a_deleted_journal_file_does_not_stop_the_removal_of_others() {
    let folder = tempdir().unwrap();
    let store = try_open(folder.path(), &Options { journal_file_bytes: 150, ..options() }).unwrap();
    submit_numbers(&store, 0..10);
    std::fs::remove_file(&files(folder.path(), "journal-")[0]).unwrap();
    for round in 1..4 {
        submit_numbers(&store, round * 10..round * 10 + 10);
        store.snapshot().unwrap();
    }
    let journal_files = files(folder.path(), "journal-");
    assert!(
        journal_files.len() <= 6,
        "the journal files since the older snapshot are kept, and no others: {journal_files:?}"
    );
    assert_eq!(store.status().journal_files, journal_files.len());
}

#[test]
fn snapshots_come_by_themselves_under_load_and_hold_the_state_of_their_sequence() {
    let folder = tempdir().unwrap();
    let store = try_open(folder.path(), &Options { snapshot_after_bytes: 3000, journal_file_bytes: 1000, ..options() })
        .unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || submit_numbers(store, thread * 1000..thread * 1000 + 300));
        }
    });
    let before = store.check(Ledger::settled);
    let status = store.close();
    assert_eq!(status.snapshots.len(), 2, "{status:?}");
    let store = open(folder.path());
    assert!(store.recovery().snapshot.is_some());
    assert_eq!(store.check(Ledger::settled), before, "events are replayed in the same order");
}

#[test]
fn the_second_opener_is_refused_until_the_first_is_gone() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let error = try_open(folder.path(), &options()).err().unwrap();
    assert!(error.to_string().contains("in use by another process"), "{error}");
    drop(store);
    open(folder.path());
}

#[test]
fn a_directory_of_another_realm_is_refused_and_none_of_its_files_is_to_be_moved() {
    let folder = tempdir().unwrap();
    submit_numbers(&open(folder.path()), 0..3);
    let other = || Ok(Ledger { realm: [9; 16], ..Ledger::new() });
    let refused = bruit_store::Store::open(folder.path(), &options(), other, &mut |_| {}).err();
    assert!(matches!(refused, Some(OpenError::WrongFounding { .. })), "the journal is of another realm: {refused:?}");
    open(folder.path()).snapshot().unwrap();
    let refused = bruit_store::Store::open(folder.path(), &options(), other, &mut |_| {}).err();
    assert!(matches!(refused, Some(OpenError::WrongFounding { .. })), "the snapshot is of another realm: {refused:?}");
    assert!(try_open(folder.path(), &options()).is_ok());
}

#[test]
fn events_at_the_bounds_are_accepted_and_larger_ones_refused() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let sized = |bytes: usize| NumberEvent { number: 1, padding: bytes - 8 };
    assert_eq!(store.submit(vec![sized(EVENT_BYTES_MAX)]).unwrap(), [1]);
    let refused = store.submit(vec![numbered(2), sized(EVENT_BYTES_MAX + 1)]);
    assert!(matches!(refused, Err(SubmitError::EventTooLarge { bytes }) if bytes == EVENT_BYTES_MAX + 1));

    // The events have 64 KiB minus the length prefix, so 64 of them fill a record exactly.
    let each = RECORD_BYTES_MAX / 64 - 4;
    let mut many = vec![sized(each); 64];
    assert_eq!(store.submit(many.clone()).unwrap().len(), 64);
    many[0].padding += 1;
    assert!(matches!(store.submit(many), Err(SubmitError::TooLarge { .. })));
    assert_eq!(store.status().sequence, 65);
    drop(store);
    assert_eq!(open(folder.path()).recovery().replayed_events, 65);
}

#[test]
fn a_full_queue_refuses_at_once_and_loses_nothing_it_accepted() {
    for (event, most) in
        [(numbered(1), QUEUE_EVENTS_MAX), (NumberEvent { number: 1, padding: 65_536 - 12 }, QUEUE_BYTES_MAX / 65_536)]
    {
        let folder = tempdir().unwrap();
        let store = open(folder.path());
        // A completion blocks the writer, so that the queue does not drain.
        let (held, hold) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (writer_held, writer_hold) = (Arc::clone(&held), Arc::clone(&hold));
        store.submit_with(vec![numbered(0)], move |_| {
            writer_held.wait();
            writer_hold.wait();
        });
        held.wait();
        let (sender, answers) = mpsc::channel();
        for _ in 0..most {
            let sender = sender.clone();
            store.submit_with(vec![event.clone()], move |result| sender.send(result.is_ok()).unwrap());
        }
        assert_eq!(store.status().waiting_events, most);
        let (refusal, refused) = mpsc::channel();
        store.submit_with(vec![event.clone()], move |result| refusal.send(result).unwrap());
        let refused = refused.try_recv();
        hold.wait();
        assert!(matches!(refused, Ok(Err(SubmitError::Busy))), "the refusal comes at once: {refused:?}");
        drop(sender);
        assert_eq!(answers.iter().filter(|taken| *taken).count(), most);
        assert_eq!(store.status().sequence, most as u64 + 1);
    }
}

/// One record is being applied, one is queued, and the writer holds one. The writer does not write a fourth record
/// before the first is applied.
#[test]
fn the_writer_is_at_most_three_records_ahead_of_what_is_applied() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &options).unwrap();
    let (held, hold) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (writer_held, writer_hold) = (Arc::clone(&held), Arc::clone(&hold));
    store.submit_with(vec![numbered(0)], move |_| {
        writer_held.wait();
        writer_hold.wait();
    });
    held.wait();
    let before = disk.syncs.load(Ordering::SeqCst);
    let (sender, ahead) = mpsc::channel();
    // Only one of these submissions fits in a record, and four fit in the queue.
    let large = || (0..63).map(|number| NumberEvent { number, padding: EVENT_BYTES_MAX - 8 }).collect();
    store.submit_with(large(), move |_| {
        wait_for(|| disk.syncs.load(Ordering::SeqCst) >= before + 3);
        let _ = sender.send(disk.syncs.load(Ordering::SeqCst) - before);
    });
    (0..3).for_each(|_| store.submit_with(large(), |result| drop(result.unwrap())));
    hold.wait();
    assert_eq!(ahead.recv().unwrap(), 3);
    assert_eq!(store.close().sequence, 1 + 4 * 63);
}

#[test]
fn everything_submitted_before_closing_is_kept() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let (sender, answers) = mpsc::channel();
    for number in 0..1000 {
        let sender = sender.clone();
        store.submit_with(vec![numbered(number)], move |result| sender.send(result.is_ok()).unwrap());
    }
    drop((store, sender));
    assert_eq!(answers.iter().filter(|taken| *taken).count(), 1000);
    assert_eq!(numbers(folder.path()).len(), 1000);
}

#[test]
fn many_submits_share_a_sync() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let store = try_open(folder.path(), &options).unwrap();
    let before = disk.syncs.load(Ordering::SeqCst);
    let (held, hold) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (writer_held, writer_hold) = (Arc::clone(&held), Arc::clone(&hold));
    store.submit_with(vec![numbered(0)], move |_| {
        writer_held.wait();
        writer_hold.wait();
    });
    held.wait();
    (1..100).for_each(|number| store.submit_with(vec![numbered(number)], |_| {}));
    hold.wait();
    assert_eq!(store.submit(vec![numbered(100)]).unwrap(), [1]);
    assert!(disk.syncs.load(Ordering::SeqCst) - before <= 3, "101 submits");
    assert_eq!(store.status().sequence, 101);
}

#[test]
fn relaxed_answers_before_the_sync_and_closing_makes_up_for_it() {
    let folder = tempdir().unwrap();
    let (disk, options) = faulty();
    let durability = Durability::Relaxed { window: Duration::from_secs(3600) };
    let store = try_open(folder.path(), &Options { durability, ..options }).unwrap();
    let before = disk.syncs.load(Ordering::SeqCst);
    submit_numbers(&store, 0..10);
    assert_eq!(disk.syncs.load(Ordering::SeqCst), before);
    assert_eq!((store.status().sequence, store.status().durable), (10, 0));
    let status = store.close();
    assert_eq!((disk.syncs.load(Ordering::SeqCst), status.durable), (before + 1, 10));
    assert_eq!(numbers(folder.path()).len(), 10);
}

#[test]
fn relaxed_syncs_when_its_window_is_over() {
    let folder = tempdir().unwrap();
    let durability = Durability::Relaxed { window: Duration::ZERO };
    let store = try_open(folder.path(), &Options { durability, ..options() }).unwrap();
    submit_numbers(&store, 0..10);
    // The second of two rounds starts after the sync of the first.
    submit_numbers(&store, [10]);
    assert!(store.status().durable >= 10);
}

#[test]
fn relaxed_for_ever_waits_for_closing() {
    let folder = tempdir().unwrap();
    let durability = Durability::Relaxed { window: Duration::MAX };
    let store = try_open(folder.path(), &Options { durability, ..options() }).unwrap();
    submit_numbers(&store, 0..3);
    assert_eq!(store.close().durable, 3);
    assert_eq!(numbers(folder.path()), [0, 1, 2]);
}

#[test]
fn a_copy_made_under_load_has_everything_confirmed_before_it_began() {
    let folder = tempdir().unwrap();
    let copies = tempdir().unwrap();
    let options = Options { snapshot_after_bytes: 100_000, journal_file_bytes: 5_000, ..options() };
    let store = try_open(folder.path(), &options).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2u64 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                (thread << 32..)
                    .take_while(|_| !stop.load(Ordering::SeqCst))
                    .for_each(|number| submit_numbers(store, [number]));
            });
        }
        for round in 0..10 {
            while store.status().sequence < (round + 1) * 400 {
                thread::yield_now();
            }
            let confirmed = store.check(Ledger::numbers);
            let copy_of_it = copies.path().join(round.to_string());
            copy(folder.path(), &copy_of_it);
            let copied = open(&copy_of_it).check(Ledger::settled);
            assert!(confirmed.iter().all(|number| copied.counts.get(number) == Some(&1)), "copy {round}");
            assert!(copied.counts.values().all(|count| *count == 1), "no event is duplicated");
        }
        stop.store(true, Ordering::SeqCst);
    });
}
