//! Directories written by released versions can still be read.
//!
//! `testdata/formats/store-v1` is such a directory. To create one for a new version of the format, increase the version
//! in [`sample`], run the ignored test in this file, and keep the old directories.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use bruit_store::{Options, survey};
use common::*;
use tempfile::tempdir;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/store-v1")
}

/// Writes a store with two snapshots (at 8 and 16), three journal files, records of several events, and a torn tail of
/// five bytes.
fn write_sample(directory: &Path) {
    let store = try_open(directory, &Options { journal_file_bytes: 250, ..options() }).unwrap();
    for (round, padding) in [(0, 0), (1, 3), (2, 7)] {
        let submits =
            (0..4).map(|submit| (0..2).map(move |i| NumberEvent { number: round * 8 + submit * 2 + i, padding }));
        submits.for_each(|events| drop(store.submit(events.collect()).unwrap()));
        if round < 2 {
            store.snapshot().unwrap();
        }
    }
    drop(store);
    fs::remove_file(directory.join("lock")).unwrap();
    change(&files(directory, "journal-").pop().unwrap(), |bytes| bytes.extend(b"\xB5rec\x20"));
}

#[test]
#[ignore = "writes into testdata/"]
fn make_the_sample() {
    fs::create_dir_all(sample()).unwrap();
    files(&sample(), "journal-").into_iter().chain(files(&sample(), "snapshot-")).for_each(|path| {
        fs::remove_file(path).unwrap();
    });
    write_sample(&sample());
}

#[test]
fn the_sample_of_version_1_holds_what_was_put_in() {
    let survey = survey(&sample(), &mut ()).unwrap();
    assert_eq!((survey.faults(), survey.realm, survey.sequence()), (vec![], Some(REALM), 24));
    assert_eq!(survey.snapshots.iter().map(|snapshot| snapshot.sequence).collect::<Vec<_>>(), [8, 16]);
    assert_eq!(survey.journal_files.last().unwrap().torn_bytes, 5);

    let folder = tempdir().unwrap();
    copy(&sample(), folder.path());
    let store = open(folder.path());
    let recovery = store.recovery();
    assert_eq!((recovery.snapshot, recovery.replayed_events, recovery.torn_bytes), (Some(16), 8, 5));
    assert_eq!(store.check(Ledger::numbers), (0..24).collect::<Vec<_>>());
    drop(store);

    // The result is the same without the newer snapshot.
    fs::remove_file(files(folder.path(), "snapshot-").pop().unwrap()).unwrap();
    assert_eq!(numbers(folder.path()).len(), 24);
}

#[test]
fn the_same_events_give_the_bytes_of_the_sample() {
    let folder = tempdir().unwrap();
    write_sample(folder.path());
    let names: Vec<String> = files(folder.path(), "").iter().map(|path| name(path)).collect();
    assert!(names.len() >= 4);
    for name in names {
        assert!(fs::read(folder.path().join(&name)).unwrap() == fs::read(sample().join(&name)).unwrap(), "{name}");
    }
}
