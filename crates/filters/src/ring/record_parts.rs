//! The records of a lane in bytes: the lines of its table, each record where it lies.
//!
//! So a table is the same afterwards, and nothing is searched for. The first part also has what is told of the lane as a
//! whole: how many keys were counted, and what those without a record may have.

use std::ops::Range;

use super::counts::CELL_TOP;
use super::records::{LINE_RECORDS, Record, Records, append, place, used};
use crate::file::FileError;
use crate::lines::Line;
use crate::snapshot::head::NUMBER_MAX;
use crate::varint;

/// Lines of the table in a part: with all places taken, and the largest counts, 34,319 bytes.
pub(super) const PART_TABLE_LINES: usize = 512;

/// What a part says.
struct Part {
    /// Keys and unlisted count, in the first part.
    totals: Option<(u64, u32)>,
    lines: Vec<Line>,
}

impl Records {
    /// How many parts the records of a lane have: one at least.
    pub(super) fn lane_parts(&self) -> usize {
        self.lane(0).len().div_ceil(PART_TABLE_LINES)
    }

    /// Appends a part of a lane in which `keys` keys were counted.
    pub(super) fn lane_bytes(&self, lane: usize, part: usize, keys: u64, out: &mut Vec<u8>) {
        if part == 0 {
            varint::put(keys, out);
            varint::put(self.unlisted()[lane].into(), out);
        }
        for at in self.part_lines(lane, part) {
            let line = &self.lines[at];
            out.push(used(line) as u8);
            self.line_records(at).for_each(|record| put_record(record, out));
        }
    }

    /// Makes what [`lane_bytes`](Self::lane_bytes) wrote those of a lane; returns the keys if the part tells them.
    pub(super) fn merge_lane(
        &mut self,
        lane: usize,
        part: usize,
        cell_lines: usize,
        bytes: &[u8],
    ) -> Result<Option<u64>, FileError> {
        let lines = self.part_lines(lane, part);
        let read = Part::read(part == 0, lines.len(), cell_lines, bytes)?;
        let others = if part == 0 { 0 } else { self.held(lane) - self.used_in(lines.clone()) };
        let held = others + read.lines.iter().map(used).sum::<usize>();
        if held > self.limit() {
            return Err(FileError::invalid("the number of records", held as u64));
        }
        if let Some((_, unlisted)) = read.totals {
            self.replace(lane, unlisted, Vec::new());
        }
        self.replace_lines(lane, lines, &read.lines, held);
        Ok(read.totals.map(|(keys, _)| keys))
    }

    /// The lines of a part of a lane's table.
    fn part_lines(&self, lane: usize, part: usize) -> Range<usize> {
        let table = self.lane(lane);
        let start = table.start + part * PART_TABLE_LINES;
        start..(start + PART_TABLE_LINES).min(table.end)
    }

    fn used_in(&self, lines: Range<usize>) -> usize {
        self.lines[lines].iter().map(used).sum()
    }
}

impl Part {
    /// Reads `table_lines` lines, and what is told of the lane before them if this is the first part.
    fn read(is_first: bool, table_lines: usize, cell_lines: usize, mut bytes: &[u8]) -> Result<Self, FileError> {
        let totals = if is_first {
            let keys = take_within(&mut bytes, "the number of keys", 0, NUMBER_MAX)?;
            Some((keys, take_within(&mut bytes, "the unlisted count", 0, u32::MAX.into())? as u32))
        } else {
            None
        };
        let lines = (0..table_lines).map(|_| take_line(&mut bytes, cell_lines)).collect::<Result<_, _>>()?;
        if bytes.is_empty() { Ok(Self { totals, lines }) } else { Err(FileError::TrailingBytes) }
    }
}

fn put_record((line, count, tag): Record, out: &mut Vec<u8>) {
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&line.to_le_bytes());
    varint::put(count.into(), out);
}

/// A line of the table, of a ring with `cell_lines` lines of cells.
fn take_line(bytes: &mut &[u8], cell_lines: usize) -> Result<Line, FileError> {
    let [records] = take(bytes)?;
    if usize::from(records) > LINE_RECORDS {
        return Err(FileError::invalid("the number of records in a line", records));
    }
    let mut table_line = Line::default();
    for _ in 0..records {
        let (tag, line) = (u16::from_le_bytes(take(bytes)?), u32::from_le_bytes(take(bytes)?));
        if line as usize >= cell_lines {
            return Err(FileError::invalid("the line of a record", line));
        }
        let least = u64::from(CELL_TOP) + 1;
        let count = take_within(bytes, "the count of a record", least, u32::MAX.into())?;
        append(&mut table_line, place(line, tag), count as u32);
    }
    Ok(table_line)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], FileError> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(FileError::Truncated)?;
    *bytes = rest;
    Ok(*taken)
}

fn take_within(bytes: &mut &[u8], field: &'static str, least: u64, most: u64) -> Result<u64, FileError> {
    let value = varint::take(bytes, field)?;
    if (least..=most).contains(&value) { Ok(value) } else { Err(FileError::invalid(field, value)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::LANE_PART_BYTES_MAX;
    use crate::ring::records::OWN_TAG;

    /// Places that can be had in a table of 16 lines, and more than its limit.
    #[test]
    fn a_lane_takes_as_many_records_as_its_limit_and_refuses_one_more() {
        let mut records = Records::try_new(10).unwrap();
        let limit = records.limit();
        let part = |count: usize| {
            let mut bytes = vec![7, 0];
            let mut rest = count;
            for _ in 0..16 {
                let used = rest.min(LINE_RECORDS);
                rest -= used;
                bytes.push(used as u8);
                (0..used as u16).for_each(|tag| put_record((3, 16, OWN_TAG | tag), &mut bytes));
            }
            bytes
        };
        assert!(records.merge_lane(2, 0, 10, &part(limit + 1)).is_err());
        assert_eq!(records, Records::try_new(10).unwrap(), "nothing is changed");
        assert_eq!(records.merge_lane(2, 0, 10, &part(limit)).unwrap(), Some(7));
        assert_eq!(records.held(2), limit);
        assert_eq!(records.merge_lane(2, 0, 10, &part(0)).unwrap(), Some(7));
        assert_eq!((records.held(2), records.unlisted()[2]), (0, 0));
    }

    #[test]
    fn what_no_table_holds_is_refused() {
        let whole = |first: &[u8]| [&[0, 0], first, &[0; 15]].concat();
        let record = |line: u32, count: u64| {
            let mut bytes = vec![1, 0, 0x80];
            bytes.extend(line.to_le_bytes());
            varint::put(count, &mut bytes);
            whole(&bytes)
        };
        let mut records = Records::try_new(10).unwrap();
        for (bytes, field) in [
            (whole(&[7]), "the number of records in a line"),
            (record(10, 16), "the line of a record"),
            (record(9, 15), "the count of a record"),
            (record(9, 1 << 32), "the count of a record"),
        ] {
            let refused = records.merge_lane(0, 0, 10, &bytes).unwrap_err();
            assert!(matches!(refused, FileError::InvalidField { field: found, .. } if found == field), "{refused}");
        }
        assert!(records.merge_lane(0, 0, 10, &record(9, u32::MAX.into())).is_ok());
    }

    #[test]
    fn the_fullest_part_is_within_the_bound() {
        let mut bytes = Vec::new();
        varint::put(NUMBER_MAX, &mut bytes);
        varint::put(u32::MAX.into(), &mut bytes);
        for _ in 0..PART_TABLE_LINES {
            bytes.push(LINE_RECORDS as u8);
            (0..LINE_RECORDS).for_each(|_| put_record((u32::MAX, u32::MAX, u16::MAX), &mut bytes));
        }
        assert!(bytes.len() <= LANE_PART_BYTES_MAX, "{}", bytes.len());
    }
}
