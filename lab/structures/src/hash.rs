//! Hash families for study: the paper's mapping from keys to cells, and alternatives to it.
//!
//! | family | key | purpose |
//! |---|---|---|
//! | [`UniversalHash`] | `u64` | the paper's equation (2), for reproduction only: linear, with a small modulus |
//! | [`PolynomialHash`] | `u64` | t-wise independent functions, for the question in the paper's footnote 3 |
//! | [`DigestChunks`] | [`DigestBytes`] | the constructions of §3, with the unreachable cells that the paper warns of |
//! | [`RemappedDigest`] | [`DigestBytes`] | the remedy in §3: each ℓ_i maps onto ⌊m/k⌋ cells |
//! | [`IndexedDigest`] | `Vec<u8>` | MD5(x‖i), as in the survey's slides |
//!
//! Filters in production use [`bruit_filters::hash::FingerprintHash`].

mod digest;
mod indexed;
mod polynomial;
mod remapped;
mod universal;

pub use digest::{Digest, DigestBytes, DigestChunks, DigestChunksError};
pub use indexed::{IndexedDigest, IndexedDigestError};
pub use polynomial::PolynomialHash;
pub use remapped::RemappedDigest;
pub use universal::{Prime, UniversalHash, UniversalHashError};
