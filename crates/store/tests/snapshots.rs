//! Snapshots with a busy writer. The events themselves drive a snapshot to completion.

mod common;

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use bruit_engine::codec::Malformed;
use bruit_store::{EVENT_BYTES_MAX, Machine, Options, RestoreError, Store};
use common::{REALM, WatchedDisk, name, options, wait_for};
use tempfile::tempdir;

/// Size of the state, which is sixteen times the number of bytes copied per event.
const STATE_BYTES: usize = 1 << 20;

/// A machine that counts the events applied during a snapshot.
#[derive(Default)]
struct Busy {
    state_bytes: usize,
    /// Bytes of overwritten state to log for each event.
    logged_bytes_per_event: usize,
    left_bytes: usize,
    meanwhile: usize,
    /// Number of slices copied.
    slices: Arc<AtomicUsize>,
}

impl Busy {
    fn new(state_bytes: usize, logged_bytes_per_event: usize) -> Self {
        Self { state_bytes, logged_bytes_per_event, ..Self::default() }
    }
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
        self.left_bytes = self.state_bytes;
    }

    fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let taken = bytes.min(self.left_bytes);
        out.resize(out.len() + taken, 0);
        self.left_bytes -= taken;
        self.slices.fetch_add(1, Ordering::SeqCst);
        self.left_bytes == 0
    }

    fn logged_bytes(&self) -> usize {
        if self.left_bytes > 0 { self.meanwhile * self.logged_bytes_per_event } else { 0 }
    }

    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError> {
        let mut state = Vec::new();
        input.read_to_end(&mut state)?;
        assert_eq!(state.len(), self.state_bytes);
        Ok(Self::new(self.state_bytes, self.logged_bytes_per_event))
    }

    fn realm(&self) -> [u8; 16] {
        REALM
    }
}

/// Returns how many of 192 events, in three records, are applied during a snapshot that began before them.
fn applied_meanwhile(state_bytes: usize, logged_bytes_per_event: usize) -> usize {
    let folder = tempdir().unwrap();
    let make = || Ok(Busy::new(state_bytes, logged_bytes_per_event));
    // A snapshot is due at event 253, and not again.
    let options = Options { snapshot_after_bytes: 253 * EVENT_BYTES_MAX as u64, ..options() };
    let store = Store::open(folder.path(), &options, make, &mut |_| {}).unwrap();
    (0..4).for_each(|_| drop(store.submit(vec![(); 63]).unwrap()));
    // The completion blocks the writer until the queue is full.
    let (held, hold) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (writer_held, writer_hold) = (Arc::clone(&held), Arc::clone(&hold));
    store.submit_with(vec![()], move |_| {
        writer_held.wait();
        writer_hold.wait();
    });
    held.wait();
    (0..191).for_each(|_| store.submit_with(vec![()], |_| {}));
    let (sender, done) = mpsc::channel();
    store.submit_with(vec![()], move |result| drop(sender.send(result)));
    hold.wait();
    done.recv().unwrap().unwrap();
    let meanwhile = store.check(|busy| busy.meanwhile);
    drop(store);
    let store = Store::open(folder.path(), &options, make, &mut |_| {}).unwrap();
    assert_eq!(store.recovery().snapshot, Some(253));
    meanwhile
}

#[test]
fn events_applied_during_a_snapshot_are_bounded_by_the_size_of_the_state() {
    assert_eq!(applied_meanwhile(STATE_BYTES, 0), 64, "the whole state is due after the first record");
}

#[test]
fn events_that_overwrite_much_make_the_snapshot_faster() {
    // A quarter of this state is copied for each record.
    let state_bytes = 16 * STATE_BYTES;
    assert_eq!(applied_meanwhile(state_bytes, 4 << 10), 192, "the log ends below 1 MiB");
    assert_eq!(
        applied_meanwhile(state_bytes, 64 << 10),
        128,
        "the log has 4 MiB after the first record and 8 MiB after the second"
    );
    assert_eq!(applied_meanwhile(state_bytes, (64 << 10) + 1), 64, "the log exceeds 4 MiB after the first record");
}

/// Number of pieces queued for the disk: the first bytes and three slices. The writer holds a fourth slice.
const CHUNKS_WAITING: usize = 4;

#[test]
fn a_slow_disk_delays_copying_without_using_memory() {
    let folder = tempdir().unwrap();
    let (slices, slices_held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (copied, held) = (Arc::clone(&slices), Arc::clone(&slices_held));
    // The snapshot's file is created only after this many slices are queued for it.
    let disk = WatchedDisk(Box::new(move |path| {
        if name(path).contains("snapshot-") {
            wait_for(|| copied.load(Ordering::SeqCst) >= CHUNKS_WAITING);
            held.store(copied.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }));
    let make = || Ok(Busy { slices, ..Busy::new(16 * STATE_BYTES, 0) });
    let store = Store::open(folder.path(), &Options { disk: Arc::new(disk), ..options() }, make, &mut |_| {}).unwrap();
    store.submit(vec![()]).unwrap();
    store.snapshot().unwrap();
    assert_eq!(slices_held.load(Ordering::SeqCst), CHUNKS_WAITING);
}
