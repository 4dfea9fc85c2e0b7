//! Laws of counting filters, under any sequence of operations.

use std::collections::HashMap;

use bruit_filters::counting::{Cells, CompactCounters, CountingFilter, Extension, PackedCells};
use bruit_filters::hash::{Prime, UniversalHash};
use proptest::collection::vec;
use proptest::prelude::*;

type Filter = CountingFilter<UniversalHash>;

/// Few enough that keys share cells, and that some hit one cell twice.
const CELLS: u64 = 40;
const KEYS: u64 = 30;

/// Key x hits the cells x, x + 1 and 7x + 3, modulo 40.
fn hash() -> UniversalHash {
    UniversalHash::new(CELLS, Prime::Paper, vec![(1, 0), (1, 1), (7, 3)]).unwrap()
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

/// Whether no cell of `lower` is above that of `upper`.
fn nowhere_above(lower: &Filter, upper: &Filter) -> bool {
    lower.cells().values().zip(upper.cells().values()).all(|(lower, upper)| lower <= upper)
}

/// A key whose count is below the truth, clipped at the top of a cell.
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
        // 240 insertions never reach 255.
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

/// A refined filter in which key x hits the cells x and x + 1.
fn neighbours() -> Filter {
    let hash = UniversalHash::new(CELLS, Prime::Paper, vec![(1, 0), (1, 1)]).unwrap();
    CountingFilter::new(hash, Extension::Refined, 4).unwrap()
}

#[test]
fn merged_refined_filters_may_count_less_than_one_filter_of_all() {
    // Keys 0 and 2 raise one cell of key 1 each. One filter sees both at 1 when key 1 comes, and raises both to 2. The
    // filter that saw only key 2 leaves that cell at 1, and the other adds nothing to it.
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
    // Why `delta_since` asks for a server's own filter. Key 0 has raised one cell of key 1 to 3; both servers raise the
    // other to 3, and the first stays where it is in both deltas.
    let mut shared = neighbours();
    shared.insert_many(&0, 3);
    let [mut a, mut b] = [shared.clone(), shared.clone()];
    a.insert_many(&1, 3);
    b.insert_many(&1, 3);
    a.apply_delta(&b.delta_since(&shared).unwrap()).unwrap();
    assert_eq!(a.count(&1), 3, "of six insertions");
}

/// What can be done to a filter.
#[derive(Clone, Debug)]
enum Operation {
    Insert(u64, u32),
    Remove(u64),
    MergeEarlier,
    AddGrowth,
    KeepAsEarlier,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        8 => (0..KEYS, 1..6u32).prop_map(|(key, times)| Operation::Insert(key, times)),
        1 => (0..KEYS, 0..100_000u32).prop_map(|(key, times)| Operation::Insert(key, times)),
        4 => (0..KEYS).prop_map(Operation::Remove),
        1 => Just(Operation::MergeEarlier),
        1 => Just(Operation::AddGrowth),
        2 => Just(Operation::KeepAsEarlier),
    ];
    vec(operation, 0..60)
}

/// A filter and an earlier state of it.
struct Player<C> {
    filter: CountingFilter<UniversalHash, C>,
    earlier: CountingFilter<UniversalHash, C>,
}

impl<C: Cells> Player<C> {
    fn new(extension: Extension, cells: C) -> Self {
        let filter = CountingFilter::with_cells(hash(), extension, cells).unwrap();
        Self { earlier: filter.clone(), filter }
    }

    /// Does `operation` and tells all that can be asked.
    fn play(&mut self, operation: &Operation) -> (String, Vec<u32>, Vec<u32>) {
        let answer = match operation {
            Operation::Insert(key, times) => {
                self.filter.insert_many(key, *times);
                String::new()
            }
            Operation::Remove(key) => format!("{:?}", self.filter.remove(key)),
            Operation::MergeEarlier => format!("{:?}", self.filter.merge(&self.earlier)),
            Operation::AddGrowth => self.add_growth(),
            Operation::KeepAsEarlier => {
                self.earlier = self.filter.clone();
                String::new()
            }
        };
        (answer, self.filter.cells().values().collect(), (0..KEYS).map(|key| self.filter.count(&key)).collect())
    }

    fn add_growth(&mut self) -> String {
        match self.filter.delta_since(&self.earlier) {
            Ok(delta) => format!("{:?}", self.filter.apply_delta(&delta)),
            Err(error) => error.to_string(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn compact_counters_cannot_be_told_from_wide_cells(
        extension in extension(),
        (bits, low) in (2..=16u32).prop_flat_map(|bits| (Just(bits), 1..bits)),
        chunks in 1..=CELLS,
        operations in operations(),
    ) {
        let mut wide = Player::new(extension, PackedCells::new(CELLS, bits).unwrap());
        let mut compact = Player::new(extension, CompactCounters::new(CELLS, low, bits - low, chunks).unwrap());
        for operation in &operations {
            prop_assert_eq!(wide.play(operation), compact.play(operation), "{:?}", operation);
        }
        prop_assert_eq!(wide.filter.histogram(), compact.filter.histogram());
    }
}
