//! Benchmarks of maps: bits per key, the rate at which absent keys get a value, and the time of lookups relative to a
//! random line read.

use std::io;

use bruit_filters::owners::{Feature, OwnerTable, Part};
use bruit_filters::{Fingerprint, KeyId};
use bruit_structures::bloomier::{BloomierFilter, MutableBloomierFilter};
use bruit_structures::map::{Entry, MapBits};
use bruit_structures::ribbon::RibbonMap;
use xorf::{BinaryFuse8, Filter as _};

use crate::keys::{key, keys, mixed};
use crate::membership::figure;
use crate::memory::Buffer;
use crate::report::{Figure, Report, Target};
use crate::timing::{compare, time};

/// Number of keys in the maps whose space is measured.
const KEYS: usize = 1_000_000;
/// Number of keys in the smaller map used to time lookups. With 8 bits per key, it fits in the last-level cache of
/// large machines.
const CACHED_KEYS: usize = 10_000_000;
/// Number of keys in the larger map, which does not fit in that cache.
const MANY_KEYS: usize = 50_000_000;
/// Number of lookups per timed round.
const OPERATIONS: usize = 1_000_000;
/// Number of absent keys that are looked up.
const ABSENT: usize = 10_000_000;
/// Size of the live owner table, with which the static table is compared.
const OWNER_TABLE_BYTES: usize = 4 << 20;
const OWNER_FEATURES: usize = 48;

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    for (value_bits, check_bits) in [(0, 8), (0, 10), (8, 8), (20, 8)] {
        ribbon_space(report, bits(value_bits, check_bits))?;
    }
    bloomier(report)?;
    mutable_bloomier(report)?;
    owners(report)?;
    for keys in [CACHED_KEYS, MANY_KEYS] {
        look_ups(report, keys, bits(0, 8), Target::AtLeast(0.30))?;
        look_ups(report, keys, bits(8, 8), Target::None)?;
    }
    peer(report)
}

fn bits(value: u32, check: u32) -> MapBits {
    MapBits::new(value, check).expect("the widths are within bounds")
}

/// Generates random keys with random values.
fn entries(count: usize, bits: MapBits) -> Vec<Entry> {
    (0..count as u64).map(|i| (key(i), mixed(!i) as u32 & bits.value_max())).collect()
}

fn ribbon_space(report: &mut Report, bits: MapBits) -> io::Result<()> {
    let entries = entries(KEYS, bits);
    let mut built = None;
    let ns = time(|| built = RibbonMap::build(entries.clone(), bits, KeyId(0)).ok());
    let map = built.expect("distinct keys");
    let wrong = wrong_answers(&entries, |keys, values| map.get_batch(keys, values));
    let rate = rate_of_others(|keys, values| map.get_batch(keys, values));
    let per_key = map.total_bits() as f64 / KEYS as f64;
    let note = format!(
        "{per_key:.3} bits per key of {KEYS}, false-positive rate {rate:.3e} (predicted {:.3e}), {wrong} wrong values; \
         built at {:.0} ns per key",
        map.false_positive_rate(),
        ns / KEYS as f64,
    );
    let name = format!(
        "ribbon of {} value and {} check bits: bits per key / (value bits + log2(1/f))",
        bits.value(),
        bits.check()
    );
    let ratio = per_key / (f64::from(bits.value()) + (1.0 / rate).log2());
    report.add(Figure::new(name, ratio, Target::AtMost(1.01), note))
}

/// Returns the number of stored keys that have a wrong value. It must be 0.
fn wrong_answers(entries: &[Entry], get_batch: impl Fn(&[Fingerprint], &mut [Option<u32>])) -> usize {
    let keys: Vec<Fingerprint> = entries.iter().map(|entry| entry.0).collect();
    let mut values = vec![None; keys.len()];
    get_batch(&keys, &mut values);
    entries.iter().zip(values).filter(|((_, value), got)| *got != Some(*value)).count()
}

/// Returns the share of absent keys for which the map returns a value.
fn rate_of_others(get_batch: impl Fn(&[Fingerprint], &mut [Option<u32>])) -> f64 {
    let mut values = vec![None; OPERATIONS];
    let found = (0..ABSENT / OPERATIONS).map(|i| {
        get_batch(&keys((1 << 60) + (i * OPERATIONS) as u64, OPERATIONS), &mut values);
        values.iter().flatten().count()
    });
    found.sum::<usize>() as f64 / ABSENT as f64
}

fn bloomier(report: &mut Report) -> io::Result<()> {
    let bits = bits(8, 8);
    let entries = entries(KEYS, bits);
    let mut built = None;
    let ns = time(|| built = BloomierFilter::build(entries.clone(), bits, KeyId(0)).ok());
    let map = built.expect("distinct keys");
    let wrong = wrong_answers(&entries, |keys, values| map.get_batch(keys, values));
    let rate = rate_of_others(|keys, values| map.get_batch(keys, values));
    let note = format!(
        "8 value and 8 check bits, false-positive rate {rate:.3e} (predicted {:.3e}), {wrong} wrong values, \
         seed {}; built at {:.0} ns per key",
        map.false_positive_rate(),
        map.hashing().seed(),
        ns / KEYS as f64,
    );
    report.add(Figure::new("immutable Bloomier filter, bits per key", per_key(map.total_bits()), Target::None, note))
}

fn mutable_bloomier(report: &mut Report) -> io::Result<()> {
    let bits = bits(8, 8);
    let mut entries = entries(KEYS, bits);
    let mut map = MutableBloomierFilter::build(entries.clone(), bits, KeyId(0)).expect("distinct keys");
    entries.iter_mut().for_each(|entry| entry.1 = (entry.1 + 1) % 256);
    let ns = time(|| entries.iter().for_each(|(key, value)| assert_eq!(map.set(key, *value), Ok(true))));
    let wrong = wrong_answers(&entries, |keys, values| map.get_batch(keys, values));
    let rate = rate_of_others(|keys, values| map.get_batch(keys, values));
    let note = format!(
        "8 value and 8 check bits, false-positive rate {rate:.3e} (predicted {:.3e}), {wrong} wrong values \
         after all values were changed, at {:.0} ns each",
        map.false_positive_rate(),
        ns / KEYS as f64,
    );
    report.add(Figure::new("mutable Bloomier filter, bits per key", per_key(map.total_bits()), Target::None, note))
}

fn per_key(bits: u64) -> f64 {
    bits as f64 / KEYS as f64
}

/// Compares a static table of owners with a full live table.
fn owners(report: &mut Report) -> io::Result<()> {
    let mut table = OwnerTable::with_bytes(OWNER_TABLE_BYTES).unwrap();
    let features = keys(0, table.capacity() as usize);
    let placed = |(i, &fingerprint): (usize, &_)| Feature { fingerprint, part: Part::of(i, OWNER_FEATURES) };
    let mut entries = Vec::new();
    for (owner, features) in (0..).zip(features.chunks_exact(OWNER_FEATURES)) {
        let features: Vec<Feature> = features.iter().enumerate().map(placed).collect();
        table.add(&features, OWNER_FEATURES);
        entries.extend(features.iter().map(|feature| (feature.fingerprint, owner)));
    }
    let count = entries.len() as f64;
    let owner_bits = (entries.len() / OWNER_FEATURES).next_power_of_two().ilog2();
    // As in the live table, values include the part of the text. The number of check bits is the same, too.
    let map = RibbonMap::build(entries, bits(owner_bits + 2, 8), KeyId(0)).expect("distinct features");
    let live = table.bytes() as f64 * 8.0 / count;
    let note =
        format!("{} bits for owner and part, 8 check bits; live table: {live:.2} bits per feature", owner_bits + 2);
    report.add(Figure::new(
        "static table of owners, bits per feature",
        map.total_bits() as f64 / count,
        Target::None,
        note,
    ))
}

fn look_ups(report: &mut Report, keys: usize, bits: MapBits, target: Target) -> io::Result<()> {
    let map = RibbonMap::build(entries(keys, bits), bits, KeyId(0)).expect("distinct keys");
    let asked = mixed_keys(keys as u64);
    let buffer = Buffer::new((map.total_bits() as usize / 8).next_multiple_of(64));
    let (mut found, mut values) = (vec![false; OPERATIONS], vec![None; OPERATIONS]);
    let name = format!(
        "batched lookups ({} value and {} check bits, {keys} keys) / random line reads in an array of the map's size",
        bits.value(),
        bits.check()
    );
    let pair = if bits.value() == 0 {
        compare(OPERATIONS, || buffer.read_lines(&asked), || map.contains_batch(&asked, &mut found))
    } else {
        compare(OPERATIONS, || buffer.read_lines(&asked), || map.get_batch(&asked, &mut values))
    };
    report.add(figure(&name, pair, target))
}

/// Returns keys in random order, half of which are present, so that branches cannot be predicted.
fn mixed_keys(stored: u64) -> Vec<Fingerprint> {
    let draw = |i: u64| mixed(i ^ 0x5eed << 32);
    let one = |i| if draw(i) & 1 == 0 { key(draw(i) % stored) } else { key(1 << 60 | i) };
    (0..OPERATIONS as u64).map(one).collect()
}

/// Measures the space and the lookups of a published crate. Keys are looked up one at a time, because the crate has no
/// batch functions.
fn peer(report: &mut Report) -> io::Result<()> {
    let stored: Vec<u64> = (0..CACHED_KEYS as u64).map(|i| key(i).high()).collect();
    let filter = BinaryFuse8::try_from(stored.as_slice()).expect("distinct keys");
    let bits_per_key = filter.len() as f64 * 8.0 / CACHED_KEYS as f64;
    let asked = mixed_keys(CACHED_KEYS as u64);
    let hashes: Vec<u64> = asked.iter().map(|key| key.high()).collect();
    let buffer = Buffer::new(filter.len().next_multiple_of(64));
    let look_ups = compare(
        OPERATIONS,
        || buffer.read_lines(&asked),
        || hashes.iter().filter(|hash| filter.contains(hash)).count(),
    );
    report.add(Figure::new("peer: xorf BinaryFuse8, bits per key / 8", bits_per_key / 8.0, Target::None, ""))?;
    report.add(figure("peer: xorf BinaryFuse8 lookups / line reads", look_ups, Target::None))
}
