//! What this server accepted and has not yet put into a segment.
//!
//! Part of the state, so that a crash loses none of it: entries leave when [`Event::Sealed`](crate::event::Event::Sealed)
//! says that they are in a segment on disk.

use std::collections::BTreeMap;

use super::entries::{ENTRIES_MAX, entry_bytes};
use super::{Book, PAYLOAD_BYTES_MAX};

/// The most bytes that wait before events are refused. An event adds some 200 KiB at most: a peer's segment whose every
/// entry is told to nodes as a claim.
pub(super) const PENDING_BYTES_MAX: usize = 4 << 20;

/// Entries that wait, by book and generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) waiting: BTreeMap<(Book, u64), Vec<u8>>,
    bytes: usize,
}

impl Pending {
    /// What was read back.
    pub(super) fn new(waiting: BTreeMap<(Book, u64), Vec<u8>>) -> Self {
        let bytes = waiting.values().map(Vec::len).sum();
        Self { waiting, bytes }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn has_room(&self) -> bool {
        self.bytes < PENDING_BYTES_MAX
    }

    pub(super) fn chains(&self) -> impl Iterator<Item = (Book, u64)> + '_ {
        self.waiting.keys().copied()
    }

    pub(super) fn push(&mut self, book: Book, generation: u64, put: impl FnOnce(&mut Vec<u8>)) {
        let waiting = self.waiting.entry((book, generation)).or_default();
        let before = waiting.len();
        put(waiting);
        self.bytes += waiting.len() - before;
    }

    /// The first entries, as many as fit a segment and at most `most`: how many, and their bytes.
    pub(super) fn prefix(&self, book: Book, generation: u64, most: u32) -> Option<(u32, &[u8])> {
        let waiting = self.waiting.get(&(book, generation))?;
        let (mut taken, mut end) = (0, 0);
        while end < waiting.len() && taken < most.min(ENTRIES_MAX as u32) {
            let length = entry_bytes(book, &waiting[end..]).expect("what we let wait we read");
            if end + length > PAYLOAD_BYTES_MAX {
                break;
            }
            (taken, end) = (taken + 1, end + length);
        }
        Some((taken, &waiting[..end]))
    }

    /// Forgets the first `end` bytes.
    pub(super) fn drop_prefix(&mut self, book: Book, generation: u64, end: usize) {
        let Some(waiting) = self.waiting.get_mut(&(book, generation)) else { return };
        waiting.drain(..end);
        self.bytes -= end;
        if waiting.is_empty() {
            self.waiting.remove(&(book, generation));
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(Book, u64) -> bool) {
        self.waiting.retain(|&(book, generation), _| keep(book, generation));
        self.bytes = self.waiting.values().map(Vec::len).sum();
    }
}
