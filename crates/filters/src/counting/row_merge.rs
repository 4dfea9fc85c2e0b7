//! Adds two filters of one-line counts, line by line, so that no count becomes too low.
//!
//! Rows that both sides use are added cell by cell. A record of the result is the sum of two upper bounds, one from
//! each side. The bound of a side is the key's own record if there is one, else the "any" record of its row-0 cell,
//! else the row-0 cell itself. In the sum, a key that has no record on either side may exceed 15, but such keys cannot
//! be identified. So if cells overflow in so many rows that some key may have exceeded 15 in all its rows, each row-0
//! cell that overflowed gets an "any" record, which counts all keys of the cell.

use super::rows::{
    ANY_TAGS, CELL_TOP, ENTRIES, INNER_ROWS_USED, LAST_ROW, ROWS, any_of, create, entry, entry_total, extend,
    is_extended,
};
use super::spill::{Spill, SpillRecords};
use crate::lines::Line;

/// Adds the lines of another filter to ours, in order.
pub(crate) struct RowMerge<'a> {
    ours: Side<'a>,
    theirs: Side<'a>,
    /// The spill table of the result.
    spill: &'a mut Spill,
    /// The tags of the current line's records, and then the records. Both are kept to reuse their memory.
    tags: Vec<u16>,
    records: Vec<(u32, u16)>,
}

impl<'a> RowMerge<'a> {
    /// Creates a merge. `ours` and `theirs` are the spilled records of both filters, and `spill` is the table of the
    /// result.
    pub(crate) fn new(ours: &'a SpillRecords, theirs: &'a SpillRecords, spill: &'a mut Spill) -> Self {
        Self { ours: Side::new(ours), theirs: Side::new(theirs), spill, tags: Vec::new(), records: Vec::new() }
    }

    /// Adds `other` to `line`, where both have the same `index` in their filters.
    #[inline(always)]
    pub(crate) fn add_line(&mut self, line: &mut Line, other: &Line, index: u32) {
        let (sums, overflowed) = add_cells(line, other);
        let extended = is_extended(line) || is_extended(other);
        if extended || overflowed[0] != 0 {
            self.add_records(line, other, index, sums, &overflowed);
        } else {
            *line = sums;
        }
    }

    #[inline(never)]
    fn add_records(&mut self, line: &mut Line, other: &Line, index: u32, sums: Line, overflowed: &[u64; ROWS]) {
        let extended = is_extended(line) || is_extended(other);
        let passed = some_key_passed(overflowed, extended);
        if !extended && !passed {
            *line = sums;
            return;
        }
        self.ours.read(line, index);
        self.theirs.read(other, index);
        self.collect_tags(if passed { overflowed[0] } else { 0 });
        self.records.clear();
        for &tag in &self.tags {
            self.records.push((self.ours.bound(tag).saturating_add(self.theirs.bound(tag)), tag));
        }
        // The largest records stay in the line, where they are read fastest. The order also prevents counts that are
        // too low: once a record does not fit, no smaller one fits either. So if a key's own record is lost, the key is
        // never counted by a smaller "any" record.
        self.records.sort_unstable_by(|a, b| b.cmp(a));
        *line = sums;
        extend(line);
        for &(count, tag) in &self.records {
            create(line, index, self.spill, tag, count);
        }
    }

    /// Collects the tags of all records that the line needs. `passed` marks the row-0 cells whose keys may have
    /// exceeded 15.
    fn collect_tags(&mut self, passed: u64) {
        self.tags.clear();
        let records = self.ours.records.iter().chain(&self.theirs.records);
        self.tags.extend(records.map(|record| record.0));
        self.tags.extend((0..ANY_TAGS).filter(|cell| passed >> (4 * cell) & 15 != 0));
        self.tags.sort_unstable();
        self.tags.dedup();
    }
}

/// The counts of the current line on one side.
struct Side<'a> {
    spilled: &'a SpillRecords,
    /// Number of spilled records that belong to earlier lines.
    passed: usize,
    /// The cells of row 0.
    cells: u64,
    records: Vec<(u16, u32)>,
}

impl<'a> Side<'a> {
    const fn new(spilled: &'a SpillRecords) -> Self {
        Self { spilled, passed: 0, cells: 0, records: Vec::new() }
    }

    fn read(&mut self, line: &Line, index: u32) {
        self.cells = line.0[0];
        self.records.clear();
        self.passed = self.spilled.append_line(self.passed, index, &mut self.records);
        for entry in (0..ENTRIES).filter_map(|i| entry(line, i)) {
            let spilled = self.records.iter().position(|record| record.0 == entry.tag);
            let spilled = spilled.map_or(0, |at| self.records.swap_remove(at).1);
            self.records.push((entry.tag, entry_total(entry, |_| spilled)));
        }
    }

    /// Returns an upper bound on the count of any key with `tag` on this side.
    fn bound(&self, tag: u16) -> u32 {
        let record = |tag: u16| self.records.iter().find(|record| record.0 == tag).map(|record| record.1);
        record(tag).or_else(|| record(any_of(tag))).unwrap_or_else(|| {
            let cell = (self.cells >> (4 * any_of(tag)) & 15) as u32;
            if u64::from(cell) == CELL_TOP { cell.saturating_add(self.spilled.unlisted()) } else { cell }
        })
    }
}

/// Returns true if a key may have exceeded 15 in all of its rows.
fn some_key_passed(overflowed: &[u64; ROWS], extended: bool) -> bool {
    let inner = overflowed[1..LAST_ROW].iter().filter(|&&cells| cells != 0).count();
    overflowed[0] != 0 && (extended || overflowed[LAST_ROW] != 0) && inner >= INNER_ROWS_USED
}

/// Returns the saturating cell-by-cell sum of two lines, and the cells of each row that overflowed.
#[inline(always)]
fn add_cells(a: &Line, b: &Line) -> (Line, [u64; ROWS]) {
    let (mut sums, mut overflowed) = (*a, [0; ROWS]);
    for ((sum, overflowed), b) in sums.0.iter_mut().zip(&mut overflowed).zip(b.0) {
        (*sum, *overflowed) = add_nibbles(*sum, b);
    }
    (sums, overflowed)
}

/// Performs sixteen saturating 4-bit additions. Also returns a non-zero nibble for each one that saturated.
#[inline(always)]
pub(crate) const fn add_nibbles(a: u64, b: u64) -> (u64, u64) {
    const EVEN: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const CARRY: u64 = 0x1010_1010_1010_1010;
    let even = (a & EVEN) + (b & EVEN);
    let odd = (a >> 4 & EVEN) + (b >> 4 & EVEN);
    let (even_over, odd_over) = ((even & CARRY) >> 4, (odd & CARRY) >> 4);
    // Put 15 in each nibble that overflowed. Shift and subtraction vectorise; a multiplication by 15 would not.
    let (even_top, odd_top) = ((even_over << 4) - even_over, (odd_over << 4) - odd_over);
    ((even | even_top) & EVEN | ((odd | odd_top) & EVEN) << 4, even_over | odd_over << 4)
}
