//! The undo log of a running snapshot: what lines were when it began, for those that changed before their turn.
//!
//! A snapshot goes through the lines in order, a few at a time. A line that is about to change and is still ahead is put
//! here first, once. So what is written is the state at the beginning whatever happens meanwhile, and memory is needed
//! only for lines that changed and are not yet written: at most what is left, and less the faster one writes.
//!
//! A tree and not a hash map: it never stops to move all it holds, and gives memory back as the snapshot goes on.

use std::collections::BTreeMap;

use crate::lines::{LINE_BYTES, LINE_WORDS, Line};

/// The log, and how far the snapshot is.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// The line to be written next.
    next: usize,
    /// Former contents, of lines from `next` on. As words: lines would be aligned, and take twice the memory.
    old: BTreeMap<usize, [u64; LINE_WORDS]>,
}

impl Undo {
    /// The line to be written next.
    pub(crate) const fn next(&self) -> usize {
        self.next
    }

    /// How many lines are in the log.
    pub(crate) fn logged(&self) -> usize {
        self.old.len()
    }

    /// Keeps `line`, the one with this `index`, unless it has been written or kept before.
    pub(crate) fn keep(&mut self, index: usize, line: &Line) {
        if index >= self.next {
            self.old.entry(index).or_insert(line.0);
        }
    }

    /// Appends the next of `lines`, at most `limit`, as they were; returns how many that were.
    pub(crate) fn append_next(&mut self, lines: &[Line], limit: usize, out: &mut Vec<u8>) -> usize {
        let start = self.next;
        self.next = start.saturating_add(limit).min(lines.len());
        out.reserve((self.next - start) * LINE_BYTES);
        for (index, line) in lines.iter().enumerate().take(self.next).skip(start) {
            let kept = self.old.first_entry().filter(|first| *first.key() == index);
            let words = kept.map_or(line.0, |first| first.remove());
            words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        self.next - start
    }
}
