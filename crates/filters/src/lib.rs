//! Bloom filters that merge, count, age and travel.

mod fingerprint;
pub mod hash;
mod mismatch;

pub use fingerprint::{Fingerprint, FingerprintKey, KeyId};
pub use mismatch::Mismatch;
