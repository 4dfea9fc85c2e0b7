//! Tests of ribbon maps: compared with plain maps, compared with their predicted size and rate, and as files.

#![expect(clippy::print_stdout, reason = "a failed test should show its figures")]

use bruit_filters::file::{FileError, KEY_BYTES};
use bruit_filters::{Fingerprint, FingerprintKey, KeyId};
use bruit_structures::bloomier::MutableBloomierFilter;
use bruit_structures::map::{self, BuildError, Entry, LAYER_BYTES, MAP_HEADER_BYTES, MapBits, MapKind, StoredMap};
use bruit_structures::ribbon::{LAYERS_MAX, RibbonMap};
use proptest::collection::btree_map;
use proptest::prelude::*;

fn key() -> FingerprintKey {
    FingerprintKey::narrow([78; 16])
}

fn keys(start: u64, count: u64) -> Vec<Fingerprint> {
    let key = key();
    (start..start + count).map(|i| key.fingerprint(&i.to_le_bytes())).collect()
}

fn entries(count: u64, bits: MapBits) -> Vec<Entry> {
    keys(0, count).into_iter().map(|key| (key, key.low() as u32 & bits.value_max())).collect()
}

/// Returns the fraction of a million absent keys that have a value, and asserts that it is within four standard errors
/// of the prediction.
fn measured_rate(map: &RibbonMap) -> f64 {
    let absent = keys(1 << 40, 1_000_000);
    let mut values = vec![None; absent.len()];
    map.get_batch(&absent, &mut values);
    let rate = values.iter().flatten().count() as f64 / absent.len() as f64;
    let predicted = map.false_positive_rate();
    let error = (predicted * (1.0 - predicted) / absent.len() as f64).sqrt();
    println!("rate {rate:.4e}, predicted {predicted:.4e}: {:.2} standard errors", (rate - predicted) / error);
    assert!((rate - predicted).abs() < 4.0 * error);
    rate
}

#[test]
fn a_million_keys_take_less_than_a_hundredth_more_bits_than_their_answers_have() {
    const KEYS: u64 = 1_000_000;
    for (value, check) in [(0, 7), (8, 8), (20, 4)] {
        let bits = MapBits::new(value, check).unwrap();
        let entries = entries(KEYS, bits);
        let map = RibbonMap::build(entries.clone(), bits, key().id()).unwrap();
        let stored: Vec<Fingerprint> = entries.iter().map(|entry| entry.0).collect();
        let mut values = vec![None; stored.len()];
        map.get_batch(&stored, &mut values);
        assert!(entries.iter().zip(&values).all(|((_, value), got)| *got == Some(*value)), "a key has the wrong value");
        let answer_bits = f64::from(value) + (1.0 / measured_rate(&map)).log2();
        let ratio = map.total_bits() as f64 / KEYS as f64 / answer_bits;
        println!("{value} + {check} bits: {ratio:.4} of the bits of the answers");
        assert!(ratio <= 1.01, "{ratio}");
    }
}

#[test]
fn a_set_contains_its_keys_one_by_one_and_in_batches() {
    let set = RibbonMap::set_of(&keys(0, 10_000), 10, key().id()).unwrap();
    let asked = keys(5_000, 10_000);
    let mut found = vec![false; asked.len()];
    set.contains_batch(&asked, &mut found);
    assert!(found[..5_000].iter().all(|&found| found), "no false negatives");
    let wrong = found[5_000..].iter().filter(|&&found| found).count();
    assert!(wrong < 25, "{wrong} false positives of 5,000 at a rate of 1 in 1,024");
    assert!(asked.iter().zip(&found).all(|(key, &found)| set.contains(key) == found));
    assert_eq!((set.keys(), set.bits().value(), set.key_id()), (10_000, 0, key().id()));
}

#[test]
fn maps_of_few_keys_and_of_none_work_as_well() {
    let bits = MapBits::new(32, 32).unwrap();
    for count in [0, 1, 2, 63, 64, 65, 1999, 2000, 2001] {
        let entries = entries(count, bits);
        let map = RibbonMap::build(entries.clone(), bits, key().id()).unwrap();
        assert!(entries.iter().all(|(key, value)| map.get(key) == Some(*value)), "{count} keys");
        assert!(keys(1 << 40, 1000).iter().all(|key| map.get(key).is_none()));
    }
}

#[test]
fn invalid_map_files_are_rejected() {
    let bits = MapBits::new(4, 4).unwrap();
    let [a, b] = [keys(0, 1)[0], keys(1, 1)[0]];
    let build = |entries| RibbonMap::build(entries, bits, key().id()).map(drop);
    assert_eq!(build(vec![(a, 1), (b, 1), (a, 2)]), Err(BuildError::Conflict { key: a, values: [1, 2] }));
    assert_eq!(build(vec![(a, 1), (b, 15), (a, 1)]), Ok(()));
    assert_eq!(build(vec![(a, 16)]), Err(BuildError::ValueTooLarge { value: 16, bits: 4 }));
    assert_eq!(RibbonMap::set_of(&[a], 0, key().id()).map(drop), Err(BuildError::Bits { value: 0, check: 0 }));
}

#[test]
fn equal_sets_give_equal_bytes_in_whatever_order_they_come() {
    let bits = MapBits::new(5, 5).unwrap();
    let mut entries = entries(5_000, bits);
    let bytes = |entries: &[Entry]| file_of(&RibbonMap::build(entries.to_vec(), bits, key().id()).unwrap().into());
    let forwards = bytes(&entries);
    entries.reverse();
    entries.extend_from_within(..100);
    assert!(forwards == bytes(&entries));
}

proptest! {
    #[test]
    fn maps_of_every_width_are_what_they_were_built_from(
        model in btree_map(any::<u64>(), any::<u32>(), 0..3000),
        (value_bits, check_bits) in (0u32..=32, 0u32..=32).prop_filter("no bits", |bits| *bits != (0, 0)),
    ) {
        let bits = MapBits::new(value_bits, check_bits).unwrap();
        let entries: Vec<Entry> =
            model.iter().map(|(&name, &value)| (Fingerprint::narrow(name), value & bits.value_max())).collect();
        let map = RibbonMap::build(entries.clone(), bits, KeyId(1)).unwrap();
        prop_assert!(entries.iter().all(|(key, value)| map.get(key) == Some(*value)));
        let stored = StoredMap::from(map);
        let mut bytes = Vec::new();
        map::encode(&stored, None, &mut bytes).unwrap();
        prop_assert_eq!(map::decode(&mut bytes.as_slice(), 1 << 20).unwrap().map, stored);
    }
}

/// Returns the bytes of a map file that contains its key.
fn file_of(map: &StoredMap) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = map::encode(map, Some(&key()), &mut bytes).unwrap();
    assert_eq!(header.file_bytes(), bytes.len() as u64);
    bytes
}

/// Returns a map of each kind.
fn both() -> [StoredMap; 2] {
    of_each_kind(5_000)
}

fn of_each_kind(keys: u64) -> [StoredMap; 2] {
    let bits = MapBits::new(9, 10).unwrap();
    let ribbon = RibbonMap::build(entries(keys, bits), bits, key().id()).unwrap();
    [ribbon.into(), MutableBloomierFilter::build(entries(keys, bits), bits, key().id()).unwrap().into()]
}

#[test]
fn maps_come_back_from_their_files_with_their_key() {
    for (map, kind) in both().into_iter().zip([MapKind::Ribbon, MapKind::MutableBloomier]) {
        let bytes = file_of(&map);
        let decoded = map::decode(&mut bytes.as_slice(), 1 << 20).unwrap();
        assert_eq!((decoded.header.kind, decoded.header.keys), (kind, 5_000));
        assert_eq!(decoded.key, Some(key()));
        assert!(decoded.map == map);
        let asked = keys(0, 10_000);
        let [mut ours, mut theirs] = [vec![None; asked.len()], vec![None; asked.len()]];
        map.get_batch(&asked, &mut ours);
        decoded.map.get_batch(&asked, &mut theirs);
        assert_eq!(ours, theirs);
    }
}

#[test]
fn a_key_that_the_map_was_not_built_under_is_not_written_beside_it() {
    let other = FingerprintKey::new([1; 16]);
    let refused = map::encode(&both()[0], Some(&other), &mut Vec::new()).unwrap_err();
    assert!(matches!(refused, FileError::Mismatch(_)), "{refused}");
}

#[test]
fn every_cut_and_every_changed_byte_of_a_map_file_is_noticed() {
    for map in of_each_kind(2_100) {
        let bytes = file_of(&map);
        let payload = map.total_bits().div_ceil(8) + 64;
        let decode = |bytes: &[u8]| map::decode(&mut { bytes }, payload);
        for cut in 0..bytes.len() {
            let error = decode(&bytes[..cut]).unwrap_err();
            assert!(matches!(error, FileError::Truncated | FileError::NotAMap), "cut at {cut}: {error}");
        }
        let mut damaged = bytes.clone();
        for place in 0..bytes.len() {
            damaged[place] ^= 0x10;
            assert!(decode(&damaged).is_err(), "byte {place}");
            damaged[place] = bytes[place];
        }
        assert!(matches!(decode(&[&bytes[..], &[0]].concat()), Err(FileError::TrailingBytes)));
        assert!(decode(&bytes).is_ok());
    }
}

#[test]
fn a_map_is_not_read_into_more_memory_than_is_allowed() {
    for map in both() {
        let bytes = file_of(&map);
        let payload = map::read_header(&mut bytes.as_slice()).unwrap().0.payload_bytes();
        assert!(map::decode(&mut bytes.as_slice(), payload).is_ok());
        let error = map::decode(&mut bytes.as_slice(), payload - 1).unwrap_err();
        assert!(matches!(error, FileError::TooLarge { bytes, .. } if bytes == payload), "{error}");
    }
}

/// Overwrites the bytes at `place` with `value`, corrects the checksums, and returns the decoding error.
fn refusal(map: &StoredMap, place: usize, value: &[u8]) -> String {
    let mut bytes = file_of(map);
    bytes[place..place + value.len()].copy_from_slice(value);
    let contents = crc32(&bytes[MAP_HEADER_BYTES + KEY_BYTES..]);
    bytes[56..60].copy_from_slice(&contents.to_le_bytes());
    let header = crc32(&bytes[..60]);
    bytes[60..64].copy_from_slice(&header.to_le_bytes());
    map::decode(&mut bytes.as_slice(), u64::MAX).unwrap_err().to_string()
}

/// Computes the CRC-32 that zlib and PNG use, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn fields_that_no_writer_leaves_are_refused_by_name() {
    let [ribbon, bloomier] = both();
    let list = MAP_HEADER_BYTES + KEY_BYTES;
    for (map, place, value, error) in [
        (&ribbon, 6, &b"F"[..], "not a map file"),
        (&ribbon, 8, &[2], "unsupported format version 2 (latest supported: 1)"),
        (&ribbon, 10, &[3], "invalid: the kind cannot be 3"),
        (&ribbon, 11, &[2], "invalid: the hash cannot be 2"),
        (&ribbon, 12, &[33], "invalid: the number of value bits cannot be 33"),
        (&ribbon, 13, &[33], "invalid: the number of check bits cannot be 33"),
        (&ribbon, 12, &[0, 0], "invalid: the number of check bits cannot be 0"),
        (&ribbon, 14, &[LAYERS_MAX as u8 + 1], "invalid: the number of layers cannot be 17"),
        (&ribbon, 14, &[0], "invalid: the number of keys cannot be 5000"),
        (&ribbon, 15, &[3], "invalid: the flags cannot be 3"),
        (&ribbon, 24, &[1], "invalid: a third of the cells cannot be 1"),
        (&ribbon, 48, &[1], "invalid: the seed cannot be 1"),
        (&ribbon, list, &[1, 0, 0, 0], "invalid: the number of blocks cannot be 1"),
        (&ribbon, list, &[255; LAYER_BYTES], "invalid: the number of words cannot be"),
        (&ribbon, 46, &[1], "invalid: the number of words cannot be 281474976"),
        (&bloomier, 12, &[0], "invalid: the number of value bits cannot be 0"),
        (&bloomier, 14, &[2], "invalid: the number of cells of a key cannot be 2"),
        (&bloomier, 24, &[0; 8], "invalid: a third of the cells cannot be 0"),
        (&bloomier, 24, &[255; 8], "invalid: a third of the cells cannot be"),
        (&bloomier, 40, &[1], "invalid: the number of words cannot be"),
        (&bloomier, 48, &[64], "invalid: the seed cannot be 64"),
        (&bloomier, 19, &[0x41], "invalid: the number of keys cannot be"),
    ] {
        let refused = refusal(map, place, value);
        assert!(refused.starts_with(error), "{place}: {refused}, not {error}");
    }
}

#[test]
fn a_key_of_another_name_and_bits_behind_the_end_are_refused() {
    let [ribbon, bloomier] = both();
    assert_eq!(refusal(&ribbon, MAP_HEADER_BYTES, &[0; KEY_BYTES]), "damaged: the checksum of the key does not match");
    for map in [ribbon, bloomier] {
        let length = file_of(&map).len();
        let refused = refusal(&map, length - 1, &[0xff]);
        assert!(refused.starts_with("invalid: the padding after the last cell cannot be"), "{refused}");
    }
}
