//! Positions from fingerprints: the production family.
//!
//! A filter looks at the leading `fingerprint_bits` of a fingerprint only. That is what lets a delta carry those bits
//! instead of positions, in a third of the space: see [`crate::delta`]. log2(n / f) + 10 bits are enough for the cut to
//! cost less than 1/1024 of the false-positive rate f ([`crate::sizing`] computes it).

use super::HashFamily;
use crate::mismatch::ensure_equal;
use crate::{Fingerprint, KeyId, Mismatch};

/// Fewest bits of a fingerprint a filter may look at.
pub const FINGERPRINT_BITS_MIN: u32 = 32;
/// Most bits of a fingerprint a filter may look at.
pub const FINGERPRINT_BITS_MAX: u32 = 64;

/// The leading bits of `fingerprint`, at the top of the word, the rest zero: what positions derive from.
#[inline(always)]
pub(crate) fn leading_bits(fingerprint: Fingerprint, fingerprint_bits: u32) -> u64 {
    fingerprint.high() & (u64::MAX << (64 - fingerprint_bits))
}

/// Maps a word to `0..n` by its leading bits, without a division.
#[inline(always)]
pub(crate) fn reduce(word: u64, n: u64) -> u64 {
    ((u128::from(word) * u128::from(n)) >> 64) as u64
}

/// Spreads every bit of `word` over 64 new ones. Not a keyed hash: the fingerprint is one already.
#[inline(always)]
pub(crate) fn mix(word: u64, multiplier: u64) -> u64 {
    let product = u128::from(word) * u128::from(multiplier);
    (product >> 64) as u64 ^ product as u64
}

/// Another word that looks as if it had nothing to do with this one; no two words give the same.
///
/// The finaliser of SplitMix64 (Steele, Lea, Flood, *Fast splittable pseudorandom number generators*, 2014, with the
/// constants of Stafford's variant 13). Every bit in changes every bit out with probability 1/2, nearly, and so what the two
/// stages of a ring derive from a word and from this has no pattern in common.
#[inline(always)]
pub(crate) const fn finalise(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Odd, with no structure: from the binary expansion of √2 and √3.
pub(crate) const MULTIPLIER_A: u64 = 0xb504_f333_f9de_6485;
pub(crate) const MULTIPLIER_B: u64 = 0xbb67_ae85_84ca_a73b;

/// 2^64 divided by the golden ratio.
const MULTIPLIER_C: u64 = 0x9e37_79b9_7f4a_7c15;

/// k positions in m cells from a keyed fingerprint, by double hashing with a quadratic term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FingerprintHash {
    cells: u64,
    hashes: u32,
    fingerprint_bits: u32,
    key_id: KeyId,
}

impl FingerprintHash {
    /// k = `hashes` positions in m = `cells` cells.
    ///
    /// # Panics
    /// If `cells` or `hashes` is 0, or `fingerprint_bits` is outside
    /// [`FINGERPRINT_BITS_MIN`]`..=`[`FINGERPRINT_BITS_MAX`].
    #[must_use]
    pub fn new(cells: u64, hashes: u32, fingerprint_bits: u32, key_id: KeyId) -> Self {
        assert!(cells > 0 && hashes > 0, "a filter has at least one cell and one hash function");
        assert!((FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX).contains(&fingerprint_bits));
        Self { cells, hashes, fingerprint_bits, key_id }
    }

    /// How many leading bits of a fingerprint decide the positions.
    #[must_use]
    pub const fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    /// The key under which the fingerprints were made.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }
}

impl HashFamily for FingerprintHash {
    type Key = Fingerprint;

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        self.hashes
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of cells m", &self.cells, &other.cells)?;
        ensure_equal("the number of hash functions k", &self.hashes, &other.hashes)?;
        ensure_equal("the number of fingerprint bits", &self.fingerprint_bits, &other.fingerprint_bits)?;
        ensure_equal("the key id", &self.key_id, &other.key_id)
    }

    #[inline]
    fn positions(&self, key: &Fingerprint) -> impl Iterator<Item = u64> {
        let lead = leading_bits(*key, self.fingerprint_bits);
        let mut word = mix(lead, MULTIPLIER_A);
        let mut step = mix(lead, MULTIPLIER_B) | 1;
        (0..u64::from(self.hashes)).map(move |i| {
            let position = reduce(word, self.cells);
            word = word.wrapping_add(step);
            // Steps that change by an irrational share of the array: with equal ones, a step near a simple fraction of
            // the array would make positions coincide, which at n = 100 and f = 10^-6 cost a factor of 50.
            step = step.wrapping_add((i + 1).wrapping_mul(MULTIPLIER_C));
            position
        })
    }
}
