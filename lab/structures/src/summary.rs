//! Summary Cache. The owner of a cache has a counting filter, other servers have copies of its bits, and updates carry
//! the bits that changed.
//!
//! This is the protocol of Fan, Cao, Almeida and Broder ("Summary Cache: a scalable wide-area web cache sharing
//! protocol", IEEE/ACM Transactions on Networking, 2000). A [`Summary`] describes a cache that adds and removes keys,
//! so it needs counts. Other servers only need to know whether a count is 0. They have a [`Published`] copy with one
//! bit per cell, and receive an [`Update`] from time to time. If a bit changed and changed back since the last update,
//! it is omitted.
//!
//! Between updates, a copy is out of date and can be wrong in both directions: it may still contain a removed key, and
//! a new key may be missing. A reader that cannot tolerate missing keys must query the owner.
//!
//! After all updates have been applied, the copy equals the bits of the summary. Updates that are out of order are
//! rejected.
//!
//! ```
//! use bruit_filters::FingerprintKey;
//! use bruit_filters::hash::FingerprintHash;
//! use bruit_structures::summary::{Published, Summary};
//!
//! let key = FingerprintKey::new([7; 16]);
//! let hash = FingerprintHash::new(10_000, 4, 40, key.id()).unwrap();
//! let mut here = Summary::new(hash.clone())?;
//! let mut there = Published::new(hash)?;
//!
//! let page = key.fingerprint(b"http://example.org/");
//! here.insert(&page);
//! there.apply(&here.publish())?;
//! assert!(there.contains(&page));
//! here.remove(&page)?;
//! there.apply(&here.publish())?;
//! assert!(!there.contains(&page));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeSet;

use bruit_filters::bloom::{ClassicalFilter, MembershipFilter};
use bruit_filters::counting::{Cells, CountingFilter, Extension, RemoveError, ShapeError};
use bruit_filters::hash::HashFamily;
use bruit_filters::sizing::ln_bulk_rate;

/// Width of a cell. [`overflow_bound`] explains why this width is sufficient.
pub const CELL_BITS: u32 = 4;

/// Maximum number of cells. An encoded change has 31 bits for the cell and one for its new bit.
pub const SUMMARY_CELLS_MAX: u64 = 1 << 31;

/// Bytes in an update before the changed bits: magic, sequence number, number of cells, number of changes.
pub const UPDATE_HEADER_BYTES: usize = MAGIC.len() + 8 + 8 + 4;

/// Bytes that each changed bit takes in an encoded update.
pub const FLIP_BYTES: usize = 4;

const MAGIC: [u8; 8] = *b"\x89bruitS\n";

/// A filter of the contents of a cache, and the bits that changed since the last update.
#[derive(Clone, Debug)]
pub struct Summary<H> {
    counts: CountingFilter<H>,
    /// Cells whose bit differs from the published one.
    flipped: BTreeSet<u64>,
    published: u64,
}

/// A copy of the bits of a [`Summary`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published<H> {
    bits: ClassicalFilter<H>,
    applied: u64,
}

/// The bits that changed since the previous update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Sequence number, starting at 1.
    number: u64,
    cells: u64,
    /// Changed cells in ascending order, with their new bits.
    flips: Vec<(u32, bool)>,
}

/// The reason why an update cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The bytes are not an update.
    #[error("not a summary update")]
    Malformed,
    /// The update is for a summary of another size.
    #[error("update for {theirs} cells, expected {ours}")]
    Cells {
        /// Number of cells of the copy.
        ours: u64,
        /// Number of cells in the update.
        theirs: u64,
    },
    /// The update was already applied, or an earlier update is missing.
    #[error("update {found} received, expected {expected}")]
    Order {
        /// Sequence number of the next update to apply.
        expected: u64,
        /// Sequence number of this update.
        found: u64,
    },
}

impl<H: HashFamily> Summary<H> {
    /// Creates the summary of an empty cache.
    ///
    /// # Errors
    /// [`ShapeError`] if `hash` has too many functions, or more than [`SUMMARY_CELLS_MAX`] cells.
    pub fn new(hash: H) -> Result<Self, ShapeError> {
        ensure_cells(&hash)?;
        let counts = CountingFilter::new(hash, Extension::Intuitive, CELL_BITS)?;
        Ok(Self { counts, flipped: BTreeSet::new(), published: 0 })
    }

    /// Adds a key to the cache.
    pub fn insert(&mut self, key: &H::Key) {
        let before = self.cells_at_zero(key);
        self.counts.insert(key);
        before.into_iter().for_each(|cell| self.flip(cell));
    }

    /// Removes a key that was added. A cell at its maximum stays there, and its bit stays set.
    ///
    /// # Errors
    /// [`RemoveError`] if the key cannot have been added. In that case, nothing is changed.
    pub fn remove(&mut self, key: &H::Key) -> Result<(), RemoveError> {
        self.counts.remove(key)?;
        self.cells_at_zero(key).into_iter().for_each(|cell| self.flip(cell));
        Ok(())
    }

    /// Returns true if the cache may contain the key.
    #[must_use]
    pub fn contains(&self, key: &H::Key) -> bool {
        self.counts.count(key) > 0
    }

    /// Returns the number of changed bits in the next update.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.flipped.len()
    }

    /// Returns the counting filter, which determines the bits.
    #[must_use]
    pub const fn counts(&self) -> &CountingFilter<H> {
        &self.counts
    }

    /// Returns the bits that changed since the last call.
    pub fn publish(&mut self) -> Update {
        self.published += 1;
        let cells = self.counts.cells();
        let flips = self.flipped.iter().map(|&cell| (cell as u32, cells.get(cell) > 0)).collect();
        self.flipped.clear();
        Update { number: self.published, cells: cells.len(), flips }
    }

    /// Returns the distinct cells of `key` that are 0.
    fn cells_at_zero(&self, key: &H::Key) -> BTreeSet<u64> {
        self.counts.hash().positions(key).filter(|&cell| self.counts.cells().get(cell) == 0).collect()
    }

    fn flip(&mut self, cell: u64) {
        // If a bit changes back, it equals the published bit again.
        if !self.flipped.remove(&cell) {
            self.flipped.insert(cell);
        }
    }
}

impl<H: HashFamily> Published<H> {
    /// Creates a copy of the bits of an empty cache.
    ///
    /// # Errors
    /// The same as for [`Summary::new`].
    pub fn new(hash: H) -> Result<Self, ShapeError> {
        ensure_cells(&hash)?;
        Ok(Self { bits: ClassicalFilter::new(hash)?, applied: 0 })
    }

    /// Applies the next update.
    ///
    /// # Errors
    /// [`UpdateError`] if `update` is not the next update, or is for a summary of another size. In that case, nothing
    /// is changed.
    pub fn apply(&mut self, update: &Update) -> Result<(), UpdateError> {
        let ours = self.bits.bits();
        if update.cells != ours {
            return Err(UpdateError::Cells { ours, theirs: update.cells });
        }
        let expected = self.applied + 1;
        if update.number != expected {
            return Err(UpdateError::Order { expected, found: update.number });
        }
        let words = self.bits.words_mut();
        for &(cell, is_set) in &update.flips {
            let (word, mask) = (&mut words[cell as usize / 64], 1 << (cell % 64));
            *word = if is_set { *word | mask } else { *word & !mask };
        }
        self.applied = expected;
        Ok(())
    }

    /// Returns true if the cache may have contained the key at the last update.
    #[must_use]
    pub fn contains(&self, key: &H::Key) -> bool {
        self.bits.contains(key)
    }

    /// Returns the copied bits.
    #[must_use]
    pub const fn bits(&self) -> &ClassicalFilter<H> {
        &self.bits
    }
}

impl Update {
    /// Returns the number of changed bits.
    #[must_use]
    pub fn flips(&self) -> usize {
        self.flips.len()
    }

    /// Encodes the update. The magic, the sequence number and the number of cells take 8 bytes each, the number of
    /// changes 4, and each change 4. All numbers are little-endian. The highest bit of a change is the new value; the
    /// other bits are the index of the cell.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(UPDATE_HEADER_BYTES + self.flips.len() * FLIP_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.cells.to_le_bytes());
        bytes.extend_from_slice(&(self.flips.len() as u32).to_le_bytes());
        for &(cell, is_set) in &self.flips {
            bytes.extend_from_slice(&(cell | u32::from(is_set) << 31).to_le_bytes());
        }
        bytes
    }

    /// Decodes the output of [`encode`](Self::encode). Uses at most twice the memory of `bytes`.
    ///
    /// # Errors
    /// [`UpdateError::Malformed`] if `bytes` are not an encoded update.
    pub fn decode(bytes: &[u8]) -> Result<Self, UpdateError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(UpdateError::Malformed)?;
        let (number, rest) = rest.split_first_chunk().ok_or(UpdateError::Malformed)?;
        let (cells, rest) = rest.split_first_chunk().ok_or(UpdateError::Malformed)?;
        let (count, rest) = rest.split_first_chunk().ok_or(UpdateError::Malformed)?;
        let (words, tail) = rest.as_chunks::<FLIP_BYTES>();
        if words.len() != u32::from_le_bytes(*count) as usize || !tail.is_empty() {
            return Err(UpdateError::Malformed);
        }
        let flip = |word: &[u8; FLIP_BYTES]| {
            let word = u32::from_le_bytes(*word);
            (word & !(1 << 31), word >> 31 == 1)
        };
        let flips: Vec<_> = words.iter().map(flip).collect();
        let cells = u64::from_le_bytes(*cells);
        let is_ascending = flips.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let is_within = cells <= SUMMARY_CELLS_MAX && flips.last().is_none_or(|&(cell, _)| u64::from(cell) < cells);
        if !is_ascending || !is_within {
            return Err(UpdateError::Malformed);
        }
        Ok(Self { number: u64::from_le_bytes(*number), cells, flips })
    }
}

fn ensure_cells(hash: &impl HashFamily) -> Result<(), ShapeError> {
    let cells = hash.cells();
    if cells > SUMMARY_CELLS_MAX {
        Err(ShapeError::CellCount { reached: cells, cells: SUMMARY_CELLS_MAX })
    } else {
        Ok(())
    }
}

/// Returns an upper bound on the probability that any of m = `cells` cells of w = `cell_bits` bits overflows with
/// `keys` keys. It is m times the probability that a given cell is incremented at least 2^w times.
///
/// Fan et al. simplify this bound: for cells of four bits and at most (ln 2)·m/n hash functions, it is below m·(e·ln 2
/// / 16)^16 = 1.37·10^-15·m.
#[must_use]
pub fn overflow_bound(keys: u64, cells: u64, hashes: u32, cell_bits: u32) -> f64 {
    if cells == 0 || hashes == 0 {
        return 0.0;
    }
    let hits = 1u32.checked_shl(cell_bits).unwrap_or(u32::MAX);
    let ln_one = ln_bulk_rate(keys, cells, hashes, hits, None) / f64::from(hashes);
    ((cells as f64).ln() + ln_one).exp().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bruit_filters::FingerprintKey;
    use bruit_filters::hash::FingerprintHash;

    fn hash(cells: u64, hashes: u32) -> FingerprintHash {
        FingerprintHash::new(cells, hashes, 48, FingerprintKey::new([7; 16]).id()).unwrap()
    }

    fn keys(range: std::ops::Range<u32>) -> Vec<bruit_filters::Fingerprint> {
        let key = FingerprintKey::new([7; 16]);
        range.map(|number| key.fingerprint(&number.to_le_bytes())).collect()
    }

    /// Returns the bits of a summary, computed from all counts.
    fn bits(summary: &Summary<FingerprintHash>, of: &FingerprintHash) -> ClassicalFilter<FingerprintHash> {
        let mut bits = ClassicalFilter::new(of.clone()).unwrap();
        for (cell, _) in (0..).zip(summary.counts().cells().values()).filter(|&(_, value)| value > 0) {
            bits.words_mut()[cell / 64] |= 1 << (cell % 64);
        }
        bits
    }

    #[test]
    fn a_copy_with_all_updates_equals_the_bits_of_the_summary() {
        let hash = hash(4000, 4);
        let (mut here, mut there) = (Summary::new(hash.clone()).unwrap(), Published::new(hash.clone()).unwrap());
        let keys = keys(0..1000);
        // A cache of 300 keys, in which each new key replaces the oldest.
        for (added, key) in keys.iter().enumerate() {
            here.insert(key);
            if let Some(removed) = added.checked_sub(300) {
                here.remove(&keys[removed]).unwrap();
            }
            if added % 7 == 0 {
                there.apply(&Update::decode(&here.publish().encode()).unwrap()).unwrap();
                assert_eq!(*there.bits(), bits(&here, &hash), "after {added}");
                assert_eq!(here.pending(), 0);
            }
        }
        assert!(keys[750..995].iter().all(|key| there.contains(key) && here.contains(key)));
        let left = keys[..650].iter().filter(|key| there.contains(key)).count();
        assert!(left < 30, "{left} of 650 removed keys are still found");
    }

    #[test]
    fn only_bits_that_are_unlike_what_was_published_are_sent() {
        let mut here = Summary::new(hash(100_000, 4)).unwrap();
        let keys = keys(0..3);
        here.insert(&keys[0]);
        here.insert(&keys[0]);
        assert_eq!(here.publish().flips(), 4);
        here.insert(&keys[1]);
        here.remove(&keys[1]).unwrap();
        here.remove(&keys[0]).unwrap();
        assert_eq!(here.pending(), 0, "every bit equals the published bit");
        here.remove(&keys[0]).unwrap();
        here.insert(&keys[2]);
        let update = here.publish();
        assert_eq!(update.flips.iter().filter(|(_, is_set)| *is_set).count(), 4);
        assert_eq!((update.flips(), update.encode().len()), (8, UPDATE_HEADER_BYTES + 8 * FLIP_BYTES));
        assert_eq!(here.remove(&keys[1]), Err(RemoveError::NeverInserted));
    }

    #[test]
    fn updates_are_applied_once_in_order_and_for_one_size() {
        let mut here = Summary::new(hash(1000, 4)).unwrap();
        let mut there = Published::new(hash(1000, 4)).unwrap();
        let updates = [here.publish(), here.publish(), here.publish()];
        assert_eq!(there.apply(&updates[1]), Err(UpdateError::Order { expected: 1, found: 2 }));
        there.apply(&updates[0]).unwrap();
        assert_eq!(there.apply(&updates[0]), Err(UpdateError::Order { expected: 2, found: 1 }));
        there.apply(&updates[1]).unwrap();
        let mut other = Published::new(hash(1001, 4)).unwrap();
        assert_eq!(other.apply(&updates[0]), Err(UpdateError::Cells { ours: 1001, theirs: 1000 }));
    }

    #[test]
    fn no_bytes_do_harm() {
        let mut here = Summary::new(hash(1000, 4)).unwrap();
        keys(0..20).iter().for_each(|key| here.insert(key));
        let update = here.publish();
        let bytes = update.encode();
        assert_eq!(Update::decode(&bytes), Ok(update));
        for length in 0..bytes.len() {
            assert_eq!(Update::decode(&bytes[..length]), Err(UpdateError::Malformed), "{length} bytes");
        }
        assert_eq!(Update::decode(&[&bytes[..], &[0]].concat()), Err(UpdateError::Malformed));
        // One update changes the cell just beyond the last; another has two changes in the wrong order.
        let update = |cells: u64, flips: &[(u32, bool)]| {
            Update::decode(&Update { number: 1, cells, flips: flips.to_vec() }.encode()).is_ok()
        };
        assert!(update(1000, &[(998, true), (999, false)]));
        assert!(!update(1000, &[(1000, true)]) && !update(1000, &[(5, true), (5, false)]) && !update(0, &[(0, true)]));
        let last = SUMMARY_CELLS_MAX - 1;
        assert!(update(SUMMARY_CELLS_MAX, &[(last as u32, true)]) && !update(SUMMARY_CELLS_MAX + 1, &[]));
        assert!(
            ensure_cells(&hash(SUMMARY_CELLS_MAX, 4)).is_ok() && ensure_cells(&hash(SUMMARY_CELLS_MAX + 1, 4)).is_err()
        );
    }

    /// Compares the bound with the authors' figure for four bits, and with the measured overflows of narrower cells.
    #[test]
    fn cells_overflow_as_rarely_as_computed() {
        // For k = (ln 2)·m/n: 8 hash functions and 11.54 cells per key.
        let (cells, keys_inside, hashes) = (11_541_560, 1_000_000, 8);
        let authors = cells as f64 * (std::f64::consts::E * std::f64::consts::LN_2 / 16.0).powi(16);
        assert!((authors / cells as f64 / 1.37e-15 - 1.0).abs() < 0.01, "{authors}");
        let ours = overflow_bound(keys_inside, cells, hashes, CELL_BITS);
        assert!(ours < authors && ours > authors / 100.0, "{ours}, expected about {authors}");
        assert_eq!((overflow_bound(10, 0, 4, 4), overflow_bound(0, 10, 4, 4)), (0.0, 0.0));
        // Cells of 16 bits show which counts would overflow cells of 2 or 3 bits.
        let (cells, keys_inside, hashes) = (200_000, 40_000, 4);
        let mut wide = CountingFilter::new(hash(cells, hashes), Extension::Intuitive, 16).unwrap();
        wide.insert_batch(&keys(0..keys_inside as u32));
        for cell_bits in [2, 3] {
            let hits = 1 << cell_bits;
            let measured: u64 =
                wide.histogram().into_iter().filter(|&(value, _)| value >= hits).map(|(_, cells)| cells).sum();
            let ln_one = ln_bulk_rate(keys_inside, cells, hashes, hits, None) / f64::from(hashes);
            let expected = cells as f64 * ln_one.exp();
            let difference = (measured as f64 - expected) / expected.sqrt();
            assert!(difference.abs() < 4.0, "{cell_bits} bits: {measured}, expected {expected}");
        }
    }
}
