//! Clearinghouses founded by released versions can still be opened, with their complete state.
//!
//! `testdata/formats/clearinghouse-v1` to `-v7` are such directories; `formats.rs` explains what to do when a format
//! changes. The realm in `clearinghouse-v1` has a wide key, and keeps it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use bruit_engine::accounts::{Protocol, Registration};
use bruit_engine::budget::{BUDGET_MIN, Plan};
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::verdict::{Kind, Reason};
use bruit_engine::{BEHIND_LINES, CheckScratch, Engine, Outcome};
use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_store::{Founding, survey};
use common::clearinghouse::*;
use common::{copy, files, name, options};
use tempfile::tempdir;

/// The sample that this program would write.
const NEWEST: &str = "clearinghouse-v7";

fn sample(version: u32) -> PathBuf {
    named(&format!("clearinghouse-v{version}"))
}

fn named(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(name)
}

/// Writes events of every kind, two budget increases, a snapshot, and five more events.
fn write_sample(directory: &Path) {
    let store = open(directory, &options());
    events_of_every_kind().into_iter().for_each(|event| drop(store.submit(vec![event]).unwrap()));
    assert_eq!(store.resize(2 * BUDGET_MIN).unwrap(), Outcome::Done);
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
    let newest = named(NEWEST);
    fs::create_dir_all(&newest).unwrap();
    files(&newest, "").into_iter().for_each(|path| fs::remove_file(path).unwrap());
    write_sample(&newest);
}

#[test]
fn the_sample_of_version_1_knows_what_it_knew_under_a_wide_key() {
    check_sample(1, &FingerprintKey::new(KEY));
}

#[test]
fn the_sample_of_version_2_knows_what_it_knew_under_a_narrow_key() {
    check_sample(2, &FingerprintKey::narrow(KEY));
}

#[test]
fn the_sample_of_version_3_knows_what_it_knew_before_it_grew() {
    check_sample(3, &FingerprintKey::narrow(KEY));
    let folder = tempdir().unwrap();
    copy(&sample(3), folder.path());
    let plan = open(folder.path(), &options()).check(|engine| *engine.plan());
    let founded = Plan::for_budget(BUDGET_MIN).unwrap();
    assert_eq!((plan.bytes, plan.sizes.bulk_lines), (2 * BUDGET_MIN, 2 * founded.sizes.bulk_lines));
}

#[test]
fn the_sample_of_version_4_knows_who_made_its_accounts() {
    check_sample(4, &FingerprintKey::narrow(KEY));
    for (version, expected) in [(3, [Registration::Legacy; 2]), (4, [Registration::Legacy, Registration::Operator])] {
        let folder = tempdir().unwrap();
        copy(&sample(version), folder.path());
        let store = open(folder.path(), &options());
        let made = store.check(|engine| {
            let accounts = engine.accounts();
            let found = [(Protocol::Razor, &b"alice"[..]), (Protocol::Fuzzy, b"carol")];
            found.map(|(protocol, name)| accounts.get(protocol, name).unwrap().registration)
        });
        assert_eq!(made, expected, "version {version}");
    }
}

#[test]
fn the_sample_of_version_5_knows_what_it_knew() {
    check_sample(5, &FingerprintKey::narrow(KEY));
}

#[test]
fn the_sample_of_version_6_knows_what_it_knew() {
    check_sample(6, &FingerprintKey::narrow(KEY));
}

#[test]
fn the_sample_of_version_7_knows_which_claims_were_made() {
    check_sample(7, &FingerprintKey::narrow(KEY));
    for (version, expected) in [(6, 0), (7, 1)] {
        let folder = tempdir().unwrap();
        copy(&sample(version), folder.path());
        let store = open(folder.path(), &options());
        assert_eq!(store.check(|engine| engine.claim_ids().len()), expected, "version {version}");
    }
}

fn check_sample(version: u32, key: &FingerprintKey) {
    let founded = Founding::read(&sample(version)).unwrap().unwrap();
    let Founding { founded: when, budget_bytes, policy, .. } = founding();
    assert_eq!((founded.founded, founded.budget_bytes, &founded.policy), (when, budget_bytes, &policy));
    assert_eq!((founded.realm.key(), founded.realm.sizes()), (key, founding().realm.sizes()));
    let survey = survey(&sample(version), &mut ()).unwrap();
    assert_eq!((survey.faults(), survey.realm), (vec![], Some(founded.realm.id().0)));
    let folder = tempdir().unwrap();
    copy(&sample(version), folder.path());
    let store = open(folder.path(), &options());
    assert_eq!(store.recovery().replayed_events, 5);
    // The fourth account registered itself, which earlier versions did not support.
    let accounts = if version < 4 { 3 } else { 4 };
    store.check(|engine| check_knowledge(engine, accounts, |signature| key.fingerprint(&signature.to_le_bytes())));
}

/// Checks the state after the events of [`write_sample`]; `fingerprint` maps a signature's number to its fingerprint.
fn check_knowledge(engine: &Engine, accounts: usize, fingerprint: impl Fn(u64) -> Fingerprint) {
    let verdicts = [1, 2, 3, 4, 11].map(|signature| engine.check(&fingerprint(signature), 0));
    let kinds = [Kind::Spam, Kind::Ham, Kind::Ham, Kind::Unknown, Kind::Unknown];
    assert_eq!(verdicts.map(|verdict| verdict.kind), kinds);
    assert_eq!((verdicts[0].reason, verdicts[0].counts.report_count), (Reason::OwnReports, 1));
    assert_eq!((verdicts[1].reason, verdicts[1].counts.revoke_count), (Reason::Revoked, 1));
    assert_eq!([5, 12, 13].map(|signature| engine.bulk().total(&fingerprint(signature))), [9, 1_000, 0]);
    let mut scratch = CheckScratch::default();
    let found = engine.find_text(&features(), &mut scratch).map(|found| found.fingerprint);
    assert_eq!(found, Some(fingerprint(1)));
    let (found, _) = engine.check_shingles(&DIGEST, None, &mut scratch).unwrap();
    assert_eq!(found.record.weight, 3);
    assert_eq!((engine.accounts().len(), engine.now()), (accounts, Time(FOUNDED.0 + 2 * Time::DAY)));
}

#[test]
fn the_same_events_give_the_bytes_of_the_newest_sample() {
    let folder = tempdir().unwrap();
    write_sample(folder.path());
    let names: Vec<String> = files(folder.path(), "").iter().map(|path| name(path)).collect();
    assert_eq!(names.len(), 3, "realm, journal, snapshot");
    for name in names {
        let (written, sample) = (fs::read(folder.path().join(&name)), fs::read(named(NEWEST).join(&name)));
        assert!(written.unwrap() == sample.unwrap(), "{name}");
    }
}
