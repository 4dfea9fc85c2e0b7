//! Filters for the laboratory: structures from the survey and the paper that the clearinghouse itself does not use.
//!
//! | question | structure |
//! |---|---|
//! | Was an excerpt part of recorded traffic, and where in it? | [`blocks::BlockFilter`] |
//! | Which value does a key have? | [`ribbon::RibbonMap`] for fixed values, [`bloomier::MutableBloomierFilter`] for changing ones |
//! | How are maps stored? | [`map`] |
//! | How often was a key seen, if bits can only be set? | [`space_code::MultiResolutionFilter`] |
//! | Which bits changed since the last summary was sent? | [`summary`] |
//! | How can a key be revoked, although it cannot be removed? | [`pair::SpamPair`] |
//! | How small can counters be? | [`compact::CompactCounters`] |
//! | What do other hash families cost? | [`hash`] |
//!
//! All structures use the fingerprints, filters and memory of `bruit-filters`.

pub mod blocks;
pub mod bloomier;
pub mod compact;
pub mod hash;
mod kernels;
pub mod map;
pub mod pair;
pub mod ribbon;
pub mod space_code;
pub mod summary;

/// Returns `count` keys for tests, the same on every call with the same `start`.
#[cfg(test)]
fn test_keys(start: u64, count: u64) -> Vec<bruit_filters::Fingerprint> {
    let key = bruit_filters::FingerprintKey::new([42; 16]);
    (start..start + count).map(|i| key.fingerprint(&i.to_le_bytes())).collect()
}
