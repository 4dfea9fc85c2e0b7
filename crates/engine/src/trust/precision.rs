//! The precision of reporters, and the resulting weights of their claims.
//!
//! The results must be identical on every machine, to the last bit, because journals are replayed and the resulting
//! states are compared. So credits are whole millionths, and decay is a multiplication by a fixed-point factor. The
//! calculations with `f64` use only `+ - * /` and the square root, for which IEEE 754 specifies the rounding.
//! (`f64::ln` and `f64::powf` come from the system's library and may differ.)

/// Number of stored units in a credit or debit of 1.
const MILLION: f64 = 1_000_000.0;

/// Number of stored units in a weight of 1. It is a power of two, so that sums of weights are exact in any order.
pub(super) const WEIGHT_PARTS: f64 = 1024.0;

/// Number of fraction bits of a fixed-point factor.
const FACTOR_BITS: u32 = 32;

/// Number of half-lives after which any 32-bit value has decayed to 0.
const HALF_LIVES_MAX: u64 = 33;

/// Converts a credit or debit to millionths.
pub(super) fn millionths(value: f64) -> u32 {
    // The conversion saturates, but the values of policies are far below the maximum.
    (value * MILLION).round() as u32
}

/// The decay of a credit over days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decay {
    half_life_days: u64,
    /// Factor per day, in parts of 2^32.
    daily: u64,
}

impl Decay {
    /// Finds, by integer bisection, the largest daily factor that reduces a value to at most half within
    /// `half_life_days`.
    pub(super) fn new(half_life_days: u32) -> Self {
        let half_life_days = u64::from(half_life_days.max(1));
        let (mut low, mut high) = (0, 1 << FACTOR_BITS);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if power(middle, half_life_days) <= 1 << (FACTOR_BITS - 1) { low = middle } else { high = middle }
        }
        Self { half_life_days, daily: low }
    }

    /// Returns `value` after `days` days of decay, rounded down.
    pub(super) fn after(self, value: u32, days: u64) -> u32 {
        if days >= self.half_life_days * HALF_LIVES_MAX {
            return 0;
        }
        let left = (u64::from(value) * power(self.daily, days)) >> FACTOR_BITS;
        u32::try_from(left).expect("the factor is at most one")
    }
}

/// Raises a fixed-point factor to an integer power, rounding down at every step.
fn power(factor: u64, mut exponent: u64) -> u64 {
    let times = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> FACTOR_BITS) as u64;
    let (mut result, mut square) = (1 << FACTOR_BITS, factor);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

/// Returns the lower bound of a precision: the mean of Beta(a, b) minus one standard deviation, but at least 0.
pub(super) fn precision(good: u32, bad: u32, prior: (f64, f64)) -> f64 {
    let a = prior.0 + f64::from(good) / MILLION;
    let b = prior.1 + f64::from(bad) / MILLION;
    let sum = a + b;
    let deviation = (a * b / (sum * sum * (sum + 1.0))).sqrt();
    (a / sum - deviation).max(0.0)
}

/// Returns the log-odds of a precision, clamped to the range from 0 to `weight_max`. The unit is 1/1024, and the result
/// is rounded down.
pub(super) fn weight(precision: f64, weight_max: f64) -> u16 {
    if precision <= 0.5 {
        return 0;
    }
    let odds = precision / (1.0 - precision);
    let clipped = if odds.is_finite() { logarithm(odds).min(weight_max) } else { weight_max };
    (clipped * WEIGHT_PARTS) as u16
}

/// Returns the natural logarithm of a number that is at least 1, with an error of at most 1e-12. Halves the number
/// repeatedly, then uses the series of the inverse hyperbolic tangent.
fn logarithm(mut value: f64) -> f64 {
    let mut halvings = 0.0;
    while value >= 2.0 {
        value /= 2.0;
        halvings += 1.0;
    }
    let ratio = (value - 1.0) / (value + 1.0);
    let square = ratio * ratio;
    let series = (0..12).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    halvings * std::f64::consts::LN_2 + 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_left_after_a_half_life_and_zero_in_the_end() {
        for half_life in [1, 7, 30, 3650] {
            let decay = Decay::new(half_life);
            let left = decay.after(1_000_000, u64::from(half_life));
            assert!((499_990..=500_000).contains(&left), "{half_life} days: {left}");
            assert_eq!(decay.after(u32::MAX, u64::from(half_life) * HALF_LIVES_MAX), 0);
            assert_eq!(decay.after(u32::MAX, 0), u32::MAX);
            assert_eq!(decay.after(u32::MAX, u64::MAX), 0);
        }
    }

    #[test]
    fn daily_decay_matches_the_exponential() {
        let left = f64::from(Decay::new(30).after(1_000_000_000, 1)) / 1e9;
        assert!((left - 0.5_f64.powf(1.0 / 30.0)).abs() < 1e-8, "{left}");
    }

    #[test]
    fn the_logarithm_matches_the_standard_library() {
        for value in [1.0, 1.000_1, 1.5, 1.999_999, 2.0, 3.7, 12.18, 1e6, 1e300] {
            assert!((logarithm(value) - f64::ln(value)).abs() < 1e-10 * value.ln().max(1.0), "{value}");
        }
    }

    #[test]
    fn a_new_identity_weighs_nothing_and_an_anchor_the_most() {
        assert_eq!(weight(precision(0, 0, (1.0, 1.0)), 2.5), 0);
        assert_eq!(weight(precision(0, 0, (60.0, 1.0)), 2.5), 2560);
    }

    #[test]
    fn weights_are_the_log_odds_of_the_lower_bound() {
        // Beta(21, 1): mean 21/22, deviation sqrt(21 / (22² · 23)).
        let bound = 21.0 / 22.0 - (21.0_f64 / (22.0 * 22.0 * 23.0)).sqrt();
        let bounded = precision(20_000_000, 0, (1.0, 1.0));
        assert!((bounded - bound).abs() < 1e-12);
        assert_eq!(weight(bounded, 2.5), ((bound / (1.0 - bound)).ln() * 1024.0) as u16);
        assert_eq!(weight(1.0, 2.5), 2560);
    }
}
