//! How many leading bits of a fingerprint a filter looks at.
//!
//! Two keys that share those bits share all positions, so an absent key is a false positive whenever it shares them with
//! one of the n keys held: with probability about n/2^b for b bits, on top of the layout's own rate f (of which it
//! spares the share f, being a false positive either way). Ten bits more than log2(n/f) keep that below f/1024. No
//! other figure of [`sizing`](super) includes it.

use crate::hash::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN};

/// With so many bits more than log2(n/f), the cut adds less than 1/1024 of f.
const MARGIN_BITS: f64 = 10.0;

/// The leading bits to look at for `keys` keys at `rate`: log2(n/f) + 10, rounded up, within what a filter may use.
///
/// A rate of 0 asks for all 64; no keys, or a rate that is not a number, for the fewest.
#[must_use]
pub fn fingerprint_bits(keys: u64, rate: f64) -> u32 {
    let bits = (keys as f64 / rate).log2().ceil() + MARGIN_BITS;
    // The conversion saturates, and takes not-a-number to 0.
    (bits as u32).clamp(FINGERPRINT_BITS_MIN, FINGERPRINT_BITS_MAX)
}

/// The probability that an absent key shares its leading `bits` with one of `keys` keys: 1 − e^(−n/2^b).
#[must_use]
pub fn shared_fingerprint_rate(keys: u64, bits: u32) -> f64 {
    -(-(keys as f64) * (-f64::from(bits)).exp2()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_adds_less_than_a_1024th_of_the_rate() {
        for keys in [1_000_000, 10_000_000, 1 << 33] {
            for rate in [1e-2, 1e-3, 1e-5] {
                let added = shared_fingerprint_rate(keys, fingerprint_bits(keys, rate));
                assert!(added <= rate / 1024.0, "{keys} {rate} {added}");
            }
        }
    }

    #[test]
    fn every_input_gives_a_number_of_bits_a_filter_may_use() {
        for keys in [0, 1, u64::MAX] {
            for rate in [0.0, f64::MIN_POSITIVE, 0.5, 1.0, f64::NAN, f64::INFINITY, -1.0] {
                assert!((FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX).contains(&fingerprint_bits(keys, rate)));
            }
        }
        assert_eq!(fingerprint_bits(10_000_000, 1e-3), 44);
    }
}
