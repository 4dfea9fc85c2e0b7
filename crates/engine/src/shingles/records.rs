//! Records by number and by digest: a ring buffer, and an index that does not repeat the digests.

use std::collections::VecDeque;

use bruit_filters::OutOfMemory;
use hashbrown::HashTable;

use super::STORED_MAX;
use crate::codec::{Malformed, Reader, put_count};
use crate::memory::{queue, table};

/// Length of an encoded record.
const ENCODED_BYTES: usize = 8 + 4 + 4 + 4 + 1 + 1 + 1;

/// The record of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShingleRecord {
    /// Leading half of the fingerprint of the text's digest.
    pub(super) digest: u64,
    /// Sum of the weights written.
    pub weight: i32,
    /// Time of the first write, in hours since the start of 1970.
    pub first_hour: u32,
    /// Time of the last write, in hours since the start of 1970.
    pub last_hour: u32,
    /// Number of the list that the text is on.
    pub flag: u8,
    /// Number of the text's shingles that are in the table.
    pub(super) stored: u8,
    /// False if the record is empty, because its text was deleted or written again under a later number, or because its
    /// number was skipped.
    pub(super) is_live: bool,
}

/// Records by number, starting with the oldest.
#[derive(Clone, Debug)]
pub(super) struct Records {
    ring: VecDeque<ShingleRecord>,
    /// Number of the first record.
    front: u64,
    /// Low halves of the numbers of live records, hashed by the records' digests.
    index: HashTable<u32>,
}

impl ShingleRecord {
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
        let live = reader.u8("the live flag of a shingle record")?;
        let is_hole = record == Self::default();
        record.is_live = live == 1;
        if live > 1 || (live == 0 && !is_hole) {
            return Err(Malformed::OutOfRange { what: "the live flag of a shingle record", value: live.into() });
        }
        Ok(record)
    }
}

impl Records {
    /// Allocates memory for `records` records. The memory never grows, because the index is at most 7/12 full. In a
    /// fuller index, removals would leave tombstones, which would eventually make the index grow.
    pub(super) fn new(records: usize, front: u64) -> Result<Self, OutOfMemory> {
        Ok(Self { ring: queue(records)?, front, index: table(records.saturating_add(records / 2))? })
    }

    /// Allocates memory for `records` records, as [`new`](Self::new) does.
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

    /// Returns the number of live records.
    pub(super) fn live(&self) -> usize {
        self.index.len()
    }

    /// Returns the number of the oldest record.
    pub(super) fn front(&self) -> u64 {
        self.front
    }

    /// Returns the number that follows the newest record's.
    pub(super) fn end(&self) -> u64 {
        self.front + self.ring.len() as u64
    }

    /// Returns the record with this number, if it is live.
    pub(super) fn get(&self, number: u64) -> Option<&ShingleRecord> {
        self.ring.get(self.at(number)?).filter(|record| record.is_live)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut ShingleRecord> {
        let at = self.at(number)?;
        self.ring.get_mut(at).filter(|record| record.is_live)
    }

    /// Returns the number of the live record with this digest.
    pub(super) fn find(&self, digest: u64) -> Option<u64> {
        let low = self.index.find(digest, |&low| self.ring[place(self.front, low)].digest == digest)?;
        Some(self.front + place(self.front, *low) as u64)
    }

    /// Adds a record with a number above all others. Skipped numbers get an empty record.
    pub(super) fn push(&mut self, number: u64, record: ShingleRecord) {
        while self.end() < number {
            self.ring.push_back(ShingleRecord::default());
        }
        self.ring.push_back(record);
        let (ring, front) = (&self.ring, self.front);
        self.index.insert_unique(record.digest, number as u32, |&low| ring[place(front, low)].digest);
    }

    /// Replaces a live record with an empty one.
    pub(super) fn retire(&mut self, number: u64) {
        let Some(&record) = self.get(number) else { return };
        self.unlist(record.digest, number);
        if let Some(record) = self.get_mut(number) {
            *record = ShingleRecord::default();
        }
    }

    /// Removes the oldest record, if there is one.
    pub(super) fn pop_front(&mut self) {
        if let Some(record) = self.ring.front().filter(|record| record.is_live) {
            self.unlist(record.digest, self.front);
        }
        self.front += u64::from(self.ring.pop_front().is_some());
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.ring.capacity() * size_of::<ShingleRecord>() + self.index.allocation_size()) as u64
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.front.to_le_bytes());
        put_count(out, self.len());
        self.ring.iter().for_each(|record| record.encode(out));
    }

    /// Decodes at most `records` records.
    pub(super) fn decode(reader: &mut Reader<'_>, records: usize) -> Result<Self, Malformed> {
        let front = reader.u64("the oldest shingle record")?;
        let count = reader.count(records, ENCODED_BYTES, "the number of shingle records")?;
        if front.checked_add(count as u64).is_none() {
            return Err(Malformed::OutOfRange { what: "the oldest shingle record", value: front });
        }
        // Allocates at most 100 MB, plus the index.
        let mut decoded = Self::new(records, front).unwrap_or_else(|error| panic!("{error}"));
        for at in 0..count as u64 {
            let record = ShingleRecord::decode(reader)?;
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

/// Returns the position of a record in the ring buffer, given the low half of its number. The position is unambiguous,
/// because the buffer has fewer than 2^32 entries.
fn place(front: u64, low: u32) -> usize {
    low.wrapping_sub(front as u32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(digest: u64) -> ShingleRecord {
        ShingleRecord::new(digest, 1, 10, 7)
    }

    #[test]
    fn a_record_takes_24_bytes() {
        assert_eq!(size_of::<ShingleRecord>(), 24);
    }

    #[test]
    fn records_are_found_when_the_low_halves_of_numbers_wrap() {
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
    fn skipped_numbers_have_no_record() {
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
    fn records_never_grow_within_their_capacity() {
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
