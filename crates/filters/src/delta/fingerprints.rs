//! The fingerprint encoding: the leading bits of the new keys' fingerprints, which the receiver inserts into its
//! membership filter.
//!
//! In the one-line layout the order of fingerprints is the order of lines, so they are inserted block by block. In the
//! classical layout a fingerprint can touch any part of the array, so the whole array is one block.

use std::io::Read;

use super::bits::{BitWriter, Code};
use super::block::{take, take_codes};
use super::header::CELLS_PER_FINGERPRINT_MIN;
use crate::Fingerprint;
use crate::bloom::pattern::{line_of, mask};
use crate::file::{FileError, FilterKind, Header, InputWords};
use crate::hash::{FingerprintHash, HashFamily, leading_bits};
use crate::lines::LINE_WORDS;

/// Number of fingerprints that are encoded with the same Golomb code.
const CHUNK: u64 = 4096;

/// Returns the leading bits of `fingerprints` as sorted numbers without duplicates, or `None` if there are too many.
pub(super) fn leading_numbers(header: &Header, fingerprints: &[Fingerprint]) -> Option<Vec<u64>> {
    let bits = header.fingerprint_bits;
    let number = |&fingerprint| leading_bits(fingerprint, bits) >> (64 - bits);
    let mut numbers: Vec<u64> = fingerprints.iter().map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    (numbers.len() as u64 <= header.cells / CELLS_PER_FINGERPRINT_MIN).then_some(numbers)
}

/// Appends `numbers`, which must be ascending, in chunks.
pub(super) fn encode_numbers(numbers: &[u64], output: &mut Vec<u8>) {
    let mut next = 0;
    for chunk in numbers.chunks(CHUNK as usize) {
        let gaps: Vec<u64> = chunk
            .iter()
            .map(|&number| {
                let gap = number - next;
                // Only the last number can be the maximum, so no number follows it.
                next = number.wrapping_add(1);
                gap
            })
            .collect();
        let code = Code::best(&gaps);
        let mut codes = BitWriter::default();
        gaps.iter().for_each(|&gap| codes.put_code(gap, code));
        let codes = codes.finish();
        // With the best divisor a code has at most 67 bits on average, so a chunk is smaller than 35 kB.
        output.extend_from_slice(&(codes.len() as u16 + 1).to_le_bytes());
        output.push(code.parameter());
        output.extend(codes);
    }
}

/// Inserts fingerprints into the blocks of a membership filter.
pub(super) struct Inserter {
    header: Header,
    /// Numbers that were read but not inserted yet, with the last one first.
    pending: Vec<u64>,
    /// Number of fingerprints still to be read.
    unread: u64,
    /// Smallest valid value of the next number.
    next: u64,
}

impl Inserter {
    pub(super) const fn new(header: Header, count: u64) -> Self {
        Self { header, pending: Vec::new(), unread: count, next: 0 }
    }

    /// Inserts all fingerprints that belong to `words`, which begin at word `start`.
    pub(super) fn insert<R: Read>(
        &mut self,
        start: u64,
        words: &mut [u64],
        input: &mut InputWords<R>,
    ) -> Result<(), FileError> {
        match self.header.kind {
            FilterKind::OneLineMembership => self.insert_lines(start, words, input),
            _ => self.insert_anywhere(words, input),
        }
    }

    fn insert_lines<R: Read>(
        &mut self,
        start: u64,
        words: &mut [u64],
        input: &mut InputWords<R>,
    ) -> Result<(), FileError> {
        let lines = self.header.lines() as usize;
        let first_line = start as usize / LINE_WORDS;
        let block = words.as_chunks_mut::<LINE_WORDS>().0;
        while let Some(lead) = self.peek(input)? {
            let Some(line) = block.get_mut(line_of(lead, lines) - first_line) else { break };
            for (word, mask) in line.iter_mut().zip(mask(lead, self.header.hashes)) {
                *word |= mask;
            }
            self.pending.pop();
        }
        Ok(())
    }

    fn insert_anywhere<R: Read>(&mut self, words: &mut [u64], input: &mut InputWords<R>) -> Result<(), FileError> {
        let Header { cells, hashes, fingerprint_bits, key_id, .. } = self.header;
        let hash = FingerprintHash::new(cells, hashes, fingerprint_bits, key_id)?;
        while let Some(lead) = self.peek(input)? {
            for position in hash.positions(&Fingerprint::new(lead, 0)) {
                words[(position / 64) as usize] |= 1 << (position % 64);
            }
            self.pending.pop();
        }
        Ok(())
    }

    /// Returns the next fingerprint, in the top bits of a word.
    fn peek<R: Read>(&mut self, input: &mut InputWords<R>) -> Result<Option<u64>, FileError> {
        if self.pending.is_empty() && self.unread > 0 {
            self.read_chunk(input)?;
        }
        Ok(self.pending.last().map(|number| number << (64 - self.header.fingerprint_bits)))
    }

    fn read_chunk<R: Read>(&mut self, input: &mut InputWords<R>) -> Result<(), FileError> {
        let length = usize::from(u16::from_le_bytes(take(input)?));
        let [parameter] = take(input)?;
        let code = Code::new(parameter)?;
        let length = length.checked_sub(1).ok_or_else(|| FileError::invalid("the length of a chunk", 0u32))?;
        let mut codes = take_codes(input, length)?;
        let largest = u64::MAX >> (64 - self.header.fingerprint_bits);
        let count = self.unread.min(CHUNK);
        for _ in 0..count {
            let gap = codes.take_code(code)?;
            let number = self.next.checked_add(gap).filter(|&number| number <= largest);
            let number = number.ok_or_else(|| FileError::invalid("the gap to a fingerprint", gap))?;
            self.pending.push(number);
            self.next = number.saturating_add(1);
        }
        codes.finish()?;
        self.pending.reverse();
        self.unread -= count;
        Ok(())
    }

    /// Returns true if all fingerprints have been inserted.
    pub(super) fn is_done(&self) -> bool {
        self.unread == 0 && self.pending.is_empty()
    }
}
