//! If a clearinghouse is killed at any point while its memory budget changes, it starts with either the old or the new
//! budget.

mod common;

use std::fs;

use bruit_engine::budget::{BUDGET_MIN, Plan};
use bruit_engine::{Engine, Outcome, Refusal};
use bruit_store::{Clearinghouse, Founding, Options};
use common::clearinghouse::*;
use common::{copy, files, options};
use tempfile::tempdir;

const LARGER: u64 = 4 * BUDGET_MIN;

fn sizes(engine: &Engine) -> (u64, u64) {
    (engine.plan().bytes, engine.plan().sizes.bulk_lines)
}

#[test]
fn a_journal_cut_anywhere_in_the_growth_gives_the_state_before_or_after() {
    let folder = tempdir().unwrap();
    let store = open(folder.path(), &options());
    events_of_every_kind().into_iter().for_each(|event| drop(store.submit(vec![event]).unwrap()));
    drop(store);
    let journal = files(folder.path(), "journal-").pop().unwrap();
    let start = fs::metadata(&journal).unwrap().len();
    let before = state(folder.path());
    let store = open(folder.path(), &options());
    assert_eq!(store.resize(LARGER).unwrap(), Outcome::Done);
    assert_eq!(recipients_of(&store), 7);
    drop(store);
    let end = fs::metadata(&journal).unwrap().len();
    let after = state(folder.path());
    assert!(before != after && end > start);
    for length in start..=end {
        let cut = tempdir().unwrap();
        copy(folder.path(), cut.path());
        let copied = files(cut.path(), "journal-").pop().unwrap();
        fs::OpenOptions::new().write(true).open(copied).unwrap().set_len(length).unwrap();
        let expected = if length == end { &after } else { &before };
        assert!(state(cut.path()) == *expected, "cut at {length} of {start} to {end}");
        // The clearinghouse opens, and can still grow.
        if length == start + 1 {
            let store = open(cut.path(), &options());
            assert_eq!(store.check(sizes).0, BUDGET_MIN);
            assert_eq!(store.resize(LARGER).unwrap(), Outcome::Done);
            drop(store);
            assert!(state(cut.path()) == after);
        }
    }
}

fn recipients_of(store: &Clearinghouse) -> u32 {
    store.check(|engine| recipients(engine, 5))
}

#[test]
fn snapshots_before_and_after_the_growth_lead_to_the_same_state() {
    let (folder, replayed) = (tempdir().unwrap(), tempdir().unwrap());
    for (directory, with_snapshots) in [(folder.path(), true), (replayed.path(), false)] {
        let store = open(directory, &options());
        let snapshot = || with_snapshots.then(|| store.snapshot().unwrap());
        events_of_every_kind().into_iter().for_each(|event| drop(store.submit(vec![event]).unwrap()));
        snapshot();
        assert_eq!(store.resize(LARGER).unwrap(), Outcome::Done);
        store.submit(vec![bulk(1_000, 12)]).unwrap();
        drop(store);
    }
    let of_old_snapshot = state(folder.path());
    assert!(of_old_snapshot == state(replayed.path()));
    let store = open(folder.path(), &options());
    store.snapshot().unwrap();
    drop(store);
    assert!(state(folder.path()) == of_old_snapshot, "the snapshot after the growth has the same state");
    let (_, engine, recovery) = Clearinghouse::peek(folder.path(), &mut |_| {}).unwrap().unwrap();
    assert_eq!((recovery.replayed_events, engine.plan().bytes), (0, LARGER));
}

#[test]
fn growth_waits_for_a_snapshot_under_way() {
    let folder = tempdir().unwrap();
    // A snapshot begins after every write.
    let frequent_snapshots = Options { snapshot_after_bytes: 1, ..options() };
    let store = open(folder.path(), &frequent_snapshots);
    store.submit(vec![bulk(1, 5)]).unwrap();
    assert_eq!(store.resize(LARGER).unwrap(), Outcome::Done);
    assert_eq!(store.check(sizes).0, LARGER);
    drop(store);
    assert_eq!(
        open(folder.path(), &frequent_snapshots).check(|engine| (sizes(engine).0, recipients(engine, 5))),
        (LARGER, 1)
    );
}

#[test]
fn a_smaller_budget_is_refused_and_not_in_the_journal() {
    let folder = tempdir().unwrap();
    let store = open(folder.path(), &options());
    store.resize(LARGER).unwrap();
    let sequence = store.status().sequence;
    let refused = store.resize(BUDGET_MIN).unwrap();
    assert!(matches!(refused, Outcome::Refused(Refusal::DoesNotShrink { from: LARGER, to: BUDGET_MIN, .. })));
    assert_eq!(store.status().sequence, sequence);
}

/// A server may have more or less memory than the server that founded its realm.
#[test]
fn a_server_of_a_realm_has_books_of_its_own_size() {
    let of_realm = Founding { budget_bytes: LARGER, ..founding() };
    let own = Plan::for_budget(LARGER).unwrap();
    let folder = tempdir().unwrap();
    let store = Clearinghouse::open_or_found(folder.path(), &options(), || of_realm, &mut |_| {}).unwrap();
    assert!(store.check(|engine| engine.would_resize(LARGER)), "the initial sizes are the realm's");
    store.resize(LARGER).unwrap();
    assert_eq!(store.check(sizes), (LARGER, founding().realm.sizes().bulk_lines * 4));
    assert!(store.check(|engine| !engine.would_resize(LARGER) && engine.plan().sizes.fit(&own.sizes)));
    let large = Founding::new(KEY, LARGER, founding().policy, FOUNDED).unwrap();
    let (id, smaller) = (large.realm.id(), Founding { budget_bytes: BUDGET_MIN, ..large });
    let folder = tempdir().unwrap();
    let store = Clearinghouse::open_or_found(folder.path(), &options(), || smaller, &mut |_| {}).unwrap();
    assert_eq!(store.check(|engine| *engine.plan()), Plan::for_budget(BUDGET_MIN).unwrap());
    assert_eq!(store.check(|engine| engine.realm().id()), id);
    assert!(store.check(|engine| !engine.would_resize(BUDGET_MIN)));
}
