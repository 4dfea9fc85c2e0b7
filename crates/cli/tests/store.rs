//! Tests of `bruit store`, on directories that the library creates and the tests damage.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bruit_engine::TICK_LINES;
use bruit_engine::budget::BUDGET_MIN;
use bruit_engine::event::{By, Event};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_filters::FingerprintKey;
use bruit_store::{Clearinghouse, Founding, Options};
use common::{Folder, bruit, json, printed, refused};

const KEY: [u8; 16] = [0xAB; 16];
const FOUNDED: Time = Time(1_728_432_000);

/// Length of the record of a tick: 40 bytes of header, 4 bytes of length, 13 bytes of event.
const RECORD_BYTES: u64 = 57;

fn founding() -> Founding {
    Founding::new(KEY, BUDGET_MIN, Policy::default(), FOUNDED).unwrap()
}

fn open(directory: &Path) -> Clearinghouse {
    let journal_file_bytes = 48 + 4 * RECORD_BYTES;
    let options = Options { journal_file_bytes, snapshot_on_close: false, ..Options::default() };
    Clearinghouse::open_or_found(directory, &options, founding, &mut |_| {}).unwrap()
}

fn tick(number: u64) -> Event {
    Event::Tick { now: Time(FOUNDED.0 + number), lines: TICK_LINES }
}

/// Creates a folder with a clearinghouse of 20 events. Each event is one record, and each segment contains four
/// records.
fn stored() -> (Folder, String) {
    let folder = Folder::new();
    let directory = folder.path("store");
    let store = open(&directory);
    (1..=20).for_each(|number| drop(store.submit(vec![tick(number)]).unwrap()));
    (folder, directory.to_str().unwrap().to_owned())
}

fn segments(directory: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths.filter(|path| path.to_str().unwrap().contains("/journal-")).collect();
    found.sort();
    found
}

/// Changes a byte in the second record of a segment, and returns the offset of the record.
fn damage(segment: &Path) -> u64 {
    let mut bytes = fs::read(segment).unwrap();
    bytes[48 + RECORD_BYTES as usize + 40] ^= 1;
    fs::write(segment, bytes).unwrap();
    48 + RECORD_BYTES
}

#[test]
fn a_sound_store_is_called_that_and_told_about() {
    let (_folder, directory) = stored();
    assert_eq!(printed(&["store", "verify", &directory]), "sound: 20 events up to 20, in 5 segments and 0 snapshots\n");
    assert_eq!(json(&["store", "verify", "--json", &directory])["sound"], true);
    let report = printed(&["store", "inspect", &directory]);
    assert!(report.contains(&founding().realm.id().to_string()) && report.contains("20 of up to 15 bytes"), "{report}");
    assert!(!report.contains("other files"), "{report}");
    let report = json(&["store", "inspect", "--json", &directory]);
    assert_eq!((&report["last_event"], &report["segments"][1]["first_event"]), (&20.into(), &5.into()));
    assert_eq!(report["events_by_size"], serde_json::json!([{ "bytes_max": 15, "events": 20 }]));
}

#[test]
fn inspect_tells_what_the_clearinghouse_was_founded_as_and_knows() {
    let (_folder, directory) = stored();
    let store = open(Path::new(&directory));
    let by = By { now: FOUNDED, reporter: Reporter { id: 1, standing: Standing::Own, group: 1 } };
    let fingerprints: Vec<_> = (0..30_u8).map(|name| FingerprintKey::narrow(KEY).fingerprint(&[name])).collect();
    let claim = Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints: fingerprints.clone() };
    store.submit(vec![claim, Event::Bulk { by, targets: 3, fingerprints }]).unwrap();
    store.snapshot().unwrap();

    // The store is still open here.
    let report = printed(&["store", "inspect", &directory]);
    for expected in [
        "founded               2024-10-09\n",
        "budget                8.0 MiB\n",
        "epochs                spam 5 days, bulk 1 day\n",
        "recovery              restored snapshot-00000000000000000022.bruit, replayed 0 events, at event 22\n",
        "  generation          since 2024-10-09, about 30 signatures\n",
        "table                 accounts, 0 of ",
    ] {
        assert!(report.contains(expected), "{expected:?} in {report}");
    }
    let report = json(&["store", "inspect", "--json", &directory]);
    let (found, recovery) = (&report["clearinghouse"], &report["clearinghouse"]["recovery"]);
    assert_eq!((&found["founded"], &found["budget_bytes"]), (&"2024-10-09".into(), &BUDGET_MIN.into()));
    assert_eq!((&recovery["snapshot"], &recovery["last_event"]), (&22.into(), &22.into()));
    let generation = &found["rings"][3]["generations"][0];
    assert_eq!(*generation, serde_json::json!({ "epoch": 20_005, "start": "2024-10-09", "signatures": 30 }));
    assert_eq!((&found["warnings"], &report["unrecovered"]), (&serde_json::json!([]), &serde_json::Value::Null));
}

/// Returns the name, content and modification time of every file.
fn contents(directory: &str) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| (fs::read(&path).unwrap(), path.metadata().unwrap().modified().unwrap(), path);
    paths.into_iter().map(read).map(|(bytes, time, path)| (path, bytes, time)).collect()
}

#[test]
fn looking_changes_nothing_and_never_tells_the_key() {
    let (_folder, directory) = stored();
    open(Path::new(&directory)).snapshot().unwrap();
    let last = segments(&directory).pop().unwrap();
    let mut torn = fs::read(&last).unwrap();
    torn.extend(b"\xB5rec");
    fs::write(last, torn).unwrap();
    let before = contents(&directory);
    for verb in ["verify", "inspect"] {
        let report = printed(&["store", verb, &directory]) + printed(&["store", verb, "--json", &directory]).as_str();
        assert!(!report.to_lowercase().contains("abababab"), "{verb} prints the key: {report}");
        assert!(contents(&directory) == before, "{verb} changed a file");
    }
}

#[test]
fn a_founding_that_is_damaged_missing_or_of_another_realm_is_a_fault() {
    let (_folder, directory) = stored();
    let realm = Path::new(&directory).join("realm.bruit");
    let sound = fs::read(&realm).unwrap();
    let verify = || {
        let found = bruit(&["store", "verify", &directory]);
        assert_eq!(found.status.code(), Some(1));
        String::from_utf8(found.stdout).unwrap()
    };
    let mut damaged = sound.clone();
    damaged[60] ^= 1;
    fs::write(&realm, damaged).unwrap();
    assert!(verify().starts_with("realm.bruit is damaged: its checksum does not match"));

    // The contents of the files are printed anyway, together with the reason why recovery failed.
    let found = bruit(&["store", "inspect", &directory]);
    assert_eq!(found.status.code(), Some(2));
    assert!(String::from_utf8(found.stdout).unwrap().contains("last event            20\n"));
    assert!(String::from_utf8(found.stderr).unwrap().starts_with("bruit: realm.bruit is damaged"));

    fs::remove_file(&realm).unwrap();
    assert!(verify().starts_with("realm.bruit is missing"));

    let other = Folder::new();
    let founded = other.path("other");
    let found = || Founding::new([1; 16], BUDGET_MIN, Policy::default(), FOUNDED).unwrap();
    drop(Clearinghouse::open_or_found(&founded, &Options::default(), found, &mut |_| {}).unwrap());
    fs::copy(founded.join("realm.bruit"), &realm).unwrap();
    let report = verify();
    assert!(report.starts_with("realm.bruit belongs to a different realm from all other files"), "{report}");
    assert!(!report.contains("move"), "{report}");
    fs::write(&realm, sound).unwrap();
    assert!(printed(&["store", "verify", &directory]).starts_with("sound: 20 events"));
}

#[test]
fn an_event_that_cannot_be_read_is_a_fault_though_its_checksum_holds() {
    /// A state machine whose encoded events a clearinghouse cannot read.
    struct Nonsense;
    impl bruit_store::Machine for Nonsense {
        type Event = ();
        type Outcome = ();
        fn encode((): &(), out: &mut Vec<u8>) {
            out.push(0xFF);
        }
        fn decode(_: &[u8]) -> Result<(), bruit_engine::codec::Malformed> {
            Ok(())
        }
        fn admit(&self, (): &()) -> Result<(), ()> {
            Ok(())
        }
        fn apply(&mut self, (): &()) {}
        fn begin_snapshot(&mut self, _: &mut Vec<u8>) {}
        fn continue_snapshot(&mut self, _: usize, _: &mut Vec<u8>) -> bool {
            true
        }
        fn restore(&self, _: &mut dyn std::io::Read) -> Result<Self, bruit_store::RestoreError> {
            Ok(Self)
        }
        fn realm(&self) -> [u8; 16] {
            founding().realm.id().0
        }
    }
    let (_folder, directory) = stored();
    let options = Options { snapshot_on_close: false, ..Options::default() };
    let store = bruit_store::Store::open(Path::new(&directory), &options, || Ok(Nonsense), &mut |_| {}).unwrap();
    store.submit(vec![()]).unwrap();
    drop(store);
    let found = bruit(&["store", "verify", &directory]);
    let text = String::from_utf8(found.stdout).unwrap();
    assert_eq!(found.status.code(), Some(1), "{text}");
    assert!(text.contains("the kind of an event"), "{text}");
    assert_eq!(bruit(&["store", "inspect", &directory]).status.code(), Some(2));
}

#[test]
fn a_store_in_use_can_be_looked_at_but_not_repaired() {
    let (_folder, directory) = stored();
    let store = open(Path::new(&directory));
    store.snapshot().unwrap();
    assert!(printed(&["store", "verify", &directory]).starts_with("sound: "));
    let name = "journal-00000000000000000005.bruit";
    let line = refused(&["store", "repair", &directory, "--cut-after", "48", "--segment", name]);
    assert!(line.contains("in use by another process"), "{line}");
}

#[test]
fn damage_is_told_with_a_way_on_and_repaired_as_told() {
    let (_folder, directory) = stored();
    let offset = damage(&segments(&directory)[2]);
    let found = bruit(&["store", "verify", &directory]);
    let text = String::from_utf8(found.stdout).unwrap();
    assert_eq!(found.status.code(), Some(1), "{text}");
    assert!(text.starts_with("journal-00000000000000000009.bruit is damaged at byte 105: "), "{text}");
    let command = text.lines().last().unwrap().split_once("after the damage: bruit ").unwrap().1;
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(
        words,
        ["store", "repair", &directory, "--segment", "journal-00000000000000000009.bruit", "--cut-after", "105"]
    );

    let report = json(&["store", "repair", &directory, "--cut-after", &offset.to_string(), "--json"]);
    assert_eq!(report["lost"], serde_json::json!({ "first": 10, "last": 20, "events": 11 }));
    assert_eq!(report["cut_files"].as_array().unwrap().len(), 3);
    assert!(printed(&["store", "verify", &directory]).starts_with("sound: 9 events"));
    assert!(printed(&["store", "inspect", &directory]).contains("cut off"));
    assert_eq!(open(Path::new(&directory)).check(|engine| engine.now()), Time(FOUNDED.0 + 9));
}

#[test]
fn damage_that_a_snapshot_holds_is_called_harmless_and_no_cut_is_advised() {
    let (_folder, directory) = stored();
    let store = open(Path::new(&directory));
    store.snapshot().unwrap();
    drop(store.submit(vec![tick(21)]).unwrap());
    drop(store);
    let offset = damage(&segments(&directory)[1]).to_string();
    let found = bruit(&["store", "verify", &directory]);
    let text = String::from_utf8(found.stdout).unwrap();
    assert_eq!(found.status.code(), Some(1), "{text}");
    let advice =
        "harmless: all its data is also in snapshot-00000000000000000020.bruit; the next snapshot deletes this file";
    assert!(text.contains(advice) && !text.contains("repair"), "{text}");
    let found = bruit(&["store", "verify", "--json", &directory]);
    let report: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    let fault = &report["faults"][0];
    assert_eq!((&fault["file"], &fault["offset"]), (&"journal-00000000000000000005.bruit".into(), &105.into()));
    assert_eq!((&fault["harmless"], &fault["advice"]), (&true.into(), &advice.into()));

    let line = refused(&["store", "repair", &directory, "--cut-after", &offset]);
    assert!(line.contains("would lose events 21 to 21"), "{line}");
    let report = printed(&["store", "repair", &directory, "--cut-after", &offset, "--force"]);
    assert!(report.contains("lost: 1 events, 21 to 21\n"), "{report}");
}

#[test]
fn a_command_with_a_path_in_it_can_be_pasted_into_a_shell() {
    let (folder, directory) = stored();
    let blanks = folder.path("my store");
    fs::rename(&directory, &blanks).unwrap();
    damage(&segments(blanks.to_str().unwrap())[2]);
    let quoted = format!("bruit store repair '{}' --segment", blanks.display());
    let text = String::from_utf8(bruit(&["store", "verify", blanks.to_str().unwrap()]).stdout).unwrap();
    assert!(text.contains(&quoted), "{text}");
    let found = bruit(&["store", "inspect", blanks.to_str().unwrap()]);
    assert!(String::from_utf8(found.stderr).unwrap().contains(&quoted));
}

#[test]
fn inspect_says_when_the_founding_is_missing() {
    let (_folder, directory) = stored();
    fs::remove_file(Path::new(&directory).join("realm.bruit")).unwrap();
    for arguments in [&["store", "inspect", &directory][..], &["store", "inspect", "--json", &directory]] {
        let found = bruit(arguments);
        assert_eq!(found.status.code(), Some(2));
        assert!(String::from_utf8(found.stderr).unwrap().starts_with("bruit: realm.bruit is missing"));
    }
    let report: serde_json::Value =
        serde_json::from_slice(&bruit(&["store", "inspect", "--json", &directory]).stdout).unwrap();
    assert!(report["unrecovered"].as_str().unwrap().starts_with("realm.bruit is missing"), "{report}");
}

/// This error must not use exit code 1, which means that the store is damaged.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_no_fault_of_the_store() {
    let (_folder, directory) = stored();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bruit"));
    let found = command.args(["store", "verify", &directory]).stdout(full).output().unwrap();
    assert_eq!(found.status.code(), Some(2), "{}", String::from_utf8_lossy(&found.stderr));
}

#[test]
fn what_is_lost_is_told_in_words() {
    let (_folder, directory) = stored();
    damage(&segments(&directory)[4]);
    let report = printed(&["store", "repair", &directory, "--cut-after", "105"]);
    assert!(
        report.contains("the journal ends with event 17\n") && report.contains("lost: 3 events, 18 to 20\n"),
        "{report}"
    );
}

#[test]
fn what_cannot_be_done_is_refused_in_one_line() {
    let (folder, directory) = stored();
    let absent = folder.path("absent").to_str().unwrap().to_owned();
    assert!(refused(&["store", "verify", &absent]).contains("failed to read"));
    let empty = folder.path("").to_str().unwrap().to_owned();
    assert!(refused(&["store", "inspect", &empty]).contains("is not a data directory"));
    assert!(refused(&["store", "repair", &empty, "--cut-after", "0"]).contains("is not a store directory"));
    assert!(refused(&["store", "repair", &directory, "--cut-after", "0"]).contains("no journal file is damaged"));
    let name = "journal-00000000000000000005.bruit";
    let line = refused(&["store", "repair", &directory, "--cut-after", "100", "--segment", name]);
    assert!(line.contains("ends at byte 48"), "{line}");
    assert_eq!(segments(&directory).len(), 5, "nothing was cut");
}
