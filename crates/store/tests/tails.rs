//! The end of the journal is truncated or garbled at every byte. Exactly the records before that byte are kept.

mod common;

use std::fs;
use std::path::Path;

use common::*;
use tempfile::tempdir;

/// Fills a directory with one journal file of five records, which have 1, 2, 3, 2 and 1 events. Returns the record
/// boundaries.
fn five_records(directory: &Path) -> Vec<usize> {
    let store = open(directory);
    for numbers in [0..1, 1..3, 3..6, 6..8, 8..9] {
        store.submit(numbers.map(numbered).collect()).unwrap();
    }
    drop(store);
    boundaries(&journal_file(directory))
}

fn journal_file(directory: &Path) -> std::path::PathBuf {
    files(directory, "journal-").pop().unwrap()
}

/// Opens a copy with a changed journal file. Returns the recovered numbers, and the number of bytes cut off.
fn opened(directory: &Path, bytes: &[u8]) -> (Vec<u64>, u64) {
    let copied = tempdir().unwrap();
    copy(directory, copied.path());
    fs::write(journal_file(copied.path()), bytes).unwrap();
    let store = open(copied.path());
    let found = (store.check(Ledger::numbers), store.recovery().torn_bytes);
    // The tail is removed permanently, and the journal continues after the remaining records.
    submit_numbers(&store, [100]);
    drop(store);
    let store = open(copied.path());
    assert_eq!((store.recovery().torn_bytes, store.check(|ledger| ledger.counts[&100])), (0, 1));
    found
}

/// Returns the events of the first `records` records.
fn events(records: usize) -> Vec<u64> {
    (0..[0, 1, 3, 6, 8, 9][records]).collect()
}

#[test]
fn a_journal_cut_at_any_byte_of_the_last_records_keeps_all_before() {
    let folder = tempdir().unwrap();
    let places = five_records(folder.path());
    let whole = fs::read(journal_file(folder.path())).unwrap();
    assert_eq!(places[5], whole.len());
    for length in places[3]..=whole.len() {
        let records = places.iter().filter(|&&place| place <= length).count() - 1;
        let torn = (length - places[records]) as u64;
        assert_eq!(opened(folder.path(), &whole[..length]), (events(records), torn), "cut at {length}");
    }
}

#[test]
fn a_last_record_that_is_zeroed_or_garbled_from_any_byte_on_is_cut() {
    let folder = tempdir().unwrap();
    let places = five_records(folder.path());
    let whole = fs::read(journal_file(folder.path())).unwrap();
    for place in places[4]..whole.len() {
        let mut zeroed = whole.clone();
        zeroed[place..].fill(0);
        let mut garbled = whole.clone();
        garbled[place..].iter_mut().for_each(|byte| *byte ^= 0x5A);
        let torn = (whole.len() - places[4]) as u64;
        // The last bytes of a checksum may already be zero.
        if zeroed != whole {
            assert_eq!(opened(folder.path(), &zeroed), (events(4), torn), "zeroed from {place}");
        }
        assert_eq!(opened(folder.path(), &garbled), (events(4), torn), "garbled from {place}");
    }
}

#[test]
fn zeros_after_the_last_record_are_cut() {
    let folder = tempdir().unwrap();
    five_records(folder.path());
    let mut bytes = fs::read(journal_file(folder.path())).unwrap();
    bytes.resize(bytes.len() + 5000, 0);
    assert_eq!(opened(folder.path(), &bytes), (events(5), 5000));
}

#[test]
fn two_unfinished_records_are_cut_if_neither_names_the_other_durable() {
    let folder = tempdir().unwrap();
    let window = std::time::Duration::from_secs(3600);
    let relaxed = bruit_store::Options { durability: bruit_store::Durability::Relaxed { window }, ..options() };
    submit_numbers(&try_open(folder.path(), &relaxed).unwrap(), 0..4);
    let places = boundaries(&journal_file(folder.path()));
    let mut bytes = fs::read(journal_file(folder.path())).unwrap();
    bytes[places[2]] ^= 1;
    let torn = (bytes.len() - places[2]) as u64;
    assert_eq!(
        opened(folder.path(), &bytes),
        (vec![0, 1], torn),
        "the disk kept the last write and not the one before"
    );
}
