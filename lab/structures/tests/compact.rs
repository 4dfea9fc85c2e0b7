//! Tests that compact counters return the same counts as wide cells, after any sequence of operations.

use bruit_filters::counting::{Cells, CountingFilter, Extension, PackedCells};
use bruit_structures::compact::CompactCounters;
use bruit_structures::hash::{Prime, UniversalHash};
use proptest::collection::vec;
use proptest::prelude::*;

/// Number of cells. There are so few that keys share cells, and that some keys hit the same cell twice.
const CELLS: u64 = 40;
const KEYS: u64 = 30;

/// Key x hits the cells x, x + 1 and 7x + 3, modulo 40.
fn hash() -> UniversalHash {
    UniversalHash::new(CELLS, Prime::Paper, vec![(1, 0), (1, 1), (7, 3)]).unwrap()
}

fn extension() -> impl Strategy<Value = Extension> {
    prop_oneof![Just(Extension::Intuitive), Just(Extension::Refined)]
}

/// An operation on a filter.
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

    /// Performs `operation` and returns the results of all queries.
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
