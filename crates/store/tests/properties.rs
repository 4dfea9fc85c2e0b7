//! After any sequence of submitted events, snapshots, closings and torn tails, the state equals the state of an exact
//! model.

mod common;

use bruit_store::{Machine as _, Options};
use common::*;
use proptest::prelude::*;
use tempfile::tempdir;

#[derive(Clone, Debug)]
enum Step {
    Submit(Vec<u64>),
    Snapshot,
    Reopen {
        snapshot_on_close: bool,
    },
    /// Closes the store and appends bytes of an unfinished write.
    Tear(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(prop_oneof![9 => 0..50u64, 1 => Just(REFUSED)], 0..20).prop_map(Step::Submit),
        1 => Just(Step::Snapshot),
        1 => any::<bool>().prop_map(|snapshot_on_close| Step::Reopen { snapshot_on_close }),
        1 => prop::collection::vec(any::<u8>(), 1..100).prop_map(Step::Tear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_agrees_with_a_model(steps in prop::collection::vec(step(), 1..40), journal_file_bytes in 100..2000u64) {
        let folder = tempdir().unwrap();
        let mut options = Options { journal_file_bytes, snapshot_after_bytes: 2000, ..options() };
        let mut model = Ledger::new();
        let mut store = try_open(folder.path(), &options).unwrap();
        for step in steps {
            match step {
                Step::Submit(numbers) => {
                    let expected: Vec<u64> = numbers
                        .iter()
                        .map(|&number| if number == REFUSED { 0 } else { model.apply(&numbered(number)) })
                        .collect();
                    prop_assert_eq!(store.submit(numbers.into_iter().map(numbered).collect()).unwrap(), expected);
                }
                Step::Snapshot => prop_assert_eq!(store.snapshot().unwrap(), model.counts.values().sum::<u64>()),
                Step::Reopen { snapshot_on_close } => {
                    drop(store);
                    options.snapshot_on_close = snapshot_on_close;
                    store = try_open(folder.path(), &options).unwrap();
                }
                Step::Tear(bytes) => {
                    drop(store);
                    change(&files(folder.path(), "journal-").pop().unwrap(), |journal| journal.extend(&bytes));
                    store = try_open(folder.path(), &options).unwrap();
                    prop_assert_eq!(store.recovery().torn_bytes, bytes.len() as u64);
                }
            }
            prop_assert_eq!(store.check(Ledger::settled), model.clone());
        }
    }
}
