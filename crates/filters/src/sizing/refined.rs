//! Error rates of counts: exact for the intuitive filter, and an estimate for the refined filter.
//!
//! Refined cells never exceed intuitive ones, so the intuitive error f_I is an upper bound for every stream. The
//! refined error f_R depends on the order of arrival and on the distribution of counts.
//!
//! **Runs.** If all insertions of each key are consecutive, the count of key number x of n is too high if the keys
//! before it hit all its cells. So f_R = ∫₀¹ (1 − e^(−λu))^k du with the load λ = kn/m.
//!
//! **Shuffled.** The order of keys by count changes over time. A cell is too high for a key only while another key of
//! that cell has a higher count. The count of the key becomes wrong as soon as all its cells are too high at the same
//! time. The formula is the same, except for an exponent that describes the effect of late arrival:
//!
//! > f_R ≈ ∫₀¹ (1 − e^(−λ·u^ρ))^k du
//!
//! ρ = 1 describes runs, ρ = 0 the intuitive filter. ρ was **fitted** to simulations of this filter (equal, Poisson,
//! uniform and geometric counts, means 1 to 100) and to the paper's experiments 3, 4, 6, 7 and 8. The result is ρ =
//! c^(−0.82) + (0.47·v + 1.66·v²)·(k/6)^0.37 for counts of mean c and coefficient of variation v. The largest deviation
//! beyond sampling error was a factor of 1.3. The rarest cases (fewer than ten keys with wrong counts in all rounds)
//! are inconclusive.

use super::bloom::{edge_rate, exponential_form, load};

/// The order in which insertions arrive, and the distribution of counts.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Order {
    /// All insertions of a key in one run, or rounds that repeat the same sequence (experiments 1, 2 and 5).
    Runs,
    /// Insertions of all keys shuffled (experiments 3, 4, 6, 7 and 8).
    Shuffled(Counts),
    /// Unknown order. The estimate lies between the rate for runs and the rate of the intuitive filter. The rate is a
    /// fraction of the distinct keys, not weighted by their counts.
    Unknown,
}

/// The distribution of counts: the mean and variation over the keys that were inserted at least once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// Mean count, at least 1.
    pub mean: f64,
    /// Standard deviation over mean.
    pub variation: f64,
}

impl Counts {
    /// Returns the distribution in which every key has this count.
    #[must_use]
    pub fn equal(count: u32) -> Self {
        Self { mean: f64::from(count), variation: 0.0 }
    }

    /// Returns the Poisson distribution of counts without the zeros.
    #[must_use]
    pub fn poisson(mean: f64) -> Self {
        let inserted = -(-mean).exp_m1();
        let mean_inserted = mean / inserted;
        let square = mean * (1.0 + mean) / inserted;
        Self::from_moments(mean_inserted, square)
    }

    /// Returns the uniform distribution of counts on 0..=`largest` without the zeros.
    #[must_use]
    pub fn uniform(largest: u32) -> Self {
        let largest = f64::from(largest);
        Self::from_moments((largest + 1.0) / 2.0, (largest + 1.0) * (2.0 * largest + 1.0) / 6.0)
    }

    fn from_moments(mean: f64, square: f64) -> Self {
        Self { mean, variation: (square - mean * mean).max(0.0).sqrt() / mean }
    }
}

/// An estimated rate, and the band that is expected to contain the true rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The best single estimate.
    pub rate: f64,
    /// Lower end of the band.
    pub low: f64,
    /// Upper end of the band; never above the intuitive error.
    pub high: f64,
}

/// Returns f_I: the fraction of keys whose count is too high in the intuitive filter, by equation (1) in its second
/// form.
///
/// It does not depend on the order of insertions or on the distribution of counts. Edge cases are the same as for
/// [`classical_rate`](super::classical_rate).
#[must_use]
pub fn intuitive_error(keys: u64, cells: u64, hashes: u32) -> f64 {
    edge_rate(keys, cells, hashes).unwrap_or_else(|| exponential_form(load(keys, cells, hashes), f64::from(hashes)))
}

/// Returns f_R: an **estimate** of the fraction of counts that are too high in the refined filter, after n distinct
/// keys.
///
/// | order | rate | band | checked |
/// |---|---|---|---|
/// | [`Order::Runs`] | the integral with ρ = 1 | −10 %, +30 % (equal counts: ±5 %) | experiments 1, 2, 5 |
/// | [`Order::Shuffled`] | fitted ρ | a factor of 1.3 for m/n 8 to 32, k 4 to 8, means 1 to 100, v up to 1; elsewhere 0 to f_I | experiments 3, 4, 6, 7, 8 |
/// | [`Order::Unknown`] | geometric mean of the band's ends | from the rate of `Runs` to f_I | all |
///
/// Keys with wrong counts are weighted by their counts, as in the paper. Only the estimate for `Unknown` is the plain
/// fraction of keys. If counts are very unequal, the weighted fraction is lower than that estimate.
///
/// ```
/// use bruit_filters::sizing::{Counts, Order, intuitive_error, refined_error};
///
/// let estimate = refined_error(10_000, 160_000, 6, Order::Shuffled(Counts::poisson(20.0)));
/// assert!(estimate.low < 4.06e-4 && 4.06e-4 < estimate.high); // Experiment 7.
/// assert!(estimate.high < intuitive_error(10_000, 160_000, 6));
/// ```
#[must_use]
pub fn refined_error(keys: u64, cells: u64, hashes: u32, order: Order) -> Estimate {
    if let Some(rate) = edge_rate(keys, cells, hashes) {
        return Estimate { rate, low: rate, high: rate };
    }
    let load = load(keys, cells, hashes);
    let upper = exponential_form(load, f64::from(hashes));
    let runs = lateness_integral(load, hashes, 1.0);
    match order {
        Order::Runs => Estimate { rate: runs, low: 0.9 * runs, high: (1.3 * runs).min(upper) },
        Order::Unknown => Estimate { rate: (runs * upper).sqrt(), low: 0.9 * runs, high: upper },
        Order::Shuffled(counts) => shuffled(load, hashes, counts, upper),
    }
}

fn shuffled(load: f64, hashes: u32, counts: Counts, upper: f64) -> Estimate {
    let rate = lateness_integral(load, hashes, lateness_exponent(counts, hashes)).min(upper);
    if was_checked(load, hashes, counts) {
        Estimate { rate, low: rate / SHUFFLED_BAND, high: (rate * SHUFFLED_BAND).min(upper) }
    } else {
        Estimate { rate, low: 0.0, high: upper }
    }
}

/// The largest deviation of the fit from simulations, as a factor.
const SHUFFLED_BAND: f64 = 1.3;

fn was_checked(load: f64, hashes: u32, counts: Counts) -> bool {
    let cells_per_key = f64::from(hashes) / load;
    // Allow a small tolerance, so that a filter built for exactly 8 or 32 cells per key is within the checked range.
    (7.5..=32.5).contains(&cells_per_key)
        && (4..=8).contains(&hashes)
        && (1.0..=100.0).contains(&counts.mean)
        && (0.0..=1.0).contains(&counts.variation)
}

/// Returns ρ by the formula in the module documentation. Means below 1 and variations above 1 count as 1.
fn lateness_exponent(counts: Counts, hashes: u32) -> f64 {
    let (mean, variation) = (counts.mean.max(1.0), counts.variation.clamp(0.0, 1.0));
    mean.powf(-0.82) + (0.47 * variation + 1.66 * variation * variation) * (f64::from(hashes) / 6.0).powf(0.37)
}

/// Returns ∫₀¹ (1 − e^(−λ·u^ρ))^k du, by Simpson's rule in s = −ln u, for which the integrand is smooth for every ρ.
fn lateness_integral(load: f64, hashes: u32, exponent: f64) -> f64 {
    const STEPS: u32 = 1600;
    const S_MAX: f64 = 40.0;
    let step = S_MAX / f64::from(STEPS);
    let term = |i: u32| {
        let s = f64::from(i) * step;
        let weight = if i == 0 || i == STEPS { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
        weight * (-s).exp() * exponential_form(load * (-exponent * s).exp(), f64::from(hashes))
    };
    (0..=STEPS).map(term).sum::<f64>() * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integral_is_exact_where_it_has_a_closed_form() {
        // k = 1, ρ = 1: 1 − (1 − e^(−λ))/λ.
        let expected = 1.0 - (1.0 - (-0.5f64).exp()) / 0.5;
        assert!((lateness_integral(0.5, 1, 1.0) / expected - 1.0).abs() < 1e-6);
        // Tiny loads: λ^k / (1 + kρ).
        assert!((lateness_integral(1e-6, 4, 0.5) / (1e-24 / 3.0) - 1.0).abs() < 1e-4);
        // ρ = 0: the order has no effect, as in the intuitive filter.
        assert!((lateness_integral(0.5, 4, 0.0) / exponential_form(0.5, 4.0) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn moments_leave_zeros_out() {
        let uniform = Counts::uniform(20);
        assert!((uniform.mean - 10.5).abs() < 1e-12 && (uniform.variation - 0.549).abs() < 1e-3);
        let poisson = Counts::poisson(2.0);
        assert!((poisson.mean - 2.313).abs() < 1e-3 && (poisson.variation - 0.545).abs() < 1e-3);
    }
}
