//! Invariants of filters for any keys in any order: there are no false negatives, merging is union, and counts are
//! never too low.

use std::collections::HashMap;

use bruit_filters::bloom::{ClassicalFilter, MembershipFilter, OneLineFilter};
use bruit_filters::counting::{CountingFilter, Extension, OneLineCounts};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::ring::{CountsRing, Generations, MembershipRing, StagedRing, StagedScratch};
use bruit_filters::{Fingerprint, KeyId};
use proptest::collection::vec;
use proptest::prelude::*;

const KEY_ID: KeyId = KeyId(7);

fn fingerprints(max: usize) -> impl Strategy<Value = Vec<Fingerprint>> {
    // There are few distinct words, so that keys share lines, halves and tags.
    let word = prop_oneof![any::<u64>(), (0..4u64).prop_map(|i| i << 62), (0..4u64).prop_map(|i| i << 31)];
    vec((word.clone(), word).prop_map(|(high, low)| Fingerprint::new(high, low)), 0..max)
}

/// Asserts the same properties for every membership filter.
fn assert_membership<F>(empty: &F, ours: &[Fingerprint], theirs: &[Fingerprint])
where
    F: MembershipFilter<Key = Fingerprint> + Clone + PartialEq + std::fmt::Debug,
{
    let filled = |keys: &[Fingerprint]| {
        let mut filter = empty.clone();
        filter.insert_batch(keys);
        filter
    };
    let (a, b) = (filled(ours), filled(theirs));
    let mut found = vec![false; ours.len()];
    a.contains_batch(ours, &mut found);
    assert!(found.iter().all(|&found| found), "no false negatives");
    assert!(ours.iter().all(|key| a.contains(key)), "single checks agree with batches");
    let one_by_one = ours.iter().fold(empty.clone(), |mut filter, key| {
        filter.insert(key);
        filter
    });
    assert_eq!(a, one_by_one);

    let whole = filled(&[ours, theirs].concat());
    let mut pairwise = a.clone();
    pairwise.merge(&b).unwrap();
    let mut at_once = empty.clone();
    at_once.merge_all(&[&a, &b, &a]).unwrap();
    assert_eq!(pairwise, whole, "merging adds the same keys as inserting");
    assert_eq!(at_once, whole);
    assert!(whole.ones() >= a.ones().max(b.ones()) && whole.fill() <= 1.0);
    assert!((0.0..=1.0).contains(&whole.estimated_false_positive_rate()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn membership_filters_find_all_and_merge_to_the_union(
        ours in fingerprints(300), theirs in fingerprints(300), k in 1..=16u32, bits in 32..=64u32, lines in 1..20usize,
    ) {
        assert_membership(&OneLineFilter::new(lines, k, bits, KEY_ID).unwrap(), &ours, &theirs);
        let hash = FingerprintHash::new(lines as u64 * 100 + 1, k, bits, KEY_ID).unwrap();
        assert_membership(&ClassicalFilter::new(hash).unwrap(), &ours, &theirs);
    }

    #[test]
    fn one_line_counts_never_count_too_low(
        keys in fingerprints(60), amounts in vec(prop_oneof![0..3u32, 10..20u32, 100..300_000u32], 240), lines in 1..6usize,
    ) {
        let mut servers = [(); 3].map(|()| OneLineCounts::new(lines, KEY_ID).unwrap());
        let mut truth: HashMap<Fingerprint, u64> = HashMap::new();
        // Rounds of insertions at three servers. Each round ends with a merge into the first server's filter, which
        // then continues counting.
        for (round, amounts) in amounts.chunks(60).enumerate() {
            for (i, (key, &amount)) in keys.iter().zip(amounts).enumerate() {
                servers[(i + round) % 3].insert_many(key, amount);
                servers[i % 2].insert(key);
                *truth.entry(*key).or_default() += u64::from(amount) + 1;
            }
            let [first, second, third] = &mut servers;
            first.merge(second).unwrap();
            first.merge(third).unwrap();
            for (key, &count) in &truth {
                prop_assert!(u64::from(first.count(key)) >= count, "{} of {count}", first.count(key));
            }
            (*second, *third) = (OneLineCounts::new(lines, KEY_ID).unwrap(), OneLineCounts::new(lines, KEY_ID).unwrap());
        }
    }

    #[test]
    fn insert_many_equals_repeated_inserts(
        keys in fingerprints(40), amounts in vec(prop_oneof![9 => 0..60u32, 1 => 131_060..131_080u32], 40),
    ) {
        let (mut many, mut single) = (OneLineCounts::new(2, KEY_ID).unwrap(), OneLineCounts::new(2, KEY_ID).unwrap());
        for (key, &amount) in keys.iter().zip(&amounts) {
            many.insert_many(key, amount);
            single.insert_batch(&vec![*key; amount as usize]);
        }
        prop_assert_eq!(many, single);
    }

    #[test]
    fn rings_never_count_too_low_even_while_a_generation_expires(
        keys in fingerprints(30),
        events in vec((any::<prop::sample::Index>(), 0..8u64, prop_oneof![1..4u32, 8..20u32, 100..300_000u32]), 1..80),
        lines in 1..5usize, step in 0..4usize,
    ) {
        prop_assume!(!keys.is_empty());
        let mut ring = CountsRing::new(lines, KEY_ID, 0).unwrap();
        (0..7).for_each(|_| ring.advance());
        let mut truth: HashMap<(Fingerprint, u64), u64> = HashMap::new();
        for (key, epoch, amount) in &events {
            let key = key.get(&keys);
            ring.insert_many_at(*epoch, key, *amount).unwrap();
            *truth.entry((*key, *epoch)).or_default() += u64::from(*amount);
        }
        ring.expire(step);
        for (&(key, epoch), &count) in truth.iter().filter(|((_, epoch), _)| *epoch > 0 || step == 0) {
            let found = u64::from(ring.count_in(&key, epoch).unwrap());
            prop_assert!(found >= count, "{found} of {count} in epoch {epoch}");
        }
        for key in &keys {
            let before = ring.count(key);
            ring.insert(key);
            prop_assert!(ring.count(key) > before);
        }
    }

    #[test]
    fn rings_forget_whole_generations_and_nothing_else(batches in vec(fingerprints(40), 1..24), step in 0..9usize) {
        let mut set = MembershipRing::new(9, 40, KEY_ID, 0).unwrap();
        let mut staged = StagedRing::new(9, KEY_ID, 0).unwrap();
        let mut counts = CountsRing::new(9, KEY_ID, 0).unwrap();
        for (epoch, batch) in batches.iter().enumerate() {
            set.insert_batch(batch);
            staged.insert_batch(batch);
            counts.insert_batch(batch);
            for (earlier, keys) in batches[..=epoch].iter().enumerate().rev().take(8) {
                let mut found = vec![Generations::default(); keys.len()];
                set.check_batch(keys, &mut found);
                prop_assert!(found.iter().all(|found| found.contains((epoch - earlier) as u32)));
                staged.check_batch(keys, &mut found, &mut StagedScratch::default());
                prop_assert!(found.iter().all(|found| found.contains((epoch - earlier) as u32)));
            }
            let live: Vec<_> = batches[..=epoch].iter().rev().take(8).flatten().collect();
            for key in batch {
                let truth = live.iter().filter(|other| **other == key).count() as u32;
                prop_assert!(counts.count(key) >= truth);
            }
            set.expire(step);
            staged.expire(step);
            counts.expire(step);
            set.advance();
            staged.advance();
            counts.advance();
        }
    }
}

/// The filters are too large to be cached, so that batches take the path that fetches ahead.
#[test]
fn batches_on_large_filters_equal_single_checks() {
    let key = bruit_filters::FingerprintKey::new([5; 16]);
    let keys: Vec<_> = (0..5000u32).map(|i| key.fingerprint(&i.to_le_bytes())).collect();
    let (stored, asked) = (&keys[..2500], &keys[..]);
    let lines = 3 << 20 >> 6;
    fn check<F: MembershipFilter<Key = Fingerprint>>(mut filter: F, stored: &[Fingerprint], asked: &[Fingerprint]) {
        filter.insert_batch(stored);
        let mut found = vec![false; asked.len()];
        filter.contains_batch(asked, &mut found);
        assert!(found[..stored.len()].iter().all(|&found| found));
        assert!(asked.iter().zip(found).all(|(key, found)| filter.contains(key) == found));
    }
    check(OneLineFilter::new(lines, 6, 64, KEY_ID).unwrap(), stored, asked);
    check(
        ClassicalFilter::new(FingerprintHash::new(lines as u64 * 512, 7, 64, KEY_ID).unwrap()).unwrap(),
        stored,
        asked,
    );

    let hash = FingerprintHash::new(lines as u64 * 128, 5, 64, KEY_ID).unwrap();
    let mut classical = CountingFilter::new(hash, Extension::Refined, 4).unwrap();
    let mut one_line = OneLineCounts::new(lines, KEY_ID).unwrap();
    classical.insert_batch(stored);
    one_line.insert_batch(stored);
    let mut found = vec![0; asked.len()];
    classical.count_batch(asked, &mut found);
    assert!(asked.iter().zip(&found).all(|(key, &found)| classical.count(key) == found));
    one_line.count_batch(asked, &mut found);
    assert!(asked.iter().zip(&found).all(|(key, &found)| one_line.count(key) == found));
}
