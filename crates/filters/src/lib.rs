#![warn(missing_docs)]
#![doc = include_str!("../README.md")]

pub mod bloom;
pub mod counting;
pub mod delta;
pub mod file;
mod filter;
mod fingerprint;
pub mod hash;
#[doc(hidden)]
pub mod internal;
mod kernels;
mod lines;
mod mismatch;
pub mod owners;
pub mod ring;
pub mod sizing;
pub mod snapshot;
pub mod sorted;
mod undo;
mod varint;

pub use filter::{CreateError, Filter, LoadError, WrongKey};
pub use fingerprint::{Fingerprint, FingerprintKey, KeyId};
pub use lines::OutOfMemory;
pub use mismatch::Mismatch;

/// Returns `count` test keys, which depend only on `start`.
#[cfg(test)]
fn test_keys(start: u64, count: u64) -> Vec<Fingerprint> {
    let key = FingerprintKey::new([42; 16]);
    (start..start + count).map(|i| key.fingerprint(&i.to_le_bytes())).collect()
}
