//! The records of a ring of counts: counts above 15, in preallocated memory.
//!
//! Each lane has its own table, and all tables have the same size. So memory does not grow, and a table is cleared
//! together with its lane. Once a table is full, insertions that would need a new record raise the number `unlisted`
//! instead. The count of every key without a record is then the value of its cells plus `unlisted`: too high, but never
//! too low.
//!
//! ```text
//! word 0..5   record i: bits 0..15 its tag, 16..47 the line it is filed under, 48..63 the low half of its count
//! word 6      high halves of the counts of records 0 to 3, lowest first
//! word 7      high halves of the counts of records 4 and 5; bits 32..63: number of records, stored in the first words
//! ```
//!
//! The cell line and the tag of a record determine the line of the table in which it is stored. If that line is full,
//! the record is in the next line of the lane that is not full.

use std::ops::Range;

use super::counts::CELL_TOP;
use super::lanes::LANES;
use crate::OutOfMemory;
use crate::hash::{MULTIPLIER_A, mix, reduce};
use crate::lines::{Line, Lines};
use crate::snapshot::RestoreError;
use crate::snapshot::head::within;

/// Maximum number of records in a line.
pub(super) const LINE_RECORDS: usize = 6;
/// Maximum number of records in a lane, divided by its lines. On average, space for one of the six records in a line
/// stays free, which keeps searches short.
const RECORDS_PER_LINE: usize = 5;
/// Number of lines of cells per line of records. Records need a tenth as much memory as cells.
///
/// A generation with 40 bits per key then has one record for every 25.6 keys. With Zipf-distributed traffic, this is
/// enough if keys arrive nine times on average: in a measurement with two million keys, the counts of 3.85 % of the
/// keys exceeded 15. If keys arrive ten times or more, the table of records fills up, and the counts of the keys that
/// are last to exceed 15 become too high.
const CELL_LINES_PER_LINE: usize = 10;
/// Minimum number of lines of a lane, so that small rings do not fill up at once.
const LANE_LINES_MIN: usize = 16;

const PLACE_MASK: u64 = (1 << 48) - 1;
const LAST: usize = 7;

/// The tag bit that marks the record of a single key, as opposed to an "any" record. The other bits are the lowest
/// fifteen bits of the fingerprint. Twelve of them select the slots of the key's cells, so the tag leads to the cells.
pub(super) const OWN_TAG: u16 = 1 << 15;

/// Returns the tag of the "any" record for the first slot of `tag`.
pub(super) const fn any_of(tag: u16) -> u16 {
    tag & 7
}

/// Combines a line of cells and a tag into one number, which identifies a record within its lane.
pub(super) const fn place(line: u32, tag: u16) -> u64 {
    (line as u64) << 16 | tag as u64
}

/// The records of all lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Records {
    /// The tables of all lanes in order, of equal size.
    pub(super) lines: Lines,
    /// Number of records of each lane.
    held: [usize; LANES as usize],
    /// For each lane, the highest possible difference between the count and the cells of a key without a record.
    unlisted: [u32; LANES as usize],
}

/// A record outside the table, as line, count and tag.
pub(super) type Record = (u32, u32, u16);

/// The result of a search.
enum SearchResult {
    /// The record: a line of the table, and the index of the record in it.
    Record(usize, usize),
    /// The line of the table that has space for the record.
    Room(usize),
}

impl Records {
    /// Creates empty tables for a ring of `cell_lines` lines.
    pub(super) fn new(cell_lines: usize) -> Result<Self, OutOfMemory> {
        let lines = Lines::new(lines_for(cell_lines))?;
        Ok(Self { lines, held: [0; LANES as usize], unlisted: [0; LANES as usize] })
    }

    /// Returns the records of the `live` lanes for a ring of `cell_lines` lines in which every line was repeated
    /// `factor` times. Each record is stored for all copies of its line.
    pub(super) fn repeated(&self, factor: u32, cell_lines: usize, live: u8) -> Self {
        let mut repeated = Self::new(cell_lines).unwrap_or_else(|error| panic!("{error}"));
        for lane in (0..LANES as usize).filter(|lane| live >> lane & 1 == 1) {
            let copies = |(line, count, tag): Record| (0..factor).map(move |i| (line * factor + i, count, tag));
            let mut records: Vec<Record> = self.iter(lane).flat_map(copies).collect();
            sort_for_room(&mut records);
            repeated.replace(lane, self.unlisted[lane], records);
        }
        repeated
    }

    /// Counts the records of lines just read. Rejects lines that are invalid in a ring of `cell_lines` lines.
    pub(super) fn recount(&mut self, unlisted: [u32; LANES as usize], cell_lines: usize) -> Result<(), RestoreError> {
        self.unlisted = unlisted;
        for lane in 0..LANES as usize {
            for line in &self.lines[self.lane(lane)] {
                within("the number of records in a line", used(line) as u64, ..=LINE_RECORDS as u64)?;
            }
            for (line, count, _) in self.iter(lane) {
                within("the line of a record", line.into(), ..cell_lines as u64)?;
                within("the count of a record", count.into(), u64::from(CELL_TOP) + 1..)?;
            }
            let held = self.iter(lane).count() as u64;
            self.held[lane] = within("the number of records", held, ..=self.limit() as u64)? as usize;
        }
        Ok(())
    }

    /// Returns, for each lane, the highest possible difference between the count and the cells of a key without a
    /// record.
    pub(super) const fn unlisted(&self) -> [u32; LANES as usize] {
        self.unlisted
    }

    /// Returns the maximum number of records of a lane.
    pub(super) fn limit(&self) -> usize {
        self.lane(0).len() * RECORDS_PER_LINE
    }

    /// Returns the number of records of a lane.
    pub(super) const fn held(&self, lane: usize) -> usize {
        self.held[lane]
    }

    /// Returns the count of a record, if it exists.
    pub(super) fn get(&self, lane: usize, line: u32, tag: u16) -> Option<u32> {
        match self.find(lane, place(line, tag)) {
            SearchResult::Record(at, i) => Some(count(&self.lines[at], i)),
            SearchResult::Room(_) => None,
        }
    }

    /// Returns true if an existing record counts the key with this `tag`.
    pub(super) fn has_record(&self, lane: usize, line: u32, tag: u16) -> bool {
        [tag, any_of(tag)].into_iter().any(|tag| self.get(lane, line, tag).is_some())
    }

    /// Returns the highest possible count of a key without a record.
    pub(super) const fn without_record(&self, lane: usize) -> u32 {
        CELL_TOP.saturating_add(self.unlisted[lane])
    }

    /// Returns the count of a key whose own tag is `tag` and whose cells read 15.
    pub(super) fn heavy_count(&self, lane: usize, line: u32, tag: u16) -> u32 {
        let own = self.get(lane, line, tag);
        own.or_else(|| self.get(lane, line, any_of(tag))).unwrap_or_else(|| self.without_record(lane))
    }

    /// Adds `amount` insertions of a key whose cells read 15 to the record that [`heavy_count`](Self::heavy_count)
    /// reads.
    #[inline(never)]
    pub(super) fn add_heavy(&mut self, lane: usize, line: u32, tag: u16, amount: u32) {
        for tag in [tag, any_of(tag)] {
            if let SearchResult::Record(at, i) = self.find(lane, place(line, tag)) {
                let line = self.lines.changing_one(at);
                return set_count(line, i, count(line, i).saturating_add(amount));
            }
        }
        self.insert_or_unlist(lane, (line, self.without_record(lane).saturating_add(amount), tag));
    }

    /// Sets a record. If the table is full, raises `unlisted` to cover the count instead.
    fn insert_or_unlist(&mut self, lane: usize, (line, count, tag): Record) {
        let place = place(line, tag);
        match self.find(lane, place) {
            SearchResult::Record(at, i) => set_count(self.lines.changing_one(at), i, count),
            SearchResult::Room(at) if self.held[lane] < self.limit() => {
                append(self.lines.changing_one(at), place, count);
                self.held[lane] += 1;
            }
            SearchResult::Room(_) => self.unlisted[lane] = self.unlisted[lane].max(count.saturating_sub(CELL_TOP)),
        }
    }

    /// Returns all records of a lane, in unspecified order.
    pub(super) fn iter(&self, lane: usize) -> impl Iterator<Item = Record> {
        self.lane(lane).flat_map(|at| self.line_records(at))
    }

    /// Returns the records of a line of the table.
    pub(super) fn line_records(&self, at: usize) -> impl Iterator<Item = Record> {
        let line = &self.lines[at];
        (0..used(line)).map(|i| ((line.0[i] >> 16) as u32, count(line, i), line.0[i] as u16))
    }

    /// Replaces the records of a lane with `records`. Sets `unlisted` to the given value, and raises it for records
    /// that do not fit.
    pub(super) fn replace(&mut self, lane: usize, unlisted: u32, records: Vec<Record>) {
        self.clear_lines(self.lane(lane));
        (self.held[lane], self.unlisted[lane]) = (0, unlisted);
        records.into_iter().for_each(|record| self.insert_or_unlist(lane, record));
    }

    /// Drops the records of a lane that is no longer live. `step` is a range of the ring's `cell_lines` lines; the
    /// corresponding part of the lane's table is cleared.
    pub(super) fn expire(&mut self, lane: usize, step: Range<usize>, cell_lines: usize) {
        (self.held[lane], self.unlisted[lane]) = (0, 0);
        let lines = self.lane(lane);
        let share = |at: usize| lines.start + (at as u64 * lines.len() as u64 / cell_lines as u64) as usize;
        self.clear_lines(share(step.start)..share(step.end));
    }

    fn clear_lines(&mut self, lines: Range<usize>) {
        self.lines.changing_range(lines).fill(Line::default());
    }

    /// Returns the lines of a lane's table.
    pub(super) fn lane(&self, lane: usize) -> Range<usize> {
        let lines = self.lines.len() / LANES as usize;
        lane * lines..(lane + 1) * lines
    }

    fn find(&self, lane: usize, place: u64) -> SearchResult {
        let lines = self.lane(lane);
        let home = reduce(mix(place ^ MULTIPLIER_A, MULTIPLIER_A), lines.len() as u64) as usize;
        for at in (lines.start + home..lines.end).chain(lines.start..lines.start + home) {
            let line = &self.lines[at];
            let used = used(line);
            if let Some(i) = line.0[..used].iter().position(|word| word & PLACE_MASK == place) {
                return SearchResult::Record(at, i);
            }
            if used < LINE_RECORDS {
                return SearchResult::Room(at);
            }
        }
        unreachable!("a lane never holds as many records as it has places")
    }
}

/// Sorts records by line, with the largest count of each line first. Once a record does not fit, no smaller one fits
/// either. So if a key's own record is lost, the key is never counted by a smaller "any" record.
pub(super) fn sort_for_room(records: &mut [Record]) {
    records.sort_unstable_by(|a, b| (a.0, b.1, a.2).cmp(&(b.0, a.1, b.2)));
}

/// Returns the number of lines for the records of a ring that has `cell_lines` lines of cells.
pub(super) fn lines_for(cell_lines: usize) -> usize {
    (cell_lines / CELL_LINES_PER_LINE / LANES as usize).max(LANE_LINES_MIN) * LANES as usize
}

/// Returns the number of records in a line.
pub(super) const fn used(line: &Line) -> usize {
    (line.0[LAST] >> 32) as usize
}

/// Returns the word with the high half of the count of record `i`, and its shift.
const fn high_half(i: usize) -> (usize, usize) {
    (LINE_RECORDS + i / 4, 16 * (i % 4))
}

const fn count(line: &Line, i: usize) -> u32 {
    let (word, shift) = high_half(i);
    (line.0[i] >> 48) as u32 | ((line.0[word] >> shift) as u32) << 16
}

fn set_count(line: &mut Line, i: usize, count: u32) {
    line.0[i] = line.0[i] & PLACE_MASK | u64::from(count) << 48;
    let (word, shift) = high_half(i);
    line.0[word] = line.0[word] & !(0xffff << shift) | u64::from(count >> 16) << shift;
}

/// Adds a record to a line, which must not be full.
pub(super) fn append(line: &mut Line, place: u64, count: u32) {
    let i = used(line);
    line.0[i] = place;
    set_count(line, i, count);
    line.0[LAST] += 1 << 32;
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_full_lane_holds_what_it_may_and_finds_all_of_it() {
        let mut records = Records::new(5000).unwrap();
        let limit = records.limit();
        assert_eq!(limit, 62 * 5);
        let mut truth = HashMap::new();
        for i in 0..limit as u32 {
            let (line, tag) = (i * 77 % 5000, OWN_TAG | i as u16);
            records.add_heavy(3, line, tag, i * 1_000_000);
            *truth.entry((line, tag)).or_insert(0) += CELL_TOP + i * 1_000_000;
        }
        assert_eq!((records.held(3), records.held(2)), (limit, 0));
        assert!(truth.iter().all(|(&(line, tag), &count)| records.get(3, line, tag) == Some(count)));
        assert_eq!(records.get(2, 77, OWN_TAG | 1), None);
        assert_eq!(records.iter(3).collect::<Vec<_>>().len(), limit);
        assert_eq!(records.unlisted()[3], 0);
        // One more record does not fit, but its count is included in `unlisted`.
        records.add_heavy(3, 4999, OWN_TAG, 100);
        assert_eq!((records.held(3), records.heavy_count(3, 4999, OWN_TAG)), (limit, 115));
        assert_eq!(records.heavy_count(3, 4998, OWN_TAG | 5), 115);
        assert_eq!(records.heavy_count(2, 4998, OWN_TAG | 5), 15);
    }

    #[test]
    fn records_take_a_tenth_of_the_ring() {
        for cell_lines in [1280, 12_345, 1 << 24, 99_999_999] {
            let share = lines_for(cell_lines) as f64 / cell_lines as f64;
            assert!(share <= 0.1 && share > 0.09, "{share} of {cell_lines}");
        }
        assert_eq!(lines_for(1), 128);
    }

    #[test]
    fn expiry_in_steps_clears_all_lines_of_the_lane_and_no_others() {
        let mut records = Records::new(5000).unwrap();
        (0..8).for_each(|lane| (0..300).for_each(|i| records.add_heavy(lane, i, OWN_TAG, 1)));
        let before = records.clone();
        for start in (0..5000).step_by(7) {
            records.expire(4, start..(start + 7).min(5000), 5000);
        }
        assert!(records.lines[records.lane(4)].iter().all(|line| *line == Line::default()));
        let others = (0..8).filter(|&lane| lane != 4);
        others.for_each(|lane| assert_eq!(records.lines[records.lane(lane)], before.lines[before.lane(lane)]));
    }
}
