//! The trait through which a round uses a counting filter of any layout. Keys are numbered from 0.

use std::sync::Arc;

use bruit_filters::Fingerprint;
use bruit_filters::counting::{Cells, CountingFilter, OneLineCounts, PackedCells};
use bruit_structures::compact::CompactCounters;

use crate::positions::PositionTable;

/// A counting filter.
pub(super) trait Counter: Clone {
    /// Inserts `key` `times` times in a row.
    fn insert(&mut self, key: u32, times: u32);

    /// Returns an upper bound on the number of insertions of `key`.
    fn count(&self, key: u32) -> u32;

    /// Adds another filter of the same shape.
    fn merge(&mut self, other: &Self);

    /// Returns the largest count that the filter can store.
    fn top(&self) -> u32;

    /// Returns the memory that the filter uses.
    fn bytes(&self) -> u64;

    /// Returns the memory according to the paper's formula, without spare capacity or padding.
    fn computed_bytes(&self) -> u64;
}

/// Memory of the cells of a classical filter.
pub(super) trait CellMemory: Cells {
    /// Returns the memory that the cells use.
    fn bytes(&self) -> u64;

    /// Returns the memory of the cells according to the paper's formula.
    fn computed_bytes(&self) -> u64;
}

impl CellMemory for PackedCells {
    fn bytes(&self) -> u64 {
        self.computed_bytes()
    }

    fn computed_bytes(&self) -> u64 {
        (self.len() * u64::from(self.bits())).div_ceil(8)
    }
}

impl CellMemory for CompactCounters {
    fn bytes(&self) -> u64 {
        self.allocated_bytes()
    }

    fn computed_bytes(&self) -> u64 {
        self.computed_bits().div_ceil(8)
    }
}

impl<C: CellMemory> Counter for CountingFilter<PositionTable, C> {
    fn insert(&mut self, key: u32, times: u32) {
        self.insert_many(&key, times);
    }

    fn count(&self, key: u32) -> u32 {
        Self::count(self, &key)
    }

    fn merge(&mut self, other: &Self) {
        Self::merge(self, other).expect("the filters of a round have the same shape");
    }

    fn top(&self) -> u32 {
        self.cells().top()
    }

    fn bytes(&self) -> u64 {
        self.cells().bytes()
    }

    fn computed_bytes(&self) -> u64 {
        self.cells().computed_bytes()
    }
}

/// One-line counts, and the fingerprints of the round's keys.
#[derive(Clone, Debug)]
pub(super) struct OneLine {
    pub(super) counts: OneLineCounts,
    pub(super) fingerprints: Arc<[Fingerprint]>,
}

impl Counter for OneLine {
    fn insert(&mut self, key: u32, times: u32) {
        self.counts.insert_many(&self.fingerprints[key as usize], times);
    }

    fn count(&self, key: u32) -> u32 {
        self.counts.count(&self.fingerprints[key as usize])
    }

    fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts).expect("the filters of a round have the same shape");
    }

    fn top(&self) -> u32 {
        u32::MAX
    }

    fn bytes(&self) -> u64 {
        self.counts.bytes() as u64
    }

    fn computed_bytes(&self) -> u64 {
        self.bytes()
    }
}
