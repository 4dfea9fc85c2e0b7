//! The mutable filter: cells contain the index of the key's own cell, and a second table contains the values.

use super::neighbourhood::first_seed;
use super::table::CellTable;
use super::{CELLS_PER_KEY, KeyedNeighbourhoods, Neighbourhood, Neighbourhoods, peel};
use crate::map::{BuildError, Entry, MapBits, distinct};
use bruit_filters::KeyId;

/// A map with a fixed set of keys, whose values can be changed.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_structures::bloomier::MutableBloomierFilter;
/// use bruit_structures::map::MapBits;
///
/// let key = FingerprintKey::new([1; 16]);
/// let [a, b] = [&b"a"[..], b"b"].map(|name| key.fingerprint(name));
/// let mut map = MutableBloomierFilter::build(vec![(a, 1), (b, 2)], MapBits::new(8, 20)?, key.id())?;
/// assert!(map.set(&a, 200)?);
/// assert_eq!((map.get(&a), map.get(&b)), (Some(200), Some(2)));
/// assert!(!map.set(&key.fingerprint(b"none of them"), 3)?);
/// # Ok::<(), bruit_structures::map::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutableBloomierFilter<H = KeyedNeighbourhoods> {
    hashing: H,
    /// Index of a key's own cell among its k cells. The check bits above it are zero.
    owns: CellTable,
    /// Value of the key that owns the cell.
    values: CellTable,
    bits: MapBits,
    keys: u64,
}

impl MutableBloomierFilter {
    /// Builds the map of `entries`, whose fingerprints were computed with the key whose ID is `key_id`.
    ///
    /// # Errors
    /// [`BuildError`] if there are no value bits, a value does not fit, a key has two values, or there are too many
    /// keys.
    pub fn build(entries: Vec<Entry>, bits: MapBits, key_id: KeyId) -> Result<Self, BuildError> {
        if bits.value() == 0 {
            return Err(BuildError::NoValueBits);
        }
        let entries = distinct(entries, bits)?;
        let hashing = |seed| KeyedNeighbourhoods::for_keys(entries.len(), seed, key_id);
        first_seed(|seed| Self::with_hashing(hashing(seed), &entries, bits))
    }
}

impl<H: Neighbourhoods> MutableBloomierFilter<H> {
    /// Builds the map of `entries` with a custom mapping of keys to cells. Returns `None` if the keys cannot be ordered
    /// for insertion into the table. Keys must be distinct.
    ///
    /// # Panics
    /// If `bits` has no value bits, or a value does not fit in its value bits.
    #[must_use]
    pub fn with_hashing(hashing: H, entries: &[(H::Key, u32)], bits: MapBits) -> Option<Self> {
        bits.assert_fit(entries.iter().map(|entry| &entry.1));
        let order = peel::order(&hashing, entries)?;
        let mut map = Self::empty(hashing, bits, entries.len() as u64);
        for matched in order {
            let (key, value) = &entries[matched.key as usize];
            let neighbourhood = map.hashing.of(key);
            let own = neighbourhood.cells()[usize::from(matched.hash)];
            map.owns.adjust(&neighbourhood, own, matched.hash.into());
            map.values.set(own, (*value).into());
        }
        Some(map)
    }

    /// Creates a map with empty tables.
    pub(crate) fn empty(hashing: H, bits: MapBits, keys: u64) -> Self {
        let cells = hashing.cells();
        let owns = CellTable::new(cells, (own_bits(hashing.hashes()) + bits.check()).max(1));
        Self { hashing, owns, values: CellTable::new(cells, bits.value()), bits, keys }
    }

    /// Returns the value of `key`. For a key that is not in the map, returns `None`, or any value if the key is a false
    /// positive.
    #[must_use]
    pub fn get(&self, key: &H::Key) -> Option<u32> {
        self.value_at(&self.hashing.of(key))
    }

    /// Sets `values[i]` to the value of `keys[i]`. Faster than calling [`get`](Self::get) for each key.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn get_batch(&self, keys: &[H::Key], values: &mut [Option<u32>]) {
        assert_eq!(keys.len(), values.len(), "the slices differ in length");
        let work = |i: usize, neighbourhood: &_| values[i] = self.value_at(neighbourhood);
        self.owns.for_each(keys, |key| self.hashing.of(key), work);
    }

    /// Changes the value of `key`. Returns true if the key appears to be in the map. Of the keys that are not in the
    /// map, at most one in 2^`check bits` appears to be in it. For such a key, the call changes the value of another
    /// key, or an unused cell.
    ///
    /// # Errors
    /// [`BuildError::ValueTooLarge`] if the value does not fit. In that case, nothing is changed.
    pub fn set(&mut self, key: &H::Key, value: u32) -> Result<bool, BuildError> {
        if value > self.bits.value_max() {
            return Err(BuildError::ValueTooLarge { value, bits: self.bits.value() });
        }
        let own = self.own_cell(&self.hashing.of(key));
        if let Some(own) = own {
            self.values.set(own, value.into());
        }
        Ok(own.is_some())
    }

    fn value_at(&self, neighbourhood: &Neighbourhood) -> Option<u32> {
        self.own_cell(neighbourhood).map(|own| self.values.get(own) as u32)
    }

    /// Returns a key's own cell, if the stored index is valid (below k) and the check bits are zero.
    fn own_cell(&self, neighbourhood: &Neighbourhood) -> Option<u32> {
        let hash = usize::try_from(self.owns.sum(neighbourhood)).ok()?;
        neighbourhood.cells().get(hash).copied()
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

    /// Returns the size of both tables in bits.
    #[must_use]
    pub const fn total_bits(&self) -> u64 {
        self.owns.total_bits() + self.values.total_bits()
    }

    /// Returns the probability that a key outside the map has a value: 2^-`check bits`. With three cells per key, the
    /// rate is a quarter lower, because one of the four values of a two-bit index is invalid.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        let hashes = self.hashing.hashes();
        self.bits.false_positive_rate() * hashes as f64 / f64::from(1u32 << own_bits(hashes))
    }

    pub(crate) fn words(&self) -> [&[u64]; 2] {
        [self.owns.words(), self.values.words()]
    }

    pub(crate) fn words_mut(&mut self) -> [&mut [u64]; 2] {
        [self.owns.words_mut(), self.values.words_mut()]
    }

    /// Returns the bits after the last cell of each table. They are zero in every valid map.
    pub(crate) fn padding(&self) -> u64 {
        self.owns.padding() | self.values.padding()
    }
}

/// Returns the number of words in both tables together, for a keyed filter with `cells_of_third` cells for each of the
/// three hash functions.
pub(crate) const fn table_words(cells_of_third: u64, bits: MapBits) -> u64 {
    let cells = cells_of_third * CELLS_PER_KEY as u64;
    let owns = cells * (own_bits(CELLS_PER_KEY) + bits.check()) as u64;
    owns.div_ceil(64) + (cells * bits.value() as u64).div_ceil(64)
}

/// Returns the number of bits for an index among `hashes` cells.
const fn own_bits(hashes: usize) -> u32 {
    usize::BITS - hashes.saturating_sub(1).leading_zeros()
}
