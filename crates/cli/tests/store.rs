//! `bruit store` on directories made by the library and damaged here.

mod common;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use bruit_engine::codec::Malformed;
use bruit_store::{Machine, Options, RestoreError, Store};
use common::{Folder, bruit, json, printed, refused};

/// Counts its events.
struct Counter(u64);

impl Machine for Counter {
    type Event = [u8; 20];
    type Outcome = ();

    fn encode(event: &Self::Event, out: &mut Vec<u8>) {
        out.extend(event);
    }

    fn decode(bytes: &[u8]) -> Result<Self::Event, Malformed> {
        bytes.try_into().map_err(|_| Malformed::Truncated { what: "event" })
    }

    fn admit(&self, _: &Self::Event) -> Result<(), ()> {
        Ok(())
    }

    fn apply(&mut self, _: &Self::Event) {
        self.0 += 1;
    }

    fn begin_snapshot(&mut self, out: &mut Vec<u8>) {
        out.extend(self.0.to_le_bytes());
    }

    fn continue_snapshot(&mut self, _: usize, _: &mut Vec<u8>) -> bool {
        true
    }

    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError> {
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes)?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }

    fn realm(&self) -> [u8; 16] {
        [0xAB; 16]
    }
}

fn open(directory: &Path) -> Store<Counter> {
    let options = Options { segment_bytes: 300, snapshot_on_close: false, ..Options::default() };
    Store::open(directory, &options, || Ok(Counter(0)), &mut |_| {}).unwrap()
}

/// A folder with a store of 20 events, a record each, four to a segment.
fn stored() -> (Folder, String) {
    let folder = Folder::new();
    let directory = folder.path("store");
    let store = open(&directory);
    (0..20).for_each(|number| drop(store.submit(vec![[number; 20]]).unwrap()));
    (folder, directory.to_str().unwrap().to_owned())
}

fn segments(directory: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths.filter(|path| path.to_str().unwrap().contains("/journal-")).collect();
    found.sort();
    found
}

/// Changes a byte in the second record of a segment: where that begins.
fn damage(segment: &Path) -> u64 {
    let mut bytes = fs::read(segment).unwrap();
    bytes[48 + 64 + 40] ^= 1;
    fs::write(segment, bytes).unwrap();
    48 + 64
}

#[test]
fn a_sound_store_is_called_that_and_told_about() {
    let (_folder, directory) = stored();
    assert_eq!(printed(&["store", "verify", &directory]), "sound: 20 events up to 20, in 5 segments and 0 snapshots\n");
    assert_eq!(json(&["store", "verify", "--json", &directory])["sound"], true);
    let told = printed(&["store", "inspect", &directory]);
    assert!(told.contains("abababab") && told.contains("20 of up to 31 bytes"), "{told}");
    let told = json(&["store", "inspect", "--json", &directory]);
    assert_eq!((&told["last_event"], &told["segments"][1]["first_event"]), (&20.into(), &5.into()));
    assert_eq!(told["events_by_size"], serde_json::json!([{ "bytes_max": 31, "events": 20 }]));
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
    assert!(text.starts_with("journal-00000000000000000009.bruit is damaged at byte 112: "), "{text}");
    let command = text.lines().last().unwrap().split_once("behind: bruit ").unwrap().1;
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(
        words,
        ["store", "repair", &directory, "--segment", "journal-00000000000000000009.bruit", "--cut-after", "112"]
    );

    let told = json(&["store", "repair", &directory, "--cut-after", &offset.to_string(), "--json"]);
    assert_eq!(told["lost"], serde_json::json!({ "first": 10, "last": 20, "events": 11 }));
    assert_eq!(told["cut_files"].as_array().unwrap().len(), 3);
    assert!(printed(&["store", "verify", &directory]).starts_with("sound: 9 events"));
    assert!(printed(&["store", "inspect", &directory]).contains("cut off"));
    assert_eq!(open(Path::new(&directory)).check(|counter| counter.0), 9);
}

#[test]
fn what_is_lost_is_told_in_words() {
    let (_folder, directory) = stored();
    damage(&segments(&directory)[4]);
    let told = printed(&["store", "repair", &directory, "--cut-after", "112"]);
    assert!(told.contains("the journal ends with event 17\n") && told.contains("lost: 3 events, 18 to 20\n"), "{told}");
}

#[test]
fn what_cannot_be_done_is_refused_in_one_line() {
    let (folder, directory) = stored();
    let absent = folder.path("absent").to_str().unwrap().to_owned();
    assert!(refused(&["store", "verify", &absent]).contains("failed to read"));
    let empty = folder.path("").to_str().unwrap().to_owned();
    assert!(refused(&["store", "inspect", &empty]).contains("is not the directory of a store"));
    assert!(refused(&["store", "repair", &empty, "--cut-after", "0"]).contains("no segment is damaged"));
    assert!(refused(&["store", "repair", &directory, "--cut-after", "0"]).contains("no segment is damaged"));
    let name = "journal-00000000000000000005.bruit";
    let line = refused(&["store", "repair", &directory, "--cut-after", "100", "--segment", name]);
    assert!(line.contains("ends at byte 48"), "{line}");
    assert_eq!(segments(&directory).len(), 5, "nothing was cut");
}
