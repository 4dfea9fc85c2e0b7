//! A line of counts: eight rows of 4-bit cells, and records for counts above 15.
//!
//! ```text
//! word 0..6   rows 0..6: cell i in bits 4i..4i+3
//! word 7      row 7: cells 0..14; the control nibble in bits 60..63 is 0
//!             or, once a key's count has exceeded 15, the extension word: two entries, and the control nibble is 15
//! entry       17 bits count, 1 bit mark, 12 bits tag, from bit 0 and from bit 30; all zero = free
//!             if the mark is set, the count has outgrown the line and is in the spill table
//! key         cell of row r: bits 30-4r..33-4r of the fingerprint's low word; in row 7 cell 14 stands in for cell 15
//!             bits 42..44 choose a pair of rows that the key skips, never row 0 or 7; so k is 6
//! tag         bits 30..40 of the low word, which begin with the cell in row 0, and a one above them
//!             "any" tag of a row-0 cell: the four bits of the cell alone; made by merges only
//! ```
//!
//! Each cell alone is an upper bound on the counts of its keys; the paper's H1 and H2 preserve this invariant. A row
//! can therefore be dropped at any time. Row 7 is dropped when the line needs space for entries. If all cells of a key
//! read 15, the key is *heavy*, and its count is in one *record*: the entry with its tag, else the spilled record, else
//! the "any" entry of its row-0 cell, else the spilled "any" record. Reads, additions and merges all search in this
//! order, so a count above 15 is always in the first record found. Two keys of a line with the same tag share a record,
//! so both counts are too high, and neither is too low.

use super::spill::Spill;
use crate::lines::Line;

/// Rows of a line.
pub(crate) const ROWS: usize = 8;
/// The pairs of rows that a key may skip. Three bits of the key's fingerprint select the pair. At 32 bits per key,
/// counts in six of the eight cells are more exact than counts in all eight (a mean over-count of 0.0093 against
/// 0.0105). Each pair has one row in each half of the line, so skipping rows costs the kernel no time.
pub(crate) const LEFT_OUT_PAIRS: [[usize; 2]; 8] = [[1, 4], [2, 5], [3, 6], [1, 5], [2, 6], [3, 4], [1, 6], [2, 4]];
/// k, the number of cells per key.
pub(crate) const CELLS_PER_KEY: u32 = 6;
/// Number of rows that a key uses among rows 1 to 6.
pub(super) const INNER_ROWS_USED: usize = 4;
/// The highest value of a cell. If all cells of a key have this value, its count is in its record.
pub(crate) const CELL_TOP: u64 = 15;
/// The row that is dropped to free space for entries.
pub(crate) const LAST_ROW: usize = ROWS - 1;
/// First bit of the control nibble in the last word.
pub(crate) const CONTROL_SHIFT: u32 = 60;

const ENTRY_BITS: u32 = 30;
/// Number of bits of a count and its mark.
const COUNT_BITS: u32 = 18;
pub(super) const ENTRIES: u32 = 2;
/// The mark of an entry whose count is in the spill table: the bit above the 17 bits of a count.
pub(super) const SPILLED: u64 = 1 << (COUNT_BITS - 1);
/// The tag bit that distinguishes the record of one key from an "any" record, which is for all keys of a row-0 cell.
const OWN_TAG: u64 = 1 << 11;
/// Number of "any" tags: one for each cell of row 0.
pub(super) const ANY_TAGS: u16 = 16;

/// Returns the first bit of a key's cell within the word of row `row`.
#[inline(always)]
pub(crate) const fn cell_shift(low: u64, row: usize) -> u32 {
    let shift = (low >> (4 * (LAST_ROW - row))) as u32 & 60;
    if row == LAST_ROW && shift == 60 { 56 } else { shift }
}

/// Returns the index in [`LEFT_OUT_PAIRS`] of the rows that a key skips.
#[inline(always)]
pub(crate) const fn left_out_index(low: u64) -> usize {
    (low >> 42) as usize % LEFT_OUT_PAIRS.len()
}

/// Returns the rows of a line that count a key.
fn rows_of(line: &Line, low: u64) -> impl Iterator<Item = usize> + use<> {
    let left_out = LEFT_OUT_PAIRS[left_out_index(low)];
    (0..live_rows(line)).filter(move |row| !left_out.contains(row))
}

/// Returns the tag that identifies the record of a key within its line.
#[inline(always)]
pub(crate) fn tag_of(low: u64) -> u16 {
    (tag_bits(low) | OWN_TAG) as u16
}

/// Returns the part of a tag that differs between keys.
#[inline(always)]
const fn tag_bits(low: u64) -> u64 {
    (low >> 30) & (OWN_TAG - 1)
}

/// Returns the tag of the "any" record for the row-0 cell of `tag`.
pub(super) const fn any_of(tag: u16) -> u16 {
    tag % ANY_TAGS
}

/// Returns true if entries have replaced row 7.
#[inline(always)]
pub(crate) const fn is_extended(line: &Line) -> bool {
    line.0[LAST_ROW] >> CONTROL_SHIFT != 0
}

/// Returns the number of rows in use.
const fn live_rows(line: &Line) -> usize {
    if is_extended(line) { LAST_ROW } else { ROWS }
}

/// Returns the minimum of a key's cells.
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

/// Replaces row 7 by two free entries.
pub(super) fn extend(line: &mut Line) {
    line.0[LAST_ROW] = CELL_TOP << CONTROL_SHIFT;
}

/// Returns true if a spilled record is valid: its tag fits in an entry and its count is above the top of a cell.
pub(crate) const fn is_sound_record(tag: u16, count: u32) -> bool {
    tag < 1 << (ENTRY_BITS - COUNT_BITS) && count as u64 > CELL_TOP
}

/// Returns true if `line`, with spilled records of these tags and counts, satisfies all invariants that this module
/// relies on. Lines from untrusted input must be checked.
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
        // A record is spilled if its count has outgrown the line, or if no entry was free.
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

/// Returns the raw bits of an entry of the last word.
const fn entry_bits(line: &Line, index: u32) -> u64 {
    line.0[LAST_ROW] >> (ENTRY_BITS * index) & ((1 << ENTRY_BITS) - 1)
}

/// The location of a record.
#[derive(Clone, Copy)]
enum RecordPlace {
    /// In the line, in the entry with this index and content.
    Entry(u32, Entry),
    /// In the spill table under this tag.
    Spilled(u16),
}

/// Finds the record with exactly this `tag`, ignoring the "any" record.
fn find_exact(line: &Line, index: u32, spill: &Spill, tag: u16) -> Option<RecordPlace> {
    let mut free = false;
    for i in 0..ENTRIES {
        match entry(line, i) {
            Some(entry) if entry.tag == tag => return Some(RecordPlace::Entry(i, entry)),
            Some(_) => {}
            None => free = true,
        }
    }
    // A record is spilled only if no entry is free.
    (!free && spill.get(index, tag) > 0).then_some(RecordPlace::Spilled(tag))
}

/// Finds the record that counts a key with `tag`.
fn find(line: &Line, index: u32, spill: &Spill, tag: u16) -> Option<RecordPlace> {
    find_exact(line, index, spill, tag).or_else(|| find_exact(line, index, spill, any_of(tag)))
}

/// Returns, for each entry in the last word of a line, whether it is the record of a heavy key. `low` is the low word
/// of the key's fingerprint. `mark` is [`SPILLED`] for counts that have outgrown the line, and 0 for others.
#[inline(always)]
fn entry_fits(word: u64, low: u64, mark: u64) -> [bool; ENTRIES as usize] {
    // The last word may contain cells that look like an entry; the control nibble distinguishes them. One comparison
    // covers this nibble, the tag and the mark.
    const IN_BOTH_ENTRIES: u64 = 1 | 1 << ENTRY_BITS;
    const DECISIVE: u64 = SPILLED | ((1 << ENTRY_BITS) - (1 << COUNT_BITS));
    let same_for_all = ((OWN_TAG << COUNT_BITS | mark) * IN_BOTH_ENTRIES) | CELL_TOP << CONTROL_SHIFT;
    let unlike = word ^ (tag_bits(low) * (IN_BOTH_ENTRIES << COUNT_BITS)) ^ same_for_all;
    [0, ENTRY_BITS].map(|shift| unlike & (DECISIVE << shift | CELL_TOP << CONTROL_SHIFT) == 0)
}

/// Returns the number to add to the last word for one insertion of a heavy key, or 0 if [`heavy_add`] must be called.
#[inline(always)]
pub(crate) fn entry_arrivals(word: u64, low: u64) -> u64 {
    let [first, second] = entry_fits(word, low, 0);
    u64::from(first) | u64::from(second) << ENTRY_BITS
}

/// Returns the count of a heavy key from the last word of its line, or 0 if [`heavy_count`] must be called.
#[inline(always)]
pub(crate) fn entry_count(word: u64, low: u64) -> u32 {
    let [first, second] = entry_fits(word, low, 0).map(|fits| u64::from(fits).wrapping_neg());
    ((word & first | word >> ENTRY_BITS & second) & (SPILLED - 1)) as u32
}

/// Returns the count of an entry, whether it is in the line or in the spill table. A count that has just outgrown the
/// line is not in the table yet; it is 2^17.
pub(super) fn entry_total(entry: Entry, spilled: impl FnOnce(u16) -> u32) -> u32 {
    if entry.count < SPILLED { entry.count as u32 } else { spilled(entry.tag).max(SPILLED as u32) }
}

/// Returns the count of a key whose cells all read 15.
#[inline(never)]
pub(crate) fn heavy_count(line: &Line, index: u32, spill: &Spill, low: u64) -> u32 {
    match find(line, index, spill, tag_of(low)) {
        Some(RecordPlace::Spilled(tag)) => spill.get(index, tag),
        Some(RecordPlace::Entry(_, entry)) => entry_total(entry, |tag| spill.get(index, tag)),
        None => spill.without_record(CELL_TOP as u32),
    }
}

/// Adds `amount` insertions of a key whose cells all read 15.
#[inline(never)]
pub(crate) fn heavy_add(line: &mut Line, index: u32, spill: &mut Spill, low: u64, amount: u32) {
    let tag = tag_of(low);
    // Fast path for the most frequent keys, whose counts have outgrown the line.
    if entry_fits(line.0[LAST_ROW], low, SPILLED) != [false; ENTRIES as usize] {
        return spill.add(index, tag, SPILLED as u32, amount);
    }
    match find(line, index, spill, tag) {
        Some(RecordPlace::Spilled(tag)) => spill.add(index, tag, 0, amount),
        Some(RecordPlace::Entry(_, entry)) if entry.count == SPILLED => {
            spill.add(index, entry.tag, SPILLED as u32, amount)
        }
        Some(RecordPlace::Entry(i, entry)) => {
            put_entry(line, i, index, spill, entry.tag, (entry.count as u32).saturating_add(amount));
        }
        None => create(line, index, spill, tag, spill.without_record(CELL_TOP as u32).saturating_add(amount)),
    }
}

/// Makes entry `i` the record of `tag`. A mark without a spilled record means that the count is exactly 2^17. Kernels
/// produce this state when an insertion raises the count above the largest number that fits in an entry.
fn put_entry(line: &mut Line, i: u32, index: u32, spill: &mut Spill, tag: u16, count: u32) {
    if u64::from(count) > SPILLED {
        spill.set(index, tag, count);
    }
    set_entry(line, i, Entry { tag, count: u64::from(count).min(SPILLED) });
}

/// Creates a record for `tag`: in the line if an entry is free or row 7 can be dropped, otherwise in the spill table.
pub(super) fn create(line: &mut Line, index: u32, spill: &mut Spill, tag: u16, count: u32) {
    if !is_extended(line) {
        extend(line);
    }
    match (0..ENTRIES).find(|&i| entry(line, i).is_none()) {
        Some(i) => put_entry(line, i, index, spill, tag, count),
        None => spill.insert_or_unlist(index, tag, count, CELL_TOP as u32),
    }
}
