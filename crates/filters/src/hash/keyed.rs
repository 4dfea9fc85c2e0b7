//! Positions from fingerprints: the production family.
//!
//! A filter uses only the leading `fingerprint_bits` of a fingerprint. So a delta can contain those bits instead of
//! positions, and then needs a third of the space: see [`crate::delta`]. For n keys and a false-positive rate f, log2(n
//! / f) + 10 bits are enough: truncation then adds less than f / 1024 to the rate. [`crate::sizing`] computes the
//! number of bits.

use super::HashFamily;
use crate::mismatch::ensure_equal;
use crate::{CreateError, Fingerprint, KeyId, Mismatch};

/// Minimum number of fingerprint bits that a filter uses.
pub(crate) const FINGERPRINT_BITS_MIN: u32 = 32;
/// Maximum number of fingerprint bits that a filter uses.
pub(crate) const FINGERPRINT_BITS_MAX: u32 = 64;

/// Returns the leading bits of `fingerprint` at the top of a word whose other bits are zero. All positions derive from
/// this word.
#[inline(always)]
pub(crate) fn leading_bits(fingerprint: Fingerprint, fingerprint_bits: u32) -> u64 {
    fingerprint.high() & (u64::MAX << (64 - fingerprint_bits))
}

/// Maps a word to `0..n` by its leading bits, without a division.
#[inline(always)]
pub(crate) fn reduce(word: u64, n: u64) -> u64 {
    ((u128::from(word) * u128::from(n)) >> 64) as u64
}

/// Mixes every bit of `word` into all 64 bits of the result. The function uses no key, because fingerprints are already
/// keyed hashes.
#[inline(always)]
pub fn mix(word: u64, multiplier: u64) -> u64 {
    let product = u128::from(word) * u128::from(multiplier);
    (product >> 64) as u64 ^ product as u64
}

/// Maps a word to another one that has no visible relation to it. The function is a bijection.
///
/// It is the finaliser of SplitMix64 (Steele, Lea, Flood, *Fast splittable pseudorandom number generators*, 2014, with
/// the constants of Stafford's variant 13). Every input bit flips every output bit with a probability of nearly 1/2. In
/// a staged ring, one stage uses the word and the other stage uses the result, so the positions in the two stages have
/// no common pattern.
#[inline(always)]
pub const fn finalise(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Odd multipliers without structure, from the binary expansions of √2 and √3.
pub const MULTIPLIER_A: u64 = 0xb504_f333_f9de_6485;
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
    /// Creates k = `hashes` functions onto m = `cells` cells.
    ///
    /// # Errors
    /// [`CreateError::OutOfRange`].
    pub fn new(cells: u64, hashes: u32, fingerprint_bits: u32, key_id: KeyId) -> Result<Self, CreateError> {
        let bits = FINGERPRINT_BITS_MIN.into()..=FINGERPRINT_BITS_MAX.into();
        CreateError::check("the number of cells m", cells, 1..=u64::MAX)?;
        CreateError::check("the number of hash functions k", hashes.into(), 1..=u32::MAX.into())?;
        CreateError::check("the number of fingerprint bits", fingerprint_bits.into(), bits)?;
        Ok(Self { cells, hashes, fingerprint_bits, key_id })
    }

    /// Returns the number of leading fingerprint bits that determine the positions.
    #[must_use]
    pub const fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    /// Returns the id of the key that made the fingerprints.
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
            // The step changes by an irrational fraction of the array. If all steps were equal, positions would
            // coincide whenever the step is near a simple fraction of the array. At n = 100 and f = 10^-6, the
            // false-positive rate would be 50 times higher.
            step = step.wrapping_add((i + 1).wrapping_mul(MULTIPLIER_C));
            position
        })
    }
}
