//! Filters that are filled by a thread of their own, while the next payloads are read and hashed.
//!
//! Filling is a third of the work of recording, or half of it when the filters are larger than the caches.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use bruit_filters::Fingerprint;
use bruit_filters::blocks::BlockFilter;
use bruit_filters::bloom::{MembershipFilter as _, OneLineFilter};

/// Batches that may wait for the thread; whoever brings another has to wait too.
const WAITING_MAX: usize = 2;

/// The two filters of a page.
#[derive(Debug)]
pub(super) struct Filters {
    pub(super) offsets: BlockFilter<OneLineFilter>,
    pub(super) payloads: OneLineFilter,
}

/// Digests on their way to the filters.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) offsets: Vec<Fingerprint>,
    pub(super) payloads: Vec<Fingerprint>,
    pub(super) longest_blocks: usize,
}

impl Batch {
    fn clear(&mut self) {
        self.offsets.clear();
        self.payloads.clear();
        self.longest_blocks = 0;
    }
}

impl Filters {
    fn insert(&mut self, batch: &Batch) {
        self.offsets.insert_digests(&batch.offsets, batch.longest_blocks);
        self.payloads.insert_batch(&batch.payloads);
    }
}

/// The thread, and the batches that go to and fro.
#[derive(Debug)]
pub(super) struct Filler {
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
    thread: JoinHandle<Filters>,
}

impl Filler {
    pub(super) fn new(mut filters: Filters) -> Self {
        let (full, waiting) = mpsc::sync_channel::<Batch>(WAITING_MAX);
        let (emptied, empty) = mpsc::channel();
        let thread = thread::spawn(move || {
            for mut batch in waiting {
                filters.insert(&batch);
                batch.clear();
                // Nobody wants it back at the end.
                let _ = emptied.send(batch);
            }
            filters
        });
        Self { full, empty, thread }
    }

    /// Takes a batch, and gives an empty one.
    pub(super) fn exchange(&self, batch: Batch) -> Batch {
        self.full.send(batch).expect("the thread takes batches as long as there is a sender");
        self.empty.try_recv().unwrap_or_default()
    }

    /// The filters, with all that was taken.
    pub(super) fn finish(self) -> Filters {
        drop(self.full);
        self.thread.join().expect("filling does not panic")
    }
}
