//! Bloom filters that merge, count, age and travel.
//!
//! A key is hashed once, under a secret [`FingerprintKey`], and everything works on its [`Fingerprint`]:
//!
//! | to know | use |
//! |---|---|
//! | whether a key was seen | [`bloom::OneLineFilter`]: one cache line per key; [`bloom::ClassicalFilter`]: the fewest bits |
//! | whether it was taken back since | [`bloom::SpamPair`] |
//! | how often it was seen | [`counting::OneLineCounts`]; [`counting::CountingFilter`] for study and for deletion |
//! | the same, by bits that are only ever set | [`space_code::MultiResolutionFilter`] |
//! | when it was seen, and to forget | [`ring::MembershipRing`], [`ring::CountsRing`] |
//! | which reports share features with a message | [`owners::OwnerTable`] |
//! | whether an excerpt was part of something seen, and where in it | [`blocks::BlockFilter`] |
//! | which value a key has | [`ribbon::RibbonMap`] if nothing changes, [`bloomier::MutableBloomierFilter`] if values do |
//! | how large to make it, how wrong it will be | [`sizing`] |
//! | how to keep and send it | [`file`](mod@file), [`delta`] |
//! | which bits flipped since others were told | [`summary`] |
//! | how to send keys | [`sorted`] |
//! | how to keep it while it changes | [`snapshot`] |
//!
//! Filters with equal parameters merge: membership by OR, counts by addition. Unlike ones refuse and say what differs.
//! Gather keys into batches: in a filter of 192 MiB a check takes 5 ns in a batch and 90 ns alone. The filters read no
//! clock and draw no randomness.
//!
//! ```
//! use bruit_filters::FingerprintKey;
//! use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
//! use bruit_filters::sizing::{Goal, Layout, MembershipPlan};
//!
//! // How large for 100,000 keys at one false positive in a thousand?
//! let plan = MembershipPlan::new(Layout::OneLine, 100_000, Goal::Rate(0.001))?;
//! let key = FingerprintKey::new([7; 16]); // 16 random bytes, in earnest
//! let mut here = OneLineFilter::from_plan(&plan, key.id());
//! let mut there = here.clone();
//!
//! here.insert(&key.fingerprint(b"seen here"));
//! there.insert(&key.fingerprint(b"seen there"));
//! here.merge(&there)?;
//! assert!(here.contains(&key.fingerprint(b"seen there")));
//! assert!(!here.contains(&key.fingerprint(b"never seen")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod blocks;
pub mod bloom;
pub mod bloomier;
pub mod counting;
pub mod delta;
pub mod file;
mod fingerprint;
pub mod hash;
mod kernels;
mod lines;
pub mod map;
mod mismatch;
pub mod owners;
pub mod ribbon;
pub mod ring;
pub mod sizing;
pub mod snapshot;
pub mod sorted;
pub mod space_code;
pub mod summary;
mod undo;
mod varint;

pub use fingerprint::{Fingerprint, FingerprintKey, KeyId};
pub use lines::OutOfMemory;
pub use mismatch::Mismatch;

/// `count` keys for tests, the same for the same `start`.
#[cfg(test)]
fn test_keys(start: u64, count: u64) -> Vec<Fingerprint> {
    let key = FingerprintKey::new([42; 16]);
    (start..start + count).map(|i| key.fingerprint(&i.to_le_bytes())).collect()
}
