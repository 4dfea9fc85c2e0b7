//! Binomial and Poisson probabilities that stay precise at n = 10^9.
//!
//! Subtracting logarithms of huge factorials loses precision. For example, ln(10^9!) is about 2·10^10, so its last bit
//! is worth 4·10^-6. Both distributions are therefore computed in the saddle-point form of C. Loader, *Fast and
//! Accurate Computation of Binomial Probabilities* (2000): small corrections to Stirling's formula, and deviances that
//! vanish at the mean. The relative error of a probability p is about 10^-14 · (1 + |ln p|).

use std::f64::consts::TAU;

/// Returns ln of the binomial coefficient "n choose j"; −∞ if j > n. The relative error is about 10^-14.
#[must_use]
pub(super) fn ln_binomial(n: u64, j: u64) -> f64 {
    if j > n {
        return f64::NEG_INFINITY;
    }
    let (whole, part) = (n as f64, j.min(n - j) as f64);
    if part == 0.0 {
        return 0.0;
    }
    let rest = whole - part;
    let entropy = part * (whole / part).ln() - rest * (-part / whole).ln_1p();
    entropy + stirling_error(whole)
        - stirling_error(part)
        - stirling_error(rest)
        - 0.5 * (TAU * part * (rest / whole)).ln()
}

/// Returns ln P(X = j) for X binomial with `trials` trials of probability `p`. All arguments are finite, and `trials`
/// and `j` are integers.
pub(super) fn ln_binomial_probability(trials: f64, j: f64, p: f64) -> f64 {
    if j < 0.0 || j > trials {
        return f64::NEG_INFINITY;
    }
    if p <= 0.0 || p >= 1.0 {
        let certain = if p <= 0.0 { 0.0 } else { trials };
        return if j == certain { 0.0 } else { f64::NEG_INFINITY };
    }
    if j == 0.0 {
        return trials * (-p).ln_1p();
    }
    if j == trials {
        return trials * p.ln();
    }
    let rest = trials - j;
    stirling_error(trials)
        - stirling_error(j)
        - stirling_error(rest)
        - deviance(j, trials * p)
        - deviance(rest, trials * (1.0 - p))
        - 0.5 * (TAU * j * (rest / trials)).ln()
}

/// Returns ln P(low ≤ X ≤ high) for X binomial; `high` may be infinite. Computed as a sum of positive terms only.
pub(super) fn ln_binomial_range(trials: f64, p: f64, low: f64, high: f64) -> f64 {
    let high = high.min(trials);
    if low > high {
        return f64::NEG_INFINITY;
    }
    let mean = trials * p;
    let deviation = (mean * (1.0 - p)).sqrt();
    if low <= 0.0 && high >= trials || low < mean - CERTAIN * deviation && high > mean + CERTAIN * deviation {
        return 0.0;
    }
    // Terms decrease on both sides of the mode, so the sum starts at the largest one in the range.
    let start = mean.floor().clamp(low.max(0.0), high);
    let ln_start = ln_binomial_probability(trials, start, p);
    let odds = p / (1.0 - p);
    let upwards = sum_significant_terms(start, high, |j| (trials - j) / (j + 1.0) * odds);
    let downwards = sum_significant_terms(-start, -low.max(0.0), |j| -j / ((trials + j + 1.0) * odds));
    (ln_start + (1.0 + upwards + downwards).ln()).min(0.0)
}

/// Number of standard deviations beyond which no probability is large enough to change an `f64` near 1.
const CERTAIN: f64 = 40.0;

/// Returns the sum of the terms after `start`, up to `end`, relative to the term at `start`. `ratio(j)` is term j + 1
/// divided by term j.
fn sum_significant_terms(start: f64, end: f64, ratio: impl Fn(f64) -> f64) -> f64 {
    let (mut sum, mut term, mut j) = (0.0, 1.0, start);
    while j < end {
        term *= ratio(j);
        sum += term;
        j += 1.0;
        if term < NEGLIGIBLE * (1.0 + sum) {
            break;
        }
    }
    sum
}

const NEGLIGIBLE: f64 = 1e-18;

/// Returns the mean of `rate(load)` over a Poisson load, for a monotonic rate that is 1 at load `saturated` and above.
/// Computed as a sum of positive terms only, so that tiny results stay precise.
pub(super) fn poisson_mixture(mean: f64, saturated: u64, rate: impl Fn(u64) -> f64) -> f64 {
    if mean > 4.0 * saturated as f64 + 1000.0 {
        return 1.0;
    }
    let mode = mean.floor();
    let weight_at_mode = ln_poisson_probability(mode, mean).exp();
    let rate = |load: u64| if load >= saturated { 1.0 } else { rate(load) };
    let mut total = weight_at_mode * rate(mode as u64);
    let (mut load, mut weight) = (mode as u64, weight_at_mode);
    while weight > NEGLIGIBLE * total {
        load += 1;
        weight *= mean / load as f64;
        total += weight * rate(load);
    }
    let (mut load, mut weight) = (mode as u64, weight_at_mode);
    while load > 0 && weight > NEGLIGIBLE * total {
        weight *= load as f64 / mean;
        load -= 1;
        total += weight * rate(load);
    }
    total.min(1.0)
}

fn ln_poisson_probability(j: f64, mean: f64) -> f64 {
    if j == 0.0 { -mean } else { -stirling_error(j) - deviance(j, mean) - 0.5 * (TAU * j).ln() }
}

/// Returns ln(x!) minus Stirling's formula, for integers x ≥ 1. The absolute error is about 10^-14.
fn stirling_error(x: f64) -> f64 {
    if x <= 20.0 {
        let factorial = (2..=x as u64).product::<u64>() as f64;
        return factorial.ln() - (0.5 * (TAU * x).ln() + x * x.ln() - x);
    }
    let inverse_square = 1.0 / (x * x);
    let series = 1.0 / 360.0 - inverse_square * (1.0 / 1260.0 - inverse_square / 1680.0);
    (1.0 / 12.0 - inverse_square * series) / x
}

/// Returns x·ln(x / mean) + mean − x, without cancellation if x is near the mean.
fn deviance(x: f64, mean: f64) -> f64 {
    let difference = x - mean;
    if difference.abs() >= 0.1 * (x + mean) {
        return x * (x / mean).ln() - difference;
    }
    // With v = (x − mean) / (x + mean), ln(x / mean) = 2·artanh(v) = 2(v + v³/3 + v⁵/5 + …).
    let v = difference / (x + mean);
    let (mut sum, mut power, mut odd) = (difference * v, 2.0 * x * v, 1.0);
    loop {
        power *= v * v;
        odd += 2.0;
        let next = sum + power / odd;
        if next == sum {
            return sum;
        }
        sum = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: f64, expected: f64, relative: f64) {
        assert!((found - expected).abs() <= relative * expected.abs(), "{found:e} is not {expected:e}");
    }

    #[test]
    fn binomial_coefficients_agree_with_pascals_triangle() {
        let mut row = vec![1u128];
        for n in 0..=100u64 {
            for (j, &exact) in row.iter().enumerate() {
                let found = ln_binomial(n, j as u64);
                assert!((found - (exact as f64).ln()).abs() < 1e-12, "{n} choose {j}");
            }
            row = std::iter::once(1).chain(row.windows(2).map(|pair| pair[0] + pair[1])).chain([1]).collect();
        }
        assert_eq!(ln_binomial(3, 4), f64::NEG_INFINITY);
    }

    #[test]
    fn binomial_probabilities_agree_with_exact_small_ones() {
        for (trials, j, p, exact) in [
            (10.0, 3.0, 0.5, 120.0 / 1024.0),
            (4.0, 0.0, 0.25, 81.0 / 256.0),
            (4.0, 4.0, 0.25, 1.0 / 256.0),
            (30.0, 15.0, 0.5, 155_117_520.0 / 1_073_741_824.0),
        ] {
            assert_close(ln_binomial_probability(trials, j, p).exp(), exact, 1e-13);
        }
        assert_eq!(ln_binomial_probability(4.0, 5.0, 0.5), f64::NEG_INFINITY);
        assert_eq!(ln_binomial_probability(4.0, 4.0, 1.0), 0.0);
    }

    #[test]
    fn binomial_probabilities_of_a_billion_trials_are_those_of_their_poisson_limit() {
        // 8·10^8 trials of 1/(3.2·10^9): the mean is 1/4, and the result differs from the Poisson limit by less than
        // 10^-7.
        let found = ln_binomial_probability(8e8, 20.0, 1.0 / 3.2e9);
        let expected = -0.25 + 20.0 * 0.25f64.ln() - ln_factorial(20);
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    fn ln_factorial(n: u64) -> f64 {
        (1..=n).map(|i| (i as f64).ln()).sum()
    }

    #[test]
    fn all_ranges_of_a_binomial_add_up() {
        for (trials, p) in [(7.0, 0.3), (1000.0, 0.01), (1e8, 1e-7), (1e9, 0.5)] {
            let mean = f64::floor(trials * p);
            let below = ln_binomial_range(trials, p, 0.0, mean).exp();
            let above = ln_binomial_range(trials, p, mean + 1.0, f64::INFINITY).exp();
            assert_close(below + above, 1.0, 1e-9);
        }
        assert_eq!(ln_binomial_range(10.0, 0.5, 11.0, f64::INFINITY), f64::NEG_INFINITY);
    }

    #[test]
    fn a_poisson_mixture_of_a_step_is_the_tail() {
        let tail = |mean: f64, from: u64| poisson_mixture(mean, from, |_| 0.0);
        assert_close(tail(0.5, 1), 1.0 - (-0.5f64).exp(), 1e-13);
        assert_close(tail(3.0, 2), 1.0 - 4.0 * (-3.0f64).exp(), 1e-13);
        assert_eq!(tail(1e12, 1000), 1.0);
        assert_eq!(tail(0.0, 1), 0.0);
    }
}
