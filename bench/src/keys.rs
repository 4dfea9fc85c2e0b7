//! Keys for the benchmarks, generated before the clock starts.

use bruit_filters::Fingerprint;

/// SplitMix64, the generator of all keys in this module.
pub(crate) fn mixed(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the narrow fingerprint of key number `i`. New realms use narrow fingerprints, too.
pub(crate) fn key(i: u64) -> Fingerprint {
    Fingerprint::narrow(mixed(i))
}

/// Returns `count` keys, starting with number `start`.
pub(crate) fn keys(start: u64, count: usize) -> Vec<Fingerprint> {
    (start..start + count as u64).map(key).collect()
}

/// Returns random number `i`, from 0 (inclusive) to 1 (exclusive).
fn uniform(i: u64) -> f64 {
    (mixed(i) >> 11) as f64 / (1u64 << 53) as f64
}

/// Draws `events` key numbers from 0..`universe` by Zipf's law with exponent 1, using `seed`.
pub(crate) fn zipf(universe: u64, events: usize, seed: u64) -> Vec<u64> {
    // Invert the continuous law: ln(x) is uniform on [0, ln(universe + 1)).
    let top = ((universe + 1) as f64).ln();
    (0..events as u64).map(|i| ((uniform(i ^ seed << 48) * top).exp() as u64).clamp(1, universe) - 1).collect()
}
