//! The false-positive rate of the one-line layout.
//!
//! A key selects one of L lines at random, with ⌈k/2⌉ distinct positions in its first half of 256 bits and ⌊k/2⌋ in its
//! second. Lines are small, so some contain many more keys than the mean, and these lines cause most false positives.
//! The classical formula would be up to a third too low. Two approximations are made. The load of a line is assumed to
//! be Poisson(n/L), which is exact in the limit of many lines. Positions are assumed to be distinct, which is false for
//! one key in several thousand.
//!
//! For a given load, the rate of a half follows from a small Markov chain whose state is the number of checked
//! positions that are still clear. Each key covers a hypergeometric number of these positions. All terms are positive,
//! so tiny rates keep their precision.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::bloom::edge_rate;
use super::error::{SizingError, ensure_keys, ensure_rate};
use super::plan::CELLS_MAX;
use super::probability::{ln_binomial, poisson_mixture};
use crate::bloom::ONE_LINE_HASHES_MAX;
use crate::bloom::pattern::{HALF_BITS, split};
use crate::lines;

/// Bits of a line.
pub(crate) const LINE_BITS: u32 = lines::LINE_BITS as u32;
/// Bytes of a line.
pub const LINE_BYTES: u64 = lines::LINE_BYTES as u64;

/// Maximum number of lines in a plan.
const LINES_MAX: u64 = CELLS_MAX / LINE_BITS as u64;

/// The size of a one-line filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSize {
    /// L, the number of lines.
    pub lines: u64,
    /// k, the number of positions per key.
    pub hashes: u32,
}

/// Returns the false-positive rate of n keys in L lines with k positions each.
///
/// Edge cases are the same as for [`classical_rate`](super::classical_rate). More than 512 positions count as 512.
#[must_use]
pub fn one_line_rate(keys: u64, lines: u64, hashes: u32) -> f64 {
    edge_rate(keys, lines, hashes)
        .unwrap_or_else(|| LoadRates::new(hashes.min(LINE_BITS)).rate(keys as f64 / lines as f64))
}

/// Returns the probability that `positions` distinct positions are all set in half a line with `ones` bits set:
/// C(`ones`, `positions`) / C(256, `positions`).
#[must_use]
pub fn half_line_rate(ones: u32, positions: u32) -> f64 {
    let ones = ones.min(HALF_BITS);
    if positions > ones {
        return 0.0;
    }
    (0..positions).map(|i| f64::from(ones - i) / f64::from(HALF_BITS - i)).product()
}

/// Returns the k in 1..=[`ONE_LINE_HASHES_MAX`] with the lowest rate for n keys in L lines, and that rate.
#[must_use]
pub fn one_line_best_hashes(keys: u64, lines: u64) -> (u32, f64) {
    let rates = (1..=ONE_LINE_HASHES_MAX).map(|hashes| (hashes, one_line_rate(keys, lines, hashes)));
    rates.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((1, 1.0))
}

/// Returns the minimum number of lines for `rate`, and the corresponding k.
///
/// # Errors
/// [`SizingError`] if the rate is outside (0, 1), if there are no keys, or if the filter exceeds a PiB.
pub fn one_line_for_rate(keys: u64, rate: f64) -> Result<LineSize, SizingError> {
    ensure_keys(keys)?;
    ensure_rate(rate)?;
    let mut best = None;
    let mut lines_max = LINES_MAX;
    for hashes in 1..=ONE_LINE_HASHES_MAX {
        let rates = LoadRates::new(hashes);
        if let Some(lines) = fewest(lines_max, |lines| rates.rate(keys as f64 / lines as f64) <= rate) {
            best = Some(LineSize { lines, hashes });
            // A higher k makes checks slower, so it is chosen only if it needs fewer lines.
            lines_max = lines - 1;
        }
    }
    best.ok_or(SizingError::TooLarge)
}

/// Returns the smallest number in `1..=max` that satisfies `enough`. All larger numbers must satisfy it too.
pub(super) fn fewest(max: u64, enough: impl Fn(u64) -> bool) -> Option<u64> {
    if max == 0 || !enough(max) {
        return None;
    }
    let (mut low, mut high) = (1, max);
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

/// The false-positive rate of a check on a line with 0, 1, 2, … keys, up to the load at which the rate is 1.
struct LoadRates(Vec<f64>);

/// A line counts as full if its rate is within this distance of 1.
const SATURATED: f64 = 1e-16;
/// Maximum number of loads in the table. Half a line takes longest to saturate if each key has one position. It is then
/// saturated at a load of 256 · ln(10^16), about 9,400.
const LOADS_MAX: usize = 1 << 15;

impl LoadRates {
    fn new(hashes: u32) -> Self {
        let (low, high) = split(hashes);
        let (low, high) = (known_half_rates(low), known_half_rates(high));
        let at = |rates: &[f64], load: usize| rates.get(load).copied().unwrap_or(1.0);
        Self((0..low.len().max(high.len())).map(|load| at(&low, load) * at(&high, load)).collect())
    }

    fn rate(&self, mean_load: f64) -> f64 {
        poisson_mixture(mean_load, self.0.len() as u64, |load| self.0[load as usize])
    }
}

/// Maximum number of positions in half a line for which rates are kept after they were computed once. Every plan of a
/// filter needs these rates.
const KNOWN_MAX: usize = ONE_LINE_HASHES_MAX.div_ceil(2) as usize;

/// Returns the result of [`half_rates`], which is kept for up to [`KNOWN_MAX`] positions.
fn known_half_rates(positions: usize) -> Cow<'static, [f64]> {
    static KNOWN: [OnceLock<Vec<f64>>; KNOWN_MAX + 1] = [const { OnceLock::new() }; KNOWN_MAX + 1];
    match KNOWN.get(positions) {
        Some(known) => Cow::Borrowed(known.get_or_init(|| half_rates(positions))),
        None => Cow::Owned(half_rates(positions)),
    }
}

/// Returns the rate of a check of `positions` positions in one half of a line, for each load up to the load at which
/// the rate is 1.
fn half_rates(positions: usize) -> Vec<f64> {
    let transitions = cover_probabilities(positions);
    // clear[u] is the probability that u of the checked positions are still clear.
    let mut clear = vec![0.0; positions + 1];
    clear[positions] = 1.0;
    let mut rates = vec![clear[0]];
    while rates.len() < LOADS_MAX && clear[1..].iter().sum::<f64>() > SATURATED {
        insert_one_key(&mut clear, &transitions);
        rates.push(clear[0]);
    }
    rates
}

/// Returns a table. Entry `[u][i]` is the probability that the positions of one key in a half cover i of u given
/// positions.
fn cover_probabilities(positions: usize) -> Vec<Vec<f64>> {
    let k = positions as u64;
    let bits = u64::from(HALF_BITS);
    let probability = |u: u64, i: u64| (ln_binomial(u, i) + ln_binomial(bits - u, k - i) - ln_binomial(bits, k)).exp();
    (0..=k).map(|u| (0..=u).map(|i| probability(u, i)).collect()).collect()
}

fn insert_one_key(clear: &mut [f64], cover: &[Vec<f64>]) {
    // Probability moves only to lower indices, so an ascending loop in place moves each part once.
    for u in 1..clear.len() {
        let mass = std::mem::take(&mut clear[u]);
        for (i, probability) in cover[u].iter().enumerate() {
            clear[u - i] += mass * probability;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_position_per_key_is_a_bit_in_256() {
        let rates = LoadRates::new(1);
        for load in [1, 2, 100] {
            let expected = 1.0 - (255.0f64 / 256.0).powi(load);
            assert!((rates.0[load as usize] - expected).abs() < 1e-13);
        }
    }

    #[test]
    fn one_key_in_the_line_is_found_only_by_its_own_positions() {
        let rates = LoadRates::new(6);
        assert!((rates.0[1] / (-2.0 * ln_binomial(256, 3)).exp() - 1.0).abs() < 1e-12);
        assert!((half_line_rate(3, 3).powi(2) / rates.0[1] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_fewest_is_found_at_both_ends() {
        assert_eq!(fewest(10, |x| x >= 1), Some(1));
        assert_eq!(fewest(10, |x| x >= 10), Some(10));
        assert_eq!(fewest(10, |_| false), None);
        assert_eq!(fewest(0, |_| true), None);
    }
}
