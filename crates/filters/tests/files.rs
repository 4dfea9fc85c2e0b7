//! Filter files and deltas: round trips, and rejected input.

use bruit_filters::bloom::{ClassicalFilter, MembershipFilter, OneLineFilter};
use bruit_filters::counting::{CountingFilter, Extension, OneLineCounts};
use bruit_filters::delta::{self, ApplyError, DiffError, Encoding};
use bruit_filters::file::{self, FileError, Label, Part, Stored, StoredFilter};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::{Fingerprint, FingerprintKey};
use proptest::collection::vec;
use proptest::prelude::*;

/// A limit larger than all filters of these tests.
const LIMIT: u64 = 1 << 30;

fn key() -> FingerprintKey {
    FingerprintKey::new([42; 16])
}

fn fingerprints(names: impl IntoIterator<Item = u32>) -> Vec<Fingerprint> {
    names.into_iter().map(|name| key().fingerprint(&name.to_le_bytes())).collect()
}

/// Returns one empty filter of each shape: every kind, widths that straddle words, and arrays of one block and of
/// several blocks.
fn shapes() -> Vec<StoredFilter> {
    let hash = |cells, hashes| FingerprintHash::new(cells, hashes, 40, key().id()).unwrap();
    let counting = |cells, extension, bits| CountingFilter::new(hash(cells, 3), extension, bits).unwrap();
    vec![
        StoredFilter::ClassicalMembership(ClassicalFilter::new(hash(1, 1)).unwrap()),
        StoredFilter::ClassicalMembership(ClassicalFilter::new(hash(1003, 7)).unwrap()),
        StoredFilter::ClassicalMembership(ClassicalFilter::new(hash(600_001, 4)).unwrap()),
        StoredFilter::OneLineMembership(OneLineFilter::new(1, 6, 32, key().id()).unwrap()),
        StoredFilter::OneLineMembership(OneLineFilter::new(1300, 16, 64, key().id()).unwrap()),
        StoredFilter::ClassicalCounts(counting(500, Extension::Intuitive, 1)),
        StoredFilter::ClassicalCounts(counting(777, Extension::Refined, 4)),
        StoredFilter::ClassicalCounts(counting(60_001, Extension::Refined, 11)),
        StoredFilter::ClassicalCounts(counting(999, Extension::Intuitive, 16)),
        StoredFilter::OneLineCounts(OneLineCounts::new(1, key().id()).unwrap()),
        StoredFilter::OneLineCounts(OneLineCounts::new(600, key().id()).unwrap()),
    ]
}

/// Inserts each fingerprint a number of times that depends on its index and is sometimes very large.
fn insert(filter: &mut StoredFilter, fingerprints: &[Fingerprint]) {
    let times = |i: usize| if i.is_multiple_of(5) { 1 << (i % 31) } else { 1 };
    match filter {
        StoredFilter::ClassicalMembership(filter) => filter.insert_batch(fingerprints),
        StoredFilter::OneLineMembership(filter) => filter.insert_batch(fingerprints),
        StoredFilter::ClassicalCounts(filter) => filter.insert_batch(fingerprints),
        StoredFilter::OneLineCounts(filter) => {
            fingerprints.iter().enumerate().for_each(|(i, fingerprint)| filter.insert_many(fingerprint, times(i)));
        }
        _ => unreachable!("all kinds are named"),
    }
}

fn filled(filter: &StoredFilter, names: impl IntoIterator<Item = u32>) -> StoredFilter {
    let mut filter = filter.clone();
    insert(&mut filter, &fingerprints(names));
    filter
}

fn encoded(filter: &StoredFilter) -> Vec<u8> {
    encoded_with(filter, &Label::default())
}

fn encoded_with(filter: &StoredFilter, label: &Label) -> Vec<u8> {
    let mut bytes = Vec::new();
    file::encode(filter, label, &mut bytes).unwrap();
    bytes
}

fn decoded(bytes: &[u8]) -> Result<file::FilterFile, FileError> {
    file::decode(&mut &*bytes, LIMIT)
}

/// Returns the delta between two files, and asserts that it equals the delta between the filters in memory.
fn delta_of(base: &StoredFilter, target: &StoredFilter) -> Vec<u8> {
    let mut between_files = Vec::new();
    delta::diff(&mut &*encoded(base), &mut &*encoded(target), &mut between_files).unwrap();
    assert_eq!(delta::encode(base, target, 0, None).unwrap(), between_files);
    between_files
}

/// Asserts that `delta` turns `base` into `target`, in memory and between files.
fn assert_leads(base: &StoredFilter, target: &StoredFilter, delta: &[u8]) {
    let mut in_memory = base.clone();
    delta::apply(&mut in_memory, 0, delta).unwrap();
    assert!(in_memory == *target, "in memory");
    let mut file = Vec::new();
    delta::apply_between(&mut &*encoded(base), LIMIT, &mut &*delta, &mut file).unwrap();
    assert!(file == encoded(target), "between files");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn encoded_values_round_trip(names in vec(any::<u32>(), 0..300), generation: u64, with_key: bool) {
        for shape in shapes() {
            let filter = filled(&shape, names.clone());
            let label = Label { generation, key: with_key.then(key) };
            let bytes = encoded_with(&filter, &label);
            let read = decoded(&bytes).unwrap();
            prop_assert_eq!(bytes.len() as u64, read.header.file_bytes());
            prop_assert_eq!(read.label(), label);
            prop_assert!(read.filter == filter);
        }
    }

    #[test]
    fn base_and_delta_give_the_target(
        before in vec(any::<u32>(), 0..400), after in vec(any::<u32>(), 0..400), is_growth: bool,
    ) {
        for shape in shapes() {
            let base = filled(&shape, before.clone());
            // The target need not contain the base: any two states have a delta.
            let target = if is_growth { filled(&base, after.clone()) } else { filled(&shape, after.clone()) };
            assert_leads(&base, &target, &delta_of(&base, &target));
        }
    }

    #[test]
    fn fingerprints_lead_to_the_target_too(
        before in vec(any::<u32>(), 0..400), after in vec(any::<u32>(), 0..60), forgotten: bool,
    ) {
        for shape in shapes() {
            let base = filled(&shape, before.clone());
            let target = filled(&base, after.clone());
            // A list with one fingerprint missing must not be used.
            let listed = fingerprints(after.iter().copied().skip(usize::from(forgotten)));
            assert_leads(&base, &target, &delta::encode(&base, &target, 0, Some(&listed)).unwrap());
        }
    }

    #[test]
    fn merging_a_file_is_merging_its_filter(ours in vec(any::<u32>(), 0..300), theirs in vec(any::<u32>(), 0..300)) {
        for shape in shapes() {
            let (ours, theirs) = (filled(&shape, ours.clone()), filled(&shape, theirs.clone()));
            let mut merged = ours.clone();
            file::merge_from(&mut merged, 0, &mut &*encoded(&theirs)).unwrap();
            prop_assert!(merged == merged_in_memory(ours, &theirs));
        }
    }
}

fn merged_in_memory(mut ours: StoredFilter, theirs: &StoredFilter) -> StoredFilter {
    match (&mut ours, theirs) {
        (StoredFilter::ClassicalMembership(ours), StoredFilter::ClassicalMembership(theirs)) => ours.merge(theirs),
        (StoredFilter::OneLineMembership(ours), StoredFilter::OneLineMembership(theirs)) => ours.merge(theirs),
        (StoredFilter::ClassicalCounts(ours), StoredFilter::ClassicalCounts(theirs)) => ours.merge(theirs),
        (StoredFilter::OneLineCounts(ours), StoredFilter::OneLineCounts(theirs)) => ours.merge(theirs),
        _ => panic!("unlike kinds"),
    }
    .unwrap();
    ours
}

/// The shapes whose files are short enough to test every byte.
fn small() -> impl Iterator<Item = StoredFilter> {
    shapes().into_iter().filter(|shape| shape.shape().file_bytes() < 2500).map(|shape| filled(&shape, 0..40))
}

#[test]
fn no_byte_of_a_file_can_change_unseen() {
    for filter in small() {
        let bytes = encoded_with(&filter, &Label { generation: 7, key: Some(key()) });
        for (i, flip) in (0..bytes.len()).flat_map(|i| [(i, 1), (i, 0x80), (i, 0xff)]) {
            let mut damaged = bytes.clone();
            damaged[i] ^= flip;
            assert!(decoded(&damaged).is_err(), "byte {i} of {}", bytes.len());
        }
    }
}

#[test]
fn no_byte_of_a_delta_can_change_unseen() {
    for base in small() {
        let target = filled(&base, 100..120);
        let listed = delta::encode(&base, &target, 0, Some(&fingerprints(100..120))).unwrap();
        for bytes in [delta_of(&base, &target), listed] {
            for (i, flip) in (0..bytes.len()).flat_map(|i| [(i, 1), (i, 0x80), (i, 0xff)]) {
                let mut damaged = bytes.clone();
                damaged[i] ^= flip;
                let mut filter = base.clone();
                assert!(delta::apply(&mut filter, 0, &damaged).is_err(), "byte {i} of {}", bytes.len());
                assert!(filter == base, "a refused delta changes nothing");
            }
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_refused() {
    for base in small() {
        let (file, target) = (encoded(&base), filled(&base, 100..120));
        for length in 0..file.len() {
            let error = decoded(&file[..length]).unwrap_err();
            assert!(matches!(error, FileError::NotAFilter | FileError::Truncated), "{length}: {error}");
        }
        assert!(matches!(decoded(&[&*file, &[0]].concat()), Err(FileError::TrailingBytes)));
        let bytes = delta_of(&base, &target);
        for length in 0..bytes.len() {
            assert!(delta::apply(&mut base.clone(), 0, &bytes[..length]).is_err(), "{length}");
        }
        assert!(delta::apply(&mut base.clone(), 0, &[&*bytes, &[0]].concat()).is_err());
    }
}

#[test]
fn each_way_to_be_wrong_has_its_error() {
    let file = encoded_with(&filled(&shapes()[3], 0..9), &Label { generation: 0, key: Some(key()) });
    let with = |i: usize, byte: u8| {
        let mut changed = file.clone();
        changed[i] = byte;
        decoded(&changed).unwrap_err()
    };
    assert!(matches!(
        decoded(b"From: a letter, longer than any header of a filter file could ever be, so that no"),
        Err(FileError::NotAFilter)
    ));
    assert!(matches!(with(8, 3), FileError::UnsupportedVersion { version: 3, supported: 2 }));
    assert!(matches!(with(16, 7), FileError::Damaged { part: Part::Header }));
    assert!(matches!(with(64, 7), FileError::Damaged { part: Part::Key }));
    assert!(matches!(with(80, 7), FileError::Damaged { part: Part::Array }));
    let too_large = file::decode(&mut &*file, 63).unwrap_err();
    assert!(matches!(too_large, FileError::TooLarge { bytes: 64, limit_bytes: 63 }));
}

#[test]
fn a_delta_and_a_filter_are_not_mistaken_for_each_other() {
    let (base, target) = (shapes().remove(3), filled(&shapes()[3], 0..9));
    let delta = delta_of(&base, &target);
    assert!(matches!(decoded(&delta), Err(FileError::Delta)));
    let error = delta::apply(&mut base.clone(), 0, &encoded(&base)).unwrap_err();
    assert!(matches!(error, ApplyError::Delta(FileError::Filter)), "{error}");
}

#[test]
fn a_huge_array_is_refused_before_memory_is_taken() {
    let mut bytes = encoded(&shapes()[1]);
    bytes[24..32].copy_from_slice(&(1u64 << 60).to_le_bytes());
    let checksum = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(decoded(&bytes), Err(FileError::TooLarge { .. })));
}

#[test]
fn one_line_filters_of_too_many_lines_are_refused() {
    for shape in shapes() {
        let mut bytes = encoded(&shape);
        let line_cells = match shape {
            StoredFilter::OneLineMembership(_) => 512u64,
            StoredFilter::OneLineCounts(_) => 128,
            _ => continue,
        };
        for (lines, is_refused) in [((1 << 32) - 1, false), (1 << 32, true)] {
            bytes[24..32].copy_from_slice(&(lines * line_cells).to_le_bytes());
            let checksum = crc32fast::hash(&bytes[..60]);
            bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
            let error = decoded(&bytes).unwrap_err();
            assert_eq!(matches!(error, FileError::InvalidField { field: "m", .. }), is_refused, "{lines}: {error}");
        }
    }
}

#[test]
fn nothing_is_written_that_no_reader_accepts() {
    for (hashes, is_written) in [(64, true), (65, false)] {
        let filter = ClassicalFilter::new(FingerprintHash::new(1000, hashes, 40, key().id()).unwrap()).unwrap();
        assert_eq!(file::encode(&filter, &Label::default(), &mut Vec::new()).is_ok(), is_written);
        assert_eq!(delta::encode(&filter, &filter, 0, None).is_ok(), is_written);
    }
}

#[test]
fn bits_beyond_the_last_cell_are_refused() {
    let mut bytes = encoded(&shapes()[1]);
    *bytes.last_mut().unwrap() = 0x80;
    for (range, at) in [(64..bytes.len(), 56), (0..60, 60)] {
        let checksum = crc32fast::hash(&bytes[range]);
        bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    assert!(matches!(decoded(&bytes), Err(FileError::InvalidField { field: "the padding after the last cell", .. })));
}

#[test]
fn a_delta_applies_only_to_its_base() {
    for shape in shapes() {
        let (base, target) = (filled(&shape, 0..20), filled(&shape, 0..50));
        let delta = delta_of(&base, &target);
        let mut other = filled(&shape, 60..80);
        if other == base {
            continue;
        }
        let untouched = other.clone();
        assert!(matches!(delta::apply(&mut other, 0, &delta), Err(ApplyError::WrongBase { .. })));
        assert!(matches!(delta::apply(&mut other, 1, &delta), Err(ApplyError::Mismatch(_))), "another generation");
        assert!(other == untouched);
    }
}

#[test]
fn filters_with_different_parameters_have_no_delta_and_do_not_merge() {
    let like = OneLineFilter::new(10, 6, 40, key().id()).unwrap();
    let stored = |filter: &OneLineFilter| StoredFilter::OneLineMembership(filter.clone());
    let other_key = FingerprintKey::new([1; 16]).id();
    for (other, what) in [
        (shapes().remove(1), "the kind is classical membership, expected one-line membership"),
        (stored(&OneLineFilter::new(11, 6, 40, key().id()).unwrap()), "the number of cells m is 5632, expected 5120"),
        (
            stored(&OneLineFilter::new(10, 7, 40, key().id()).unwrap()),
            "the number of hash functions k is 7, expected 6",
        ),
        (
            stored(&OneLineFilter::new(10, 6, 41, key().id()).unwrap()),
            "the number of fingerprint bits is 41, expected 40",
        ),
        (stored(&OneLineFilter::new(10, 6, 40, other_key).unwrap()), "the key id is"),
    ] {
        let refused = delta::encode(&stored(&like), &other, 0, None).unwrap_err();
        assert!(matches!(&refused, DiffError::Mismatch(mismatch) if mismatch.to_string().contains(what)), "{refused}");
        let mut merged = stored(&like);
        let refused = file::merge_from(&mut merged, 0, &mut &*encoded(&other)).unwrap_err();
        assert!(matches!(&refused, FileError::Mismatch(mismatch) if mismatch.to_string().contains(what)), "{refused}");
        assert!(merged == stored(&like));
    }
}

#[test]
fn a_key_of_another_filter_is_not_stored() {
    let label = Label { generation: 0, key: Some(FingerprintKey::new([1; 16])) };
    let refused = file::encode(&shapes()[3], &label, &mut Vec::new()).unwrap_err();
    assert!(matches!(refused, FileError::Mismatch(_)), "{refused}");
}

#[test]
fn a_stored_key_comes_back_with_its_width() {
    for key in [key(), FingerprintKey::narrow(*key().as_bytes())] {
        let filter = StoredFilter::OneLineMembership(OneLineFilter::new(3, 6, 40, key.id()).unwrap());
        let bytes = encoded_with(&filter, &Label { generation: 0, key: Some(key.clone()) });
        assert_eq!(file::decode(&mut &*bytes, LIMIT).unwrap().key, Some(key));
    }
}

#[test]
fn the_key_is_in_no_delta_and_in_no_file_that_was_not_given_it() {
    let contains_key = |bytes: &[u8]| bytes.windows(16).any(|window| window == key().as_bytes());
    let (base, target) = (filled(&shapes()[4], 0..100), filled(&shapes()[4], 0..200));
    let with_key = Label { generation: 0, key: Some(key()) };
    assert!(contains_key(&encoded_with(&base, &with_key)) && !contains_key(&encoded(&base)));
    let mut delta = Vec::new();
    let (mut base, mut target) = (&*encoded_with(&base, &with_key), &*encoded_with(&target, &with_key));
    delta::diff(&mut base, &mut target, &mut delta).unwrap();
    assert!(!contains_key(&delta));
}

/// Bytes of the delta divided by the entropy of the change, for n0 = 10^6 keys with about 10 bits each.
#[test]
#[expect(clippy::print_stdout, reason = "the test prints its figures")]
fn deltas_are_about_as_short_as_the_change() {
    let base_keys = fingerprints(0..1_000_000);
    let mut base = OneLineFilter::new(19_000, 6, 35, key().id()).unwrap();
    base.insert_batch(&base_keys);
    for (new, ratio_max, encoding) in [
        (1000, 0.80, Encoding::Fingerprints),
        (10_000, 0.95, Encoding::Fingerprints),
        (100_000, 1.02, Encoding::Blocks),
    ] {
        let news = fingerprints(1_000_000..1_000_000 + new);
        let mut target = base.clone();
        target.insert_batch(&news);
        let bytes = delta::encode(&base, &target, 0, Some(&news)).unwrap();
        assert_eq!(delta::read_header(&mut &*bytes).unwrap().encoding, encoding);
        let ratio = bytes.len() as f64 * 8.0 / entropy_bits(&base, &target);
        println!("{new} new keys: {} bytes, {ratio:.3} of the entropy of the change", bytes.len());
        assert!(ratio <= ratio_max, "{new} new keys: {ratio}");
    }
}

/// Returns the entropy of the change: zeros · H(flips / zeros).
fn entropy_bits(base: &OneLineFilter, target: &OneLineFilter) -> f64 {
    let zeros = (base.bits() - base.ones()) as f64;
    let share = (target.ones() - base.ones()) as f64 / zeros;
    -zeros * (share * share.log2() + (1.0 - share) * (1.0 - share).log2())
}
