//! The undo log of a running snapshot: the old contents of lines that changed before they were written.
//!
//! A snapshot writes the lines in order, a few at a time. Before a line that is not yet written changes for the first
//! time, its old contents are saved here. So the snapshot contains the state at its beginning. The log needs memory
//! only for lines that have changed and are not yet written. It never needs more memory than the unwritten rest of the
//! snapshot. The faster the snapshot is written, the less memory the log needs.
//!
//! The log is a tree instead of a hash map, because a tree never rehashes everything at once, and frees memory as the
//! snapshot proceeds.

use std::collections::BTreeMap;

use crate::lines::{LINE_BYTES, LINE_WORDS, Line};

/// The undo log and the position of the snapshot.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// The next line to write.
    next: usize,
    /// Old contents of changed lines, starting with line `next`. Stored as words, because aligned lines would need
    /// twice the memory.
    old: BTreeMap<usize, [u64; LINE_WORDS]>,
}

impl Undo {
    /// Returns the next line to write.
    pub(crate) const fn next(&self) -> usize {
        self.next
    }

    /// Returns the number of lines in the log.
    pub(crate) fn logged(&self) -> usize {
        self.old.len()
    }

    /// Saves `line` number `index` unless it is already written or saved.
    pub(crate) fn keep(&mut self, index: usize, line: &Line) {
        if index >= self.next {
            self.old.entry(index).or_insert(line.0);
        }
    }

    /// Appends the old contents of up to `limit` further lines, and returns their number.
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
