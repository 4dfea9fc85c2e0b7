//! Events and states of another machine are never written, never skipped in favour of an older snapshot, and never
//! removed.

mod common;

use std::fs;
use std::io::Read;
use std::path::Path;

use bruit_engine::budget::Plan;
use bruit_engine::codec::Malformed;
use bruit_engine::event::Event;
use bruit_engine::trust::{Claim, Standing};
use bruit_store::{Founding, Machine, OpenError, Options, RestoreError, Store, SubmitError, repair};
use common::*;
use tempfile::tempdir;

/// A ledger of another program, which decodes events of any length but no states.
struct Other(Ledger);

impl Machine for Other {
    type Event = Vec<u8>;
    type Outcome = ();

    fn encode(event: &Vec<u8>, out: &mut Vec<u8>) {
        out.extend(event);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        Ok(bytes.to_vec())
    }

    fn admit(&self, _: &Vec<u8>) -> Result<(), ()> {
        Ok(())
    }

    fn apply(&mut self, _: &Vec<u8>) {}

    fn begin_snapshot(&mut self, out: &mut Vec<u8>) {
        self.0.begin_snapshot(out);
    }

    fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        self.0.continue_snapshot(bytes, out)
    }

    fn restore(&self, _: &mut dyn Read) -> Result<Self, RestoreError> {
        Err(RestoreError::Unlike("it has version 2".into()))
    }

    fn realm(&self) -> [u8; 16] {
        REALM
    }
}

fn try_open_other(directory: &Path) -> Result<Store<Other>, OpenError> {
    Store::open(directory, &options(), || Ok(Other(Ledger::new())), &mut |_| {})
}

#[test]
fn an_undecodable_event_is_located_and_repair_removes_it() {
    let folder = tempdir().unwrap();
    let other = try_open_other(folder.path()).unwrap();
    let number = |number: u64| number.to_le_bytes().to_vec();
    for event in [number(0), number(1), b"short".to_vec(), number(3)] {
        other.submit(vec![event]).unwrap();
    }
    drop(other);
    let journal_file = files(folder.path(), "journal-").pop().unwrap();
    let place = boundaries(&journal_file)[2] as u64;
    let error = try_open(folder.path(), &options()).err().unwrap();
    assert!(matches!(&error, OpenError::Event { sequence: 3, offset, .. } if *offset == place), "{error:?}");
    assert!(error.to_string().contains(&format!("--segment {} --cut-after {place}", name(&journal_file))), "{error}");
    let repaired = repair(folder.path(), Some(&name(&journal_file)), place, true).unwrap();
    assert_eq!(repaired.lost, Some((3, 4)));
    assert_eq!(numbers(folder.path()), [0, 1]);
}

#[test]
fn a_state_of_another_program_causes_no_fallback_and_is_kept() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    submit_numbers(&store, 0..10);
    store.snapshot().unwrap();
    drop(store);
    let snapshot = files(folder.path(), "snapshot-").pop().unwrap();
    match try_open_other(folder.path()).err() {
        Some(OpenError::Unlike { file, source }) => {
            assert_eq!((file, source.to_string().as_str()), (name(&snapshot), "it has version 2"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(numbers(folder.path()).len(), 10, "nothing was changed");
}

#[test]
fn the_budget_in_a_state_overrides_the_founding() {
    use common::clearinghouse::{claim, founding, open, try_open};

    let folder = tempdir().unwrap();
    let store = open(folder.path(), &Options::default());
    store.submit(vec![claim(Standing::Own, Claim::Report, 1)]).unwrap();
    drop(store);
    // The founding of the same realm with a larger budget.
    let larger = tempdir().unwrap();
    let with_budget = Founding { budget_bytes: founding().budget_bytes * 2, ..founding() };
    drop(bruit_store::Clearinghouse::open_or_found(larger.path(), &options(), || with_budget, &mut |_| {}).unwrap());
    fs::copy(larger.path().join("realm.bruit"), folder.path().join("realm.bruit")).unwrap();
    let opened = try_open(folder.path(), &Options::default()).unwrap();
    assert_eq!(opened.check(|engine| *engine.plan()), Plan::for_budget(founding().budget_bytes).unwrap());
}

/// A ledger that encodes events that it cannot decode.
struct Careless(Ledger);

impl Machine for Careless {
    type Event = Vec<u8>;
    type Outcome = u64;

    fn encode(event: &Vec<u8>, out: &mut Vec<u8>) {
        out.extend(event);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        Ledger::decode(bytes).map(|_| bytes.to_vec())
    }

    fn admit(&self, _: &Vec<u8>) -> Result<(), u64> {
        Ok(())
    }

    fn apply(&mut self, event: &Vec<u8>) -> u64 {
        Ledger::decode(event).map_or(0, |decoded| self.0.apply(&decoded))
    }

    fn begin_snapshot(&mut self, out: &mut Vec<u8>) {
        self.0.begin_snapshot(out);
    }

    fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        self.0.continue_snapshot(bytes, out)
    }

    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError> {
        self.0.restore(input).map(Self)
    }

    fn realm(&self) -> [u8; 16] {
        REALM
    }
}

#[test]
fn an_undecodable_event_is_refused_with_its_whole_batch() {
    let folder = tempdir().unwrap();
    let store = Store::open(folder.path(), &options(), || Ok(Careless(Ledger::new())), &mut |_| {}).unwrap();
    let refused = store.submit(vec![1_u64.to_le_bytes().to_vec(), b"short".to_vec()]);
    assert!(matches!(refused, Err(SubmitError::Unreadable(_))), "{refused:?}");
    store.submit(vec![2_u64.to_le_bytes().to_vec()]).unwrap();
    drop(store);
    assert_eq!(numbers(folder.path()), [2]);
}

#[test]
fn a_claim_of_too_many_fingerprints_does_not_keep_the_clearinghouse_from_opening() {
    use common::clearinghouse::{by, fingerprint, open, try_open};

    let folder = tempdir().unwrap();
    let store = open(folder.path(), &options());
    let fingerprints = (0..1_000).map(fingerprint).collect();
    let _ = store.submit(vec![Event::Claim { by: by(Standing::Own, 1), claim: Claim::Report, flag: 0, fingerprints }]);
    drop(store);
    let again = try_open(folder.path(), &options());
    assert!(again.is_ok(), "{}", again.err().unwrap());
}
