//! The spill table: counts that do not fit in their line.
//!
//! With Zipf-distributed traffic, only one line in 200 needs the table, but these lines include the most frequent keys.
//! The table is bounded. Once it is full, insertions that would need a new record raise the number `unlisted` instead.
//! The count of every key without a record is then the value of its cells plus `unlisted`: too high, but never too low.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::hash::{MULTIPLIER_A, mix};

/// Number of records that a table may have in addition to one per line. Without these additional records, the tables of
/// small filters would fill up at once.
const LIMIT_BASE: usize = 1024;

/// Counts by line and tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spill {
    counts: HashMap<u64, u32, BuildHasherDefault<PlaceHasher>>,
    limit: usize,
    unlisted: u32,
}

/// Returns line and tag as one number, ordered by line.
const fn place(line: u32, tag: u16) -> u64 {
    (line as u64) << 16 | tag as u64
}

impl Spill {
    /// Creates an empty table for a filter of `lines` lines.
    pub(crate) fn new(lines: usize) -> Self {
        Self { counts: HashMap::default(), limit: lines + LIMIT_BASE, unlisted: 0 }
    }

    /// Creates an empty table for the sum of two filters, with the sum of their `unlisted` counts.
    pub(crate) fn joining(a: &Self, b: &Self) -> Self {
        Self { counts: HashMap::default(), limit: a.limit, unlisted: a.unlisted.saturating_add(b.unlisted) }
    }

    /// Restores a table from its records.
    pub(crate) fn restore(lines: usize, records: &SpillRecords) -> Self {
        Self { counts: records.places.iter().copied().collect(), unlisted: records.unlisted, ..Self::new(lines) }
    }

    /// Returns the count of a record, or 0 if there is none.
    pub(crate) fn get(&self, line: u32, tag: u16) -> u32 {
        self.counts.get(&place(line, tag)).copied().unwrap_or(0)
    }

    /// Sets a record that already exists or has an entry in its line. Records with an entry can exceed the limit, by at
    /// most two per line.
    pub(crate) fn set(&mut self, line: u32, tag: u16, count: u32) {
        self.counts.insert(place(line, tag), count);
    }

    /// Adds `amount` to a record for which [`set`](Self::set) is allowed. A missing record starts at `base`.
    pub(crate) fn add(&mut self, line: u32, tag: u16, base: u32, amount: u32) {
        match self.counts.get_mut(&place(line, tag)) {
            Some(count) => *count = count.saturating_add(amount),
            None => self.set(line, tag, base.saturating_add(amount)),
        }
    }

    /// Adds a record for a key whose count is above `top`. If the table is full, raises `unlisted` to cover the count
    /// instead.
    pub(crate) fn insert_or_unlist(&mut self, line: u32, tag: u16, count: u32, top: u32) {
        if self.counts.len() < self.limit {
            self.set(line, tag, count);
        } else {
            self.unlisted = self.unlisted.max(count.saturating_sub(top));
        }
    }

    /// Returns the highest possible count of a key that has no record and whose cells read `top`.
    pub(crate) const fn without_record(&self, top: u32) -> u32 {
        top.saturating_add(self.unlisted)
    }

    /// Returns the highest possible difference between the count and the cells of a key without a record.
    pub(crate) const fn unlisted(&self) -> u32 {
        self.unlisted
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Returns all records, in order.
    pub(crate) fn records(&self) -> SpillRecords {
        let mut places: Vec<_> = self.counts.iter().map(|(&place, &count)| (place, count)).collect();
        places.sort_unstable();
        SpillRecords { places, unlisted: self.unlisted }
    }
}

/// The records of a spill table ordered by line and tag, as written to files and merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpillRecords {
    places: Vec<(u64, u32)>,
    unlisted: u32,
}

impl SpillRecords {
    /// Creates a list from untrusted records. Returns `None` if they are not in strictly ascending order.
    pub(crate) fn new(records: impl Iterator<Item = (u32, u16, u32)>, unlisted: u32) -> Option<Self> {
        let places: Vec<_> = records.map(|(line, tag, count)| (place(line, tag), count)).collect();
        places.is_sorted_by(|a, b| a.0 < b.0).then_some(Self { places, unlisted })
    }

    /// Returns line, tag and count of each record.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u16, u32)> {
        self.places.iter().map(|&(place, count)| ((place >> 16) as u32, place as u16, count))
    }

    /// Appends tag and count of the records of `line` to `found`. The first `passed` records of the list must be those
    /// of earlier lines. Returns the number of records up to and including this line.
    pub(crate) fn append_line(&self, passed: usize, line: u32, found: &mut Vec<(u16, u32)>) -> usize {
        let records = &self.places[passed..];
        let first = records.iter().take_while(|record| record.0 < place(line, 0)).count();
        let of_line = records[first..].iter().take_while(|record| record.0 >> 16 == u64::from(line));
        let before = found.len();
        found.extend(of_line.map(|&(place, count)| (place as u16, count)));
        passed + first + found.len() - before
    }

    /// Returns the highest possible difference between the count and the cells of a key without a record.
    pub(crate) const fn unlisted(&self) -> u32 {
        self.unlisted
    }
}

/// Hashes places with one multiplication. Places derive from keyed fingerprints, so only a crafted file can make them
/// collide and slow down its reader. The damage is limited because the number of records is bounded.
#[derive(Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, place: u64) {
        self.0 = mix(self.0 ^ place ^ MULTIPLIER_A, MULTIPLIER_A);
    }
}
