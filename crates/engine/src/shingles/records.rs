//! The records by number and by digest: a ring, and an index into it that repeats no key.

use std::collections::VecDeque;

use bruit_filters::OutOfMemory;
use hashbrown::HashTable;

use super::STORED_MAX;
use crate::codec::{Malformed, Reader, put_count};
use crate::memory::{queue, table};

/// The bytes of an encoded record.
const ENCODED_BYTES: usize = 8 + 4 + 4 + 4 + 1 + 1 + 1;

/// What is known of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The leading half of the fingerprint of its digest.
    pub(super) digest: u64,
    /// What was written, added up.
    pub weight: i32,
    /// When it was written first, in hours since the start of 1970.
    pub first_hour: u32,
    /// When it was written last.
    pub last_hour: u32,
    /// The list it is on.
    pub flag: u8,
    /// How many of its shingles are in the table.
    pub(super) stored: u8,
    /// Whether the number still stands for a text: not if that was deleted, or written again under a later number.
    pub(super) is_live: bool,
}

/// One record for each number from the oldest on.
#[derive(Clone, Debug)]
pub(super) struct Records {
    ring: VecDeque<Record>,
    /// The number of the first of them.
    front: u64,
    /// The low halves of the numbers of live records, placed by their digests.
    index: HashTable<u32>,
}

impl Record {
    pub(super) fn new(digest: u64, flag: u8, weight: i32, hour: u32) -> Self {
        Self { digest, weight, first_hour: hour, last_hour: hour, flag, stored: 0, is_live: true }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.digest.to_le_bytes());
        out.extend(self.weight.to_le_bytes());
        out.extend(self.first_hour.to_le_bytes());
        out.extend(self.last_hour.to_le_bytes());
        out.extend([self.flag, self.stored, self.is_live.into()]);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut record = Self {
            digest: reader.u64("a shingle record's digest")?,
            weight: i32::from_le_bytes(reader.array("a shingle record's weight")?),
            first_hour: reader.u32("a shingle record's first hour")?,
            last_hour: reader.u32("a shingle record's last hour")?,
            flag: reader.u8("a shingle record's flag")?,
            stored: reader.u8("a shingle record's stored shingles")?,
            is_live: false,
        };
        if usize::from(record.stored) > STORED_MAX {
            let value = record.stored.into();
            return Err(Malformed::OutOfRange { what: "a shingle record's stored shingles", value });
        }
        let live = reader.u8("whether a shingle record is live")?;
        let is_hole = record == Self::default();
        record.is_live = live == 1;
        if live > 1 || (live == 0 && !is_hole) {
            return Err(Malformed::OutOfRange { what: "whether a shingle record is live", value: live.into() });
        }
        Ok(record)
    }
}

impl Records {
    /// Room for `records` records, so that nothing ever grows. The index is at most 7/12 full: in a fuller one, removals
    /// would leave marks behind that make it grow in the end.
    pub(super) fn new(records: usize, front: u64) -> Result<Self, OutOfMemory> {
        Ok(Self { ring: queue(records)?, front, index: table(records.saturating_add(records / 2))? })
    }

    /// Makes room for `records` records, as [`new`](Self::new) does.
    pub(super) fn make_room_for(&mut self, records: usize) {
        let mut ring = VecDeque::with_capacity(records.max(self.len()));
        ring.append(&mut self.ring);
        let mut index = HashTable::with_capacity(records.saturating_add(records / 2));
        let front = self.front;
        for &low in &self.index {
            index.insert_unique(ring[place(front, low)].digest, low, |&low| ring[place(front, low)].digest);
        }
        (self.ring, self.index) = (ring, index);
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// How many numbers stand for a text.
    pub(super) fn live(&self) -> usize {
        self.index.len()
    }

    /// The number of the oldest record.
    pub(super) fn front(&self) -> u64 {
        self.front
    }

    /// The number after that of the newest record.
    pub(super) fn end(&self) -> u64 {
        self.front + self.ring.len() as u64
    }

    /// The record of a number, if that stands for a text.
    pub(super) fn get(&self, number: u64) -> Option<&Record> {
        self.ring.get(self.at(number)?).filter(|record| record.is_live)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Record> {
        let at = self.at(number)?;
        self.ring.get_mut(at).filter(|record| record.is_live)
    }

    /// The number of the live record with this digest.
    pub(super) fn find(&self, digest: u64) -> Option<u64> {
        let low = self.index.find(digest, |&low| self.ring[place(self.front, low)].digest == digest)?;
        Some(self.front + place(self.front, *low) as u64)
    }

    /// Adds the record of a number later than all others. Numbers that were left out have a record of nothing.
    pub(super) fn push(&mut self, number: u64, record: Record) {
        while self.end() < number {
            self.ring.push_back(Record::default());
        }
        self.ring.push_back(record);
        let (ring, front) = (&self.ring, self.front);
        self.index.insert_unique(record.digest, number as u32, |&low| ring[place(front, low)].digest);
    }

    /// Makes a hole of a live record.
    pub(super) fn retire(&mut self, number: u64) {
        let Some(&record) = self.get(number) else { return };
        self.unlist(record.digest, number);
        if let Some(record) = self.get_mut(number) {
            *record = Record::default();
        }
    }

    /// Takes the oldest record out, if there is one.
    pub(super) fn pop_front(&mut self) {
        if let Some(record) = self.ring.front().filter(|record| record.is_live) {
            self.unlist(record.digest, self.front);
        }
        self.front += u64::from(self.ring.pop_front().is_some());
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.ring.capacity() * size_of::<Record>() + self.index.allocation_size()) as u64
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.front.to_le_bytes());
        put_count(out, self.len());
        self.ring.iter().for_each(|record| record.encode(out));
    }

    /// Reads at most `records` records.
    pub(super) fn decode(reader: &mut Reader<'_>, records: usize) -> Result<Self, Malformed> {
        let front = reader.u64("the oldest shingle record")?;
        let count = reader.count(records, ENCODED_BYTES, "the number of shingle records")?;
        if front.checked_add(count as u64).is_none() {
            return Err(Malformed::OutOfRange { what: "the oldest shingle record", value: front });
        }
        // At most 100 MB, plus their index.
        let mut decoded = Self::new(records, front).unwrap_or_else(|error| panic!("{error}"));
        for at in 0..count as u64 {
            let record = Record::decode(reader)?;
            match record.is_live {
                true if decoded.find(record.digest).is_some() => {
                    return Err(Malformed::OutOfRange { what: "a shingle record's digest", value: record.digest });
                }
                true => decoded.push(front + at, record),
                false => decoded.ring.push_back(record),
            }
        }
        Ok(decoded)
    }

    fn at(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.front)?).ok()
    }

    fn unlist(&mut self, digest: u64, number: u64) {
        if let Ok(entry) = self.index.find_entry(digest, |&low| low == number as u32) {
            entry.remove();
        }
    }
}

/// The place in the ring of a number that is known by its low half: the ring is shorter than 2^32.
fn place(front: u64, low: u32) -> usize {
    low.wrapping_sub(front as u32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(digest: u64) -> Record {
        Record::new(digest, 1, 10, 7)
    }

    #[test]
    fn a_record_takes_24_bytes() {
        assert_eq!(size_of::<Record>(), 24);
    }

    #[test]
    fn records_are_found_by_number_and_digest_across_the_low_halves_end() {
        let start = (1 << 32) - 3;
        let mut records = Records::new(8, start).unwrap();
        for number in start..start + 6 {
            records.push(number, record(number * 31));
        }
        for number in start..start + 6 {
            assert_eq!(records.find(number * 31), Some(number));
            assert_eq!(records.get(number), Some(&record(number * 31)));
        }
        assert_eq!(records.find(5), None);
        for number in start..start + 6 {
            records.pop_front();
            assert_eq!((records.find(number * 31), records.get(number)), (None, None));
        }
        records.pop_front();
        assert_eq!((records.live(), records.front()), (0, start + 6));
    }

    #[test]
    fn numbers_left_out_have_no_record() {
        let mut records = Records::new(8, 1).unwrap();
        records.push(1, record(10));
        records.push(3, record(30));
        assert_eq!((records.get(2), records.find(0), records.find(30)), (None, None, Some(3)));
    }

    #[test]
    fn a_retired_record_leaves_its_digest_to_a_later_one() {
        let mut records = Records::new(8, 1).unwrap();
        records.push(1, record(10));
        records.retire(1);
        records.push(2, record(10));
        assert_eq!((records.get(1), records.find(10), records.live()), (None, Some(2), 1));
        records.pop_front();
        assert_eq!(records.find(10), Some(2));
    }

    #[test]
    fn nothing_grows_up_to_the_number_it_was_made_for() {
        for count in [1, 100, 7_168, 611_670] {
            let mut records = Records::new(count, 1).unwrap();
            let bytes = records.bytes();
            for number in 1..=count as u64 {
                records.push(number, record(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            }
            assert_eq!(records.bytes(), bytes, "{count}");
        }
    }
}
