//! Filters filled by a separate thread, while the caller reads and hashes the next payloads.
//!
//! Deriving digests from the hashed contents and inserting them is half of the work of recording.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use bruit_filters::Fingerprint;
use bruit_filters::bloom::{MembershipFilter as _, OneLineFilter};
use bruit_structures::blocks::{BlockFilter, Digester, HostId, Label};

/// Maximum number of batches in the queue; the sender blocks when it is full.
const WAITING_MAX: usize = 2;

/// The two filters of a page, and the digests not yet inserted.
#[derive(Debug)]
pub(super) struct Filters {
    pub(super) offsets: BlockFilter<OneLineFilter>,
    pub(super) payloads: OneLineFilter,
    digester: Digester,
    offset_digests: Vec<Fingerprint>,
    payload_digests: Vec<Fingerprint>,
}

/// Payloads as hashed contents, stored one after another.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) contents: Vec<u64>,
    hosts: Vec<HostId>,
    pieces: Vec<Piece>,
}

/// Number of contents and number of hosts of one payload, or of one piece of a long payload.
#[derive(Debug)]
struct Piece {
    blocks: usize,
    hosts: usize,
}

impl Batch {
    /// Ends a payload, which consists of the last `blocks` contents.
    pub(super) fn end_piece(&mut self, blocks: usize, hosts: impl IntoIterator<Item = HostId>) {
        let before = self.hosts.len();
        self.hosts.extend(hosts);
        self.pieces.push(Piece { blocks, hosts: self.hosts.len() - before });
    }

    fn clear(&mut self) {
        self.contents.clear();
        self.hosts.clear();
        self.pieces.clear();
    }
}

impl Filters {
    pub(super) fn new(offsets: BlockFilter<OneLineFilter>, payloads: OneLineFilter) -> Self {
        let digester = offsets.digester().clone();
        Self { offsets, payloads, digester, offset_digests: Vec::new(), payload_digests: Vec::new() }
    }

    fn insert(&mut self, batch: &Batch) {
        let (mut contents, mut hosts) = (&batch.contents[..], &batch.hosts[..]);
        for piece in &batch.pieces {
            let (own, rest) = contents.split_at(piece.blocks);
            let (carriers, others) = hosts.split_at(piece.hosts);
            self.add_piece(own, carriers);
            (contents, hosts) = (rest, others);
        }
        let longest_blocks = batch.pieces.iter().map(|piece| piece.blocks).max().unwrap_or(0);
        self.offsets.insert_digests(&self.offset_digests, longest_blocks);
        self.payloads.insert_batch(&self.payload_digests);
        self.offset_digests.clear();
        self.payload_digests.clear();
    }

    fn add_piece(&mut self, contents: &[u64], hosts: &[HostId]) {
        let start = self.offset_digests.len();
        self.digester.append_digests(contents, Label::Offset, &mut self.offset_digests);
        let base = &self.offset_digests[start..start + contents.len()];
        hosts.iter().for_each(|&host| Digester::append_for_host(base, host, &mut self.payload_digests));
    }
}

/// The filling thread, and the channels that exchange batches with it.
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
                // The receiver of empty batches may already be closed; then drop the batch.
                let _ = emptied.send(batch);
            }
            filters
        });
        Self { full, empty, thread }
    }

    /// Sends a batch, and returns an empty one.
    pub(super) fn exchange(&self, batch: Batch) -> Batch {
        self.full.send(batch).expect("the thread receives batches until the sender is dropped");
        self.empty.try_recv().unwrap_or_default()
    }

    /// Returns the filters after all batches are inserted.
    pub(super) fn finish(self) -> Filters {
        drop(self.full);
        self.thread.join().expect("the filling thread does not panic")
    }
}
