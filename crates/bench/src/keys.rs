//! Keys for the benches: made once, before the clock starts.

use bruit_filters::Fingerprint;

/// SplitMix64, the generator behind every key here.
pub(crate) fn mixed(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Key number `i`, narrow as under the key of a new realm.
pub(crate) fn key(i: u64) -> Fingerprint {
    Fingerprint::narrow(mixed(i))
}

/// Keys number `start` and following.
pub(crate) fn keys(start: u64, count: usize) -> Vec<Fingerprint> {
    (start..start + count as u64).map(key).collect()
}

/// A number in 0..1.
fn uniform(i: u64) -> f64 {
    (mixed(i) >> 11) as f64 / (1u64 << 53) as f64
}

/// `events` draws of key numbers 0..`universe` by Zipf's law with exponent 1; other seeds, other draws.
pub(crate) fn zipf(universe: u64, events: usize, seed: u64) -> Vec<u64> {
    // Inversion of the continuous law, ln(x) uniform on [0, ln(universe + 1)).
    let top = ((universe + 1) as f64).ln();
    (0..events as u64).map(|i| ((uniform(i ^ seed << 48) * top).exp() as u64).clamp(1, universe) - 1).collect()
}
