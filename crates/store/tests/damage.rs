//! Damage to data that was safe on disk. Recovery stops and names the place, a repair makes the store usable again, and
//! a survey changes nothing.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bruit_store::{Advice, OpenError, Options, RepairError, repair, survey};
use common::*;
use tempfile::{TempDir, tempdir};

/// Creates a store with the numbers 0 to 29, each in its own record, in at least three journal files and without a
/// snapshot.
fn many_journal_files() -> TempDir {
    let folder = tempdir().unwrap();
    submit_numbers(&try_open(folder.path(), &Options { journal_file_bytes: 500, ..options() }).unwrap(), 0..30);
    assert!(files(folder.path(), "journal-").len() >= 3);
    folder
}

/// Returns the file and offset of the damage at which opening stops.
fn damage(directory: &Path) -> (String, u64) {
    match try_open(directory, &options()).err() {
        Some(OpenError::Damaged { file, offset, .. }) => (file, offset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_in_the_middle_is_located_and_repair_removes_everything_after_it() {
    let folder = many_journal_files();
    let journal_files = files(folder.path(), "journal-");
    let places = boundaries(&journal_files[1]);
    change(&journal_files[1], |bytes| bytes[places[2] + 35] ^= 4);
    let (file, offset) = damage(folder.path());
    assert_eq!((&file, offset), (&name(&journal_files[1]), places[2] as u64));
    assert_eq!(survey(folder.path(), &mut ()).unwrap().faults().len(), 1);

    let before: u64 = journal_files.iter().map(|path| path.metadata().unwrap().len()).sum();
    let repaired = repair(folder.path(), None, offset, false).unwrap();
    let first_file_events = boundaries(&journal_files[0]).len() as u64 - 1;
    assert_eq!(repaired.kept_up_to, first_file_events + 2);
    assert_eq!((repaired.cut_up_to, repaired.lost), (Some(30), Some((first_file_events + 3, 30))));
    assert_eq!(repaired.cut_files.len(), journal_files.len() - 1, "the end of one journal file, and all later files");
    let kept: u64 = files(folder.path(), "journal-").iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!((kept + repaired.cut_bytes, kept), (before, journal_files[0].metadata().unwrap().len() + offset));

    let store = open(folder.path());
    assert_eq!(store.check(Ledger::numbers), (0..first_file_events + 2).collect::<Vec<_>>());
    submit_numbers(&store, [100]);
    drop(store);
    assert!(survey(folder.path(), &mut ()).unwrap().faults().is_empty());
    assert!(numbers(folder.path()).contains(&100));
}

#[test]
fn damage_before_a_good_record_in_the_last_file_is_not_a_torn_tail() {
    let folder = many_journal_files();
    let last = files(folder.path(), "journal-").pop().unwrap();
    let places = boundaries(&last);
    for place in places[0]..places[1] {
        change(&last, |bytes| bytes[place] ^= 0x10);
        assert_eq!(damage(folder.path()), (name(&last), places[0] as u64), "byte {place}");
        change(&last, |bytes| bytes[place] ^= 0x10);
    }
    assert_eq!(numbers(folder.path()).len(), 30);
}

#[test]
fn a_bad_tail_before_a_later_journal_file_is_damage() {
    let folder = many_journal_files();
    let journal_files = files(folder.path(), "journal-");
    let places = boundaries(&journal_files[0]);
    change(&journal_files[0], |bytes| bytes.truncate(places[places.len() - 1] - 1));
    assert_eq!(damage(folder.path()), (name(&journal_files[0]), places[places.len() - 2] as u64));
}

/// Submits the numbers 0 to 9, takes a snapshot, submits 10 to 19, and takes another snapshot. Returns the directory,
/// its one journal file, and the record boundaries.
fn two_snapshots() -> (TempDir, PathBuf, Vec<usize>) {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    for round in 0..2 {
        submit_numbers(&store, round * 10..(round + 1) * 10);
        store.snapshot().unwrap();
    }
    drop(store);
    let journal_file = files(folder.path(), "journal-").pop().unwrap();
    let places = boundaries(&journal_file);
    (folder, journal_file, places)
}

#[test]
fn a_bad_tail_that_only_a_damaged_snapshot_holds_is_damage() {
    let (folder, journal_file, places) = two_snapshots();
    change(&journal_file, |bytes| bytes.truncate(places[20] - 1));
    change(&files(folder.path(), "snapshot-")[1], |bytes| bytes[60] ^= 1);
    assert_eq!(damage(folder.path()), (name(&journal_file), places[19] as u64));
    let repaired = repair(folder.path(), None, places[19] as u64, false).unwrap();
    assert_eq!((repaired.kept_up_to, repaired.lost), (19, None), "nothing after the cut could be read");
}

/// `cp` reads the journal while a record is half written, and a snapshot soon after that.
#[test]
fn a_bad_tail_that_the_snapshot_holds_is_left_out() {
    let (folder, journal_file, places) = two_snapshots();
    let whole = fs::read(&journal_file).unwrap();
    for length in [places[20] - 1, places[19] + 1, places[12] + 5, places[4] + 40] {
        let copied = tempdir().unwrap();
        copy(folder.path(), copied.path());
        fs::write(copied.path().join(name(&journal_file)), &whole[..length]).unwrap();
        assert!(survey(copied.path(), &mut ()).unwrap().faults().is_empty(), "cut at {length}");
        let store = open(copied.path());
        assert_eq!(store.check(Ledger::numbers), (0..20).collect::<Vec<_>>());
        submit_numbers(&store, [20]);
        drop(store);
        assert_eq!(numbers(copied.path()), (0..21).collect::<Vec<_>>(), "the journal continues after the snapshot");
        assert!(survey(copied.path(), &mut ()).unwrap().faults().is_empty());
    }
}

#[test]
fn a_bad_record_in_the_snapshot_is_damage_if_later_records_are_not() {
    let (folder, journal_file, places) = two_snapshots();
    let copied = tempdir().unwrap();
    copy(folder.path(), copied.path());
    change(&copied.path().join(name(&journal_file)), |bytes| bytes[places[15] + 35] ^= 1);
    assert_eq!(numbers(copied.path()).len(), 20, "the snapshot also contains all later events");
    submit_numbers(&open(folder.path()), [20]);
    change(&journal_file, |bytes| bytes[places[15] + 35] ^= 1);
    assert_eq!(damage(folder.path()), (name(&journal_file), places[15] as u64));
    assert_eq!(survey(folder.path(), &mut ()).unwrap().faults().len(), 1);
}

#[test]
fn a_missing_journal_file_is_reported_by_its_sequences() {
    let folder = many_journal_files();
    let journal_files = files(folder.path(), "journal-");
    let (second, third) = (survey(folder.path(), &mut ()).unwrap().journal_files[1].clone(), name(&journal_files[2]));
    fs::remove_file(&journal_files[1]).unwrap();
    match try_open(folder.path(), &options()).err() {
        Some(OpenError::Missing { first, last, file, .. }) => {
            assert_eq!((first, last, file), (second.first, second.next - 1, third.clone()));
        }
        other => panic!("{other:?}"),
    }
    let survey = survey(folder.path(), &mut ()).unwrap();
    let [fault] = &survey.faults()[..] else { panic!("{:?}", survey.faults()) };
    assert_eq!(fault.text, format!("events {} to {} are missing", second.first, second.next - 1));
    let without = Advice::GoOnWithout { file: third.clone(), last: second.first - 1 };
    assert_eq!((&fault.advice, survey.opens()), (&without, false));
    let repaired = repair(folder.path(), Some(&third), 0, false).unwrap();
    assert_eq!(repaired.lost.map(|(_, last)| last), Some(30));
    assert_eq!(numbers(folder.path()).len() as u64, second.first - 1);
}

#[test]
fn a_damaged_header_is_damage_at_offset_zero() {
    let folder = many_journal_files();
    let journal_file = files(folder.path(), "journal-")[1].clone();
    change(&journal_file, |bytes| bytes[20] ^= 1);
    assert_eq!(damage(folder.path()), (name(&journal_file), 0));
    let repaired = repair(folder.path(), None, 0, false).unwrap();
    assert_eq!((repaired.lost.map(|(_, last)| last), repaired.is_all), (Some(30), true));
    assert!(!journal_file.exists());
    open(folder.path());
}

#[test]
fn a_journal_file_of_a_later_version_is_reported_as_such() {
    let folder = many_journal_files();
    let journal_file = files(folder.path(), "journal-")[1].clone();
    change(&journal_file, |bytes| bytes[8] = 2);
    assert_eq!(damage(folder.path()), (name(&journal_file), 0), "one changed bit is damage");
    change(&journal_file, |bytes| {
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..40]);
        bytes[40..48].copy_from_slice(&sum.to_le_bytes());
    });
    let error = try_open(folder.path(), &options()).err();
    assert!(matches!(error, Some(OpenError::Version { version: 2, .. })), "{error:?}");
}

#[test]
fn a_damaged_snapshot_falls_back_to_the_one_before_and_says_so() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    for round in 0..2 {
        submit_numbers(&store, round * 40..(round + 1) * 40);
        store.snapshot().unwrap();
    }
    submit_numbers(&store, 80..83);
    let expected = store.check(Ledger::settled);
    drop(store);
    let newest = files(folder.path(), "snapshot-").pop().unwrap();
    let length = newest.metadata().unwrap().len() as usize;
    for place in (0..length).step_by(37) {
        let copied = tempdir().unwrap();
        copy(folder.path(), copied.path());
        change(&copied.path().join(name(&newest)), |bytes| bytes[place] ^= 1);
        let store = open(copied.path());
        let recovery = store.recovery();
        assert_eq!((recovery.snapshot, recovery.replayed_events), (Some(40), 43), "byte {place}");
        assert_eq!(recovery.damaged[0].file, name(&newest));
        assert!(recovery.to_string().contains("used the previous snapshot instead"), "{recovery}");
        assert_eq!(store.check(Ledger::settled), expected);
        // Later snapshots replace the damaged one. The intact one stays until there are two later ones.
        submit_numbers(&store, [90]);
        store.snapshot().unwrap();
        assert_eq!(store.status().snapshots, [40, 84]);
        assert_eq!(files(copied.path(), "snapshot-").len(), 2);
    }
}

#[test]
fn events_only_in_a_damaged_snapshot_are_reported_missing() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    submit_numbers(&store, 0..40);
    store.snapshot().unwrap();
    drop(store);
    let journal_file = files(folder.path(), "journal-").pop().unwrap();
    let places = boundaries(&journal_file);
    change(&journal_file, |bytes| bytes.truncate(places[30]));
    assert_eq!(numbers(folder.path()).len(), 40, "the snapshot contains all events");
    fs::remove_file(files(folder.path(), "journal-").pop().unwrap()).unwrap();
    change(&files(folder.path(), "snapshot-")[0], |bytes| bytes[60] ^= 1);
    match try_open(folder.path(), &options()).err() {
        Some(error @ OpenError::Missing { .. }) => {
            let numbered = error.to_string();
            assert!(numbered.contains("(damaged: snapshot-00000000000000000040.bruit)"), "{numbered}");
            assert!(numbered.ends_with("loses everything after event 30"), "{numbered}");
            let OpenError::Missing { first, last, file, .. } = error else { unreachable!() };
            assert_eq!((first, last, file), (31, 40, "snapshot-00000000000000000040.bruit".into()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn repair_cuts_at_record_boundaries_only_and_not_under_a_running_store() {
    let folder = many_journal_files();
    let journal_file = files(folder.path(), "journal-")[0].clone();
    let places = boundaries(&journal_file);
    match repair(folder.path(), Some(&name(&journal_file)), places[1] as u64 + 1, false) {
        Err(RepairError::NoBoundary { before, .. }) => assert_eq!(before, places[1] as u64),
        other => panic!("{other:?}"),
    }
    assert!(matches!(repair(folder.path(), None, 48, false), Err(RepairError::NothingDamaged)));
    assert!(matches!(repair(folder.path(), Some("nothing"), 48, false), Err(RepairError::NoSuchJournalFile { .. })));
    let store = open(folder.path());
    assert!(matches!(repair(folder.path(), Some(&name(&journal_file)), 48, false), Err(RepairError::Lock(_))));
    assert_eq!(store.check(Ledger::numbers).len(), 30);
}

#[test]
fn a_survey_reports_the_contents_and_changes_nothing() {
    let folder = many_journal_files();
    let store = try_open(folder.path(), &Options { journal_file_bytes: 500, ..options() }).unwrap();
    store.snapshot().unwrap();
    submit_numbers(&store, 30..40);
    drop(store);
    change(&files(folder.path(), "journal-").pop().unwrap(), |bytes| bytes.extend([7; 10]));
    fs::write(folder.path().join(".tmp-realm.bruit"), "half").unwrap();
    fs::write(folder.path().join("notes"), "mine").unwrap();
    let state = || -> Vec<(String, Vec<u8>, SystemTime)> {
        let paths = files(folder.path(), "");
        let one = |path: &PathBuf| (name(path), fs::read(path).unwrap(), path.metadata().unwrap().modified().unwrap());
        paths.iter().map(one).collect()
    };
    let before = (state(), folder.path().metadata().unwrap().modified().unwrap());
    let survey = survey(folder.path(), &mut ()).unwrap();
    assert!(before == (state(), folder.path().metadata().unwrap().modified().unwrap()));
    assert_eq!((survey.realm, survey.faults(), survey.sequence()), (Some(REALM), vec![], 40));
    assert_eq!(survey.journal_files.iter().map(|journal_file| journal_file.events()).sum::<u64>(), 40);
    assert_eq!(survey.journal_files.last().unwrap().torn_bytes, 10);
    assert_eq!((survey.event_sizes[4], survey.event_sizes.iter().sum::<u64>()), (40, 40), "8 bytes each");
    assert_eq!((survey.snapshots[0].sequence, survey.snapshots[0].state_bytes), (30, 32 + 30 * 16));
    assert_eq!((survey.temporary, survey.others), (vec![".tmp-realm.bruit".to_owned()], vec!["notes".to_owned()]));
}
