//! Well-meant changes that an operator may make to a directory.

mod common;

use std::fs;
use std::path::Path;

use bruit_engine::budget::BUDGET_MIN;
use bruit_engine::trust::Policy;
use bruit_store::survey::FileFault;
use bruit_store::{Advice, Clearinghouse, Founding, LockError, OpenError, Options, RepairError, Store, repair, survey};
use common::*;
use tempfile::{TempDir, tempdir};

/// Creates a store with the events 1 to 60 in journal files of a few records each, and snapshots at 20 and 40.
fn with_snapshots() -> TempDir {
    let folder = tempdir().unwrap();
    let store = try_open(folder.path(), &Options { journal_file_bytes: 500, ..options() }).unwrap();
    for round in 0..3 {
        submit_numbers(&store, round * 20..(round + 1) * 20);
        if round < 2 {
            store.snapshot().unwrap();
        }
    }
    folder
}

fn advices(directory: &Path) -> Vec<Advice> {
    survey(directory, &mut ()).unwrap().faults().into_iter().map(|finding| finding.advice).collect()
}

#[test]
fn damage_covered_by_a_snapshot_is_harmless_and_cut_only_by_force() {
    let folder = with_snapshots();
    let held = files(folder.path(), "journal-")[1].clone();
    let place = boundaries(&held)[1];
    change(&held, |bytes| bytes[place + 35] ^= 1);
    let found = survey(folder.path(), &mut ()).unwrap();
    let [fault] = &found.faults()[..] else { panic!("{:?}", found.faults()) };
    assert_eq!(fault.advice, Advice::Harmless("snapshot-00000000000000000040.bruit".into()));
    assert!(found.opens());
    assert!(found.warnings()[0].contains("would be useless"), "{:?}", found.warnings());

    match repair(folder.path(), None, place as u64, false) {
        Err(RepairError::Needless { first: 41, last: 60, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(numbers(folder.path()).len(), 60);
    let repaired = repair(folder.path(), None, place as u64, true).unwrap();
    assert_eq!((repaired.lost, repaired.is_all), (Some((41, 60)), true));
}

#[test]
fn repair_cuts_only_damage_that_no_snapshot_covers() {
    let folder = with_snapshots();
    let journal_files = files(folder.path(), "journal-");
    let last = journal_files.last().unwrap();
    let place = boundaries(last)[0];
    for journal_file in [&journal_files[1], last] {
        change(journal_file, |bytes| bytes[place + 35] ^= 1);
    }
    assert_eq!(repair(folder.path(), None, place as u64, false).unwrap().journal_file, name(last));
}

#[test]
fn a_repair_at_the_end_of_the_journal_leaves_no_empty_file() {
    let folder = with_snapshots();
    let last = files(folder.path(), "journal-").pop().unwrap();
    let end = last.metadata().unwrap().len();
    let repaired = repair(folder.path(), Some(&name(&last)), end, false).unwrap();
    assert_eq!((repaired.cut_files, repaired.lost), (vec![], None));
    assert_eq!(numbers(folder.path()).len(), 60);
}

#[test]
fn a_truncated_header_is_not_reported_as_lossless() {
    let folder = with_snapshots();
    let last = files(folder.path(), "journal-").pop().unwrap();
    change(&last, |bytes| bytes.truncate(20));
    assert!(!repair(folder.path(), None, 0, false).unwrap().is_all);
}

#[test]
fn a_foreign_snapshot_does_not_affect_other_files() {
    let other = tempdir().unwrap();
    let make = || Ok(Ledger { realm: [1; 16], ..Ledger::new() });
    let store = Store::open(other.path(), &options(), make, &mut |_| {}).unwrap();
    submit_numbers(&store, 0..5);
    store.snapshot().unwrap();
    drop(store);
    let folder = with_snapshots();
    let foreign = folder.path().join("snapshot-00000000000000009999.bruit");
    fs::copy(&files(other.path(), "snapshot-")[0], &foreign).unwrap();
    let found = survey(folder.path(), &mut ()).unwrap();
    assert_eq!(found.snapshots.last().unwrap().fault, Some(FileFault::OtherRealm));
    assert_eq!(advices(folder.path()), [Advice::MoveAway]);
    let error = try_open(folder.path(), &options()).err().unwrap().to_string();
    assert!(error.contains("snapshot-00000000000000009999.bruit belongs to a different realm"), "{error}");
    assert!(error.contains("move it to another directory and keep it"), "{error}");
    fs::rename(foreign, other.path().join("kept")).unwrap();
    assert_eq!(numbers(folder.path()).len(), 60);
}

/// The test replaces a snapshot with a directory, to cause an I/O error. Not even root can read a directory like a
/// file.
#[test]
fn an_unreadable_snapshot_is_not_damage_and_causes_no_fallback() {
    let folder = with_snapshots();
    let newest = files(folder.path(), "snapshot-").pop().unwrap();
    fs::remove_file(&newest).unwrap();
    fs::create_dir(&newest).unwrap();
    match try_open(folder.path(), &options()).err() {
        Some(OpenError::Io { path, .. }) => assert_eq!(path, newest),
        other => panic!("{other:?}"),
    }
    assert_eq!(advices(folder.path()), [Advice::MakeReadable]);
}

#[test]
fn an_unreadable_founding_is_an_io_error() {
    let folder = tempdir().unwrap();
    fs::create_dir(folder.path().join("realm.bruit")).unwrap();
    let error = clearinghouse::try_open(folder.path(), &options()).err();
    assert!(matches!(error, Some(OpenError::Io { .. })), "{error:?}");
}

#[test]
fn a_journal_that_ends_before_the_snapshot_is_reported() {
    let folder = with_snapshots();
    for journal_file in files(folder.path(), "journal-").iter().skip(1) {
        fs::remove_file(journal_file).unwrap();
    }
    let found = survey(folder.path(), &mut ()).unwrap();
    let end = found.journal_files[0].next - 1;
    assert!(
        found.warnings()[0].starts_with(&format!("the journal ends with event {end}, before")),
        "{:?}",
        found.warnings()
    );
    let store = open(folder.path());
    assert_eq!((store.recovery().journal_ends, store.recovery().sequence), (Some(end), 40));
    drop(store);
    assert_eq!(open(folder.path()).recovery().journal_ends, None, "the journal continues after the snapshot");
}

#[test]
fn opening_removes_only_what_the_store_left_unfinished() {
    let folder = with_snapshots();
    let (ours, strange) = (folder.path().join(".tmp-realm.bruit"), folder.path().join(".tmp-thesis"));
    let directory = folder.path().join(".tmp-cut-x");
    fs::write(&ours, "half").unwrap();
    fs::write(&strange, "whole").unwrap();
    fs::create_dir(&directory).unwrap();
    open(folder.path());
    assert!(!ours.exists() && strange.exists() && directory.exists());
}

#[test]
fn no_store_is_founded_among_foreign_files() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("letter.txt"), "dear").unwrap();
    let error = clearinghouse::try_open(folder.path(), &options()).err();
    assert!(matches!(error, Some(OpenError::NotEmpty { .. })), "{error:?}");
    assert_eq!(files(folder.path(), "").len(), 1, "a refused opening leaves no lock file");
    fs::rename(folder.path().join("letter.txt"), folder.path().join("lost+found")).unwrap();
    clearinghouse::open(folder.path(), &options());
}

#[test]
fn a_store_is_founded_among_the_files_that_the_program_keeps_beside_it() {
    for beside in ["node.key", "fuzzy.key", "replica", "node.key.4711.new"] {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join(beside), "kept").unwrap();
        fs::create_dir(folder.path().join("shelf")).unwrap();
        clearinghouse::open(folder.path(), &options());
        assert_eq!(fs::read_to_string(folder.path().join(beside)).unwrap(), "kept");
        assert_eq!(survey(folder.path(), &mut ()).unwrap().others, Vec::<String>::new());
    }
}

/// A clearinghouse with a journal and a snapshot, and its key files next to it.
fn founded() -> TempDir {
    let folder = tempdir().unwrap();
    let store = clearinghouse::open(folder.path(), &options());
    store.submit(vec![clearinghouse::bulk(2, 5)]).unwrap();
    store.snapshot().unwrap();
    store.submit(vec![clearinghouse::bulk(2, 5)]).unwrap();
    drop(store);
    fs::write(folder.path().join("fuzzy.key"), "kept").unwrap();
    folder
}

#[test]
fn a_missing_founding_is_named_and_works_again_once_restored() {
    let folder = founded();
    let (file, backup) = (folder.path().join("realm.bruit"), tempdir().unwrap());
    fs::rename(&file, backup.path().join("realm.bruit")).unwrap();
    let before = files(folder.path(), "");
    let error = clearinghouse::try_open(folder.path(), &options()).err().unwrap();
    assert!(matches!(error, OpenError::FoundingMissing { .. }), "{error:?}");
    let error = error.to_string();
    for part in ["realm.bruit is missing", "backup", "bruit keys realm", "nothing was changed"] {
        assert!(error.contains(part), "{part:?} in {error}");
    }
    assert!(!error.contains("fuzzy.key"), "{error}");
    assert_eq!(files(folder.path(), ""), before, "nothing was changed");
    fs::copy(backup.path().join("realm.bruit"), &file).unwrap();
    let store = clearinghouse::open(folder.path(), &options());
    assert_eq!(store.check(|engine| clearinghouse::recipients(engine, 5)), 4);
}

#[test]
fn a_wrong_founding_does_not_blame_the_other_files() {
    let (folder, other) = (founded(), tempdir().unwrap());
    let foreign = || Founding::new([1; 16], BUDGET_MIN, Policy::default(), clearinghouse::FOUNDED).unwrap();
    drop(Clearinghouse::open_or_found(other.path(), &options(), foreign, &mut |_| {}).unwrap());
    let file = folder.path().join("realm.bruit");
    let own = fs::read(&file).unwrap();
    fs::copy(other.path().join("realm.bruit"), &file).unwrap();

    let error = clearinghouse::try_open(folder.path(), &options()).err().unwrap();
    assert!(matches!(error, OpenError::WrongFounding { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("restore the realm.bruit of this store") && !error.contains("move"), "{error}");
    assert!(advices(folder.path()).iter().all(|advice| *advice == Advice::RestoreFounding));
    assert!(survey(folder.path(), &mut ()).unwrap().has_wrong_founding());

    fs::write(&file, own).unwrap();
    let store = clearinghouse::open(folder.path(), &options());
    assert_eq!(store.check(|engine| clearinghouse::recipients(engine, 5)), 4, "no event was lost");
}

#[test]
fn a_store_whose_lock_was_removed_is_still_held() {
    let folder = with_snapshots();
    let store = open(folder.path());
    fs::remove_file(folder.path().join("lock")).unwrap();
    let error = try_open(folder.path(), &options()).err();
    assert!(matches!(error, Some(OpenError::Lock(LockError::Held { .. }))), "{error:?}");
    drop(store);
}

#[test]
fn a_directory_without_a_store_is_not_repaired() {
    let folder = tempdir().unwrap();
    assert!(matches!(repair(folder.path(), None, 0, false), Err(RepairError::NoStore { .. })));
    assert!(files(folder.path(), "").is_empty());
}

#[test]
fn the_realm_is_that_of_the_founding_and_not_of_the_first_file() {
    let (other, folder) = (with_snapshots(), tempdir().unwrap());
    let store = clearinghouse::open(folder.path(), &options());
    store.submit(clearinghouse::events_of_every_kind()).unwrap();
    store.snapshot().unwrap();
    drop(store);
    let oldest = "snapshot-00000000000000000000.bruit";
    fs::copy(&files(other.path(), "snapshot-")[0], folder.path().join(oldest)).unwrap();
    let found = survey(folder.path(), &mut ()).unwrap();
    assert_eq!(found.realm, Some(clearinghouse::founding().realm.id().0));
    let faults = found.faults();
    assert_eq!(faults.iter().map(|fault| fault.file.as_deref()).collect::<Vec<_>>(), [Some(oldest)]);
    assert!(found.opens(), "the file is not read");
}
