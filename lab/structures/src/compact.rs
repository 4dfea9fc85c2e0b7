//! Compact counters: wide cells split into a base filter and small tables, as at the end of §4 of the paper.
//!
//! Most counts are small, so most bits of a wide cell are zero. In this representation, a base cell stores a flag and
//! the s low bits of a count. If the flag is set, the high bits are in a table, under the number of the cell. The cells
//! are divided into N chunks with one table each. An entry identifies its cell by the offset within the chunk, which
//! needs ⌈log2(m/N)⌉ bits instead of ⌈log2 m⌉. The interface is the same as that of wide cells.
//!
//! A table is an array of entries, sorted by offset and searched by bisection. Unlike a hash table, it needs no empty
//! slots. Tables with equal contents are equal arrays, and the memory of a table is easy to compute. Inserting an entry
//! moves all later entries, so tables must be short: a chunk has at most [`CHUNK_CELLS_MAX`] cells, and its table at
//! most one 4-byte entry per cell.

use bruit_filters::counting::{Cells, PackedCells, ShapeError};
use bruit_filters::internal::ensure_equal;
use bruit_filters::{Mismatch, OutOfMemory};

/// Maximum number of low bits in a base cell. The flag is one more bit.
pub const LOW_BITS_MAX: u32 = bruit_filters::counting::CELL_BITS_MAX - 1;
/// Maximum number of high bits of a count, as stored in a table.
pub const HIGH_BITS_MAX: u32 = 16;
/// Maximum number of cells in a chunk, so that an offset fits in two bytes.
pub const CHUNK_CELLS_MAX: u64 = 1 << 16;

/// Cells for counts that are mostly small, but may need up to 31 bits.
///
/// ```
/// use bruit_filters::counting::Cells;
/// use bruit_structures::compact::CompactCounters;
///
/// // Counts of 3 + 13 bits, in base cells of four bits.
/// let mut cells = CompactCounters::new(100_000, 3, 13, 100)?;
/// cells.set(7, 5);
/// cells.set(8, 50_000);
/// assert_eq!((cells.get(7), cells.get(8), cells.get(9)), (5, 50_000, 0));
/// assert_eq!(cells.large_counts(), 1);
/// // One entry: 10 bits for the offset among 1,000 cells, 13 for the count. Wide cells take 1,600,000 bits.
/// assert_eq!(cells.computed_bits(), 4 * 100_000 + 10 + 13);
/// # Ok::<(), bruit_structures::compact::CompactError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactCounters {
    base: PackedCells,
    low_bits: u32,
    high_bits: u32,
    chunk_cells: u64,
    tables: Vec<Vec<Entry>>,
}

/// The high bits of a large count, never 0. Tables are sorted by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    offset: u16,
    high: u16,
}

impl CompactCounters {
    /// Creates `cells` counters of `low_bits + high_bits` bits in `chunks` chunks, all zero.
    ///
    /// # Errors
    /// If a parameter is 0 or above its maximum.
    ///
    /// # Panics
    /// If the memory cannot be allocated.
    pub fn new(cells: u64, low_bits: u32, high_bits: u32, chunks: u64) -> Result<Self, CompactError> {
        if !(1..=LOW_BITS_MAX).contains(&low_bits) {
            return Err(CompactError::LowBits { bits: low_bits });
        }
        if !(1..=HIGH_BITS_MAX).contains(&high_bits) {
            return Err(CompactError::HighBits { bits: high_bits });
        }
        if !(1..=cells).contains(&chunks) || cells.div_ceil(chunks) > CHUNK_CELLS_MAX {
            return Err(CompactError::Chunks { chunks, cells });
        }
        let base = PackedCells::new(cells, low_bits + 1)?;
        let tables = vec![Vec::new(); usize::try_from(chunks).expect("a filter fits in the address space")];
        Ok(Self { base, low_bits, high_bits, chunk_cells: cells.div_ceil(chunks), tables })
    }

    /// Returns the number of counts that do not fit in their base cell.
    #[must_use]
    pub fn large_counts(&self) -> u64 {
        self.tables.iter().map(|table| table.len() as u64).sum()
    }

    /// Returns the memory in bits according to the paper's formula: m·(s + 1), plus an offset and high bits for each
    /// large count.
    #[must_use]
    pub fn computed_bits(&self) -> u64 {
        let offset_bits = self.chunk_cells.next_power_of_two().trailing_zeros();
        self.len() * u64::from(self.base.bits()) + self.large_counts() * u64::from(offset_bits + self.high_bits)
    }

    /// Returns the number of bytes allocated for the base cells and the tables, including the spare capacity of the
    /// tables.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        let entries: usize = self.tables.iter().map(Vec::capacity).sum();
        let tables = self.tables.capacity() * size_of::<Vec<Entry>>();
        self.base.allocated_bytes() + (tables + entries * size_of::<Entry>()) as u64
    }

    /// Returns the flag of a base cell, which is the bit above the low bits.
    const fn flag(&self) -> u32 {
        1 << self.low_bits
    }

    /// Returns the table of `cell`, and the offset of `cell` within its chunk.
    fn place(&self, cell: u64) -> (usize, u16) {
        // This cannot overflow: the chunks cover all cells, and each chunk has at most 2^16 cells.
        ((cell / self.chunk_cells) as usize, (cell % self.chunk_cells) as u16)
    }

    fn high_part(&self, cell: u64) -> u32 {
        let (table, offset) = self.place(cell);
        let table = &self.tables[table];
        let found = search(table, offset).expect("a flagged cell has an entry");
        u32::from(table[found].high)
    }

    fn set_high_part(&mut self, cell: u64, high: u16) {
        let (table, offset) = self.place(cell);
        let table = &mut self.tables[table];
        match search(table, offset) {
            Ok(found) => table[found].high = high,
            Err(gap) => table.insert(gap, Entry { offset, high }),
        }
    }

    fn clear_high_part(&mut self, cell: u64) {
        let (table, offset) = self.place(cell);
        let table = &mut self.tables[table];
        let found = search(table, offset).expect("a flagged cell has an entry");
        table.remove(found);
    }
}

fn search(table: &[Entry], offset: u16) -> Result<usize, usize> {
    table.binary_search_by_key(&offset, |entry| entry.offset)
}

impl Cells for CompactCounters {
    fn len(&self) -> u64 {
        self.base.len()
    }

    fn bits(&self) -> u32 {
        self.low_bits + self.high_bits
    }

    fn get(&self, cell: u64) -> u32 {
        let base = self.base.get(cell);
        if base & self.flag() == 0 {
            return base;
        }
        self.high_part(cell) << self.low_bits | (base ^ self.flag())
    }

    fn set(&mut self, cell: u64, value: u32) {
        assert!(value <= self.top(), "{value} does not fit into a counter of {} bits", self.bits());
        let was_large = self.base.get(cell) & self.flag() != 0;
        let (low, high) = (value & (self.flag() - 1), value >> self.low_bits);
        if high > 0 {
            self.base.set(cell, low | self.flag());
            self.set_high_part(cell, high as u16);
            return;
        }
        self.base.set(cell, low);
        if was_large {
            self.clear_high_part(cell);
        }
    }

    fn zeroed(&self) -> Result<Self, OutOfMemory> {
        Ok(Self { base: self.base.zeroed()?, tables: vec![Vec::new(); self.tables.len()], ..*self })
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of cells m", &self.len(), &other.len())?;
        ensure_equal("the number of low bits s", &self.low_bits, &other.low_bits)?;
        ensure_equal("the number of high bits", &self.high_bits, &other.high_bits)?;
        ensure_equal("the number of chunks N", &self.tables.len(), &other.tables.len())
    }
}

/// The reason why a shape of compact counters is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// The number of low bits is outside `1..=`[`LOW_BITS_MAX`].
    #[error("a base cell can store 1 to {LOW_BITS_MAX} low bits of a count, not {bits}")]
    LowBits {
        /// Requested number of bits.
        bits: u32,
    },
    /// The number of high bits is outside `1..=`[`HIGH_BITS_MAX`].
    #[error("a table can store 1 to {HIGH_BITS_MAX} high bits of a count, not {bits}")]
    HighBits {
        /// Requested number of bits.
        bits: u32,
    },
    /// The number of chunks is 0, or a chunk would have more than [`CHUNK_CELLS_MAX`] cells.
    #[error("cannot split {cells} cells into {chunks} chunks of at most {CHUNK_CELLS_MAX} cells")]
    Chunks {
        /// Requested number of chunks.
        chunks: u64,
        /// Number of cells.
        cells: u64,
    },
    /// The base cells would have an invalid shape.
    #[error(transparent)]
    Cells(#[from] ShapeError),
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use bruit_filters::counting::{CountingFilter, Extension};

    use super::*;
    use crate::hash::{Prime, UniversalHash};

    #[test]
    fn shapes_out_of_bounds_are_refused() {
        let refused = |cells, low, high, chunks| CompactCounters::new(cells, low, high, chunks).unwrap_err();
        assert_eq!(refused(100, 0, 4, 10), CompactError::LowBits { bits: 0 });
        assert_eq!(refused(100, 16, 4, 10), CompactError::LowBits { bits: 16 });
        assert_eq!(refused(100, 4, 0, 10), CompactError::HighBits { bits: 0 });
        assert_eq!(refused(100, 4, 17, 10), CompactError::HighBits { bits: 17 });
        assert_eq!(refused(100, 4, 4, 0), CompactError::Chunks { chunks: 0, cells: 100 });
        assert_eq!(refused(100, 4, 4, 101), CompactError::Chunks { chunks: 101, cells: 100 });
        assert_eq!(refused(65_537, 4, 4, 1), CompactError::Chunks { chunks: 1, cells: 65_537 });
        assert!(CompactCounters::new(65_536, LOW_BITS_MAX, HIGH_BITS_MAX, 1).is_ok());
    }

    #[test]
    fn every_cell_of_the_largest_chunk_has_an_offset_of_its_own() {
        let mut cells = CompactCounters::new(2 * CHUNK_CELLS_MAX, 1, 16, 2).unwrap();
        (0..cells.len()).rev().for_each(|cell| cells.set(cell, 2 + (cell % 99_991) as u32));
        assert!((0..).zip(cells.values()).all(|(cell, value)| value == 2 + (cell % 99_991) as u32));
        assert_eq!(cells.large_counts(), 2 * CHUNK_CELLS_MAX);
    }

    #[test]
    fn tables_hold_at_most_one_entry_per_cell() {
        let mut cells = CompactCounters::new(100, 1, 8, 7).unwrap();
        for round in 0..3 {
            (0..100).for_each(|cell| cells.set(cell, 500 + round));
        }
        assert_eq!(cells.large_counts(), 100);
        (0..100).for_each(|cell| cells.set(cell, 1));
        assert_eq!(cells.large_counts(), 0);
    }

    #[test]
    fn the_memory_is_the_base_and_what_large_counts_take() {
        let mut cells = CompactCounters::new(80_000, 3, 13, 16).unwrap();
        // A chunk has 5,000 cells, so an offset takes 13 bits. 80,000 cells of four bits are 625 lines.
        assert_eq!(cells.computed_bits(), 320_000);
        assert_eq!(cells.allocated_bytes(), 625 * 64 + 16 * size_of::<Vec<Entry>>() as u64);
        (0..800).for_each(|i| cells.set(i * 100, 8 + i as u32));
        assert_eq!(cells.computed_bits(), 320_000 + 800 * (13 + 13));
        // The tables contain at least these entries. The tables have capacity for at most twice as many, because `Vec`
        // doubles its capacity.
        let in_tables = cells.allocated_bytes() - 625 * 64 - 16 * size_of::<Vec<Entry>>() as u64;
        assert!((800 * 4..2 * 800 * 4).contains(&in_tables), "{in_tables}");
        let wide = PackedCells::new(80_000, 16).unwrap();
        assert!(cells.allocated_bytes() < wide.allocated_bytes() / 3);
    }

    #[test]
    fn different_shapes_report_their_difference() {
        let ours = CompactCounters::new(100, 3, 5, 10).unwrap();
        let others = [(101, 3, 5, 10), (100, 4, 5, 10), (100, 3, 6, 10), (100, 3, 5, 11)];
        let names =
            ["the number of cells m", "the number of low bits s", "the number of high bits", "the number of chunks N"];
        for ((cells, low, high, chunks), what) in others.into_iter().zip(names) {
            let mut theirs = CompactCounters::new(cells, low, high, chunks).unwrap();
            assert_eq!(theirs.merge(&ours).unwrap_err().what, what);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn counters_keep_what_was_set(
            (low, high) in (1..=LOW_BITS_MAX, 1..=HIGH_BITS_MAX),
            chunks in 1..=100u64,
            writes in vec((0..100usize, any::<u32>(), 0..32u32), 0..300),
        ) {
            let mut cells = CompactCounters::new(100, low, high, chunks).unwrap();
            let mut model = vec![0; 100];
            for (cell, value, shift) in writes {
                model[cell] = (value >> shift) & cells.top();
                cells.set(cell as u64, model[cell]);
            }
            prop_assert_eq!(cells.large_counts(), model.iter().filter(|&&value| value >> low > 0).count() as u64);
            prop_assert_eq!(cells.values().collect::<Vec<_>>(), model);
        }
    }

    #[test]
    fn counting_filters_run_on_compact_counters() {
        let hash = UniversalHash::new(100, Prime::Paper, vec![(1, 0)]).unwrap();
        let cells = CompactCounters::new(100, 2, 10, 10).unwrap();
        let mut filter = CountingFilter::with_cells(hash, Extension::Refined, cells).unwrap();
        filter.insert_many(&7, 5000);
        assert_eq!(filter.count(&7), 4095);
    }
}
