//! Options of a custom run, and their limits.

use std::fmt;

use bruit_filters::counting::{CELL_BITS_MAX, HASHES_MAX, LINE_CELLS};
use bruit_structures::compact::{CHUNK_CELLS_MAX, HIGH_BITS_MAX, LOW_BITS_MAX};

use super::BLOCK_ROUNDS;
use crate::blocks::useful_threads;
use crate::options::{OptionsError, check_rounds_and_threads, within};
use crate::{Counts, Family, Order};

/// Maximum number of keys in a round.
pub const KEYS_MAX: u64 = 10_000_000;

/// Maximum number of cells in a filter. Positions have 32 bits.
pub const CELLS_MAX: u64 = 1 << 32;

/// Maximum number of servers that split the traffic of a round.
pub const SERVERS_MAX: u32 = 1000;

/// Maximum mean number of insertions in a round. At this limit, a round takes three minutes.
pub const INSERTIONS_MAX: u64 = 200_000_000;

/// Maximum memory of all threads together, in bytes.
pub const MEMORY_BYTES_MAX: u64 = 8 << 30;

/// Options of a custom run. They apply to each of its rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomOptions {
    /// Number of keys. Keys with a count of 0 are not inserted.
    pub keys: u64,
    /// The number of cells m.
    pub cells: u64,
    /// The number of hash functions k; 6 in the one-line layout.
    pub hashes: u32,
    /// The width of a cell in bits; in the compact layout, the width of the largest count. It is 4 in the one-line
    /// layout.
    pub cell_bits: u32,
    /// Compact layout: number of low bits s of a count that are kept in the base filter.
    pub low_bits: u32,
    /// Compact layout: number of cells that share a table of high bits.
    pub chunk_cells: u64,
    /// Distribution of the insertions per key.
    pub counts: Counts,
    /// Order of the insertions.
    pub order: Order,
    /// Number of servers. Each insertion goes to a random server, and the servers' filters are then merged.
    pub servers: u32,
    /// Layout of the cells.
    pub layout: CustomLayout,
    /// Hash family that computes positions. The one-line layout always uses fingerprints.
    pub family: Family,
    /// The lowest count at which a key is bulk, if bulk is measured.
    pub threshold: Option<u32>,
    /// Number of rounds.
    pub rounds: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of worker threads.
    pub threads: usize,
}

/// Layout of the cells of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CustomLayout {
    /// k cells anywhere in the filter, as in the paper. Both extensions are simulated.
    #[default]
    Classical,
    /// Like `Classical`, but with counts split as in the paper: s low bits and a flag in a base filter, the high bits
    /// in small tables.
    Compact,
    /// All cells of a key in one 64-byte line, as in production: six cells of 4 bits, the refined extension, and
    /// records for counts above 15.
    OneLine,
}

impl fmt::Display for CustomLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classical => "classical",
            Self::Compact => "compact",
            Self::OneLine => "one-line",
        })
    }
}

impl CustomOptions {
    /// Validates the options.
    ///
    /// # Errors
    /// [`OptionsError`] for the first problem found.
    pub fn check(&self) -> Result<(), OptionsError> {
        within("the number of keys", self.keys, KEYS_MAX)?;
        within("the number of cells m", self.cells, CELLS_MAX)?;
        within("the number of hash functions k", self.hashes.into(), self.hashes_max())?;
        self.check_cells()?;
        within("the number of servers", self.servers.into(), SERVERS_MAX.into())?;
        check_rounds_and_threads(self.rounds, self.threads)?;
        self.counts.check()?;
        within("the number of insertions in a round", self.insertions().max(1), INSERTIONS_MAX)?;
        self.check_threshold()?;
        let (bytes, most) = (self.memory_bytes(), MEMORY_BYTES_MAX);
        if bytes > most { Err(OptionsError::Memory { bytes, most }) } else { Ok(()) }
    }

    fn check_cells(&self) -> Result<(), OptionsError> {
        let width = "the width of a cell in bits";
        if self.layout != CustomLayout::Compact {
            return within(width, self.cell_bits.into(), CELL_BITS_MAX.into());
        }
        within("the number of cells in a chunk", self.chunk_cells, CHUNK_CELLS_MAX)?;
        within("the number of low bits s", self.low_bits.into(), LOW_BITS_MAX.into())?;
        within(width, self.cell_bits.into(), (self.low_bits + HIGH_BITS_MAX).into())?;
        within("the number of low bits s", self.low_bits.into(), u64::from(self.cell_bits) - 1)
    }

    /// Returns the maximum number of hash functions. A family with partitions needs at least one cell per function.
    fn hashes_max(&self) -> u64 {
        let is_partitioned = self.family == Family::RemappedDigest;
        if is_partitioned { self.cells.min(HASHES_MAX.into()) } else { HASHES_MAX.into() }
    }

    fn check_threshold(&self) -> Result<(), OptionsError> {
        let Some(threshold) = self.threshold else {
            return Ok(());
        };
        within("the threshold", threshold.into(), u32::MAX.into())?;
        let (cell_bits, top) = (self.cell_bits, (1 << self.cell_bits) - 1);
        if self.layout != CustomLayout::OneLine && threshold > top {
            return Err(OptionsError::Threshold { threshold, cell_bits, top });
        }
        Ok(())
    }

    /// Returns the number of lines for m cells of 4 bits.
    pub(super) const fn lines(&self) -> u64 {
        self.cells.div_ceil(LINE_CELLS)
    }

    /// Returns the number of tables in the compact layout.
    pub(super) const fn chunks(&self) -> u64 {
        self.cells.div_ceil(self.chunk_cells)
    }

    /// Returns the approximate number of insertions in a round.
    fn insertions(&self) -> u64 {
        (self.counts.mean() * self.keys as f64) as u64
    }

    /// Returns the number of filters in memory at the same time: an empty filter to copy, and either one filter for all
    /// insertions or one for each server.
    fn filters(&self) -> u128 {
        1 + u128::from(self.servers)
    }

    /// Returns an upper bound on the memory of all threads together.
    pub(super) fn memory_bytes(&self) -> u64 {
        let keys = u128::from(self.keys);
        // For every key there is a stranger. Each of the two needs memory for the key, its entry in the set of drawn
        // keys, and its positions or fingerprint.
        let places = 2 * keys * (32 + 4 * u128::from(self.hashes).max(4));
        let filter = match self.layout {
            CustomLayout::Classical => u128::from(self.cells) * u128::from(self.cell_bits) / 8,
            // A four-byte entry for every cell that can overflow, in a table that may be half empty.
            CustomLayout::Compact => {
                let cells = u128::from(self.cells);
                let large = cells.min(keys * u128::from(self.hashes));
                cells * u128::from(self.low_bits + 1) / 8 + 24 * u128::from(self.chunks()) + 8 * large
            }
            // A record for every key, in a table that may be half empty.
            CustomLayout::OneLine => 64 * u128::from(self.lines()) + 48 * keys,
        };
        // Use twice the mean, to allow for skewed draws.
        let insertions = if self.order == Order::Shuffled { 2 * u128::from(self.insertions()) } else { 0 };
        let thread = places + filter * self.filters() + 4 * (insertions + keys);
        let threads = useful_threads(self.rounds, BLOCK_ROUNDS, self.threads) as u128;
        u64::try_from(thread * threads).unwrap_or(u64::MAX)
    }
}
