//! Bloom filters that merge, count, age and travel.

pub mod counting;
mod fingerprint;
pub mod hash;
mod kernels;
mod lines;
mod mismatch;

pub use fingerprint::{Fingerprint, FingerprintKey, KeyId};
pub use mismatch::Mismatch;
