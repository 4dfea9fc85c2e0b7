//! The order in which keys can be put into the table, and the cell that is each key's own.

use super::Neighbourhoods;

/// A key and its own cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matched {
    /// The key's index.
    pub(super) key: u32,
    /// Which of its k cells is its own.
    pub(super) hash: u8,
}

/// All keys, such that no later key's own cell is among an earlier key's; none if there are keys left without a singleton.
///
/// By rounds, as in the survey: every key that has a singleton gets the smallest (its "tweak"), all of them are removed,
/// and they go before those that were removed in earlier rounds. Within a round keys are in the order of `entries`.
pub(super) fn order<H: Neighbourhoods>(hashing: &H, entries: &[(H::Key, u32)]) -> Option<Vec<Matched>> {
    let mut tally = Tally::new(hashing, entries);
    let mut order = Vec::with_capacity(entries.len());
    let mut round = tally.all_singletons();
    while !round.is_empty() {
        round.sort_unstable();
        round.dedup();
        // Backwards, for the whole is turned around in the end; and all before any is removed.
        order.extend(round.iter().rev().map(|&key| tally.tweak(hashing.of(&entries[key as usize].0).cells(), key)));
        round = tally.remove(hashing, entries, &round);
    }
    order.reverse();
    (order.len() == entries.len()).then_some(order)
}

/// For each cell, how many of the remaining keys have it, and the XOR of their indices: of a singleton, the index.
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

    /// The keys that have a singleton, some of them several times.
    fn all_singletons(&self) -> Vec<u32> {
        self.keys_of_singletons(0..self.counts.len() as u32)
    }

    fn keys_of_singletons(&self, cells: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let singletons = cells.into_iter().filter(|&cell| self.counts[cell as usize] == 1);
        singletons.map(|cell| self.keys[cell as usize]).collect()
    }

    /// `key` with the smallest of its cells that nobody else has.
    fn tweak(&self, cells: &[u32], key: u32) -> Matched {
        let own = (0..).zip(cells).filter(|(_, cell)| self.counts[**cell as usize] == 1);
        let (hash, _) = own.min_by_key(|(_, cell)| **cell).expect("the keys of a round have a singleton");
        Matched { key, hash }
    }

    /// Removes the keys of `round`, and gives those that have a singleton now.
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
