//! Tests that filter files and deltas of released versions stay readable, and that equal contents have equal bytes.
//!
//! `testdata/formats/filter-v1` contains a file of each kind and deltas without a history. `filter-v2` contains files
//! and deltas with a history. When the format changes, add samples of the new version and keep the old ones.

use std::fs;
use std::path::{Path, PathBuf};

use bruit_filters::bloom::{ClassicalFilter, OneLineFilter};
use bruit_filters::counting::{CountingFilter, Extension, OneLineCounts};
use bruit_filters::delta;
use bruit_filters::file::{self, FilterFile, History, Label, Origin, StoredFilter};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::{Fingerprint, FingerprintKey};

const LIMIT: u64 = 1 << 20;
const OURS: Origin = Origin(0x0123_4567_89ab_cdef);
const THEIRS: Origin = Origin(7);

type Sample = (&'static str, Vec<u8>);

fn sample(version: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(version).join(name)
}

fn key() -> FingerprintKey {
    FingerprintKey::new(std::array::from_fn(|i| i as u8))
}

/// Returns the fingerprints of the keys in a range; key i occurs i times.
fn fingerprints(names: std::ops::Range<u32>) -> Vec<Fingerprint> {
    let repeated = names.flat_map(|i| std::iter::repeat_n(i, i as usize));
    repeated.map(|i| key().fingerprint(format!("key {i}").as_bytes())).collect()
}

fn shapes() -> [(&'static str, StoredFilter); 4] {
    let hash = || FingerprintHash::new(501, 4, 40, key().id()).unwrap();
    [
        ("classical-membership", StoredFilter::ClassicalMembership(ClassicalFilter::new(hash()).unwrap())),
        ("one-line-membership", StoredFilter::OneLineMembership(OneLineFilter::new(3, 6, 40, key().id()).unwrap())),
        (
            "classical-counts",
            StoredFilter::ClassicalCounts(CountingFilter::new(hash(), Extension::Intuitive, 5).unwrap()),
        ),
        ("one-line-counts", StoredFilter::OneLineCounts(OneLineCounts::new(2, key().id()).unwrap())),
    ]
}

/// Returns a file of `filter` with some keys. If there is an origin, the file is a site's own filter.
fn filled(filter: &StoredFilter, names: std::ops::Range<u32>, origin: Option<Origin>) -> FilterFile {
    let label = Label { generation: 3, key: Some(key()) };
    let mut file = FilterFile::new(filter.clone(), label, origin.map(History::new)).unwrap();
    for name in names {
        file.filter.insert_batch(&fingerprints(name..name + 1));
        file.history.iter_mut().for_each(|history| history.record_change().unwrap());
    }
    file
}

fn bytes_of(file: &FilterFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.write(&mut bytes).unwrap();
    bytes
}

fn delta_of(base: &FilterFile, target: &FilterFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    delta::diff(&mut &*bytes_of(base), &mut &*bytes_of(target), &mut bytes).unwrap();
    bytes
}

/// Names of files and deltas, for each shape.
const NAMES: [[&str; 2]; 4] = [
    ["classical-membership.filter", "classical-membership.delta"],
    ["one-line-membership.filter", "one-line-membership.delta"],
    ["classical-counts.filter", "classical-counts.delta"],
    ["one-line-counts.filter", "one-line-counts.delta"],
];

fn version_1() -> Vec<Sample> {
    let files = shapes().into_iter().zip(NAMES).flat_map(|((_, shape), [filter, delta])| {
        let (base, target) = (filled(&shape, 0..20, None), filled(&shape, 0..25, None));
        [(filter, bytes_of(&base)), (delta, delta_of(&base, &target))]
    });
    files.collect()
}

fn version_2() -> Vec<Sample> {
    let counting = shapes().into_iter().zip(NAMES).skip(2);
    let mut samples: Vec<Sample> = counting
        .flat_map(|((_, shape), [filter, delta])| {
            let (base, target) = (filled(&shape, 0..20, Some(OURS)), filled(&shape, 0..25, Some(OURS)));
            [(filter, bytes_of(&base)), (delta, delta_of(&base, &target))]
        })
        .collect();
    samples.push(("merged-counts.filter", bytes_of(&merged())));
    samples
}

fn merged() -> FilterFile {
    let [_, _, (_, shape), _] = shapes();
    let mut merged = filled(&shape, 0..20, Some(OURS));
    let written = file::decode(&mut &*bytes_of(&merged), LIMIT).unwrap();
    merged = written;
    merged.merge(&mut &*bytes_of(&filled(&shape, 10..15, Some(THEIRS)))).unwrap();
    merged
}

fn stored(version: &str, name: &str) -> Vec<u8> {
    fs::read(sample(version, name)).unwrap_or_else(|error| panic!("{name} of {version}: {error}"))
}

fn read(version: &str, name: &str) -> FilterFile {
    file::decode(&mut &*stored(version, name), LIMIT).unwrap()
}

fn count(file: &FilterFile, name: u32) -> u32 {
    let mut count = [0];
    file.filter.count_batch(&[key().fingerprint(format!("key {name}").as_bytes())], &mut count);
    count[0]
}

#[test]
#[ignore = "writes into testdata/"]
fn make_the_samples() {
    for (version, samples) in [("filter-v1", version_1()), ("filter-v2", version_2())] {
        fs::create_dir_all(sample(version, "")).unwrap();
        samples.into_iter().for_each(|(name, bytes)| fs::write(sample(version, name), bytes).unwrap());
    }
}

#[test]
fn the_same_contents_give_the_bytes_of_the_samples() {
    for (version, samples) in [("filter-v1", version_1()), ("filter-v2", version_2())] {
        assert_eq!(fs::read_dir(sample(version, "")).unwrap().count(), samples.len());
        for (name, bytes) in samples {
            assert_eq!(u16::from_le_bytes([bytes[8], bytes[9]]), if version == "filter-v1" { 1 } else { 2 });
            assert!(stored(version, name) == bytes, "{version}/{name}");
        }
    }
}

#[test]
fn files_of_version_1_are_read_and_their_deltas_applied() {
    for ((kind, shape), [filter, delta]) in shapes().into_iter().zip(NAMES) {
        let file = read("filter-v1", filter);
        assert_eq!((file.history.clone(), file.key.clone(), file.header.generation), (None, Some(key()), 3));
        assert!((1..20).all(|name| count(&file, name) > 0), "{kind}");
        let mut target = Vec::new();
        let base = stored("filter-v1", filter);
        delta::apply_between(&mut &*base, LIMIT, &mut &*stored("filter-v1", delta), &mut target).unwrap();
        assert!(target == bytes_of(&filled(&shape, 0..25, None)), "{kind}");
    }
}

#[test]
fn files_of_version_2_are_read_and_their_deltas_applied() {
    for ((kind, _), [filter, delta]) in shapes().into_iter().zip(NAMES).skip(2) {
        let mut file = read("filter-v2", filter);
        assert_eq!(file.history, Some(History::Own { origin: OURS, revision: 20 }), "{kind}");
        assert!(count(&file, 9) >= 9);
        delta::advance(&mut file, &mut &*stored("filter-v2", delta)).unwrap();
        assert_eq!(file.history, Some(History::Own { origin: OURS, revision: 25 }), "{kind}");
        assert!(count(&file, 24) >= 24);
    }
    let mut merged = read("filter-v2", "merged-counts.filter");
    let origins = merged.history.as_ref().unwrap().reached(0);
    assert_eq!(
        origins.iter().map(|reached| (reached.origin, reached.revision)).collect::<Vec<_>>(),
        [(THEIRS, 5), (OURS, 20)]
    );
    assert!(count(&merged, 12) >= 24);
    delta::advance(&mut merged, &mut &*stored("filter-v2", "classical-counts.delta")).unwrap();
    assert!(count(&merged, 24) >= 24);
}
