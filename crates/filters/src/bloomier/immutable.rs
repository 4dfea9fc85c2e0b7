//! The immutable filter: values in the cells.

use super::neighbourhood::first_seed;
use super::table::CellTable;
use super::{KeyedNeighbourhoods, Neighbourhoods, peel};
use crate::map::{BuildError, Entry, MapBits, distinct};
use crate::{Fingerprint, KeyId};

/// A map that gives each of its keys its value, and nearly always nothing for others.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_filters::bloomier::BloomierFilter;
/// use bruit_filters::map::MapBits;
///
/// let key = FingerprintKey::new([1; 16]);
/// let entries = (0..100u32).map(|i| (key.fingerprint(&i.to_le_bytes()), i)).collect();
/// let map = BloomierFilter::build(entries, MapBits::new(7, 20)?, key.id())?;
/// assert_eq!(map.get(&key.fingerprint(&42u32.to_le_bytes())), Some(42));
/// assert_eq!(map.get(&key.fingerprint(b"none of them")), None);
/// # Ok::<(), bruit_filters::map::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomierFilter<H = KeyedNeighbourhoods> {
    hashing: H,
    table: CellTable,
    bits: MapBits,
    keys: u64,
}

impl BloomierFilter {
    /// The map of `entries`, whose fingerprints were made under the key named `key_id`.
    ///
    /// # Errors
    /// [`BuildError`]: a value that does not fit, a key with two values, too many keys.
    pub fn build(entries: Vec<Entry>, bits: MapBits, key_id: KeyId) -> Result<Self, BuildError> {
        let entries = distinct(entries, bits)?;
        let hashing = |seed| KeyedNeighbourhoods::for_keys(entries.len(), seed, key_id);
        first_seed(|seed| Self::with_hashing(hashing(seed), &entries, bits))
    }
}

impl<H: Neighbourhoods> BloomierFilter<H> {
    /// The map of `entries` with a hashing of one's own; none if there is no order in which they can be put into the table. No
    /// key may be there twice.
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

    /// The value of `key`; for a key that the map was not built with, nothing, but for false positives.
    #[must_use]
    pub fn get(&self, key: &H::Key) -> Option<u32> {
        self.bits.value_in(self.table.sum(&self.hashing.of(key)), 0)
    }

    /// Writes to `values[i]` what [`get`](Self::get) says of `keys[i]`. Many at once is faster than one by one.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn get_batch(&self, keys: &[H::Key], values: &mut [Option<u32>]) {
        assert_eq!(keys.len(), values.len(), "one answer per key");
        let work = |i: usize, neighbourhood: &_| values[i] = self.bits.value_in(self.table.sum(neighbourhood), 0);
        self.table.for_each(keys, |key| self.hashing.of(key), work);
    }

    /// What is in the cells.
    pub fn cells(&self) -> impl Iterator<Item = u64> {
        (0..self.table.len()).map(|cell| self.table.get(cell))
    }

    /// How the bits of an answer are used.
    #[must_use]
    pub const fn bits(&self) -> MapBits {
        self.bits
    }

    /// How many keys it was built with.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.keys
    }

    /// How keys are hashed.
    #[must_use]
    pub const fn hashing(&self) -> &H {
        &self.hashing
    }

    /// Bits of the table.
    #[must_use]
    pub const fn total_bits(&self) -> u64 {
        self.table.total_bits()
    }

    /// How often a key that the map was not built with gets a value all the same.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        self.bits.false_positive_rate()
    }
}

impl BloomierFilter {
    /// Whether `key` is one of the map's, but for false positives.
    #[must_use]
    pub fn contains(&self, key: &Fingerprint) -> bool {
        self.get(key).is_some()
    }
}
