//! The positions of a round's keys, computed once from a hash family and then looked up.
//!
//! A [`PositionTable`] is itself a [`HashFamily`] whose keys are 0, 1, 2 …, so the library's filters can use it.

use std::fmt;
use std::sync::Arc;

use bruit_filters::hash::{FingerprintHash, HashFamily};
use bruit_filters::{FingerprintKey, Mismatch};
use bruit_structures::hash::{Digest, IndexedDigest, PolynomialHash, Prime, RemappedDigest, UniversalHash};
use rand::Rng;
use rand::seq::index;

/// A hash family that computes the k positions of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// The paper's family: h(x) = ((c·x + d) mod p) mod m with p = 2,100,000,011.
    #[default]
    Universal,
    /// Polynomials with eight coefficients modulo 2^61 − 1, for the paper's footnote 3: the positions of any
    /// eight keys are independent.
    Polynomial,
    /// Keyed fingerprints, as in production.
    Fingerprint,
    /// One MD5 of the key. A separate function (ℓ_i in §3 of the paper) maps it to a position in each of k partitions.
    RemappedDigest,
    /// One MD5 per hash function, of the key and the function's number, as in the survey's slides. A random prefix of
    /// the key gives every round different functions.
    IndexedDigest,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 5] =
        [Self::Universal, Self::Polynomial, Self::Fingerprint, Self::RemappedDigest, Self::IndexedDigest];
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Universal => "universal",
            Self::Polynomial => "polynomial",
            Self::Fingerprint => "fingerprint",
            Self::RemappedDigest => "remapped-digest",
            Self::IndexedDigest => "indexed-digest",
        })
    }
}

/// Number of coefficients of each polynomial. In any set of this many keys, the positions of the keys are independent.
const COEFFICIENTS: u32 = 8;

/// Number of fingerprint bits that determine positions. A filter cannot use more.
const FINGERPRINT_BITS: u32 = 64;

/// The prime p of the paper's hash functions. Keys are drawn from 1..p.
const PRIME: usize = 2_100_000_011;

/// Draws distinct keys from the universe. A key that was drawn twice would have a wrong count in every filter.
pub(crate) fn draw_keys(keys: usize, random: &mut impl Rng) -> Vec<u64> {
    index::sample(random, PRIME - 1, keys).iter().map(|key| key as u64 + 1).collect()
}

/// The positions of a set of keys. The table numbers the keys 0, 1, 2 …
#[derive(Clone, Debug)]
pub(crate) struct PositionTable {
    cells: u64,
    hashes: usize,
    /// `hashes` positions for each key.
    rows: Arc<Vec<u32>>,
}

impl PositionTable {
    /// Computes the positions of `keys` in `cells` cells with `hashes` functions drawn from `family`. Requires at least
    /// one cell and one function, and at least as many cells as functions.
    pub(crate) fn draw(family: Family, hashes: u32, cells: u64, keys: &[u64], random: &mut impl Rng) -> Self {
        let mut word = || random.next_u64();
        match family {
            Family::Universal => {
                let hash = UniversalHash::draw(cells, Prime::Paper, hashes, word);
                Self::new(&hash.expect("there is at least one cell and one function"), keys)
            }
            Family::Polynomial => {
                let hash = PolynomialHash::draw(cells, Prime::Mersenne61, hashes, COEFFICIENTS, word);
                Self::new(&hash.expect("there is at least one cell, function and coefficient"), keys)
            }
            Family::Fingerprint => {
                let mut key = [0; 16];
                random.fill_bytes(&mut key);
                let key = FingerprintKey::new(key);
                let fingerprints: Vec<_> = keys.iter().map(|x| key.fingerprint(&x.to_le_bytes())).collect();
                let hash = FingerprintHash::new(cells, hashes, FINGERPRINT_BITS, key.id());
                Self::new(&hash.unwrap_or_else(|error| panic!("{error}")), &fingerprints)
            }
            Family::RemappedDigest => {
                let hash = RemappedDigest::draw(Digest::Md5, hashes, cells, word);
                let digests: Vec<_> = keys.iter().map(|x| Digest::Md5.of(&x.to_le_bytes())).collect();
                Self::new(&hash.expect("there is at least one function, and at least one cell for each"), &digests)
            }
            Family::IndexedDigest => {
                let prefix = word().to_le_bytes();
                let keys: Vec<_> = keys.iter().map(|x| [prefix, x.to_le_bytes()].concat()).collect();
                Self::new(
                    &IndexedDigest::new(hashes, cells).expect("there is at least one cell and one function"),
                    &keys,
                )
            }
        }
    }

    /// Computes the positions of `keys` under `hash`.
    ///
    /// # Panics
    /// If there are more than 2^32 cells.
    pub(crate) fn new<H: HashFamily>(hash: &H, keys: &[H::Key]) -> Self {
        assert!(hash.cells() <= 1 << 32, "positions have 32 bits");
        let hashes = hash.hashes() as usize;
        let mut rows = Vec::with_capacity(keys.len() * hashes);
        keys.iter().for_each(|key| rows.extend(hash.positions(key).map(|position| position as u32)));
        Self { cells: hash.cells(), hashes, rows: rows.into() }
    }

    /// Iterates over the positions of each key, in the order of the keys.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.rows.chunks_exact(self.hashes)
    }
}

impl HashFamily for PositionTable {
    type Key = u32;

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        self.hashes as u32
    }

    #[inline]
    fn positions(&self, key: &u32) -> impl Iterator<Item = u64> {
        let start = *key as usize * self.hashes;
        self.rows[start..start + self.hashes].iter().map(|&position| u64::from(position))
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        if (self.cells, self.hashes) == (other.cells, other.hashes) && Arc::ptr_eq(&self.rows, &other.rows) {
            return Ok(());
        }
        let name = |table: &Self| format!("table of {} positions in {} cells", table.rows.len(), table.cells);
        Err(Mismatch { what: "the table of positions", ours: name(self), theirs: name(other) })
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::ChaCha8Rng;

    use super::*;

    #[test]
    fn the_table_has_the_positions_of_the_family() {
        let hash = UniversalHash::new(50, Prime::Paper, vec![(3, 1), (70_001, 5), (2, 0)]).unwrap();
        let keys = [7, 1_999_999_999, 12];
        let table = PositionTable::new(&hash, &keys);
        assert_eq!((table.cells(), table.hashes(), table.rows().count()), (50, 3, 3));
        for (i, key) in (0u32..).zip(&keys) {
            assert!(table.positions(&i).eq(hash.positions(key)));
        }
    }

    #[test]
    fn every_family_spreads_keys_over_all_cells() {
        for family in Family::ALL {
            let random = &mut ChaCha8Rng::seed_from_u64(5);
            let table = PositionTable::draw(family, 8, 24, &(1..=1000).collect::<Vec<_>>(), random);
            let mut hits = [0; 24];
            table.rows().flatten().for_each(|&position| hits[position as usize] += 1);
            // Each cell is expected to get 333 ± 18 hits.
            assert!(hits.iter().all(|hits| (250..420).contains(hits)), "{family}: {hits:?}");
            assert_eq!(table.rows().count(), 1000);
        }
    }
}
