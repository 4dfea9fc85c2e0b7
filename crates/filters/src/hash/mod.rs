//! From a key to k positions.
//!
//! | family | key | use |
//! |---|---|---|
//! | [`FingerprintHash`] | [`Fingerprint`] | production |
//! | [`UniversalHash`] | `u64` | the paper's equation (2): reproduction only, it is linear and its modulus is small |
//! | [`PolynomialHash`] | `u64` | t-wise independent functions, which the paper's footnote 3 asks about: study only |
//! | [`DigestChunks`] | [`DigestBytes`] | the constructions of §3 whose unreachable cells the paper warns of |
//! | [`RemappedDigest`] | [`DigestBytes`] | the remedy of §3, ℓ_i onto ⌊m/k⌋ cells each: study only |
//! | [`IndexedDigest`] | `Vec<u8>` | MD5(x‖i) of the survey's slides: study only |

mod digest;
mod indexed;
mod keyed;
mod polynomial;
mod remapped;
mod universal;

pub use digest::{Digest, DigestBytes, DigestChunks, DigestChunksError};
pub use indexed::{IndexedDigest, IndexedDigestError};
pub use keyed::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN, FingerprintHash};
pub(crate) use keyed::{MULTIPLIER_A, MULTIPLIER_B, finalise, leading_bits, mix, reduce};
pub use polynomial::PolynomialHash;
pub use remapped::RemappedDigest;
pub use universal::{Prime, UniversalHash, UniversalHashError};

#[cfg(doc)]
use crate::Fingerprint;
use crate::Mismatch;

/// k hash functions onto the cells `0..m` of a filter.
pub trait HashFamily {
    /// What is hashed.
    type Key;

    /// m, the number of cells.
    fn cells(&self) -> u64;

    /// k, the number of positions of a key. Some may coincide.
    fn hashes(&self) -> u32;

    /// The k positions of `key`, each below [`cells`](Self::cells).
    fn positions(&self, key: &Self::Key) -> impl Iterator<Item = u64>;

    /// Refuses a family whose positions differ from ours, naming the first difference.
    ///
    /// # Errors
    /// [`Mismatch`] if any parameter differs.
    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch>;

    /// How many of the m cells can ever be reached.
    fn utilisable_size(&self) -> u64 {
        self.cells()
    }
}
