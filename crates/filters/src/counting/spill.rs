//! The spill table: counts that found no room in their line.
//!
//! Few lines need it, one in 200 on Zipf traffic, but the hottest keys do. It is bounded. Once full, arrivals that would
//! need a new record raise one number, `unlisted`, which every key without a record then has on top of what its cells
//! can show: counts become too high, never too low.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::hash::{MULTIPLIER_A, mix};

/// Records a table may hold beyond one per line; keeps small filters from filling up at once.
const LIMIT_BASE: usize = 1024;

/// Counts by line and tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spill {
    counts: HashMap<u64, u32, BuildHasherDefault<PlaceHasher>>,
    limit: usize,
    unlisted: u32,
}

/// A line and a tag as one number, in the order of the lines.
const fn place(line: u32, tag: u16) -> u64 {
    (line as u64) << 16 | tag as u64
}

impl Spill {
    /// An empty table for a filter of `lines` lines.
    pub(crate) fn new(lines: usize) -> Self {
        Self { counts: HashMap::default(), limit: lines + LIMIT_BASE, unlisted: 0 }
    }

    /// An empty table that starts where two others ended.
    pub(crate) fn joining(a: &Self, b: &Self) -> Self {
        Self { counts: HashMap::default(), limit: a.limit, unlisted: a.unlisted.saturating_add(b.unlisted) }
    }

    /// Makes a table again from its records.
    pub(crate) fn restore(lines: usize, records: &SpillRecords) -> Self {
        Self { counts: records.places.iter().copied().collect(), unlisted: records.unlisted, ..Self::new(lines) }
    }

    /// The count of a record, 0 if there is none.
    pub(crate) fn get(&self, line: u32, tag: u16) -> u32 {
        self.counts.get(&place(line, tag)).copied().unwrap_or(0)
    }

    /// Sets a record that exists, or one that has an entry in its line: at most two per line on top of the limit.
    pub(crate) fn set(&mut self, line: u32, tag: u16, count: u32) {
        self.counts.insert(place(line, tag), count);
    }

    /// Adds `amount` to a record that may be [`set`](Self::set), and starts at `base` if it is not there.
    pub(crate) fn add(&mut self, line: u32, tag: u16, base: u32, amount: u32) {
        match self.counts.get_mut(&place(line, tag)) {
            Some(count) => *count = count.saturating_add(amount),
            None => self.set(line, tag, base.saturating_add(amount)),
        }
    }

    /// Adds a record for a key past `top` if there is room; if not, every key without a record may have as many.
    pub(crate) fn insert_or_unlist(&mut self, line: u32, tag: u16, count: u32, top: u32) {
        if self.counts.len() < self.limit {
            self.set(line, tag, count);
        } else {
            self.unlisted = self.unlisted.max(count.saturating_sub(top));
        }
    }

    /// The most that a key without a record can have, where cells end at `top`.
    pub(crate) const fn without_record(&self, top: u32) -> u32 {
        top.saturating_add(self.unlisted)
    }

    /// What a key without a record may have beyond the top of its cells.
    pub(crate) const fn unlisted(&self) -> u32 {
        self.unlisted
    }

    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// All records, in order.
    pub(crate) fn records(&self) -> SpillRecords {
        let mut places: Vec<_> = self.counts.iter().map(|(&place, &count)| (place, count)).collect();
        places.sort_unstable();
        SpillRecords { places, unlisted: self.unlisted }
    }
}

/// The records of a spill table in order of line and tag: what is written to files and merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpillRecords {
    places: Vec<(u64, u32)>,
    unlisted: u32,
}

impl SpillRecords {
    /// Records as they were read from outside: `None` if they are not in strictly rising order.
    pub(crate) fn new(records: impl Iterator<Item = (u32, u16, u32)>, unlisted: u32) -> Option<Self> {
        let places: Vec<_> = records.map(|(line, tag, count)| (place(line, tag), count)).collect();
        places.is_sorted_by(|a, b| a.0 < b.0).then_some(Self { places, unlisted })
    }

    /// Line, tag and count of each record.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u16, u32)> {
        self.places.iter().map(|&(place, count)| ((place >> 16) as u32, place as u16, count))
    }

    /// Appends tag and count of the records of `line` to `found`, given that the first `passed` records belong to lines
    /// before it; returns how many belong to lines up to it.
    pub(crate) fn append_line(&self, passed: usize, line: u32, found: &mut Vec<(u16, u32)>) -> usize {
        let records = &self.places[passed..];
        let first = records.iter().take_while(|record| record.0 < place(line, 0)).count();
        let of_line = records[first..].iter().take_while(|record| record.0 >> 16 == u64::from(line));
        let before = found.len();
        found.extend(of_line.map(|&(place, count)| (place as u16, count)));
        passed + first + found.len() - before
    }

    /// What a key without a record may have beyond the top of its cells.
    pub(crate) const fn unlisted(&self) -> u32 {
        self.unlisted
    }
}

/// Places come from keyed fingerprints: one multiplication spreads them well enough. Whoever makes up a file can make
/// places collide, at great cost to himself, and slow its reader down; the number of records is bounded.
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
