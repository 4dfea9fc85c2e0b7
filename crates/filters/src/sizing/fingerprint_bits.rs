//! The number of leading fingerprint bits that a filter uses.
//!
//! Two keys with the same leading bits share all positions. So an absent key is a false positive if its leading bits
//! equal those of one of the n keys of the filter. With b bits, the probability of this is about n/2^b. This
//! probability adds to the rate f of the layout, except for the fraction f of keys that are false positives anyway.
//! With ten bits more than log2(n/f), the additional rate stays below f/1024. The other functions of [`sizing`](super)
//! do not include this additional rate.

use crate::hash::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN};

/// Bits beyond log2(n/f), so that truncation adds less than 1/1024 of f.
const MARGIN_BITS: f64 = 10.0;

/// Returns the number of leading bits to use for `keys` keys at `rate`: log2(n/f) + 10, rounded up and clamped to the
/// range that a filter supports.
///
/// A rate of 0 needs all 64 bits. If there are no keys or the rate is NaN, returns the minimum.
#[must_use]
pub fn fingerprint_bits(keys: u64, rate: f64) -> u32 {
    let bits = (keys as f64 / rate).log2().ceil() + MARGIN_BITS;
    // The conversion saturates, and maps NaN to 0.
    (bits as u32).clamp(FINGERPRINT_BITS_MIN, FINGERPRINT_BITS_MAX)
}

/// Returns the probability that an absent key shares its leading `bits` with one of `keys` keys: 1 − e^(−n/2^b).
#[must_use]
pub(super) fn shared_fingerprint_rate(keys: u64, bits: u32) -> f64 {
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
