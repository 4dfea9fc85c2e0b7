//! The immutable filter, with values in the cells.

use super::neighbourhood::first_seed;
use super::table::CellTable;
use super::{KeyedNeighbourhoods, Neighbourhoods, peel};
use crate::map::{BuildError, Entry, MapBits, distinct};
use bruit_filters::{Fingerprint, KeyId};

/// A map that returns the value of each of its keys, and almost always nothing for other keys.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_structures::bloomier::BloomierFilter;
/// use bruit_structures::map::MapBits;
///
/// let key = FingerprintKey::new([1; 16]);
/// let entries = (0..100u32).map(|i| (key.fingerprint(&i.to_le_bytes()), i)).collect();
/// let map = BloomierFilter::build(entries, MapBits::new(7, 20)?, key.id())?;
/// assert_eq!(map.get(&key.fingerprint(&42u32.to_le_bytes())), Some(42));
/// assert_eq!(map.get(&key.fingerprint(b"none of them")), None);
/// # Ok::<(), bruit_structures::map::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomierFilter<H = KeyedNeighbourhoods> {
    hashing: H,
    table: CellTable,
    bits: MapBits,
    keys: u64,
}

impl BloomierFilter {
    /// Builds the map of `entries`, whose fingerprints were computed with the key whose ID is `key_id`.
    ///
    /// # Errors
    /// [`BuildError`] if a value does not fit, a key has two values, or there are too many keys.
    pub fn build(entries: Vec<Entry>, bits: MapBits, key_id: KeyId) -> Result<Self, BuildError> {
        let entries = distinct(entries, bits)?;
        let hashing = |seed| KeyedNeighbourhoods::for_keys(entries.len(), seed, key_id);
        first_seed(|seed| Self::with_hashing(hashing(seed), &entries, bits))
    }
}

impl<H: Neighbourhoods> BloomierFilter<H> {
    /// Builds the map of `entries` with a custom mapping of keys to cells. Returns `None` if the keys cannot be ordered
    /// for insertion into the table. Keys must be distinct.
    ///
    /// # Panics
    /// If a value is larger than `bits` allows.
    #[must_use]
    pub fn with_hashing(hashing: H, entries: &[(H::Key, u32)], bits: MapBits) -> Option<Self> {
        bits.assert_fit(entries.iter().map(|entry| &entry.1));
        let order = peel::order(&hashing, entries)?;
        let mut table = CellTable::new(hashing.cells(), bits.total());
        for matched in order {
            let (key, value) = &entries[matched.key as usize];
            let neighbourhood = hashing.of(key);
            table.adjust(&neighbourhood, neighbourhood.cells()[usize::from(matched.hash)], bits.word(*value, 0));
        }
        Some(Self { hashing, table, bits, keys: entries.len() as u64 })
    }

    /// Returns the value of `key`. For a key that is not in the map, returns `None`, or any value if the key is a false
    /// positive.
    #[must_use]
    pub fn get(&self, key: &H::Key) -> Option<u32> {
        self.bits.value_in(self.table.sum(&self.hashing.of(key)), 0)
    }

    /// Sets `values[i]` to the value of `keys[i]`. Faster than calling [`get`](Self::get) for each key.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn get_batch(&self, keys: &[H::Key], values: &mut [Option<u32>]) {
        assert_eq!(keys.len(), values.len(), "the slices differ in length");
        let work = |i: usize, neighbourhood: &_| values[i] = self.bits.value_in(self.table.sum(neighbourhood), 0);
        self.table.for_each(keys, |key| self.hashing.of(key), work);
    }

    /// Returns the contents of the cells.
    pub fn cells(&self) -> impl Iterator<Item = u64> {
        (0..self.table.len()).map(|cell| self.table.get(cell))
    }

    /// Returns how the bits of an answer are divided into value bits and check bits.
    #[must_use]
    pub const fn bits(&self) -> MapBits {
        self.bits
    }

    /// Returns the number of keys.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the mapping of keys to cells.
    #[must_use]
    pub const fn hashing(&self) -> &H {
        &self.hashing
    }

    /// Returns the size of the table in bits.
    #[must_use]
    pub const fn total_bits(&self) -> u64 {
        self.table.total_bits()
    }

    /// Returns the probability that a key outside the map has a value.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        self.bits.false_positive_rate()
    }
}

impl BloomierFilter {
    /// Returns true if `key` is in the map or is a false positive.
    #[must_use]
    pub fn contains(&self, key: &Fingerprint) -> bool {
        self.get(key).is_some()
    }
}
