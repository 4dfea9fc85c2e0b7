//! Changes from a base to a target: of bits, cells and spill tables.
//!
//! In a membership filter, only zeros change. A gap is the number of unchanged zeros between two zeros that change; the
//! code counts the zeros one word at a time. In a counting filter, each changed cell is coded as its gap from the
//! previous changed cell, and its difference modulo 2^width.

use std::collections::BTreeMap;
use std::io::Read;

use super::bits::{BitReader, Code};
use super::block::take;
use super::header::DeltaHeader;
use crate::counting::cells::{cell_at, set_cell_at};
use crate::counting::spill::Spill;
use crate::file::{FileError, FilterKind, InputWords, SpillEntry, read_entries, restore_spill, write_entry};

/// The changed cells: a gap and a difference for each.
#[derive(Default)]
pub(super) struct Changes {
    /// For each changed cell, the number of unchanged cells since the previous changed cell.
    pub(super) gaps: Vec<u32>,
    /// For each changed cell, (target − base) mod 2^width, minus 1.
    pub(super) steps: Vec<u32>,
}

impl Changes {
    /// Replaces the contents with the changes from `base` to `target`, in cells of `width` bits.
    pub(super) fn find(&mut self, base: &[u64], target: &[u64], width: u32) {
        self.gaps.clear();
        self.steps.clear();
        let mut next_cell = 0;
        for (i, (before, after)) in (0..).zip(base.iter().zip(target)) {
            let mut changed = before ^ after;
            while changed != 0 {
                let cell = (i * 64 + changed.trailing_zeros()) / width;
                // A cell that began in the previous word was counted there.
                if cell >= next_cell {
                    self.push(cell - next_cell, step(base, target, width, cell));
                    next_cell = cell + 1;
                }
                let cell_end = (cell + 1) * width - i * 64;
                changed = if cell_end >= 64 { 0 } else { changed >> cell_end << cell_end };
            }
        }
    }

    fn push(&mut self, gap: u32, step: u32) {
        self.gaps.push(gap);
        self.steps.push(step);
    }
}

fn step(base: &[u64], target: &[u64], width: u32, cell: u32) -> u32 {
    let (before, after) = (cell_at(base, width, cell.into()), cell_at(target, width, cell.into()));
    after.wrapping_sub(before).wrapping_sub(1) & (u32::MAX >> (u32::BITS - width))
}

/// Applies `count` coded changes to `words`, which has `cells` cells of `width` bits.
pub(super) fn change_cells(
    words: &mut [u64],
    width: u32,
    cells: u64,
    count: u32,
    [gap_code, step_code]: [Code; 2],
    codes: &mut BitReader,
) -> Result<(), FileError> {
    let top = u32::MAX >> (u32::BITS - width);
    let mut next_cell = 0u64;
    for _ in 0..count {
        let gap = codes.take_code(gap_code)?;
        let cell = next_cell.checked_add(gap).filter(|&cell| cell < cells);
        let cell = cell.ok_or_else(|| FileError::invalid("the gap to a cell", gap))?;
        let step = if width == 1 { 0 } else { codes.take_code(step_code)? };
        if step >= u64::from(top) {
            return Err(FileError::invalid("the difference of a cell", step));
        }
        let value = cell_at(words, width, cell).wrapping_add(step as u32 + 1) & top;
        set_cell_at(words, width, cell, value);
        next_cell = cell + 1;
    }
    Ok(())
}

/// Spill records by line and tag.
type RecordsByPlace = BTreeMap<(u32, u16), u32>;

fn records(spill: &Spill) -> RecordsByPlace {
    spill.records().iter().map(|(line, tag, count)| ((line, tag), count)).collect()
}

/// Appends the change from table `base` to `target`: the changed and new records, and a count of 0 for each removed
/// record.
pub(super) fn encode_spill(base: &Spill, target: &Spill, output: &mut Vec<u8>) {
    let (before, after) = (records(base), records(target));
    let gone = before.keys().filter(|place| !after.contains_key(place)).map(|&place| (place, 0));
    let now =
        after.iter().filter(|(place, count)| before.get(place) != Some(count)).map(|(&place, &count)| (place, count));
    let changes: RecordsByPlace = gone.chain(now).collect();
    output.extend_from_slice(&(changes.len() as u32).to_le_bytes());
    for (&(line, tag), &count) in &changes {
        write_entry(&SpillEntry { line, tag, count }, output);
    }
}

/// Returns the spill table of the target, computed from the table of the base. Reads from the input only for one-line
/// counts.
pub(super) fn decode_spill<R: Read>(
    header: &DeltaHeader,
    base: &Spill,
    input: &mut InputWords<R>,
) -> Result<Spill, FileError> {
    if header.target.kind != FilterKind::OneLineCounts {
        return restore_spill(&header.target, &[]);
    }
    let count = u32::from_le_bytes(take(input)?);
    let count_max = u64::from(header.base_spill_entries) + u64::from(header.target.spill_entries);
    if u64::from(count) > count_max {
        return Err(FileError::invalid("the number of spill changes", count));
    }
    let mut records = records(base);
    for entry in read_entries(input, count, header.target.lines())? {
        match entry.count {
            0 => records.remove(&entry.place()),
            count => records.insert(entry.place(), count),
        };
    }
    if records.len() as u64 != u64::from(header.target.spill_entries) {
        return Err(FileError::invalid("the number of spill entries", header.target.spill_entries));
    }
    let entries = records.into_iter().map(|((line, tag), count)| SpillEntry { line, tag, count });
    restore_spill(&header.target, &entries.collect::<Vec<_>>())
}

/// Appends to `gaps` the number of zeros of the base between successive zeros that become ones. Returns false if a one
/// becomes a zero; `gaps` is invalid in that case.
///
/// Zeros beyond the last cell need no special treatment: they never change, so no gap includes them.
pub(super) fn find_gaps(base: &[u64], target: &[u64], gaps: &mut Vec<u32>) -> bool {
    let (mut gap, mut lost) = (0, 0);
    for (&base, &target) in base.iter().zip(target) {
        lost |= base & !target;
        let zeros = !base;
        let mut new = target & zeros;
        let mut passed = 0;
        while new != 0 {
            let before = (zeros & ((new & new.wrapping_neg()) - 1)).count_ones();
            gaps.push(gap + before - passed);
            gap = 0;
            passed = before + 1;
            new &= new - 1;
        }
        gap += zeros.count_ones() - passed;
    }
    lost == 0
}

/// Turns zeros of `words` into ones, at positions that the codes give. `count` is the number of codes.
pub(super) fn set_zeros(words: &mut [u64], count: u32, code: Code, codes: &mut BitReader) -> Result<(), FileError> {
    let mut words = words.iter_mut();
    let (mut word, mut zeros) = (&mut 0, Ones::default());
    // Number of zeros of the word that were already counted.
    let mut rank = 0;
    for _ in 0..count {
        rank += codes.take_code(code)?.min(GAP_MAX);
        while rank >= zeros.count() {
            rank -= zeros.count();
            let next = words.next().ok_or_else(|| FileError::invalid("the gap to a zero", rank))?;
            zeros = Ones::new(!*next);
            word = next;
        }
        *word |= 1 << zeros.select(rank);
        rank += 1;
    }
    Ok(())
}

/// Maximum gap. A longer gap would end after the end of every block.
const GAP_MAX: u64 = 1 << 32;

/// A word, prepared for finding its n-th set bit.
///
/// The algorithm is from Sebastiano Vigna, *Broadword implementation of rank/select queries* (2008), with a table for
/// the last byte.
#[derive(Clone, Copy, Default)]
struct Ones {
    word: u64,
    /// Byte i: the number of set bits in bytes 0 to i.
    sums: u64,
}

/// A word with the value 1 in each byte.
const UNITS: u64 = 0x0101_0101_0101_0101;

impl Ones {
    #[inline]
    const fn new(word: u64) -> Self {
        let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
        let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
        let bytes = (fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
        Self { word, sums: bytes.wrapping_mul(UNITS) }
    }

    #[inline]
    const fn count(self) -> u64 {
        self.sums >> 56
    }

    /// Returns the position of the set bit with index `rank`, counted from 0. The word must have more than `rank` set
    /// bits.
    #[inline]
    fn select(self, rank: u64) -> u32 {
        const TOPS: u64 = UNITS << 7;
        // Set the top bit of each byte that ends before the bit to find.
        let before = (((rank * UNITS) | TOPS) - self.sums) & TOPS;
        let shift = ((before >> 7).wrapping_mul(UNITS) >> 56) as u32 * 8;
        let in_byte = rank.wrapping_sub(self.sums << 8 >> shift) as usize % 8;
        let byte = (self.word >> shift) as u8;
        shift + u32::from(SELECT_IN_BYTE[usize::from(byte)][in_byte])
    }
}

/// For each byte value, the positions of its set bits.
const SELECT_IN_BYTE: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut rank) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][rank] = bit as u8;
                rank += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn select_finds_every_one(word: u64) {
            let ones = (0..64).filter(|bit| word >> bit & 1 == 1);
            for (rank, bit) in ones.enumerate() {
                prop_assert_eq!(Ones::new(word).select(rank as u64), bit);
            }
        }
    }

    #[test]
    fn gaps_count_zeros_only() {
        let mut gaps = Vec::new();
        // The base has zeros at 0, 2, 4 and at all positions starting with 64; the target sets 2, 64 and 66.
        let (base, target) = ([!0b10101, 0], [!0b10001, 0b101]);
        assert!(find_gaps(&base, &target, &mut gaps));
        assert_eq!(gaps, [1, 1, 1]);
        assert!(!find_gaps(&target, &base, &mut gaps), "in the other direction, ones become zeros");
    }
}
