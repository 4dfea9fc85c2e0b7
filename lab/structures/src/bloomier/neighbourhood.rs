//! The mapping from a key to its k cells and its mask.

use crate::map::{BuildError, KEYS_MAX};
use bruit_filters::internal::finalise;
use bruit_filters::{Fingerprint, KeyId};

/// Maximum number of cells of a key.
pub const HASHES_MAX: usize = 8;
/// Maximum number of seeds to try. One seed is almost always enough. Of 100 sets of 60 keys, 6 need two or three seeds.
pub const SEEDS_MAX: u32 = 64;

/// The number k of cells per key in [`KeyedNeighbourhoods`]. With this k, a table needs the fewest cells.
pub(crate) const CELLS_PER_KEY: usize = 3;
/// Number of cells per 1000 keys with which an order almost always exists for k = 3. For very large sets of keys, 1222
/// would be enough.
const CELLS_PER_1000_KEYS: usize = 1230;
/// Number of additional cells. Without them, small sets would fail too often.
const CELLS_MORE: usize = 32;

/// The k cells of a key, and its mask. The masks make the answers for keys outside the map random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbourhood {
    cells: [u32; HASHES_MAX],
    hashes: usize,
    mask: u64,
}

impl Neighbourhood {
    /// Creates a neighbourhood from its cells, in the order of the k hash functions.
    ///
    /// # Panics
    /// If there are more than [`HASHES_MAX`] cells.
    #[inline]
    #[must_use]
    pub fn new(cells: &[u32], mask: u64) -> Self {
        let mut all = [0; HASHES_MAX];
        all[..cells.len()].copy_from_slice(cells);
        Self { cells: all, hashes: cells.len(), mask }
    }

    /// Returns the cells.
    #[inline]
    #[must_use]
    pub fn cells(&self) -> &[u32] {
        &self.cells[..self.hashes]
    }

    /// Returns the mask. A table with cells of q bits uses the lowest q bits.
    #[inline]
    #[must_use]
    pub const fn mask(&self) -> u64 {
        self.mask
    }
}

/// A function from keys to neighbourhoods.
pub trait Neighbourhoods {
    /// The type of the keys.
    type Key;

    /// Returns m, the number of cells.
    fn cells(&self) -> u32;

    /// Returns k, the number of cells of a key.
    fn hashes(&self) -> usize;

    /// Returns the k cells of `key`, each below [`cells`](Self::cells), and its mask.
    fn of(&self, key: &Self::Key) -> Neighbourhood;
}

/// Neighbourhoods of fingerprints. The three cells are in different thirds of the table, so that they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedNeighbourhoods {
    cells_of_third: u32,
    seed: u32,
    key_id: KeyId,
}

impl KeyedNeighbourhoods {
    /// Creates the mapping for a table of `keys` fingerprints, which were computed with the key whose ID is `key_id`.
    ///
    /// # Panics
    /// If `keys` is above [`KEYS_MAX`].
    #[must_use]
    pub fn for_keys(keys: usize, seed: u32, key_id: KeyId) -> Self {
        assert!(keys <= KEYS_MAX, "a map has at most {KEYS_MAX} keys, not {keys}");
        let cells = (keys * CELLS_PER_1000_KEYS).div_ceil(1000) + CELLS_MORE;
        let cells_of_third = cells.div_ceil(CELLS_PER_KEY) as u32;
        Self { cells_of_third, seed, key_id }
    }

    /// Restores a mapping from its stored fields.
    pub(crate) const fn from_parts(cells_of_third: u32, seed: u32, key_id: KeyId) -> Self {
        Self { cells_of_third, seed, key_id }
    }

    /// Returns the number of cells in each third of the table.
    pub(crate) const fn cells_of_third(&self) -> u32 {
        self.cells_of_third
    }

    /// Returns the seed, which is also the number of seeds that failed.
    #[must_use]
    pub const fn seed(&self) -> u32 {
        self.seed
    }

    /// Returns the ID of the key that the fingerprints were computed with.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }
}

impl Neighbourhoods for KeyedNeighbourhoods {
    type Key = Fingerprint;

    fn cells(&self) -> u32 {
        self.cells_of_third * CELLS_PER_KEY as u32
    }

    fn hashes(&self) -> usize {
        CELLS_PER_KEY
    }

    #[inline]
    fn of(&self, key: &Fingerprint) -> Neighbourhood {
        let first = finalise(key.high() ^ finalise(u64::from(self.seed) + 1));
        let second = finalise(first ^ key.low());
        let draws = [first >> 32, first & u64::from(u32::MAX), second >> 32];
        let mut start = 0;
        let cells = draws.map(|draw| {
            let cell = start + ((draw * u64::from(self.cells_of_third)) >> 32) as u32;
            start += self.cells_of_third;
            cell
        });
        Neighbourhood::new(&cells, finalise(second ^ key.high()))
    }
}

/// Tries one seed after another, and returns the first successful result of `build`.
pub(super) fn first_seed<T>(build: impl FnMut(u32) -> Option<T>) -> Result<T, BuildError> {
    (0..SEEDS_MAX).find_map(build).ok_or(BuildError::NoOrder { tries: SEEDS_MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn cells_differ_and_stay_in_the_table() {
        for keys in [0, 1, 10, 1000] {
            let hashing = KeyedNeighbourhoods::for_keys(keys, 5, KeyId(0));
            for key in test_keys(0, 1000) {
                let neighbourhood = hashing.of(&key);
                assert!(neighbourhood.cells().is_sorted_by(|a, b| a < b));
                assert!(neighbourhood.cells().iter().all(|&cell| cell < hashing.cells()));
            }
        }
    }

    #[test]
    fn the_table_of_the_most_keys_has_cells_of_32_bits() {
        let hashing = KeyedNeighbourhoods::for_keys(KEYS_MAX, 0, KeyId(0));
        assert_eq!(u64::from(hashing.cells()), u64::from(hashing.cells_of_third()) * 3);
        assert!(hashing.cells() > KEYS_MAX as u32);
    }

    #[test]
    #[should_panic(expected = "a map has at most 1073741824 keys, not 1073741825")]
    fn a_table_for_more_than_the_most_keys_is_refused() {
        let _ = KeyedNeighbourhoods::for_keys(KEYS_MAX + 1, 0, KeyId(0));
    }

    #[test]
    fn seeds_are_tried_up_to_a_bound() {
        let mut tried = 0;
        let result: Result<(), _> = first_seed(|seed| {
            assert_eq!(seed, tried);
            tried += 1;
            None
        });
        assert_eq!(result, Err(BuildError::NoOrder { tries: SEEDS_MAX }));
        assert_eq!(tried, SEEDS_MAX);
        assert_eq!(first_seed(|seed| (seed == SEEDS_MAX - 1).then_some(seed)), Ok(SEEDS_MAX - 1));
    }
}
