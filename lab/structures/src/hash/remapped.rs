//! The remedy that §3 of the paper proposes for digest chunks. A function ℓ_i maps all chunks of a digest together onto
//! the i-th of k partitions, so that every cell of a partition can be reached.
//!
//! This family is for study. The paper does not specify ℓ_i. This module uses an affine function of the digest's 32-bit
//! words, modulo 2^61 − 1. It is the paper's equation (2) for a key of several words. Two different digests share a
//! cell of a partition with a probability of one in ⌊m/k⌋. Like equation (2), the function is linear and therefore not
//! suitable for production.

use bruit_filters::hash::HashFamily;

use super::{Digest, DigestBytes, DigestChunksError, Prime};
use bruit_filters::Mismatch;
use bruit_filters::internal::ensure_equal;

/// Number of bits of a digest that one coefficient multiplies. This is the size of a chunk in the paper by Fan et al.
const WORD_BITS: u32 = 32;

/// The modulus. It is above all 32-bit words, and larger than any partition in memory.
const PRIME: Prime = Prime::Mersenne61;

/// A family with the positions ℓ_i(x) = ((a_i1·w_1 + … + b_i) mod p) mod ⌊m/k⌋ in the i-th of k partitions, where w_1,
/// w_2 … are the words of the digest of x.
///
/// ```
/// use bruit_filters::hash::HashFamily;
/// use bruit_structures::hash::{Digest, DigestChunks, RemappedDigest};
///
/// // Eight chunks of 16 bits reach 8 · 2^16 of a million cells; mapped by ℓ_i they reach all.
/// let chunks = DigestChunks::partitioned(Digest::Md5, 8, 1_000_000)?;
/// let mut word = 0_u64;
/// let mut words = || { word = word.wrapping_add(0x9e37_79b9_7f4a_7c15); word };
/// let remapped = RemappedDigest::draw(Digest::Md5, 8, 1_000_000, &mut words)?;
/// assert_eq!((chunks.utilisable_size(), remapped.utilisable_size()), (524_288, 1_000_000));
/// # Ok::<(), bruit_structures::hash::DigestChunksError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemappedDigest {
    digest: Digest,
    cells: u64,
    /// For each function, a factor for every word, and the summand.
    functions: Vec<Vec<u64>>,
}

impl RemappedDigest {
    /// Creates k = `hashes` functions from the words that `random` returns. Each maps onto ⌊m/k⌋ of the m = `cells`
    /// cells.
    ///
    /// The last m mod k cells belong to no partition.
    ///
    /// # Errors
    /// An error if `hashes` is 0, or a partition would have no cell.
    pub fn draw(
        digest: Digest,
        hashes: u32,
        cells: u64,
        mut random: impl FnMut() -> u64,
    ) -> Result<Self, DigestChunksError> {
        if hashes == 0 {
            return Err(DigestChunksError::Hashes { hashes, digest });
        }
        if cells < u64::from(hashes) {
            return Err(DigestChunksError::Cells { cells });
        }
        let coefficients = digest.bits() / WORD_BITS + 1;
        let mut function = || (0..coefficients).map(|_| PRIME.draw_from(0, &mut random)).collect();
        Ok(Self { digest, cells, functions: (0..hashes).map(|_| function()).collect() })
    }

    /// Returns ⌊m/k⌋, the number of cells of a partition.
    fn partition_cells(&self) -> u64 {
        self.cells / self.functions.len() as u64
    }
}

impl HashFamily for RemappedDigest {
    type Key = DigestBytes;

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        u32::try_from(self.functions.len()).expect("a family has fewer than 2^32 functions")
    }

    /// # Panics
    /// If `key` was not computed with the digest of this family.
    fn positions(&self, key: &DigestBytes) -> impl Iterator<Item = u64> {
        assert_eq!(key.digest(), self.digest, "the key must be a digest of the same kind as the family");
        let (key, partition_cells) = (*key, self.partition_cells());
        (0..).zip(&self.functions).map(move |(partition, function): (u64, _)| {
            let words = (0..).step_by(WORD_BITS as usize).map(|start| key.field(start, WORD_BITS));
            let (summand, factors) = function.split_last().expect("a function has a summand");
            let sum =
                factors.iter().zip(words).fold(*summand, |sum, (&factor, word)| PRIME.multiply_add(factor, word, sum));
            partition * partition_cells + sum % partition_cells
        })
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the digest", &self.digest, &other.digest)?;
        ensure_equal("the number of cells m", &self.cells, &other.cells)?;
        ensure_equal("the number of hash functions k", &self.hashes(), &other.hashes())?;
        let coefficients = self.functions.iter().flatten().zip(other.functions.iter().flatten());
        coefficients.into_iter().try_for_each(|(ours, theirs)| ensure_equal("a coefficient", ours, theirs))
    }

    /// Returns k·min(⌊m/k⌋, p): all cells except the last m mod k.
    fn utilisable_size(&self) -> u64 {
        self.partition_cells().min(PRIME.value()) * u64::from(self.hashes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns evenly spread words. They need not be random.
    fn words(mut word: u64) -> impl FnMut() -> u64 {
        move || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word ^ word >> 29
        }
    }

    fn drawn(digest: Digest, hashes: u32, cells: u64, seed: u64) -> RemappedDigest {
        RemappedDigest::draw(digest, hashes, cells, words(seed)).unwrap()
    }

    #[test]
    fn positions_are_those_of_long_division() {
        for digest in [Digest::Md5, Digest::Sha1] {
            let family = drawn(digest, 3, 1000, 7);
            let key = digest.of(b"abc");
            let bytes: &[u8] = match digest {
                Digest::Md5 => {
                    &[0x90, 1, 0x50, 0x98, 0x3c, 0xd2, 0x4f, 0xb0, 0xd6, 0x96, 0x3f, 0x7d, 0x28, 0xe1, 0x7f, 0x72]
                }
                Digest::Sha1 => &[
                    0xa9, 0x99, 0x3e, 0x36, 0x47, 0x06, 0x81, 0x6a, 0xba, 0x3e, 0x25, 0x71, 0x78, 0x50, 0xc2, 0x6c,
                    0x9c, 0xd0, 0xd8, 0x9d,
                ],
            };
            let p = u128::from(PRIME.value());
            let expected = (0..).zip(&family.functions).map(|(partition, function): (u128, _)| {
                let words = bytes.chunks(4).map(|word| word.iter().fold(0, |word, &byte| word << 8 | u128::from(byte)));
                let products = function.iter().zip(words).map(|(&factor, word)| u128::from(factor) * word % p);
                let sum = products.sum::<u128>() + u128::from(*function.last().unwrap());
                (partition * 333 + sum % p % 333) as u64
            });
            assert!(family.positions(&key).eq(expected), "{digest}");
        }
    }

    /// Figure 2 of the paper shades the cells that digest chunks cannot reach. Remapped digests reach all cells except
    /// the last m mod k.
    #[test]
    fn every_cell_of_every_partition_is_reached() {
        let family = drawn(Digest::Md5, 8, 1603, 3);
        assert_eq!(family.utilisable_size(), 1600);
        let mut hits = [0; 1603];
        for number in 0..10_000_u32 {
            let key = Digest::Md5.of(&number.to_le_bytes());
            for (partition, position) in (0..).zip(family.positions(&key)) {
                assert_eq!(position / 200, partition, "a function leaves its partition");
                hits[position as usize] += 1;
            }
        }
        // Each cell is expected to get 50 ± 7 hits.
        assert!(hits[..1600].iter().all(|hits| (15..100).contains(hits)), "{hits:?}");
        assert_eq!(hits[1600..], [0; 3]);
    }

    #[test]
    fn families_without_functions_or_cells_are_refused() {
        let refused = |hashes, cells| RemappedDigest::draw(Digest::Md5, hashes, cells, words(1)).unwrap_err();
        assert_eq!(refused(0, 10), DigestChunksError::Hashes { hashes: 0, digest: Digest::Md5 });
        assert_eq!(refused(8, 7), DigestChunksError::Cells { cells: 7 });
        assert_eq!(drawn(Digest::Md5, 8, 8, 1).utilisable_size(), 8);
    }

    #[test]
    fn different_families_report_their_difference() {
        let ours = drawn(Digest::Md5, 4, 100, 1);
        let others = [
            (drawn(Digest::Sha1, 4, 100, 1), "the digest"),
            (drawn(Digest::Md5, 4, 101, 1), "the number of cells m"),
            (drawn(Digest::Md5, 5, 100, 1), "the number of hash functions k"),
            (drawn(Digest::Md5, 4, 100, 2), "a coefficient"),
        ];
        for (theirs, what) in others {
            assert_eq!(ours.ensure_same(&theirs).unwrap_err().what, what);
        }
        assert_eq!(ours.ensure_same(&ours.clone()), Ok(()));
    }
}
