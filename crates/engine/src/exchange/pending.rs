//! Entries accepted by this server that are not yet in a segment.
//!
//! Pending entries are part of the state, so a crash loses none of them. Entries are removed when
//! [`Event::Sealed`](crate::event::Event::Sealed) confirms that they are in a segment on disk.

use std::collections::BTreeMap;

use super::entries::{ENTRIES_MAX, entry_bytes};
use super::{Book, PAYLOAD_BYTES_MAX};

/// Total length of pending entries, in bytes, at which events are refused. One event adds at most about 200 KiB. A
/// peer's segment adds that much if all its entries are exported to other nodes as claims.
pub(super) const PENDING_BYTES_MAX: usize = 4 << 20;

/// Pending entries, by book and generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) waiting: BTreeMap<(Book, u64), Vec<u8>>,
    bytes: usize,
}

impl Pending {
    /// Restores the pending entries from a decoded state.
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

    /// Returns the number and the bytes of the first entries: at most `most` entries, and only as many as fit in a
    /// segment.
    pub(super) fn prefix(&self, book: Book, generation: u64, most: u32) -> Option<(u32, &[u8])> {
        let waiting = self.waiting.get(&(book, generation))?;
        let (mut taken, mut end) = (0, 0);
        while end < waiting.len() && taken < most.min(ENTRIES_MAX as u32) {
            let length = entry_bytes(book, &waiting[end..]).expect("pending entries are well-formed");
            if end + length > PAYLOAD_BYTES_MAX {
                break;
            }
            (taken, end) = (taken + 1, end + length);
        }
        Some((taken, &waiting[..end]))
    }

    /// Removes the first `end` bytes.
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
