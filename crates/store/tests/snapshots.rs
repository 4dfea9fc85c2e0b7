//! A snapshot beside a busy writer: it is led to its end by the events themselves.

mod common;

use std::io::Read;
use std::sync::{Arc, Barrier};

use bruit_engine::codec::Malformed;
use bruit_store::{EVENT_BYTES_MAX, Machine, RestoreError, Store};
use common::{REALM, options};
use tempfile::tempdir;

/// How large the state is: sixteen times what is copied for one event.
const STATE_BYTES: usize = 1 << 20;

/// Counts how many events were applied while a snapshot was under way.
#[derive(Default)]
struct Busy {
    left_bytes: usize,
    meanwhile: usize,
}

impl Machine for Busy {
    type Event = ();
    type Outcome = ();

    fn encode(_: &(), out: &mut Vec<u8>) {
        out.resize(out.len() + EVENT_BYTES_MAX - 4, 0);
    }

    fn decode(_: &[u8]) -> Result<(), Malformed> {
        Ok(())
    }

    fn admit(&self, _: &()) -> Result<(), ()> {
        Ok(())
    }

    fn apply(&mut self, _: &()) {
        self.meanwhile += usize::from(self.left_bytes > 0);
    }

    fn begin_snapshot(&mut self, _: &mut Vec<u8>) {
        self.left_bytes = STATE_BYTES;
    }

    fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let taken = bytes.min(self.left_bytes);
        out.resize(out.len() + taken, 0);
        self.left_bytes -= taken;
        self.left_bytes == 0
    }

    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError> {
        let mut state = Vec::new();
        input.read_to_end(&mut state)?;
        assert_eq!(state.len(), STATE_BYTES);
        Ok(Self::default())
    }

    fn realm(&self) -> [u8; 16] {
        REALM
    }
}

#[test]
fn events_applied_during_a_snapshot_are_bounded_by_the_size_of_the_state() {
    let folder = tempdir().unwrap();
    let store = Store::open(folder.path(), &options(), || Ok(Busy::default()), &mut |_| {}).unwrap();
    // The writer is held up in an answer until the queue is full: three records of 64 events, and a snapshot wanted.
    let (held, hold) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (writer_held, writer_hold) = (Arc::clone(&held), Arc::clone(&hold));
    store.submit_with(vec![()], move |_| {
        writer_held.wait();
        writer_hold.wait();
    });
    held.wait();
    std::thread::scope(|scope| {
        let snapshot = scope.spawn(|| store.snapshot().unwrap());
        (0..192).for_each(|_| store.submit_with(vec![()], |_| {}));
        hold.wait();
        snapshot.join().unwrap();
    });
    store.submit(vec![()]).unwrap();
    // The round that finds the request applies before it begins; the next one copies everything.
    let meanwhile = store.check(|busy| busy.meanwhile);
    assert!(meanwhile <= 64, "{meanwhile} events of 192");
    drop(store);
    let store = Store::open(folder.path(), &options(), || Ok(Busy::default()), &mut |_| {}).unwrap();
    assert!(store.recovery().snapshot.is_some());
}
