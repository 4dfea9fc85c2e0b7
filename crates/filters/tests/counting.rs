//! Invariants of counting filters under any sequence of operations.

use std::collections::HashMap;

use bruit_filters::Mismatch;
use bruit_filters::counting::{Cells, CountingFilter, Extension};
use bruit_filters::hash::HashFamily;
use proptest::collection::vec;
use proptest::prelude::*;

type Filter = CountingFilter<Affine>;

/// There are so few cells that keys share them and that some keys map to the same cell twice.
const CELLS: u64 = 40;
const KEYS: u64 = 30;

/// A family that maps key x to the cells cx + d, modulo the number of cells, for each pair (c, d).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Affine {
    cells: u64,
    pairs: Vec<(u64, u64)>,
}

impl HashFamily for Affine {
    type Key = u64;

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        self.pairs.len() as u32
    }

    fn positions(&self, key: &u64) -> impl Iterator<Item = u64> {
        self.pairs.iter().map(move |(c, d)| (c * key + d) % self.cells)
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        assert_eq!(self, other);
        Ok(())
    }
}

/// A family that maps key x to the cells x, x + 1 and 7x + 3, modulo 40.
fn hash() -> Affine {
    Affine { cells: CELLS, pairs: vec![(1, 0), (1, 1), (7, 3)] }
}

fn filter(extension: Extension, cell_bits: u32) -> Filter {
    CountingFilter::new(hash(), extension, cell_bits).unwrap()
}

fn filled(extension: Extension, cell_bits: u32, keys: &[u64]) -> Filter {
    let mut filter = filter(extension, cell_bits);
    filter.insert_batch(keys);
    filter
}

fn merged(ours: &Filter, theirs: &Filter) -> Filter {
    let mut sum = ours.clone();
    sum.merge(theirs).unwrap();
    sum
}

/// Returns true if no cell of `lower` is above the same cell of `upper`.
fn nowhere_above(lower: &Filter, upper: &Filter) -> bool {
    lower.cells().values().zip(upper.cells().values()).all(|(lower, upper)| lower <= upper)
}

/// Returns a key whose count is too low, if any. Counts clipped at the top of a cell are correct.
fn under_counted(filter: &Filter, insertions: &[u64]) -> Option<u64> {
    let mut truth: HashMap<u64, u32> = HashMap::new();
    insertions.iter().for_each(|&key| *truth.entry(key).or_default() += 1);
    truth.into_iter().find(|&(key, count)| filter.count(&key) < count.min(filter.cells().top())).map(|(key, _)| key)
}

fn insertions() -> impl Strategy<Value = Vec<u64>> {
    vec(0..KEYS, 0..120)
}

fn extension() -> impl Strategy<Value = Extension> {
    prop_oneof![Just(Extension::Intuitive), Just(Extension::Refined)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_key_is_under_counted(extension in extension(), bits in 1..=16u32, keys in insertions()) {
        prop_assert_eq!(under_counted(&filled(extension, bits, &keys), &keys), None);
    }

    #[test]
    fn no_key_is_under_counted_after_merging(
        extension in extension(),
        bits in 1..=16u32,
        parts in vec(insertions(), 1..5),
    ) {
        let filters: Vec<Filter> = parts.iter().map(|part| filled(extension, bits, part)).collect();
        let mut sum = filter(extension, bits);
        sum.merge_all(&filters.iter().collect::<Vec<_>>()).unwrap();
        prop_assert_eq!(under_counted(&sum, &parts.concat()), None);
    }

    #[test]
    fn refined_cells_are_nowhere_above_intuitive_ones(bits in 1..=16u32, keys in insertions()) {
        let [refined, intuitive] = [Extension::Refined, Extension::Intuitive].map(|e| filled(e, bits, &keys));
        prop_assert!(nowhere_above(&refined, &intuitive));
    }

    #[test]
    fn merged_refined_cells_are_nowhere_above_intuitive_ones_of_all(
        bits in 1..=16u32,
        ours in insertions(),
        theirs in insertions(),
    ) {
        let sum = merged(&filled(Extension::Refined, bits, &ours), &filled(Extension::Refined, bits, &theirs));
        prop_assert!(nowhere_above(&sum, &filled(Extension::Intuitive, bits, &[ours, theirs].concat())));
    }

    #[test]
    fn merged_intuitive_filters_are_the_filter_of_all(bits in 1..=16u32, ours in insertions(), theirs in insertions()) {
        let sum = merged(&filled(Extension::Intuitive, bits, &ours), &filled(Extension::Intuitive, bits, &theirs));
        prop_assert_eq!(sum, filled(Extension::Intuitive, bits, &[ours, theirs].concat()));
    }

    #[test]
    fn the_intuitive_extension_does_not_see_the_order(
        bits in 1..=16u32,
        (keys, shuffled) in insertions().prop_flat_map(|keys| (Just(keys.clone()), Just(keys).prop_shuffle())),
    ) {
        prop_assert_eq!(filled(Extension::Intuitive, bits, &keys), filled(Extension::Intuitive, bits, &shuffled));
    }

    #[test]
    fn removing_undoes_inserting_below_saturation(kept in insertions(), passing in insertions()) {
        let before = filled(Extension::Intuitive, 8, &kept);
        let mut filter = before.clone();
        filter.insert_batch(&passing);
        passing.iter().for_each(|key| filter.remove(key).unwrap());
        // With 240 insertions, no cell reaches 255.
        prop_assert_eq!(filter, before);
    }

    #[test]
    fn removing_what_was_inserted_never_under_counts(bits in 1..=4u32, kept in insertions(), passing in insertions()) {
        let mut filter = filled(Extension::Intuitive, bits, &[&kept[..], &passing].concat());
        passing.iter().for_each(|key| filter.remove(key).unwrap());
        prop_assert_eq!(under_counted(&filter, &kept), None);
    }

    #[test]
    fn a_run_equals_single_insertions(
        extension in extension(),
        bits in 1..=16u32,
        runs in vec((0..KEYS, 0..20u32), 0..30),
    ) {
        let (mut by_runs, mut singly) = (filter(extension, bits), filter(extension, bits));
        for (key, times) in runs {
            by_runs.insert_many(&key, times);
            (0..times).for_each(|_| singly.insert(&key));
        }
        prop_assert_eq!(by_runs, singly);
    }

    #[test]
    fn base_and_delta_give_the_target(
        extension in extension(),
        bits in 1..=16u32,
        before in insertions(),
        after in insertions(),
    ) {
        let mut base = filled(extension, bits, &before);
        let mut target = base.clone();
        target.insert_batch(&after);
        let delta = target.delta_since(&base).unwrap();
        base.apply_delta(&delta).unwrap();
        prop_assert_eq!(base, target);
    }
}

/// Returns a refined filter in which key x has the cells x and x + 1.
fn neighbours() -> Filter {
    let hash = Affine { cells: CELLS, pairs: vec![(1, 0), (1, 1)] };
    CountingFilter::new(hash, Extension::Refined, 4).unwrap()
}

#[test]
fn merged_refined_filters_may_count_less_than_one_filter_of_all() {
    // Keys 0 and 2 raise one cell of key 1 each. A single filter has both cells at 1 when key 1 arrives, and raises
    // both to 2. With two filters, one receives only keys 2 and 1, so it raises only the cell that is 0. Each cell is
    // then 1, and merging adds 1 to only one of them.
    let empty = neighbours();
    let [mut a, mut b, mut one] = [empty.clone(), empty.clone(), empty];
    a.insert_batch(&[2, 1]);
    b.insert(&0);
    one.insert_batch(&[0, 2, 1]);
    a.merge(&b).unwrap();
    assert_eq!((a.count(&1), one.count(&1)), (1, 2));
}

#[test]
fn refined_deltas_of_a_shared_filter_under_count() {
    // This is the reason why `delta_since` needs a server's own filter. Key 0 has raised one cell of key 1 to 3. Both
    // servers raise the other cell of key 1 to 3, and neither delta raises its first cell.
    let mut shared = neighbours();
    shared.insert_many(&0, 3);
    let [mut a, mut b] = [shared.clone(), shared.clone()];
    a.insert_many(&1, 3);
    b.insert_many(&1, 3);
    a.apply_delta(&b.delta_since(&shared).unwrap()).unwrap();
    assert_eq!(a.count(&1), 3, "3 of the 6 insertions are counted");
}
