//! Tests that map files of released versions stay readable, and that equal entries give equal bytes.
//!
//! `testdata/formats/map-v1` contains a map of each kind. When the format changes, add samples of the new version and
//! keep the old ones.

use std::fs;
use std::path::{Path, PathBuf};

use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_structures::bloomier::MutableBloomierFilter;
use bruit_structures::map::{self, Entry, MapBits, MapFile, StoredMap};
use bruit_structures::ribbon::RibbonMap;

const RIBBON_KEYS: u32 = 4000;
/// First key of a range that cannot be ordered with the first seed.
const MUTABLE_FIRST: u32 = 1795;
const MUTABLE_KEYS: u32 = 60;
/// The key, in the mutable map, whose value was changed.
const CHANGED: u32 = MUTABLE_FIRST + 7;
const CHANGED_VALUE: u32 = 4095;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/map-v1").join(name)
}

fn wide() -> FingerprintKey {
    FingerprintKey::new(std::array::from_fn(|i| i as u8))
}

fn narrow() -> FingerprintKey {
    FingerprintKey::narrow([9; 16])
}

/// Returns the fingerprint of a number. One wide key in four is moved to the lower half, so that the ribbon has buckets
/// with every code and a second layer.
fn fingerprint(key: &FingerprintKey, number: u32) -> Fingerprint {
    let fingerprint = key.fingerprint(format!("key {number}").as_bytes());
    let crowded = u32::from(!key.is_narrow() && number.is_multiple_of(4));
    Fingerprint::new(fingerprint.high() >> crowded, fingerprint.low())
}

/// Returns the value of a key of the ribbon, in 5 bits.
const fn value(number: u32) -> u32 {
    number * 7 % 31
}

/// Returns the value of a key of the mutable map, in 12 bits.
const fn mutable_value(number: u32) -> u32 {
    if number == CHANGED { CHANGED_VALUE } else { number * 11 % 4093 }
}

fn ribbon() -> StoredMap {
    let entries: Vec<Entry> = (0..RIBBON_KEYS).map(|i| (fingerprint(&wide(), i), value(i))).collect();
    RibbonMap::build(entries, MapBits::new(5, 6).unwrap(), wide().id()).unwrap().into()
}

fn mutable() -> StoredMap {
    let numbers = MUTABLE_FIRST..MUTABLE_FIRST + MUTABLE_KEYS;
    let entries: Vec<Entry> = numbers.map(|i| (fingerprint(&narrow(), i), i * 11 % 4093)).collect();
    let mut map = MutableBloomierFilter::build(entries, MapBits::new(12, 9).unwrap(), narrow().id()).unwrap();
    assert_eq!(map.set(&fingerprint(&narrow(), CHANGED), CHANGED_VALUE), Ok(true));
    map.into()
}

fn files() -> [(&'static str, Vec<u8>); 2] {
    [("ribbon.map", ribbon(), wide()), ("mutable.map", mutable(), narrow())].map(|(name, map, key)| {
        let mut bytes = Vec::new();
        map::encode(&map, Some(&key), &mut bytes).unwrap();
        (name, bytes)
    })
}

fn read(name: &str) -> MapFile {
    let bytes = fs::read(sample(name)).unwrap_or_else(|error| panic!("sample {name}: {error}"));
    map::decode(&mut bytes.as_slice(), 1 << 20).unwrap()
}

/// Looks up the keys with these numbers. Returns the number and the value of each key that has a value.
fn answers(file: &MapFile, numbers: std::ops::Range<u32>) -> Vec<(u32, u32)> {
    let key = file.key.as_ref().unwrap();
    let keys: Vec<Fingerprint> = numbers.clone().map(|number| fingerprint(key, number)).collect();
    let mut values = vec![None; keys.len()];
    file.map.get_batch(&keys, &mut values);
    numbers.zip(values).filter_map(|(number, value)| Some((number, value?))).collect()
}

#[test]
#[ignore = "writes into testdata/"]
fn make_the_sample() {
    fs::create_dir_all(sample("")).unwrap();
    files().into_iter().for_each(|(name, bytes)| fs::write(sample(name), bytes).unwrap());
}

#[test]
fn the_same_entries_give_the_bytes_of_the_sample() {
    let files = files();
    assert_eq!(fs::read_dir(sample("")).unwrap().count(), files.len());
    for (name, bytes) in files {
        assert!(fs::read(sample(name)).unwrap() == bytes, "{name}");
    }
}

#[test]
fn the_ribbon_of_version_1_gives_every_key_its_value() {
    let file = read("ribbon.map");
    assert_eq!((file.header.keys, file.header.layers, file.key.clone()), (RIBBON_KEYS.into(), 2, Some(wide())));
    let expected: Vec<(u32, u32)> = (0..RIBBON_KEYS).map(|number| (number, value(number))).collect();
    assert_eq!(answers(&file, 0..RIBBON_KEYS), expected);
}

#[test]
fn the_mutable_map_of_version_1_gives_every_key_its_value() {
    let file = read("mutable.map");
    assert_eq!((file.header.keys, file.header.seed, file.key.clone()), (MUTABLE_KEYS.into(), 1, Some(narrow())));
    let numbers = MUTABLE_FIRST..MUTABLE_FIRST + MUTABLE_KEYS;
    let expected: Vec<(u32, u32)> = numbers.clone().map(|number| (number, mutable_value(number))).collect();
    assert_eq!(answers(&file, numbers), expected);
}

#[test]
fn other_keys_are_taken_for_keys_by_the_samples_as_they_were() {
    let numbers: fn(&str) -> Vec<u32> =
        |name| answers(&read(name), 1_000_000..1_000_500).into_iter().map(|(number, _)| number - 1_000_000).collect();
    assert_eq!(numbers("ribbon.map"), [3, 7, 10, 63, 152, 264, 333]);
    assert_eq!(numbers("mutable.map"), [94, 397]);
}
