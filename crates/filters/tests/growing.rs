//! Growth of filters and rings. Every key found before growing is still found, no count changes, and later steps work
//! as before.

use std::collections::HashMap;

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::owners::{Feature, Owner, OwnerTable, Part, Votes};
use bruit_filters::ring::{CountsRing, Generations, MembershipRing, StagedRing};
use bruit_filters::snapshot::Snapshot;
use bruit_filters::{Fingerprint, FingerprintKey};
use proptest::prelude::*;

const KEY: FingerprintKey = FingerprintKey::new([3; 16]);

fn keys(first: u64, count: u64) -> Vec<Fingerprint> {
    (first..first + count).map(|key| KEY.fingerprint(&key.to_le_bytes())).collect()
}

/// Returns a structure after a round trip through a snapshot.
fn restored<S: Snapshot>(structure: &mut S) -> S {
    let mut bytes = Vec::new();
    structure.begin_snapshot(&mut bytes);
    while !structure.continue_snapshot(100, &mut bytes) {}
    let mut input = &bytes[..];
    let restored = S::restore(&mut input, 1 << 30).unwrap();
    assert!(input.is_empty());
    restored
}

/// An operation on a ring.
#[derive(Clone, Debug)]
enum Step {
    Insert { first: u64, count: u64, amount: u32 },
    Advance,
    Expire { lines: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let insert = (0..3_000_u64, 1..200_u64, prop_oneof![Just(1_u32), 2..20_u32, Just(70_000)]);
    let step = prop_oneof![
        4 => insert.prop_map(|(first, count, amount)| Step::Insert { first, count, amount }),
        2 => Just(Step::Advance),
        1 => (1..900_usize).prop_map(|lines| Step::Expire { lines }),
    ];
    prop::collection::vec(step, 1..30)
}

fn factors() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![1, 2, 4, 5, 32])
}

/// The methods of a ring that these tests use.
trait Ages {
    fn take(&mut self, step: &Step, factor: usize);
    fn grow_by(&mut self, factor: usize);
}

macro_rules! ages {
    ($($ring:ty: $insert:expr;)*) => {$(
        impl Ages for $ring {
            fn take(&mut self, step: &Step, factor: usize) {
                match *step {
                    Step::Insert { first, count, amount } => $insert(self, &keys(first, count), amount),
                    Step::Advance => self.advance(),
                    Step::Expire { lines } => drop(self.expire(lines * factor)),
                }
            }

            fn grow_by(&mut self, factor: usize) {
                self.grow(factor);
            }
        }
    )*};
}

ages! {
    MembershipRing: |ring: &mut Self, keys: &[Fingerprint], _| ring.insert_batch(keys);
    StagedRing: |ring: &mut Self, keys: &[Fingerprint], _| ring.insert_batch(keys);
    CountsRing: |ring: &mut Self, keys: &[Fingerprint], amount: u32| {
        keys.iter().for_each(|key| ring.insert_many(key, amount));
    };
}

/// Returns two rings after the steps `before` and `after`. One of them grew between the two lists of steps.
fn lives<R: Ages + Clone>(ring: R, before: &[Step], after: &[Step], factor: usize) -> [R; 2] {
    let mut stays = ring;
    before.iter().for_each(|step| stays.take(step, 1));
    let mut grows = stays.clone();
    grows.grow_by(factor);
    after.iter().for_each(|step| stays.take(step, 1));
    after.iter().for_each(|step| grows.take(step, factor));
    [stays, grows]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_membership_ring_that_just_grew_answers_as_before(steps in steps(), factor in factors(), bits in 40..=64_u32) {
        let ring = MembershipRing::new(777, bits, KEY.id(), 12).unwrap();
        let [stays, mut grows] = lives(ring, &steps, &[], factor);
        // The keys include absent ones, so this compares false positives as well.
        for key in keys(0, 6_000) {
            prop_assert_eq!(grows.check(&key), stays.check(&key));
        }
        prop_assert_eq!(grows.lines(), stays.lines() * factor as u64);
        prop_assert_eq!(grows.estimated_rate(), stays.estimated_rate());
        prop_assert_eq!(&restored(&mut grows), &grows);
    }

    #[test]
    fn a_membership_ring_that_grew_ages_on_and_finds_what_comes(
        before in steps(), after in steps(), factor in factors()
    ) {
        let ring = MembershipRing::new(777, 64, KEY.id(), 12).unwrap();
        let [stays, mut grows] = lives(ring, &before, &after, factor);
        prop_assert_eq!(grows.epoch(), stays.epoch());
        for key in keys(0, 3_200) {
            let (larger, smaller) = (grows.check(&key), stays.check(&key));
            // A larger ring has fewer false positives, but finds every inserted key that the smaller ring finds.
            prop_assert_eq!(larger.and(smaller), larger);
        }
        let truth = generations(&before, &after);
        for (key, ages) in &truth {
            prop_assert!(ages.iter().all(|&age| grows.check(key).contains(age) == stays.check(key).contains(age)));
        }
        prop_assert_eq!(&restored(&mut grows), &grows);
    }

    #[test]
    fn a_staged_ring_that_grew_finds_all_it_found(before in steps(), after in steps(), factor in factors()) {
        let ring = StagedRing::new(400, KEY.id(), 12).unwrap();
        let [stays, grows] = lives(ring.clone(), &before, &[], factor);
        for key in keys(0, 4_000) {
            prop_assert_eq!(grows.check(&key), stays.check(&key));
        }
        let [stays, mut grows] = lives(ring, &before, &after, factor);
        for (key, ages) in generations(&before, &after) {
            let (found, expected): (Generations, Generations) = (grows.check(&key), stays.check(&key));
            prop_assert!(ages.iter().all(|&age| found.contains(age) == expected.contains(age)));
        }
        prop_assert_eq!(&restored(&mut grows), &grows);
    }

    #[test]
    fn counts_that_grew_are_the_same_and_go_on(before in steps(), after in steps(), factor in factors()) {
        // The ring has so many lines that its capacity for records grows by the same factor as the lines.
        let ring = CountsRing::new(1_280, KEY.id(), 12).unwrap();
        let [stays, grows] = lives(ring.clone(), &before, &[], factor);
        for key in keys(0, 4_000) {
            prop_assert_eq!(grows.count(&key), stays.count(&key));
            for epoch in grows.epoch().saturating_sub(5)..=grows.epoch() {
                prop_assert_eq!(grows.count_in(&key, epoch), stays.count_in(&key, epoch));
            }
        }
        let [stays, mut grows] = lives(ring, &before, &after, factor);
        let truth = counts(&before, &after);
        for key in keys(0, 3_200) {
            let count = grows.count(&key);
            prop_assert!(count <= stays.count(&key), "{count}");
            prop_assert!(truth.get(&key).is_none_or(|&truth| count >= truth), "{count}");
        }
        prop_assert_eq!(&restored(&mut grows), &grows);
    }

    #[test]
    fn growing_twice_is_growing_once_by_both(steps in steps(), first in factors(), second in factors()) {
        let mut once = CountsRing::new(1_280, KEY.id(), 12).unwrap();
        steps.iter().for_each(|step| once.take(step, 1));
        let mut twice = once.clone();
        once.grow(first * second);
        twice.grow(first);
        twice.grow(second);
        for key in keys(0, 3_200) {
            prop_assert_eq!(once.count(&key), twice.count(&key));
        }
        for epoch in once.epoch().saturating_sub(5)..=once.epoch() {
            prop_assert_eq!((once.keys(epoch), once.copied(epoch)), (twice.keys(epoch), twice.copied(epoch)));
        }
    }

    #[test]
    fn a_filter_that_grew_answers_as_before(count in 1..5_000_u64, factor in factors(), hashes in 1..=16_u32) {
        let mut filter = OneLineFilter::new(99, hashes, 50, KEY.id()).unwrap();
        filter.insert_batch(&keys(0, count));
        let before = filter.clone();
        filter.grow(factor);
        for key in keys(0, 10_000) {
            prop_assert_eq!(filter.contains(&key), before.contains(&key));
        }
        filter.insert_batch(&keys(50_000, 100));
        prop_assert!(keys(50_000, 100).iter().all(|key| filter.contains(key)));
        prop_assert_eq!(&restored(&mut filter), &filter);
    }
}

/// Returns the ages of the generations that contain each key after all steps. The oldest generation is omitted.
fn generations(before: &[Step], after: &[Step]) -> HashMap<Fingerprint, Vec<u32>> {
    let epochs = before.iter().chain(after).filter(|step| matches!(step, Step::Advance)).count();
    let (mut epoch, mut ages) = (0, HashMap::<_, Vec<u32>>::new());
    for step in before.iter().chain(after) {
        match *step {
            Step::Insert { first, count, .. } if epochs - epoch < 7 => {
                keys(first, count)
                    .into_iter()
                    .for_each(|key| ages.entry(key).or_default().push((epochs - epoch) as u32));
            }
            Step::Advance => epoch += 1,
            _ => {}
        }
    }
    ages
}

/// Returns the number of insertions of each key after all steps. Insertions into the oldest generation are not counted.
fn counts(before: &[Step], after: &[Step]) -> HashMap<Fingerprint, u32> {
    let epochs = before.iter().chain(after).filter(|step| matches!(step, Step::Advance)).count();
    let (mut epoch, mut counts) = (0, HashMap::new());
    for step in before.iter().chain(after) {
        match *step {
            Step::Insert { first, count, amount } if epochs - epoch < 7 => {
                keys(first, count).into_iter().for_each(|key| *counts.entry(key).or_default() += amount);
            }
            Step::Advance => epoch += 1,
            _ => {}
        }
    }
    counts
}

#[test]
fn copies_are_counted_separately_and_use_room() {
    let (mut set, mut counts) =
        (StagedRing::new(3_000, KEY.id(), 5).unwrap(), CountsRing::new(3_000, KEY.id(), 5).unwrap());
    let insert = |set: &mut StagedRing, counts: &mut CountsRing, keys: &[Fingerprint]| {
        set.insert_batch(keys);
        counts.insert_batch(keys);
    };
    insert(&mut set, &mut counts, &keys(0, 3_000));
    let (full, counted) = (set.estimated_keys(5).unwrap(), counts.keys(5).unwrap());
    set.grow(4);
    counts.grow(4);
    insert(&mut set, &mut counts, &keys(10_000, 2_000));
    let near = |estimate: f64, truth: f64| {
        assert!((estimate / truth - 1.0).abs() < 0.03, "estimated {estimate}, expected {truth}")
    };
    near(set.estimated_keys(5).unwrap() - set.copied(5).unwrap() as f64, 5_000.0);
    near((counts.keys(5).unwrap() - counts.copied(5).unwrap()) as f64, 5_000.0);
    near(set.estimated_keys(5).unwrap(), 4.0 * full + 2_000.0);
    near(counts.keys(5).unwrap() as f64, (4 * counted + 2_000) as f64);
    // A generation that began after the growth has no copies.
    set.advance();
    counts.advance();
    insert(&mut set, &mut counts, &keys(20_000, 500));
    near(set.estimated_keys(6).unwrap(), 500.0);
    assert_eq!((set.copied(6), counts.copied(6), counts.keys(6)), (Ok(0), Ok(0), Ok(500)));
    let again = (restored(&mut set), restored(&mut counts));
    assert_eq!((again.0.copied(5), again.1.copied(5)), (set.copied(5), counts.copied(5)));
}

#[test]
fn a_grown_ring_keeps_its_reported_rate() {
    let mut ring = MembershipRing::new(2_000, 64, KEY.id(), 0).unwrap();
    ring.insert_batch(&keys(0, 5_000));
    ring.grow(4);
    ring.insert_batch(&keys(10_000, 10_000));
    let absent = keys(1 << 40, 400_000);
    let found = absent.iter().filter(|key| !ring.check(key).is_empty()).count() as f64 / absent.len() as f64;
    let estimate = ring.estimated_rate();
    assert!((found / estimate - 1.0).abs() < 0.15, "measured {found:e}, estimated {estimate:e}");
}

#[test]
fn a_ring_that_never_grew_has_the_bytes_it_always_had() {
    let head = |structure: &mut dyn FnMut(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        structure(&mut bytes);
        bytes
    };
    let mut ring = MembershipRing::new(10, 64, KEY.id(), 0).unwrap();
    ring.insert_batch(&keys(0, 10));
    assert_eq!(head(&mut |out| ring.begin_snapshot(out))[6], 1);
    ring.grow(2);
    assert_eq!(head(&mut |out| ring.begin_snapshot(out))[6], 2);
    let mut table = OwnerTable::with_bytes(640).unwrap();
    assert_eq!(head(&mut |out| table.begin_snapshot(out))[6], 1);
    table.grow(2);
    assert_eq!(head(&mut |out| table.begin_snapshot(out))[6], 2);
}

fn features(owner: u64) -> Vec<Feature> {
    let all = keys(owner * 48, 48).into_iter().enumerate();
    all.map(|(at, fingerprint)| Feature { fingerprint, part: Part::of(at, 48) }).collect()
}

/// Returns the votes of an owner's features for that owner.
fn own_votes(table: &OwnerTable, owner: u64) -> u32 {
    let mut votes = Votes::new();
    table.votes(&keys(owner * 48, 48), &mut votes);
    votes.of(Owner::from_number(owner)).iter().sum()
}

#[test]
fn owners_keep_their_votes_through_growth_and_new_ones_find_room() {
    for factor in [2, 4, 5, 32] {
        let mut table = OwnerTable::with_capacity(300 * 48).unwrap();
        let stored: Vec<_> = (1..=290).map(|owner| table.add(&features(owner), 48).stored_total() as u32).collect();
        table.expire_before(Owner::from_number(31));
        table.remove(&keys(50 * 48, 48), Owner::from_number(50));
        let all_votes = |table: &OwnerTable| -> Vec<_> {
            let mut votes = Votes::new();
            let asked = |owner: u64| {
                table.votes(&keys(owner * 48, 48), &mut votes);
                votes.iter().collect::<Vec<_>>()
            };
            (1..600).map(asked).collect()
        };
        let (before, load) = (all_votes(&table), table.load());
        table.grow(factor);
        assert_eq!(all_votes(&table), before, "by {factor}");
        assert!((table.load() - load).abs() < 1e-9);
        assert_eq!(table.copies(Owner::from_number(290)), factor as u64);
        assert_eq!(table.copies_of_all(Owner::from_number(281)..Owner::from_number(301)), 10 * factor as u64 + 10);
        // First adds as many owners as fit in addition to the copies, then many times that number, while the old owners
        // expire.
        let table_room = table.capacity() / 48 - 260 * factor as u64;
        for owner in 291..291 + table_room {
            table.add(&features(owner), 48);
        }
        for owner in (31..290).filter(|&owner| owner != 50) {
            assert!(own_votes(&table, owner) >= stored[owner as usize - 1], "{owner}, by {factor}");
        }
        assert_eq!(table.evictions(), 0);
        table.expire_before(Owner::from_number(291));
        for owner in 291 + table_room..291 + table.capacity() / 48 {
            table.add(&features(owner), 48);
        }
        assert!(own_votes(&table, 291) >= 47);
        assert_eq!((table.evictions(), table.copies(Owner::from_number(291))), (0, 1));
        assert_eq!(restored(&mut table), table);
        table.grow(2);
        assert_eq!(restored(&mut table), table);
        assert!(own_votes(&table, 291) >= 47);
    }
}
