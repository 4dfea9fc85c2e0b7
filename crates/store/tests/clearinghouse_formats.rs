//! Clearinghouses founded by released versions are opened for ever, with all they knew.
//!
//! `testdata/formats/clearinghouse-v1` is such a directory; see `formats.rs` for what to do when a format changes.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::verdict::{Kind, Reason};
use bruit_engine::{BEHIND_LINES, CheckScratch};
use bruit_store::survey;
use common::clearinghouse::*;
use common::{copy, files, name, options};
use tempfile::tempdir;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/clearinghouse-v1")
}

/// Events of every kind, a snapshot, and five more events.
fn write_sample(directory: &Path) {
    let store = open(directory, &options());
    events_of_every_kind().into_iter().for_each(|event| drop(store.submit(vec![event]).unwrap()));
    store.snapshot().unwrap();
    let tail = [
        claim(Standing::Own, Claim::Report, 10),
        claim(Standing::Pinned, Claim::Report, 11),
        bulk(2, 5),
        bulk(1_000, 12),
        Event::Tick { now: Time(FOUNDED.0 + 2 * Time::DAY), lines: BEHIND_LINES },
    ];
    tail.into_iter().for_each(|event| drop(store.submit(vec![event]).unwrap()));
    drop(store);
    fs::remove_file(directory.join("lock")).unwrap();
}

#[test]
#[ignore = "writes into testdata/"]
fn make_the_sample() {
    fs::create_dir_all(sample()).unwrap();
    files(&sample(), "").into_iter().for_each(|path| fs::remove_file(path).unwrap());
    write_sample(&sample());
}

#[test]
fn the_sample_of_version_1_knows_what_it_knew() {
    let survey = survey(&sample(), &mut ()).unwrap();
    assert_eq!((survey.faults(), survey.realm), (vec![], Some(founding().realm.id().0)));
    let folder = tempdir().unwrap();
    copy(&sample(), folder.path());
    let store = open(folder.path(), &options());
    assert_eq!(store.recovery().replayed_events, 5);
    store.check(|engine| {
        let verdicts = [1, 2, 3, 4, 11].map(|signature| engine.check(&fingerprint(signature), 0));
        let kinds = [Kind::Spam, Kind::Ham, Kind::Ham, Kind::Unknown, Kind::Unknown];
        assert_eq!(verdicts.map(|verdict| verdict.kind), kinds);
        assert_eq!((verdicts[0].reason, verdicts[0].counts.reports), (Reason::OwnReports, 1));
        assert_eq!((verdicts[1].reason, verdicts[1].counts.revocations), (Reason::Revoked, 1));
        assert_eq!([5, 12, 13].map(|signature| recipients(engine, signature)), [9, 1_000, 0]);
        let mut scratch = CheckScratch::default();
        let found = engine.find_text(&features(), &mut scratch).map(|found| found.fingerprint);
        assert_eq!(found, Some(fingerprint(1)));
        let (found, _) = engine.check_shingles(&DIGEST, None, &mut scratch).unwrap();
        assert_eq!(found.record.weight, 3);
        assert_eq!((engine.accounts().len(), engine.now()), (3, Time(FOUNDED.0 + 2 * Time::DAY)));
    });
}

#[test]
fn the_same_events_give_the_bytes_of_the_sample() {
    let folder = tempdir().unwrap();
    write_sample(folder.path());
    let names: Vec<String> = files(folder.path(), "").iter().map(|path| name(path)).collect();
    assert_eq!(names.len(), 3, "realm, journal, snapshot");
    for name in names {
        assert!(fs::read(folder.path().join(&name)).unwrap() == fs::read(sample().join(&name)).unwrap(), "{name}");
    }
}
