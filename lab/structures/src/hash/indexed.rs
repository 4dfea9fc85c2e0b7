//! The construction in the survey's slides: h_i(x) = MD5(x‖i) mod m, a separate digest for each function.
//!
//! This family is for study. Unlike the chunks of one digest, it reaches every cell of any array and works for any k.
//! It costs k digests per key, and anyone can compute them, so anyone can find keys that collide in a filter.

use bruit_filters::hash::HashFamily;

use super::Digest;
use bruit_filters::Mismatch;
use bruit_filters::internal::ensure_equal;

/// A family with the positions h_i(x) = MD5(x‖i) mod m for i from 1 to k, where i is written as four big-endian bytes.
///
/// ```
/// use bruit_filters::hash::HashFamily;
/// use bruit_structures::hash::{IndexedDigest};
///
/// let family = IndexedDigest::new(3, 1_000_000)?;
/// assert_eq!(family.positions(&b"abc".to_vec()).collect::<Vec<_>>(), [446_490, 304_237, 833_838]);
/// # Ok::<(), bruit_structures::hash::IndexedDigestError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedDigest {
    hashes: u32,
    cells: u64,
}

impl IndexedDigest {
    /// Creates k = `hashes` functions onto m = `cells` cells.
    ///
    /// # Errors
    /// An error if `hashes` or `cells` is 0.
    pub const fn new(hashes: u32, cells: u64) -> Result<Self, IndexedDigestError> {
        if hashes == 0 {
            return Err(IndexedDigestError::NoHashes);
        }
        if cells == 0 {
            return Err(IndexedDigestError::NoCells);
        }
        Ok(Self { hashes, cells })
    }
}

impl HashFamily for IndexedDigest {
    type Key = Vec<u8>;

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        self.hashes
    }

    fn positions(&self, key: &Vec<u8>) -> impl Iterator<Item = u64> {
        let mut message = [key.as_slice(), &[0; 4]].concat();
        (1..=self.hashes).map(move |i| {
            message[key.len()..].copy_from_slice(&i.to_be_bytes());
            Digest::Md5.of(&message).field_modulo(0, Digest::Md5.bits(), self.cells)
        })
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of cells m", &self.cells, &other.cells)?;
        ensure_equal("the number of hash functions k", &self.hashes, &other.hashes)
    }
}

/// The reason why the parameters of an [`IndexedDigest`] are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexedDigestError {
    /// k is 0.
    #[error("a filter needs at least one hash function")]
    NoHashes,
    /// m is 0.
    #[error("a filter needs at least one cell")]
    NoCells,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_md5_of_key_and_number() {
        // The md5sum of "abc" followed by the bytes 0 0 0 i, modulo 10^6, computed separately.
        let family = IndexedDigest::new(3, 1_000_000).unwrap();
        assert_eq!(family.positions(&b"abc".to_vec()).collect::<Vec<_>>(), [446_490, 304_237, 833_838]);
        // The whole digest is used, even in an array of 2^64 − 1 cells.
        let family = IndexedDigest::new(1, u64::MAX).unwrap();
        assert_eq!(family.positions(&Vec::new()).collect::<Vec<_>>(), [8_067_282_836_011_318_827]);
    }

    #[test]
    fn every_cell_is_reached() {
        let family = IndexedDigest::new(8, 1600).unwrap();
        assert_eq!(family.utilisable_size(), 1600);
        let mut hits = [0; 1600];
        for number in 0..10_000_u32 {
            family.positions(&number.to_le_bytes().to_vec()).for_each(|position| hits[position as usize] += 1);
        }
        // Each cell is expected to get 50 ± 7 hits.
        assert!(hits.iter().all(|hits| (15..100).contains(hits)), "{hits:?}");
    }

    #[test]
    fn families_without_functions_or_cells_are_refused_and_unlike_ones_name_their_difference() {
        assert_eq!(IndexedDigest::new(0, 10), Err(IndexedDigestError::NoHashes));
        assert_eq!(IndexedDigest::new(4, 0), Err(IndexedDigestError::NoCells));
        let ours = IndexedDigest::new(4, 100).unwrap();
        let what = |hashes, cells| ours.ensure_same(&IndexedDigest::new(hashes, cells).unwrap()).unwrap_err().what;
        assert_eq!((what(4, 101), what(5, 100)), ("the number of cells m", "the number of hash functions k"));
        assert_eq!(ours.ensure_same(&ours.clone()), Ok(()));
    }
}
