//! Hash families: functions from a key to k positions.
//!
//! | family | key | use |
//! |---|---|---|
//! | [`FingerprintHash`] | [`Fingerprint`] | production |

pub(crate) mod keyed;
#[cfg(test)]
mod offsets;

pub use keyed::FingerprintHash;
pub(crate) use keyed::{
    FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN, MULTIPLIER_A, MULTIPLIER_B, finalise, leading_bits, mix, reduce,
};
#[cfg(test)]
pub(crate) use offsets::Offsets;

#[cfg(doc)]
use crate::Fingerprint;
use crate::Mismatch;

/// k hash functions onto the cells `0..m` of a filter.
pub trait HashFamily {
    /// The type of the keys.
    type Key;

    /// Returns m, the number of cells.
    fn cells(&self) -> u64;

    /// Returns k, the number of positions of a key. Some may coincide.
    fn hashes(&self) -> u32;

    /// Returns the k positions of `key`, each below [`cells`](Self::cells).
    fn positions(&self, key: &Self::Key) -> impl Iterator<Item = u64>;

    /// Checks that `other` computes the same positions.
    ///
    /// # Errors
    /// [`Mismatch`] with the first parameter that differs.
    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch>;

    /// Returns the number of cells that the functions can reach.
    fn utilisable_size(&self) -> u64 {
        self.cells()
    }
}
