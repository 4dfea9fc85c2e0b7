//! A line of counts: eight rows of 4-bit cells, and what becomes of it when a count passes 15.
//!
//! ```text
//! word 0..6   rows 0..6: cell i in bits 4i..4i+3
//! word 7      row 7: cells 0..14; the control nibble in bits 60..63 is 0
//!             or, once a key of the line has passed 15, the extension word: two entries, and the control nibble is 15
//! entry       17 bits count, 1 bit mark, 12 bits tag, from bit 0 and from bit 30; all zero = free
//!             the mark says that the count has outgrown the line: it is in the spill table
//! key         cell of row r: bits 30-4r..33-4r of the fingerprint's low word; in row 7 cell 14 stands in for cell 15
//!             bits 42..44 choose a pair of rows that the key leaves out, never row 0 or 7: k is 6
//! tag         bits 30..40 of the low word, which begin with the cell in row 0, and a one above them
//!             "any" tag of a row-0 cell: the four bits of the cell alone; made by merges only
//! ```
//!
//! Each cell alone is an upper bound of its keys' counts (H1 and H2 keep it so), hence a row can be given up at any time:
//! when the line needs room for entries, row 7 is. A key all of whose cells read 15 has its count in one *record*:
//! the entry with its tag, else the spilled one, else the "any" entry of its row-0 cell, else the spilled "any". That
//! order is the same for reading, adding and merging; a key's arrivals past 15 never land anywhere else. Two keys of a
//! line with one tag share a record, which over-counts both and under-counts neither.

use super::spill::Spill;
use crate::lines::Line;

/// Rows of a line.
pub(crate) const ROWS: usize = 8;
/// The rows that a key may leave out, by three of its bits. Six cells of eight count more exactly than eight of eight at
/// 32 bits per key (a mean over-count of 0.0093 against 0.0105), and one from each half costs the kernel nothing.
pub(crate) const LEFT_OUT_PAIRS: [[usize; 2]; 8] = [[1, 4], [2, 5], [3, 6], [1, 5], [2, 6], [3, 4], [1, 6], [2, 4]];
/// k.
pub(crate) const CELLS_PER_KEY: u32 = 6;
/// Rows from 1 to 6 that every key uses.
pub(super) const INNER_ROWS_USED: usize = 4;
/// The highest value of a cell; from here on a key's count is in its record.
pub(crate) const CELL_TOP: u64 = 15;
/// The row that makes room for entries.
pub(crate) const LAST_ROW: usize = ROWS - 1;
/// Where the control nibble starts in the last word.
pub(crate) const CONTROL_SHIFT: u32 = 60;

const ENTRY_BITS: u32 = 30;
/// Bits of a count and its mark.
const COUNT_BITS: u32 = 18;
pub(super) const ENTRIES: u32 = 2;
/// The mark of an entry whose count is in the spill table: its highest count bit.
pub(super) const SPILLED: u64 = 1 << (COUNT_BITS - 1);
/// The bit of a tag that says: the record of one key, not of any key of a row-0 cell.
const OWN_TAG: u64 = 1 << 11;
/// Cells of row 0, each with an "any" tag.
pub(super) const ANY_TAGS: u16 = 16;

/// By how many bits the cell of row `row` lies above the start of its word.
#[inline(always)]
pub(crate) const fn cell_shift(low: u64, row: usize) -> u32 {
    let shift = (low >> (4 * (LAST_ROW - row))) as u32 & 60;
    if row == LAST_ROW && shift == 60 { 56 } else { shift }
}

/// Which of [`LEFT_OUT_PAIRS`] a key leaves out.
#[inline(always)]
pub(crate) const fn left_out_index(low: u64) -> usize {
    (low >> 42) as usize % LEFT_OUT_PAIRS.len()
}

/// The rows of a line that a key counts in.
fn rows_of(line: &Line, low: u64) -> impl Iterator<Item = usize> + use<> {
    let left_out = LEFT_OUT_PAIRS[left_out_index(low)];
    (0..live_rows(line)).filter(move |row| !left_out.contains(row))
}

/// What names a key's record within its line.
#[inline(always)]
pub(crate) fn tag_of(low: u64) -> u16 {
    (tag_bits(low) | OWN_TAG) as u16
}

/// The part of a tag that differs between keys.
#[inline(always)]
const fn tag_bits(low: u64) -> u64 {
    (low >> 30) & (OWN_TAG - 1)
}

/// The tag of the record of any key with the row-0 cell of `tag`.
pub(super) const fn any_of(tag: u16) -> u16 {
    tag % ANY_TAGS
}

/// Whether row 7 has given way to entries.
#[inline(always)]
pub(crate) const fn is_extended(line: &Line) -> bool {
    line.0[LAST_ROW] >> CONTROL_SHIFT != 0
}

/// How many rows count.
const fn live_rows(line: &Line) -> usize {
    if is_extended(line) { LAST_ROW } else { ROWS }
}

/// The smallest of a key's cells.
pub(crate) fn minimum(line: &Line, low: u64) -> u64 {
    rows_of(line, low).map(|row| line.0[row] >> cell_shift(low, row) & 15).min().expect("a key uses row 0")
}

/// Raises a key's cells to `level` where they are lower.
pub(crate) fn raise(line: &mut Line, low: u64, level: u64) {
    for row in rows_of(line, low) {
        let shift = cell_shift(low, row);
        let cell = line.0[row] >> shift & 15;
        line.0[row] += (cell.max(level) - cell) << shift;
    }
}

/// An entry of the extension word.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) tag: u16,
    pub(super) count: u64,
}

pub(super) fn entry(line: &Line, index: u32) -> Option<Entry> {
    let bits = entry_bits(line, index);
    let entry = Entry { tag: (bits >> COUNT_BITS) as u16, count: bits & ((1 << COUNT_BITS) - 1) };
    (is_extended(line) && entry.count != 0).then_some(entry)
}

fn set_entry(line: &mut Line, index: u32, entry: Entry) {
    let shift = ENTRY_BITS * index;
    let bits = u64::from(entry.tag) << COUNT_BITS | entry.count;
    line.0[LAST_ROW] = line.0[LAST_ROW] & !(((1 << ENTRY_BITS) - 1) << shift) | bits << shift;
}

/// Gives up row 7 for two free entries.
pub(super) fn extend(line: &mut Line) {
    line.0[LAST_ROW] = CELL_TOP << CONTROL_SHIFT;
}

/// Whether a spilled record can stand beside the lines: its tag fits an entry, and it has passed the cells.
pub(crate) const fn is_sound_record(tag: u16, count: u32) -> bool {
    tag < 1 << (ENTRY_BITS - COUNT_BITS) && count as u64 > CELL_TOP
}

/// Whether `line`, with these tags and counts of spilled records, is one that insertions and merges can leave behind, as far as the
/// code here relies on it: lines that come from outside have to be asked.
pub(crate) fn is_sound(line: &Line, mut spilled: impl Iterator<Item = (u16, u32)>) -> bool {
    let free = (0..ENTRIES).filter(|&i| entry_bits(line, i) == 0).count();
    let in_use = || (0..ENTRIES).filter_map(|i| entry(line, i));
    let entries_are_sound = || {
        let sound = in_use().filter(|entry| (CELL_TOP + 1..=SPILLED).contains(&entry.count));
        let tags = |i: u32| entry(line, i).map(|entry| entry.tag);
        sound.count() + free == ENTRIES as usize && (free > 0 || tags(0) != tags(1))
    };
    match line.0[LAST_ROW] >> CONTROL_SHIFT {
        0 => spilled.next().is_none(),
        // A record is spilled if its entry has outgrown the line, or if there was no entry left for it.
        CELL_TOP => {
            entries_are_sound()
                && spilled.all(|(tag, count)| match in_use().find(|entry| entry.tag == tag) {
                    Some(entry) => entry.count == SPILLED && u64::from(count) > SPILLED,
                    None => free == 0,
                })
        }
        _ => false,
    }
}

/// An entry as it stands in the last word.
const fn entry_bits(line: &Line, index: u32) -> u64 {
    line.0[LAST_ROW] >> (ENTRY_BITS * index) & ((1 << ENTRY_BITS) - 1)
}

/// Where a record is.
#[derive(Clone, Copy)]
enum Found {
    /// In the entry with this number, which is that.
    Entry(u32, Entry),
    /// In the spill table under this tag.
    Spilled(u16),
}

/// The record of `tag` alone, without the "any" record.
fn find_exact(line: &Line, index: u32, spill: &Spill, tag: u16) -> Option<Found> {
    let mut free = false;
    for i in 0..ENTRIES {
        match entry(line, i) {
            Some(entry) if entry.tag == tag => return Some(Found::Entry(i, entry)),
            Some(_) => {}
            None => free = true,
        }
    }
    // Entries fill up before anything spills.
    (!free && spill.get(index, tag) > 0).then_some(Found::Spilled(tag))
}

/// The record that a key with `tag` counts in.
fn find(line: &Line, index: u32, spill: &Spill, tag: u16) -> Option<Found> {
    find_exact(line, index, spill, tag).or_else(|| find_exact(line, index, spill, any_of(tag)))
}

/// Which entries of a last word are the record of a heavy key: `mark` is [`SPILLED`] if its count has outgrown the line,
/// and 0 if not.
#[inline(always)]
fn entry_fits(word: u64, low: u64, mark: u64) -> [bool; ENTRIES as usize] {
    // Cells may look like an entry: the control nibble tells, and one comparison covers it, the tag and the mark.
    const IN_BOTH_ENTRIES: u64 = 1 | 1 << ENTRY_BITS;
    const DECISIVE: u64 = SPILLED | ((1 << ENTRY_BITS) - (1 << COUNT_BITS));
    let same_for_all = ((OWN_TAG << COUNT_BITS | mark) * IN_BOTH_ENTRIES) | CELL_TOP << CONTROL_SHIFT;
    let unlike = word ^ (tag_bits(low) * (IN_BOTH_ENTRIES << COUNT_BITS)) ^ same_for_all;
    [0, ENTRY_BITS].map(|shift| unlike & (DECISIVE << shift | CELL_TOP << CONTROL_SHIFT) == 0)
}

/// What one arrival of a heavy key adds to its line's last word; 0 if [`heavy_add`] has to look further.
#[inline(always)]
pub(crate) fn entry_arrivals(word: u64, low: u64) -> u64 {
    let [first, second] = entry_fits(word, low, 0);
    u64::from(first) | u64::from(second) << ENTRY_BITS
}

/// The count of a heavy key by its line's last word; 0 if [`heavy_count`] has to look further.
#[inline(always)]
pub(crate) fn entry_count(word: u64, low: u64) -> u32 {
    let [first, second] = entry_fits(word, low, 0).map(|fits| u64::from(fits).wrapping_neg());
    ((word & first | word >> ENTRY_BITS & second) & (SPILLED - 1)) as u32
}

/// The count of an entry, wherever it is. One that has just outgrown the line is not in the spill table yet.
pub(super) fn entry_total(entry: Entry, spilled: impl FnOnce(u16) -> u32) -> u32 {
    if entry.count < SPILLED { entry.count as u32 } else { spilled(entry.tag).max(SPILLED as u32) }
}

/// The count of a key whose cells all read 15.
#[inline(never)]
pub(crate) fn heavy_count(line: &Line, index: u32, spill: &Spill, low: u64) -> u32 {
    match find(line, index, spill, tag_of(low)) {
        Some(Found::Spilled(tag)) => spill.get(index, tag),
        Some(Found::Entry(_, entry)) => entry_total(entry, |tag| spill.get(index, tag)),
        None => spill.without_record(CELL_TOP as u32),
    }
}

/// Counts `amount` more arrivals of a key whose cells all read 15.
#[inline(never)]
pub(crate) fn heavy_add(line: &mut Line, index: u32, spill: &mut Spill, low: u64, amount: u32) {
    let tag = tag_of(low);
    // The hottest keys of all: their count has outgrown the line.
    if entry_fits(line.0[LAST_ROW], low, SPILLED) != [false; ENTRIES as usize] {
        return spill.add(index, tag, SPILLED as u32, amount);
    }
    match find(line, index, spill, tag) {
        Some(Found::Spilled(tag)) => spill.add(index, tag, 0, amount),
        Some(Found::Entry(_, entry)) if entry.count == SPILLED => spill.add(index, entry.tag, SPILLED as u32, amount),
        Some(Found::Entry(i, entry)) => {
            put_entry(line, i, index, spill, entry.tag, (entry.count as u32).saturating_add(amount));
        }
        None => create(line, index, spill, tag, spill.without_record(CELL_TOP as u32).saturating_add(amount)),
    }
}

/// Makes entry `i` the record of `tag`. A mark without a spilled record means 2^17 exactly, as the kernels leave it when
/// they count one past the largest number that an entry holds.
fn put_entry(line: &mut Line, i: u32, index: u32, spill: &mut Spill, tag: u16, count: u32) {
    if u64::from(count) > SPILLED {
        spill.set(index, tag, count);
    }
    set_entry(line, i, Entry { tag, count: u64::from(count).min(SPILLED) });
}

/// Makes a record for `tag`: in the line if it has a free entry or a row to give up, else in the spill table.
pub(super) fn create(line: &mut Line, index: u32, spill: &mut Spill, tag: u16, count: u32) {
    if !is_extended(line) {
        extend(line);
    }
    match (0..ENTRIES).find(|&i| entry(line, i).is_none()) {
        Some(i) => put_entry(line, i, index, spill, tag, count),
        None => spill.insert_or_unlist(index, tag, count, CELL_TOP as u32),
    }
}
