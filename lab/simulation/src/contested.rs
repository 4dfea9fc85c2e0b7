//! Simulates both extensions at once, without the cells that cannot cause a wrong count.
//!
//! Every count, and the final value of every cell, is the same as in a pair of the library's `CountingFilter`s, one for
//! each extension. The tests below compare them insertion by insertion. This module works with positions only, not with
//! keys or hash functions.
//!
//! The idea is as follows. A cell is *private* if only one key hits it. A key is *safe* if at least one of its cells is
//! private, and *exposed* if it shares all its cells with other keys. The private cell of a safe key counts only this
//! key, so the minimum of the key's cells is always its true count, and the count is never wrong. In the refined
//! extension, the t-th insertion of a safe key raises each of its cells to t, or leaves the cell unchanged if it is
//! higher. So only the cells of exposed keys, called *contested*, have to be simulated. In the paper's smallest
//! filters, one key in forty is exposed and less than a third of the keys hit a contested cell. In larger filters,
//! almost no key does.

use bruit_filters::hash::HashFamily as _;

use crate::positions::PositionTable;

/// The largest number that fits into a cell of 6 bits, as in the paper.
pub const CELL_TOP: u8 = 63;

/// Number of values that a cell can hold.
pub(crate) const CELL_VALUES: usize = CELL_TOP as usize + 1;

/// The state of a cell, in one word: free, private to a key, shared, or contested. Contested cells are numbered.
type Cell = u32;

const FREE: Cell = 0;
/// The state of a shared cell. The state of a private cell is its key's index plus one, which is below this value.
const SHARED: Cell = 1 << 30;
/// The state of a contested cell is this value plus its number.
const CONTESTED: Cell = 1 << 31;

/// Marks a key that has no slot, because it hits no contested cell.
const NO_SLOT: u32 = u32::MAX;

/// The contested cells of an intuitive and a refined filter, and the keys that hit these cells.
///
/// One value serves all filters, one after another: [`rebuild`](Self::rebuild) does not allocate memory again.
#[derive(Debug, Default)]
pub(crate) struct ContestedCells {
    cells: Vec<Cell>,
    /// Indices of the contested cells that each key hits, slot by slot.
    hits: Vec<u32>,
    slots: Vec<Slot>,
    slot_of_key: Vec<u32>,
    /// Value of each contested cell in both extensions.
    values: Vec<[u8; 2]>,
    /// Number of uncontested cells with each final value, in both extensions.
    settled: [Vec<u64>; 2],
    /// Final value of each shared cell that is not contested.
    ends: Vec<[u8; 2]>,
}

/// A key that hits contested cells.
#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u32,
    hits_start: u32,
    hits_end: u32,
    exposed: bool,
    inserted: u32,
}

/// Index of each extension in a pair of results.
pub(crate) const INTUITIVE: usize = 0;
pub(crate) const REFINED: usize = 1;

impl ContestedCells {
    /// Resets the state for filters with these positions, into which key i will be inserted `counts[i]` times.
    pub(crate) fn rebuild(&mut self, positions: &PositionTable, counts: &[u32]) {
        let inserted = || (0u32..).zip(positions.rows()).zip(counts).filter(|&(_, &count)| count > 0);
        self.cells.clear();
        self.cells.resize(positions.cells() as usize, FREE);
        for ((key, row), _) in inserted() {
            self.claim(key, row);
        }
        self.values.clear();
        for ((_, row), _) in inserted() {
            self.number_if_exposed(row);
        }
        self.hits.clear();
        self.slots.clear();
        self.slot_of_key.clear();
        self.slot_of_key.resize(counts.len(), NO_SLOT);
        if !self.values.is_empty() {
            for ((key, row), _) in inserted() {
                self.add_slot(key, row);
            }
        }
        self.settle(positions, counts);
    }

    /// Marks each cell of a key as private, or as shared if another key has claimed it before.
    fn claim(&mut self, key: u32, positions: &[u32]) {
        let own = key + 1;
        for &position in positions {
            let cell = &mut self.cells[position as usize];
            *cell = if *cell == FREE || *cell == own { own } else { SHARED };
        }
    }

    /// Numbers the cells of a key as contested, unless one of them is private.
    fn number_if_exposed(&mut self, positions: &[u32]) {
        if positions.iter().any(|&position| self.cells[position as usize] < SHARED) {
            return;
        }
        for &position in positions {
            let cell = &mut self.cells[position as usize];
            if *cell == SHARED {
                *cell = CONTESTED + self.values.len() as u32;
                self.values.push([0; 2]);
            }
        }
    }

    /// Adds a slot for a key, if it hits contested cells. A cell that the key hits twice occurs only once in the slot:
    /// this is the paper's heuristic H2.
    fn add_slot(&mut self, key: u32, positions: &[u32]) {
        let start = self.hits.len();
        let mut exposed = true;
        for &position in positions {
            let cell = self.cells[position as usize];
            if cell < CONTESTED {
                exposed = false;
            } else if !self.hits[start..].contains(&(cell - CONTESTED)) {
                self.hits.push(cell - CONTESTED);
            }
        }
        if self.hits.len() > start {
            self.slot_of_key[key as usize] = self.slots.len() as u32;
            let (hits_start, hits_end) = (start as u32, self.hits.len() as u32);
            self.slots.push(Slot { key, hits_start, hits_end, exposed, inserted: 0 });
        }
    }

    /// Computes the final values of the uncontested cells. In the intuitive extension, a cell ends as the sum of the
    /// counts of its keys; in the refined extension, as the largest of these counts. Overwrites the state in `cells`.
    fn settle(&mut self, positions: &PositionTable, counts: &[u32]) {
        self.ends.clear();
        self.ends.resize(self.cells.len(), [0; 2]);
        for settled in &mut self.settled {
            settled.clear();
            settled.resize(CELL_VALUES, 0);
        }
        for ((key, row), &count) in (0u32..).zip(positions.rows()).zip(counts).filter(|&(_, &count)| count > 0) {
            let count = count.min(u32::from(CELL_TOP)) as u8;
            let own_cells = self.settle_key(key + 1, row, count);
            self.settled.iter_mut().for_each(|settled| settled[usize::from(count)] += own_cells);
        }
        for settled in &mut self.settled {
            let others: u64 = settled[1..].iter().sum();
            settled[0] = (self.cells.len() - self.values.len()) as u64 - others;
        }
    }

    /// Adds the count of a key to its shared cells, and returns the number of its private cells. Marks each cell, so
    /// that a second visit by the same key is recognised.
    fn settle_key(&mut self, own: Cell, row: &[u32], count: u8) -> u64 {
        let mut own_cells = 0;
        for &position in row {
            let cell = &mut self.cells[position as usize];
            if *cell == own {
                own_cells += 1;
                *cell = FREE;
            } else if (SHARED..CONTESTED).contains(cell) && *cell != SHARED + own {
                *cell = SHARED + own;
                let [sum, largest] = &mut self.ends[position as usize];
                raise(&mut self.settled[INTUITIVE], sum, (*sum + count).min(CELL_TOP));
                raise(&mut self.settled[REFINED], largest, (*largest).max(count));
            }
        }
        own_cells
    }

    /// Clears all insertions, but keeps the positions of the keys.
    pub(crate) fn clear(&mut self) {
        self.values.fill([0; 2]);
        self.slots.iter_mut().for_each(|slot| slot.inserted = 0);
    }

    /// Inserts `keys` in order, once per occurrence.
    pub(crate) fn insert_sequence(&mut self, keys: &[u32]) {
        if self.slots.is_empty() {
            return;
        }
        for &key in keys {
            let slot = self.slot_of_key[key as usize];
            if slot != NO_SLOT {
                self.insert(slot as usize, 1);
            }
        }
    }

    /// Inserts key i `times(i)` times, in the order of the keys.
    pub(crate) fn insert_all(&mut self, times: impl Fn(usize) -> u32) {
        for slot in 0..self.slots.len() {
            let times = times(self.slots[slot].key as usize);
            if times > 0 {
                self.insert(slot, times);
            }
        }
    }

    fn insert(&mut self, slot: usize, times: u32) {
        let slot = &mut self.slots[slot];
        let hits = &self.hits[slot.hits_start as usize..slot.hits_end as usize];
        slot.inserted += times;
        let level = if slot.exposed { least(&self.values, hits, REFINED) + times } else { slot.inserted };
        let level = level.min(u32::from(CELL_TOP)) as u8;
        for &hit in hits {
            let [intuitive, refined] = &mut self.values[hit as usize];
            *intuitive = (u32::from(*intuitive) + times).min(u32::from(CELL_TOP)) as u8;
            *refined = (*refined).max(level);
        }
    }

    /// Returns the keys whose count is wrong at this point, with their true counts.
    pub(crate) fn wrong(&self, extension: usize) -> impl Iterator<Item = (u32, u32)> {
        let exposed = self.slots.iter().filter(|slot| slot.exposed && slot.inserted > 0);
        let wrong = exposed.filter(move |slot| {
            let hits = &self.hits[slot.hits_start as usize..slot.hits_end as usize];
            least(&self.values, hits, extension) != slot.inserted.min(u32::from(CELL_TOP))
        });
        wrong.map(|slot| (slot.key, slot.inserted))
    }

    /// Adds the number of cells with each value to `histogram`. Valid only after all keys are inserted.
    pub(crate) fn add_histogram(&self, extension: usize, histogram: &mut [u64]) {
        for (total, settled) in histogram.iter_mut().zip(&self.settled[extension]) {
            *total += settled;
        }
        self.values.iter().for_each(|value| histogram[usize::from(value[extension])] += 1);
    }
}

/// Raises a cell and moves it to its new place in the histogram. The entry at 0 may wrap below zero; `settle` replaces
/// it at the end.
fn raise(histogram: &mut [u64], cell: &mut u8, to: u8) {
    let from = usize::from(std::mem::replace(cell, to));
    histogram[from] = histogram[from].wrapping_sub(1);
    histogram[usize::from(to)] += 1;
}

/// Returns the smallest value among the cells `hits`.
fn least(values: &[[u8; 2]], hits: &[u32], extension: usize) -> u32 {
    hits.iter().map(|&hit| u32::from(values[hit as usize][extension])).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use bruit_filters::counting::{CountingFilter, Extension};
    use bruit_structures::hash::{Prime, UniversalHash};
    use proptest::prelude::*;

    use super::*;

    /// The library's two filters, and the simulation of them. The simulation has been used for an earlier round.
    struct Twins {
        filters: [CountingFilter<UniversalHash>; 2],
        contested: ContestedCells,
        inserted: Vec<u32>,
    }

    impl Twins {
        fn new(hash: &UniversalHash, counts: &[u32]) -> Self {
            let new = |extension| CountingFilter::new(hash.clone(), extension, 6).unwrap();
            let keys: Vec<u64> = (0..counts.len() as u64).collect();
            let mut contested = ContestedCells::default();
            for cells in [1, 1000] {
                let other = UniversalHash::new(cells, Prime::Paper, vec![(5, 3)]).unwrap();
                contested.rebuild(&PositionTable::new(&other, &[1, 2, 3]), &[2, 70, 1]);
                contested.insert_all(|_| 1);
            }
            contested.rebuild(&PositionTable::new(hash, &keys), counts);
            let filters = [new(Extension::Intuitive), new(Extension::Refined)];
            Self { filters, contested, inserted: vec![0; counts.len()] }
        }

        fn insert(&mut self, key: usize, times: u32) {
            self.filters.iter_mut().for_each(|filter| filter.insert_many(&(key as u64), times));
            self.inserted[key] += times;
            if times == 1 {
                self.contested.insert_sequence(&[key as u32]);
            } else {
                self.contested.insert_all(|other| if other == key { times } else { 0 });
            }
        }

        /// Asserts that every key has the same count in the library's filters and in the simulation, and that the wrong
        /// keys are found.
        fn assert_equal_counts(&self) {
            for (extension, filter) in self.filters.iter().enumerate() {
                let inserted = (0u32..).zip(self.inserted.iter().copied()).filter(|&(_, times)| times > 0);
                let mut wrong = Vec::new();
                for (key, times) in inserted {
                    let count = filter.count(&u64::from(key));
                    assert_eq!(count, self.count(extension, key), "{}", filter.extension());
                    if count != times.min(63) {
                        wrong.push((key, times));
                    }
                }
                assert!(self.contested.wrong(extension).eq(wrong), "{}", filter.extension());
            }
        }

        /// Returns the count of a key: for an exposed key, from the contested cells; for a safe key, the exact count.
        fn count(&self, extension: usize, key: u32) -> u32 {
            let slot = self.contested.slots.iter().find(|slot| slot.key == key && slot.exposed);
            let Some(slot) = slot else { return self.inserted[key as usize].min(63) };
            let hits = &self.contested.hits[slot.hits_start as usize..slot.hits_end as usize];
            least(&self.contested.values, hits, extension)
        }

        fn assert_equal_cells(&self) {
            for (extension, filter) in self.filters.iter().enumerate() {
                let mut histogram = vec![0; 64];
                self.contested.add_histogram(extension, &mut histogram);
                let expected = filter.histogram();
                for (value, &cells) in (0u32..).zip(&histogram) {
                    assert_eq!(cells, expected.get(&value).copied().unwrap_or(0), "cells at {value}");
                }
            }
        }
    }

    /// Generates a hash family, counts, and all insertions in some order.
    fn rounds() -> impl Strategy<Value = (UniversalHash, Vec<u32>, Vec<usize>)> {
        let p = Prime::Paper.value();
        let hash = (1u64..120, prop::collection::vec((1..p, 0..p), 1..=8))
            .prop_map(|(cells, pairs)| UniversalHash::new(cells, Prime::Paper, pairs).unwrap());
        let counts = prop::collection::vec(prop_oneof![Just(0), 1u32..6, 60u32..70], 1..40);
        (hash, counts).prop_flat_map(|(hash, counts)| {
            let runs = counts.iter().enumerate().flat_map(|(key, &count)| vec![key; count as usize]);
            (Just(hash), Just(counts.clone()), Just(runs.collect::<Vec<_>>()).prop_shuffle())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn every_insertion_leaves_what_it_leaves_in_the_librarys_filters((hash, counts, sequence) in rounds()) {
            let mut twins = Twins::new(&hash, &counts);
            for key in sequence {
                twins.insert(key, 1);
                twins.assert_equal_counts();
            }
            twins.assert_equal_cells();
        }

        #[test]
        fn runs_leave_what_they_leave_in_the_librarys_filters((hash, counts, _) in rounds()) {
            let mut twins = Twins::new(&hash, &counts);
            for (key, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
                twins.insert(key, count);
                twins.assert_equal_counts();
            }
            twins.assert_equal_cells();
        }
    }

    #[test]
    fn a_cleared_filter_counts_as_a_new_one() {
        let hash = UniversalHash::new(40, Prime::Paper, vec![(3, 1), (70_001, 5)]).unwrap();
        let counts = vec![3; 30];
        let mut twins = Twins::new(&hash, &counts);
        twins.contested.insert_all(|key| key as u32 % 4);
        twins.contested.clear();
        (0..30).for_each(|key| twins.insert(key, 3));
        assert!(twins.contested.wrong(INTUITIVE).count() > 0);
        twins.assert_equal_counts();
        twins.assert_equal_cells();
    }
}
