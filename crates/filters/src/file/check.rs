//! Validation of arrays from untrusted input: the invariants that the filters rely on.

use super::spill::SpillEntry;
use super::{FileError, FilterKind, Header};
use crate::counting::rows;
use crate::lines::{LINE_WORDS, Line};

/// Validates an array from front to back.
pub(crate) struct WordCheck {
    is_one_line_counts: bool,
    words_left: u64,
    last_word_mask: u64,
    next_line: u32,
    /// The spill entries of the remaining lines, with the last one first.
    entries: Vec<SpillEntry>,
}

impl WordCheck {
    /// Creates a check of an array whose spill section has these `entries`, in order.
    pub(crate) fn new(header: &Header, mut entries: Vec<SpillEntry>) -> Self {
        entries.reverse();
        Self {
            is_one_line_counts: header.kind == FilterKind::OneLineCounts,
            words_left: header.words(),
            last_word_mask: header.last_word_mask(),
            next_line: 0,
            entries,
        }
    }

    /// Returns the number of words not checked yet.
    pub(crate) const fn words_left(&self) -> u64 {
        self.words_left
    }

    /// Checks the next `words`, which are whole lines in one-line layouts. Rejects words that no filter can have: bits
    /// beyond the last cell, or inconsistent lines of counts.
    pub(crate) fn next(&mut self, words: &[u64]) -> Result<(), FileError> {
        self.words_left = self.words_left.saturating_sub(words.len() as u64);
        let padding = words.last().map_or(0, |last| last & !self.last_word_mask);
        if self.words_left == 0 && padding != 0 {
            return Err(FileError::invalid("the padding after the last cell", padding));
        }
        if !self.is_one_line_counts {
            return Ok(());
        }
        words.as_chunks().0.iter().try_for_each(|line| self.next_line(Line(*line)))
    }

    fn next_line(&mut self, line: Line) -> Result<(), FileError> {
        let (entries, index) = (&mut self.entries, self.next_line);
        let spilled = std::iter::from_fn(|| entries.pop_if(|entry| entry.line == index));
        let is_sound = rows::is_sound(&line, spilled.map(|entry| (entry.tag, entry.count)));
        self.next_line = index.wrapping_add(1);
        if is_sound { Ok(()) } else { Err(FileError::invalid("the last word of a line", line.0[LINE_WORDS - 1])) }
    }
}
