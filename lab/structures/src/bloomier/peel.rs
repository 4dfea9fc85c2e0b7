//! The order in which keys are inserted into the table, and the own cell of each key.

use super::Neighbourhoods;

/// A key and its own cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matched {
    /// The key's index.
    pub(super) key: u32,
    /// Index of the key's own cell among its k cells.
    pub(super) hash: u8,
}

/// Returns all keys, in an order in which no later key's own cell is among the cells of an earlier key. Returns `None`
/// if keys without a singleton remain.
///
/// Proceeds in rounds, as in the survey. Every key that has singletons gets the first of them (its "tweak"). All these
/// keys are then removed. In the order, they come before the keys of earlier rounds. Within a round, keys are in the
/// order of `entries`.
pub(super) fn order<H: Neighbourhoods>(hashing: &H, entries: &[(H::Key, u32)]) -> Option<Vec<Matched>> {
    let mut tally = Tally::new(hashing, entries);
    let mut order = Vec::with_capacity(entries.len());
    let mut round = tally.all_singletons();
    while !round.is_empty() {
        round.sort_unstable();
        round.dedup();
        // Append the keys in reverse, because the whole order is reversed at the end. Do this before any key of the
        // round is removed.
        order.extend(round.iter().rev().map(|&key| tally.tweak(hashing.of(&entries[key as usize].0).cells(), key)));
        round = tally.remove(hashing, entries, &round);
    }
    order.reverse();
    (order.len() == entries.len()).then_some(order)
}

/// For each cell, the number of remaining keys that have it, and the XOR of the indices of these keys. For a singleton,
/// the XOR is the index of its key.
struct Tally {
    counts: Vec<u32>,
    keys: Vec<u32>,
}

impl Tally {
    fn new<H: Neighbourhoods>(hashing: &H, entries: &[(H::Key, u32)]) -> Self {
        let cells = hashing.cells() as usize;
        let mut tally = Self { counts: vec![0; cells], keys: vec![0; cells] };
        for (index, (key, _)) in (0..).zip(entries) {
            for &cell in hashing.of(key).cells() {
                tally.counts[cell as usize] += 1;
                tally.keys[cell as usize] ^= index;
            }
        }
        tally
    }

    /// Returns the keys that have a singleton. A key may be returned more than once.
    fn all_singletons(&self) -> Vec<u32> {
        self.keys_of_singletons(0..self.counts.len() as u32)
    }

    fn keys_of_singletons(&self, cells: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let singletons = cells.into_iter().filter(|&cell| self.counts[cell as usize] == 1);
        singletons.map(|cell| self.keys[cell as usize]).collect()
    }

    /// Matches `key` with the first of its cells that no other key has.
    fn tweak(&self, cells: &[u32], key: u32) -> Matched {
        let own = (0..).zip(cells).filter(|(_, cell)| self.counts[**cell as usize] == 1);
        let (hash, _) = own.min_by_key(|(_, cell)| **cell).expect("every key of a round has a singleton");
        Matched { key, hash }
    }

    /// Removes the keys of `round`. Returns the remaining keys that now have a new singleton.
    fn remove<H: Neighbourhoods>(&mut self, hashing: &H, entries: &[(H::Key, u32)], round: &[u32]) -> Vec<u32> {
        let mut lonely = Vec::new();
        for &index in round {
            for &cell in hashing.of(&entries[index as usize].0).cells() {
                self.counts[cell as usize] -= 1;
                self.keys[cell as usize] ^= index;
                if self.counts[cell as usize] == 1 {
                    lonely.push(cell);
                }
            }
        }
        self.keys_of_singletons(lonely)
    }
}
