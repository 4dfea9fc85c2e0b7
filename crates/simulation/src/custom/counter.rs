//! What a round needs of a counting filter, whatever its layout. Keys are called 0, 1, 2 …

use std::sync::Arc;

use bruit_filters::Fingerprint;
use bruit_filters::counting::{Cells, CompactCounters, CountingFilter, OneLineCounts, PackedCells};

use crate::positions::PositionTable;

/// A filter that counts.
pub(super) trait Counter: Clone {
    /// Counts `times` insertions of `key` in a row.
    fn insert(&mut self, key: u32, times: u32);

    /// How often `key` was inserted, at most.
    fn count(&self, key: u32) -> u32;

    /// Adds another of the same shape.
    fn merge(&mut self, other: &Self);

    /// Where counts end.
    fn top(&self) -> u32;

    /// The memory it takes.
    fn bytes(&self) -> u64;

    /// The memory by the paper's reckoning: no room to grow, no bytes that only align.
    fn computed_bytes(&self) -> u64;
}

/// What the memory of a classical filter is, by its cells.
pub(super) trait CellMemory: Cells {
    /// The memory they take.
    fn bytes(&self) -> u64;

    /// The memory by the paper's reckoning.
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
        Self::merge(self, other).expect("the filters of a round are alike");
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

/// One-line counts, with the fingerprints of the round's keys.
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
        self.counts.merge(&other.counts).expect("the filters of a round are alike");
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
