//! Tests of Bloomier filters: the survey's walk-through, the need for a mask, and measurements with a million keys,
//! compared with predictions.

#![expect(clippy::print_stdout, reason = "a failed test should show its figures")]

use std::collections::BTreeMap;

use bruit_filters::{Fingerprint, FingerprintKey, KeyId};
use bruit_structures::bloomier::{
    BloomierFilter, KeyedNeighbourhoods, MutableBloomierFilter, Neighbourhood, Neighbourhoods, SEEDS_MAX,
};
use bruit_structures::map::{BuildError, Entry, MapBits};
use proptest::collection::btree_map;
use proptest::prelude::*;

/// A mapping with given neighbourhoods and masks, as in the slides.
#[derive(Clone, Debug)]
struct ByHand {
    cells: u32,
    neighbourhoods: BTreeMap<char, Neighbourhood>,
}

impl ByHand {
    fn new<const N: usize>(cells: u32, neighbourhoods: [(char, [u32; 4], u64); N]) -> Self {
        let all = neighbourhoods.into_iter().map(|(key, cells, mask)| (key, Neighbourhood::new(&cells, mask)));
        Self { cells, neighbourhoods: all.collect() }
    }
}

impl Neighbourhoods for ByHand {
    type Key = char;

    fn cells(&self) -> u32 {
        self.cells
    }

    fn hashes(&self) -> usize {
        4
    }

    fn of(&self, key: &char) -> Neighbourhood {
        self.neighbourhoods[key]
    }
}

/// The survey's example: k = 4, m = 10, q = 8, and the values 0x11, 0x22, 0x44, 0x88.
fn walk_through() -> (ByHand, [(char, u32); 4]) {
    let hashing = ByHand::new(
        10,
        [('A', [1, 3, 6, 7], 0x54), ('B', [1, 3, 8, 9], 0xeb), ('C', [1, 6, 8, 9], 0x07), ('D', [2, 3, 8, 7], 0x2c)],
    );
    (hashing, [('A', 0x11), ('B', 0x22), ('C', 0x44), ('D', 0x88)])
}

#[test]
fn the_surveys_walk_through_ends_in_its_table() {
    let (hashing, entries) = walk_through();
    let map = BloomierFilter::with_hashing(hashing, &entries, MapBits::new(8, 0).unwrap()).unwrap();
    let table: Vec<u64> = map.cells().collect();
    assert_eq!(table, [0x00, 0x00, 0xa2, 0xc9, 0x00, 0x00, 0x43, 0xcf, 0x00, 0x00]);
    for (key, value) in entries {
        assert_eq!(map.get(&key), Some(value));
    }
}

#[test]
fn the_surveys_walk_through_with_a_second_table_can_be_changed() {
    let (hashing, entries) = walk_through();
    let mut map = MutableBloomierFilter::with_hashing(hashing, &entries, MapBits::new(8, 0).unwrap()).unwrap();
    for (key, value) in entries {
        assert_eq!(map.get(&key), Some(value));
        assert_eq!(map.set(&key, value ^ 0xff), Ok(true));
    }
    for (key, value) in entries {
        assert_eq!(map.get(&key), Some(value ^ 0xff), "no other key's value was changed");
    }
}

#[test]
fn a_key_with_several_cells_of_its_own_takes_the_smallest() {
    let hashing = ByHand::new(10, [('A', [7, 2, 5, 9], 0x54), ('B', [7, 8, 6, 9], 0xeb)]);
    let entries = [('A', 0x11), ('B', 0x22)];
    let map = BloomierFilter::with_hashing(hashing, &entries, MapBits::new(8, 0).unwrap()).unwrap();
    let table: Vec<u64> = map.cells().collect();
    assert_eq!(table, [0, 0, 0x11 ^ 0x54, 0, 0, 0, 0x22 ^ 0xeb, 0, 0, 0]);
}

#[test]
fn keys_without_a_singleton_have_no_order() {
    let hashing = ByHand::new(10, [('A', [1, 2, 3, 4], 0), ('B', [4, 3, 2, 1], 9)]);
    let bits = MapBits::new(8, 0).unwrap();
    assert!(BloomierFilter::with_hashing(hashing.clone(), &[('A', 1), ('B', 2)], bits).is_none());
    assert!(BloomierFilter::with_hashing(hashing, &[('A', 1)], bits).is_some());
}

/// The survey's example without a mask: values 0 to 4, and a key y whose cells are all empty.
#[test]
fn without_a_mask_a_key_whose_cells_are_empty_is_a_false_positive() {
    let without = [
        ('a', [1, 2, 4, 5], 0),
        ('b', [1, 3, 4, 5], 0),
        ('c', [1, 6, 4, 5], 0),
        ('d', [1, 7, 4, 5], 0),
        ('y', [1, 4, 5, 9], 0),
    ];
    let entries = [('a', 1), ('b', 2), ('c', 3), ('d', 4)];
    let bits = MapBits::new(3, 5).unwrap();
    let map = BloomierFilter::with_hashing(ByHand::new(10, without), &entries, bits).unwrap();
    let table: Vec<u64> = map.cells().collect();
    assert_eq!(table, [0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x03, 0x04, 0x00, 0x00]);
    assert_eq!(map.get(&'y'), Some(0), "0 is a valid value, so y is a false positive");

    // With masks, y is a false positive only if its mask happens to be a valid value, as 8 of 256 masks are.
    let taken = (0..=255).filter(|&mask| {
        let masked = without.map(|(key, cells, _)| (key, cells, if key == 'y' { mask } else { 0x5a }));
        let map = BloomierFilter::with_hashing(ByHand::new(10, masked), &entries, bits).unwrap();
        assert!(entries.iter().all(|(key, value)| map.get(key) == Some(*value)));
        map.get(&'y').is_some()
    });
    assert_eq!(taken.count(), 8);
}

fn key() -> FingerprintKey {
    FingerprintKey::new([77; 16])
}

fn keys(start: u64, count: u64) -> Vec<Fingerprint> {
    let key = key();
    (start..start + count).map(|i| key.fingerprint(&i.to_le_bytes())).collect()
}

/// Returns entries with random values.
fn entries(count: u64, bits: MapBits) -> Vec<Entry> {
    keys(0, count).into_iter().map(|key| (key, key.low() as u32 & bits.value_max())).collect()
}

/// Counts the absent keys that have a value. Returns the deviation from the prediction, in standard errors.
fn wrong_values(count: u64, predicted: f64, get_batch: impl Fn(&[Fingerprint], &mut [Option<u32>])) -> f64 {
    let absent = keys(1 << 40, count);
    let mut values = vec![None; absent.len()];
    get_batch(&absent, &mut values);
    let found = values.iter().flatten().count() as f64;
    let expected = predicted * count as f64;
    let errors = (found - expected) / (expected * (1.0 - predicted)).sqrt();
    println!("{found} of {count} keys got a value, {expected:.0} expected: {errors:.2} standard errors");
    errors.abs()
}

const MILLION: u64 = 1_000_000;

#[test]
fn a_million_keys_have_their_values_and_others_are_wrong_as_often_as_predicted() {
    let bits = MapBits::new(8, 7).unwrap();
    let entries = entries(MILLION, bits);
    let map = BloomierFilter::build(entries.clone(), bits, key().id()).unwrap();
    let stored: Vec<Fingerprint> = entries.iter().map(|entry| entry.0).collect();
    let mut values = vec![None; stored.len()];
    map.get_batch(&stored, &mut values);
    assert!(entries.iter().zip(&values).all(|((_, value), got)| *got == Some(*value)));
    let bits_per_key = map.total_bits() as f64 / MILLION as f64;
    println!("{bits_per_key:.3} bits per key for {} bits", bits.total());
    assert!(bits_per_key < 1.2301 * f64::from(bits.total()));
    assert!(wrong_values(MILLION, map.false_positive_rate(), |keys, out| map.get_batch(keys, out)) < 4.0);
    assert_eq!(map.false_positive_rate(), 1.0 / 128.0);
}

#[test]
fn a_million_values_can_be_changed_and_other_keys_are_refused_as_often_as_predicted() {
    let bits = MapBits::new(12, 7).unwrap();
    let entries = entries(MILLION, bits);
    let mut map = MutableBloomierFilter::build(entries.clone(), bits, key().id()).unwrap();
    let changed = |i: usize, value: u32| if i.is_multiple_of(3) { value ^ 0xabc } else { value };
    for (i, (key, value)) in entries.iter().enumerate().filter(|(i, _)| i.is_multiple_of(3)) {
        assert_eq!(map.get(key), Some(*value));
        assert_eq!(map.set(key, changed(i, *value)), Ok(true));
    }
    let stored: Vec<Fingerprint> = entries.iter().map(|entry| entry.0).collect();
    let mut values = vec![None; stored.len()];
    map.get_batch(&stored, &mut values);
    assert!((0..).zip(&entries).zip(&values).all(|((i, (_, value)), got)| *got == Some(changed(i, *value))));
    println!("{:.3} bits per key for {} bits", map.total_bits() as f64 / MILLION as f64, bits.total());
    assert!(wrong_values(MILLION, map.false_positive_rate(), |keys, out| map.get_batch(keys, out)) < 4.0);
    assert_eq!(map.false_positive_rate(), 0.75 / 128.0);

    let before = map.clone();
    let refused = keys(1 << 41, 1000).iter().filter(|key| map.set(key, 1) == Ok(false)).count();
    assert!(refused > 950, "{refused}");
    let error = BuildError::ValueTooLarge { value: 4096, bits: 12 };
    assert_eq!(map.clone().set(&stored[0], 4096), Err(error));
    let [mut ours, mut theirs] = [vec![None; stored.len()], vec![None; stored.len()]];
    map.get_batch(&stored, &mut ours);
    before.get_batch(&stored, &mut theirs);
    let touched = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).count();
    assert!(touched <= 1000 - refused, "only false positives may change a value: {touched}");
}

#[test]
fn a_set_whose_first_seed_has_no_order_is_built_with_another() {
    let bits = MapBits::new(16, 8).unwrap();
    let mut seeds = [0; SEEDS_MAX as usize];
    for start in 0..500 {
        let entries: Vec<Entry> = keys(start * 1000, 60).into_iter().zip(0..).collect();
        let map = BloomierFilter::build(entries.clone(), bits, key().id()).unwrap();
        assert!(entries.iter().all(|(key, value)| map.get(key) == Some(*value)));
        seeds[map.hashing().seed() as usize] += 1;
    }
    println!("number of sets of 60 keys by the seed that they needed: {:?}", &seeds[..5]);
    assert!(seeds[1] > 0, "some sets need the second seed: {seeds:?}");
    assert!(seeds[0] > 400, "most sets need only the first seed: {seeds:?}");
}

#[test]
fn a_key_with_two_values_is_rejected() {
    let bits = MapBits::new(8, 8).unwrap();
    let [a, b] = [keys(0, 1)[0], keys(1, 1)[0]];
    let conflict = Err(BuildError::Conflict { key: a, values: [1, 2] });
    let unequal = vec![(a, 1), (b, 1), (a, 2)];
    assert_eq!(BloomierFilter::build(unequal.clone(), bits, key().id()), conflict);
    assert_eq!(MutableBloomierFilter::build(unequal, bits, key().id()).map(drop), conflict.map(drop));
    let equal = BloomierFilter::build(vec![(a, 1), (b, 1), (a, 1)], bits, key().id()).unwrap();
    assert_eq!((equal.get(&a), equal.keys()), (Some(1), 2));
}

#[test]
fn an_empty_map_has_only_false_positives() {
    let map = MutableBloomierFilter::build(Vec::new(), MapBits::new(32, 32).unwrap(), key().id()).unwrap();
    assert!(keys(0, 1000).iter().all(|key| map.get(key).is_none()));
    let no_values = MapBits::new(0, 8).unwrap();
    let refused = MutableBloomierFilter::build(Vec::new(), no_values, key().id());
    assert_eq!(refused.map(drop), Err(BuildError::NoValueBits));
}

#[test]
#[should_panic(expected = "the value does not fit in 8 bits")]
fn values_that_do_not_fit_are_rejected_with_a_custom_hashing() {
    let (hashing, mut entries) = walk_through();
    entries[2].1 = 256;
    let _ = BloomierFilter::with_hashing(hashing, &entries, MapBits::new(8, 8).unwrap());
}

#[test]
#[should_panic(expected = "the value does not fit in 8 bits")]
fn mutable_maps_round_trip_as_well() {
    let (hashing, mut entries) = walk_through();
    entries[2].1 = 256;
    let _ = MutableBloomierFilter::with_hashing(hashing, &entries, MapBits::new(8, 8).unwrap());
}

proptest! {
    #[test]
    fn filters_of_every_width_are_the_map_they_were_built_from(
        model in btree_map(0u64..1 << 20, any::<u32>(), 0..200),
        changes in btree_map(0u64..1 << 20, any::<u32>(), 0..50),
        value_bits in 1u32..=32,
        check_bits in 0u32..=32,
    ) {
        let bits = MapBits::new(value_bits, check_bits).unwrap();
        let fitting = |value: u32| value & bits.value_max();
        let of = |name: u64| Fingerprint::narrow(name.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let entries: Vec<Entry> = model.iter().map(|(&name, &value)| (of(name), fitting(value))).collect();
        let immutable = BloomierFilter::build(entries.clone(), bits, KeyId(1)).unwrap();
        let mut mutable = MutableBloomierFilter::build(entries.clone(), bits, KeyId(1)).unwrap();
        prop_assert!(entries.iter().all(|(key, value)| immutable.get(key) == Some(*value)));
        prop_assert!(entries.iter().all(|(key, value)| mutable.get(key) == Some(*value)));
        let mut model: BTreeMap<u64, u32> = model.into_iter().map(|(name, value)| (name, fitting(value))).collect();
        for (name, value) in changes.into_iter().filter(|(name, _)| name % 2 == 0) {
            if let Some(stored) = model.get_mut(&name) {
                *stored = fitting(value);
                prop_assert_eq!(mutable.set(&of(name), fitting(value)), Ok(true));
            }
        }
        prop_assert!(model.iter().all(|(&name, &value)| mutable.get(&of(name)) == Some(value)));
    }
}

#[test]
fn hashing_depends_on_the_number_of_keys_the_seed_and_the_key() {
    let hashing = KeyedNeighbourhoods::for_keys(1000, 2, KeyId(3));
    assert_eq!((hashing.cells(), hashing.hashes(), hashing.seed(), hashing.key_id()), (1263, 3, 2, KeyId(3)));
    let key = keys(0, 1)[0];
    assert_eq!(hashing.of(&key), KeyedNeighbourhoods::for_keys(1000, 2, KeyId(4)).of(&key));
    assert_ne!(hashing.of(&key), KeyedNeighbourhoods::for_keys(1000, 1, KeyId(3)).of(&key));
}
