//! The mutable filter: in the cells which of them is the key's own, and in a second table, there, the value.

use super::neighbourhood::first_seed;
use super::table::CellTable;
use super::{CELLS_PER_KEY, KeyedNeighbourhoods, Neighbourhood, Neighbourhoods, peel};
use crate::KeyId;
use crate::map::{BuildError, Entry, MapBits, distinct};

/// A map whose values can be changed. The set of its keys cannot.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_filters::bloomier::MutableBloomierFilter;
/// use bruit_filters::map::MapBits;
///
/// let key = FingerprintKey::new([1; 16]);
/// let [a, b] = [&b"a"[..], b"b"].map(|name| key.fingerprint(name));
/// let mut map = MutableBloomierFilter::build(vec![(a, 1), (b, 2)], MapBits::new(8, 20)?, key.id())?;
/// assert!(map.set(&a, 200)?);
/// assert_eq!((map.get(&a), map.get(&b)), (Some(200), Some(2)));
/// assert!(!map.set(&key.fingerprint(b"none of them"), 3)?);
/// # Ok::<(), bruit_filters::map::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutableBloomierFilter<H = KeyedNeighbourhoods> {
    hashing: H,
    /// Which of its cells is a key's own, with zeros for check bits above.
    owns: CellTable,
    /// The value of the key whose own cell it is.
    values: CellTable,
    bits: MapBits,
    keys: u64,
}

impl MutableBloomierFilter {
    /// The map of `entries`, whose fingerprints were made under the key named `key_id`.
    ///
    /// # Errors
    /// [`BuildError`]: no value bits, a value that does not fit, a key with two values, too many keys.
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
    /// The map of `entries` with a hashing of one's own; none if there is no order in which they can be put into the table. No
    /// key may be there twice.
    ///
    /// # Panics
    /// If `bits` has no value bits, or a value is larger than they allow.
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

    /// A map whose tables are still to be filled.
    pub(crate) fn empty(hashing: H, bits: MapBits, keys: u64) -> Self {
        let cells = hashing.cells();
        let owns = CellTable::new(cells, (own_bits(hashing.hashes()) + bits.check()).max(1));
        Self { hashing, owns, values: CellTable::new(cells, bits.value()), bits, keys }
    }

    /// The value of `key`; for a key that the map was not built with, nothing, but for false positives.
    #[must_use]
    pub fn get(&self, key: &H::Key) -> Option<u32> {
        self.value_at(&self.hashing.of(key))
    }

    /// Writes to `values[i]` what [`get`](Self::get) says of `keys[i]`. Many at once is faster than one by one.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn get_batch(&self, keys: &[H::Key], values: &mut [Option<u32>]) {
        assert_eq!(keys.len(), values.len(), "one answer per key");
        let work = |i: usize, neighbourhood: &_| values[i] = self.value_at(neighbourhood);
        self.owns.for_each(keys, |key| self.hashing.of(key), work);
    }

    /// Gives `key` another value. Tells whether it is one of the map's keys, as far as that can be told: once in 2^`check
    /// bits` a foreign key is taken for one, and what changes is then the value of another key, or nothing.
    ///
    /// # Errors
    /// [`BuildError::ValueTooLarge`]; nothing is changed then.
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

    /// A key's own cell: which one it is must come out as one of the k, with zeros above.
    fn own_cell(&self, neighbourhood: &Neighbourhood) -> Option<u32> {
        let hash = usize::try_from(self.owns.sum(neighbourhood)).ok()?;
        neighbourhood.cells().get(hash).copied()
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

    /// Bits of both tables.
    #[must_use]
    pub const fn total_bits(&self) -> u64 {
        self.owns.total_bits() + self.values.total_bits()
    }

    /// How often a key that the map was not built with gets a value all the same: 2^-`check bits`, and a quarter less with
    /// three cells a key, as the fourth number of two bits is none of them.
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

    /// What lies behind the last cells: nothing, in every map that was made here.
    pub(crate) fn padding(&self) -> u64 {
        self.owns.padding() | self.values.padding()
    }
}

/// Words of both tables of a keyed filter, with `cells_of_third` cells for each of the three hash functions.
pub(crate) const fn table_words(cells_of_third: u64, bits: MapBits) -> u64 {
    let cells = cells_of_third * CELLS_PER_KEY as u64;
    let owns = cells * (own_bits(CELLS_PER_KEY) + bits.check()) as u64;
    owns.div_ceil(64) + (cells * bits.value() as u64).div_ceil(64)
}

/// Bits that number `hashes` cells.
const fn own_bits(hashes: usize) -> u32 {
    usize::BITS - hashes.saturating_sub(1).leading_zeros()
}
