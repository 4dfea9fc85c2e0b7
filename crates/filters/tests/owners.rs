//! Compares the owner table with a plain multimap, at the table's capacity and above it. Also compares the table's
//! false votes with the prediction.

#![expect(clippy::print_stdout, reason = "the figures help to explain a failing test")]

use std::collections::BTreeMap;

use bruit_filters::owners::{
    Added, Feature, OWNERS_LIVE_MAX, OWNERS_PER_FEATURE_MAX, OWNERS_WITHOUT_PARTS_LIVE_MAX, Owner, OwnerTable, PARTS,
    Part, Votes,
};
use bruit_filters::sizing::{OWNER_LOAD, false_votes, owner_table_bytes};
use bruit_filters::{Fingerprint, FingerprintKey};
use proptest::collection::vec;
use proptest::prelude::*;

const FEATURES: usize = 48;

fn keys(start: u64, count: u64) -> Vec<Fingerprint> {
    let key = FingerprintKey::new([77; 16]);
    (start..start + count).map(|i| key.fingerprint(&i.to_le_bytes())).collect()
}

/// Returns fingerprints as the features of one text, in order.
fn features(fingerprints: &[Fingerprint]) -> Vec<Feature> {
    let length = fingerprints.len();
    let placed = fingerprints.iter().enumerate();
    placed.map(|(i, &fingerprint)| Feature { fingerprint, part: Part::of(i, length) }).collect()
}

fn votes_of(table: &OwnerTable, asked: &[Fingerprint]) -> Vec<(Owner, [u32; PARTS])> {
    let mut votes = Votes::new();
    table.votes(asked, &mut votes);
    assert!(votes.iter().all(|(owner, count)| votes.of(owner) == count));
    votes.iter().collect()
}

/// Returns the votes of the features `asked` for `owner`.
fn votes_for(table: &OwnerTable, asked: &[Fingerprint], owner: Owner) -> [u32; PARTS] {
    let mut votes = Votes::new();
    table.votes(asked, &mut votes);
    votes.of(owner)
}

fn total(counts: [u32; PARTS]) -> usize {
    counts.iter().sum::<u32>() as usize
}

/// Returns true if `counts` are at least `least` for every part.
fn cover(counts: [u32; PARTS], least: [u32; PARTS]) -> bool {
    counts.iter().zip(least).all(|(&count, least)| count >= least)
}

/// A feature's index in a pool, and the part of the text in which it occurs.
type Placed = (usize, Part);

/// An operation on a table. A feature is identified by its index in a pool, an owner by the number of owners added
/// after it.
#[derive(Clone, Debug)]
enum Step {
    Add(Vec<Placed>, usize),
    Extend(u64, Vec<Placed>, usize),
    Remove(u64, Vec<usize>),
    Expire(u64),
}

fn steps(pool: usize, count: usize) -> impl Strategy<Value = Vec<Step>> {
    let part = || (0..PARTS as u8).prop_map(|number| Part::new(number).unwrap());
    let features = move || vec((0..pool, part()), 0..30);
    let step = prop_oneof![
        4 => (features(), 0..25usize).prop_map(|(features, wanted)| Step::Add(features, wanted)),
        1 => (0..6u64, features(), 0..10usize).prop_map(|(age, features, wanted)| Step::Extend(age, features, wanted)),
        1 => (0..6u64, vec(0..pool, 0..30)).prop_map(|(age, features)| Step::Remove(age, features)),
        1 => (0..12u64).prop_map(Step::Expire),
    ];
    vec(step, 0..count)
}

/// The model: a multimap from features to owners that removes entries only on request.
#[derive(Default)]
struct Model {
    owners: BTreeMap<Owner, BTreeMap<usize, Part>>,
}

impl Model {
    fn owners_of(&self, feature: usize) -> usize {
        self.owners.values().filter(|features| features.contains_key(&feature)).count()
    }

    fn add(&mut self, owner: Owner, candidates: &[Placed], wanted: usize) -> Added {
        let mut added = Added { owner, stored: [0; PARTS], refused: 0, evicted: 0 };
        for &(feature, part) in candidates {
            if added.stored_total() == wanted {
                break;
            }
            if self.owners.get(&owner).is_some_and(|features| features.contains_key(&feature)) {
                continue;
            }
            if self.owners_of(feature) >= OWNERS_PER_FEATURE_MAX {
                added.refused += 1;
                continue;
            }
            self.owners.entry(owner).or_default().insert(feature, part);
            added.stored[part.index()] += 1;
        }
        added
    }

    fn remove(&mut self, owner: Owner, gone: &[usize]) -> usize {
        let Some(features) = self.owners.get_mut(&owner) else { return 0 };
        let before = features.len();
        features.retain(|feature, _| !gone.contains(feature));
        before - features.len()
    }

    fn votes(&self, asked: &[usize]) -> Vec<(Owner, [u32; PARTS])> {
        let count = |features: &BTreeMap<usize, Part>| {
            let mut counts = [0; PARTS];
            asked.iter().filter_map(|feature| features.get(feature)).for_each(|part| counts[part.index()] += 1);
            counts
        };
        let counted = self.owners.iter().map(|(&owner, features)| (owner, count(features)));
        counted.filter(|&(_, counts)| total(counts) > 0).collect()
    }
}

/// A table and its model.
struct Both<'a> {
    pool: &'a [Fingerprint],
    table: OwnerTable,
    model: Model,
}

impl Both<'_> {
    fn fingerprints(&self, numbers: &[usize]) -> Vec<Fingerprint> {
        numbers.iter().map(|&i| self.pool[i]).collect()
    }

    fn features(&self, placed: &[Placed]) -> Vec<Feature> {
        placed.iter().map(|&(i, part)| Feature { fingerprint: self.pool[i], part }).collect()
    }

    fn owner(&self, age: u64) -> Owner {
        Owner::from_number(self.table.live().end.number().saturating_sub(age + 1))
    }

    /// Applies one step to both and compares the results.
    fn step(&mut self, step: &Step) {
        match step {
            Step::Add(placed, wanted) => {
                let added = self.table.add(&self.features(placed), *wanted);
                assert_eq!(added, self.model.add(added.owner, placed, *wanted));
            }
            Step::Extend(age, placed, wanted) => {
                let owner = self.owner(*age);
                let added = self.table.extend(owner, &self.features(placed), *wanted);
                let wanted = if self.table.live().contains(&owner) { *wanted } else { 0 };
                assert_eq!(added, self.model.add(owner, placed, wanted));
            }
            Step::Remove(age, numbers) => {
                let owner = self.owner(*age);
                let removed = self.table.remove(&self.fingerprints(numbers), owner);
                assert_eq!(removed, self.model.remove(owner, numbers));
            }
            Step::Expire(age) => {
                self.table.expire_before(self.owner(*age));
                let oldest = self.table.live().start;
                self.model.owners.retain(|&owner, _| owner >= oldest);
            }
        }
    }
}

const POOL: usize = 60;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_table_is_the_multimap_while_there_is_room(steps in steps(POOL, 60), asked in vec(0..POOL, 0..80)) {
        // The table is larger than the cache, so that it prefetches. No two features of the pool can be confused.
        let pool = keys(0, POOL as u64);
        let table = OwnerTable::with_bytes(2 << 20).unwrap();
        let mut both = Both { pool: &pool, table, model: Model::default() };
        for step in &steps {
            both.step(step);
        }
        assert_eq!(votes_of(&both.table, &both.fingerprints(&asked)), both.model.votes(&asked));
        for (i, feature) in pool.iter().enumerate() {
            assert_eq!(both.table.owners_of(feature), both.model.owners_of(i));
        }
        let slots = both.table.bytes() / 64 * 17;
        let held: usize = both.model.owners.values().map(BTreeMap::len).sum();
        assert_eq!((both.table.load() * slots as f64).round() as usize, held);
        assert_eq!(both.table.evictions(), 0);
    }

    #[test]
    fn missing_votes_equal_the_reported_evictions(lines in 1..12usize, steps in vec((0..200u64, 0..60usize), 0..60)) {
        let mut table = OwnerTable::with_bytes(lines * 64).unwrap();
        let mut twin = table.clone();
        let bytes = table.bytes();
        let mut missing = 0;
        let mut owners = Vec::new();
        for (start, wanted) in steps {
            let candidates = keys(start * 30, 60);
            let added = table.add(&features(&candidates), wanted);
            assert_eq!(twin.add(&features(&candidates), wanted), added);
            assert!(added.stored_total() <= wanted);
            assert!(cover(votes_for(&table, &candidates, added.owner), added.stored), "the newest owner has all votes");
            owners.push((added, candidates));
        }
        for (added, candidates) in &owners {
            missing += added.stored_total().saturating_sub(total(votes_for(&table, candidates, added.owner)));
        }
        assert!(missing as u64 <= table.evictions(), "{missing} are missing, {} were evicted", table.evictions());
        assert_eq!(table.bytes(), bytes);
        assert_eq!(table, twin, "equal histories produce equal tables");
        assert!(owners.iter().map(|(added, _)| added.evicted as u64).sum::<u64>() <= table.evictions());
    }
}

#[test]
fn features_are_taken_in_order_and_common_ones_refused() {
    let mut table = OwnerTable::with_capacity(1000).unwrap();
    let pool = keys(0, 40);
    for i in 0..OWNERS_PER_FEATURE_MAX {
        assert_eq!(table.owners_of(&pool[0]), i);
        assert_eq!(table.add(&features(&pool[..1]), 10).stored_total(), 1);
    }
    let added = table.add(&features(&pool), 10);
    assert_eq!((added.stored, added.refused, added.evicted), ([9, 1, 0, 0], 1, 0));
    assert_eq!(votes_for(&table, &pool[..11], added.owner), [9, 1, 0, 0]);
    assert_eq!(votes_for(&table, &pool[11..], added.owner), [0; PARTS]);
    // The slots of an expired owner are free again.
    table.expire_before(Owner::from_number(2));
    assert_eq!(table.add(&features(&pool[..1]), 1).stored_total(), 1);
}

#[test]
fn a_feature_given_twice_is_stored_once() {
    let mut table = OwnerTable::with_capacity(1000).unwrap();
    let pool = keys(0, 20);
    let twice = [&pool[..], &pool[..]].concat();
    let added = table.add(&features(&twice), 48);
    assert_eq!(
        (added.stored, added.refused),
        ([10, 10, 0, 0], 0),
        "a repeated feature is stored once, with its first part"
    );
    assert_eq!(table.extend(added.owner, &features(&twice), 48).stored, [0; PARTS]);
    assert_eq!(votes_for(&table, &pool, added.owner), [10, 10, 0, 0]);
    assert_eq!(table.remove(&twice, added.owner), 20);
    assert!(votes_of(&table, &pool).is_empty());
}

/// The second call stores no features of the part whose slots it evicts.
#[test]
fn an_owner_that_pushes_out_what_it_stored_before_is_counted_right() {
    let mut table = OwnerTable::with_bytes(128).unwrap();
    let of_part = |fingerprints: Vec<Fingerprint>, number| -> Vec<Feature> {
        fingerprints.into_iter().map(|fingerprint| Feature { fingerprint, part: Part::new(number).unwrap() }).collect()
    };
    let added = table.add(&of_part(keys(0, 200), 0), 200);
    let more = table.extend(added.owner, &of_part(keys(1000, 50), 3), 50);
    assert_eq!((added.stored[1..].iter().sum::<u32>(), more.stored[..3].iter().sum::<u32>()), (0, 0));
    assert!(more.evicted > 0 && more.stored[3] > 0, "{more:?}");
    let asked = [keys(0, 200), keys(1000, 50)].concat();
    assert!(cover(votes_for(&table, &asked, added.owner), more.stored));
}

#[test]
fn the_smallest_table_takes_what_fits_and_never_fails() {
    for mut table in [OwnerTable::with_bytes(0).unwrap(), OwnerTable::with_capacity(0).unwrap()] {
        assert_eq!((table.bytes(), table.capacity()), (128, 32));
        assert_eq!(table.add(&[], 48).stored, [0; PARTS]);
        let added = table.add(&features(&keys(0, 200)), 200);
        assert!((28..=34).contains(&added.stored_total()), "{added:?}");
        assert!(cover(votes_for(&table, &keys(0, 200), added.owner), added.stored));
        // With only two lines, features with equal checks are indistinguishable.
        assert!(table.add(&features(&keys(500, 20)), 20).stored_total() >= 18);
    }
}

/// Adds owners until `count` features are stored and returns the results.
fn fill(table: &mut OwnerTable, start: u64, count: u64) -> Vec<(Added, Vec<Fingerprint>)> {
    let owners = (0..count / FEATURES as u64).map(|i| keys(start + i * FEATURES as u64, FEATURES as u64));
    owners.map(|candidates| (table.add(&features(&candidates), FEATURES), candidates)).collect()
}

/// Returns the fraction of the features stored by `owners` that still vote for them.
fn kept(table: &OwnerTable, owners: &[(Added, Vec<Fingerprint>)]) -> f64 {
    let stored: u32 = owners.iter().flat_map(|(added, _)| added.stored).sum();
    let found = owners.iter().flat_map(|(added, all)| {
        let votes = votes_for(table, all, added.owner).into_iter();
        votes.zip(added.stored).map(|(votes, stored)| votes.min(stored))
    });
    f64::from(found.sum::<u32>()) / f64::from(stored)
}

#[test]
fn up_to_its_capacity_a_table_loses_nothing() {
    for capacity in [100, 1000, 30_000, 1_000_000] {
        let mut table = OwnerTable::with_capacity(capacity).unwrap();
        assert!(table.capacity() >= capacity);
        let capacity = table.capacity();
        let owners = fill(&mut table, 0, capacity);
        println!("{capacity} features: {} moves, load {:.3}", table.kicks(), table.load());
        assert_eq!(table.evictions(), 0, "{capacity} features");
        assert_eq!(kept(&table, &owners), 1.0);
    }
}

/// Reports store only their lowest fingerprints, so one half of each stored fingerprint is not random. The test tries
/// both halves.
#[test]
fn the_lowest_fingerprints_spread_as_all_do() {
    let mut table = OwnerTable::with_capacity(30_000).unwrap();
    let swapped = |key: &Fingerprint| Fingerprint::new(key.low(), key.high());
    for owner in 0..table.capacity() / FEATURES as u64 {
        let mut lowest = keys(owner * 5000, 5000);
        lowest.sort_unstable();
        lowest.truncate(FEATURES);
        if owner % 2 == 0 {
            lowest.iter_mut().for_each(|key| *key = swapped(key));
        }
        // In such a small table two features of an owner may be indistinguishable.
        assert!(table.add(&features(&lowest), FEATURES).stored_total() >= FEATURES - 2);
    }
    assert_eq!(table.evictions(), 0);
}

#[test]
fn expired_owners_make_room_for_as_many_new_ones() {
    let mut table = OwnerTable::with_capacity(100_000).unwrap();
    let capacity = table.capacity();
    let mut live = fill(&mut table, 0, capacity);
    for round in 1..20 {
        let (expired, rest) = live.split_at(live.len() / 2);
        table.expire_before(rest[0].0.owner);
        assert!(expired.iter().all(|(added, all)| votes_for(&table, all, added.owner) == [0; PARTS]));
        let new = fill(&mut table, round << 32, (expired.len() * FEATURES) as u64);
        live = [rest, &new].concat();
        assert_eq!(kept(&table, &live), 1.0);
    }
    assert_eq!(table.evictions(), 0);
}

#[test]
fn a_table_above_its_capacity_keeps_the_newest() {
    let mut table = OwnerTable::with_capacity(100_000).unwrap();
    let capacity = table.capacity();
    let owners = fill(&mut table, 0, 4 * capacity);
    let eighths: Vec<f64> = owners.chunks(owners.len() / 32 + 1).map(|part| kept(&table, part)).collect();
    println!("kept, oldest first: {eighths:.3?}, {} moves, load {:.4}", table.kicks(), table.load());
    assert!(table.load() > 0.99 && table.evictions() > 2 * capacity);
    assert!(eighths[28..].iter().all(|&kept| kept > 0.99), "the newer half of the features that fit is kept");
    assert!(eighths[..16].iter().all(|&kept| kept < 0.2), "most features of the older half are evicted");
}

/// Shows the purpose of parts. A replica with words missing everywhere has votes in all four parts. A text that shares
/// one half with the owner's text has votes in only two.
#[test]
fn votes_tell_where_in_the_owners_text_they_lie() {
    let mut table = OwnerTable::with_capacity(100_000).unwrap();
    let owners = fill(&mut table, 0, 90_000);
    let (added, all) = &owners[700];
    assert_eq!(added.stored, [12; PARTS]);
    let thinned: Vec<Fingerprint> = all.iter().copied().step_by(2).collect();
    assert!(cover(votes_for(&table, &thinned, added.owner), [6; PARTS]));
    let half = votes_for(&table, &all[24..], added.owner);
    assert!(cover(half, [0, 0, 12, 12]) && half[0] + half[1] <= 1, "{half:?}");
}

/// The tolerance is 4 standard errors of a Poisson count, plus 1 % of the prediction because of the random fill of this
/// table.
#[test]
fn absent_features_cast_the_predicted_false_votes() {
    const ABSENT: u64 = 1_000_000;
    for load in [0.3, 0.7, OWNER_LOAD] {
        let bytes = owner_table_bytes(20_000, FEATURES as u64, load).unwrap();
        let mut table = OwnerTable::with_bytes(bytes as usize).unwrap();
        fill(&mut table, 0, 20_000 * FEATURES as u64);
        assert!((table.load() / load - 1.0).abs() < 1e-3);
        let mut votes = Votes::new();
        table.votes(&keys(1 << 40, ABSENT), &mut votes);
        let found: u32 = votes.iter().flat_map(|(_, counts)| counts).sum();
        let expected = false_votes(load) * ABSENT as f64;
        let off = (f64::from(found) - expected) / expected.sqrt();
        println!("load {load}: {found} votes, {expected:.0} expected, {off:.1} standard errors");
        assert!((f64::from(found) - expected).abs() <= 4.0 * expected.sqrt() + 0.01 * expected);
        // The owners of false votes are random: each of the 20,000 owners has about 50 false votes.
        let most = votes.iter().map(|(_, counts)| counts.iter().sum()).max().unwrap_or(0u32);
        let mean = expected / 20_000.0;
        assert!(f64::from(most) < mean + 8.0 * mean.sqrt() + 8.0, "{most} votes for one owner, {mean} on average");
    }
}

/// A million records with 32 features each, such as rspamd's shingles. Each record is found by more than half of its
/// features and never confused with another record.
#[test]
fn a_million_owners_of_32_features_are_found_in_a_table_without_parts() {
    const OWNERS: u64 = 1_000_000;
    const SHINGLES: usize = 32;
    const { assert!(OWNERS > OWNERS_LIVE_MAX && OWNERS < OWNERS_WITHOUT_PARTS_LIVE_MAX) };
    let bytes = owner_table_bytes(OWNERS, SHINGLES as u64, OWNER_LOAD).unwrap();
    let mut table = OwnerTable::without_parts(bytes as usize).unwrap();
    let shingles = |owner: u64| keys(owner * SHINGLES as u64, SHINGLES as u64);
    for number in 1..=OWNERS {
        let features: Vec<_> = features(&shingles(number));
        let added = table.add(&features, SHINGLES);
        assert_eq!((added.owner.number(), added.stored[1..].iter().sum::<u32>()), (number, 0));
    }
    let mut votes = Votes::new();
    for number in (1..=OWNERS).step_by(7) {
        table.votes(&shingles(number), &mut votes);
        let found: Vec<_> = votes.iter().filter(|(_, votes)| votes[0] as usize > SHINGLES / 2).collect();
        assert_eq!(found.len(), 1, "owner {number}");
        assert_eq!(found[0].0.number(), number);
    }
    let per_owner = table.bytes() as f64 / OWNERS as f64;
    println!("{per_owner:.2} bytes per owner at load {:.3}, {} lost", table.load(), table.evictions());
    assert!(per_owner < 135.0);
}
