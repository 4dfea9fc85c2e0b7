//! The error rates of a counting filter: the probabilities that a key which was never inserted has a count above 0, or
//! a count that makes it bulk.
//!
//! Equations (3) and (4) treat the nk increments as independent, where n is the number of insertions. This assumption
//! holds for a stream in which each signature occurs once. But a signature reported t times raises all its cells t
//! times. With such signatures, the rate at threshold t equals the rate of a filter that contains only the signatures
//! reported t times or more. This rate is between equation (4) and the rate at threshold 1.
//!
//! In the one-line layout a key selects a line. It uses six of the line's eight rows, with one cell in each. All rows
//! of a line have the same load, so the rate is a mean over a Poisson-distributed load, as in
//! [`one_line_rate`](super::one_line_rate).

use super::bloom::edge_rate;
use super::error::{SizingError, ensure_keys, ensure_rate};
use super::one_line::{LINE_BITS, fewest};
use super::plan::CELLS_MAX;
use super::probability::{ln_binomial_probability, ln_binomial_range, poisson_mixture};
use crate::counting::rows::{LAST_ROW, LEFT_OUT_PAIRS, ROWS};

/// Number of cells in a row of the one-line counting layout.
const ROW_CELLS: f64 = 16.0;

/// Maximum threshold computed for the one-line layout. For a higher threshold, the rate at this maximum is returned,
/// which is an upper bound.
const COUNTING_THRESHOLD_MAX: u32 = 1024;

/// Returns ln P(c = j), equation (3): the probability that a cell is incremented j times by n insertions, each with k
/// positions in m cells.
///
/// If m is 0, no cell is ever incremented.
#[must_use]
pub fn ln_cell_probability(insertions: u64, cells: u64, hashes: u32, touched: u64) -> f64 {
    let share = if cells == 0 { 0.0 } else { 1.0 / cells as f64 };
    ln_binomial_probability(insertions as f64 * f64::from(hashes), touched as f64, share)
}

/// Returns the logarithm of [`bulk_rate`], for rates that are too small for an `f64`.
#[must_use]
pub fn ln_bulk_rate(insertions: u64, cells: u64, hashes: u32, threshold: u32, count_max: Option<u32>) -> f64 {
    if cells == 0 || hashes == 0 || threshold == 0 && count_max.is_none() {
        return 0.0;
    }
    let trials = insertions as f64 * f64::from(hashes);
    let high = count_max.map_or(f64::INFINITY, f64::from);
    f64::from(hashes) * ln_binomial_range(trials, 1.0 / cells as f64, f64::from(threshold), high)
}

/// Returns f_dcc, equation (4): the probability that all k cells of an unreported signature are between `threshold` and
/// `count_max` (`None`: no upper limit). Rates below 10^-308 become 0; see [`ln_bulk_rate`].
#[must_use]
pub fn bulk_rate(insertions: u64, cells: u64, hashes: u32, threshold: u32, count_max: Option<u32>) -> f64 {
    ln_bulk_rate(insertions, cells, hashes, threshold, count_max).exp()
}

/// Returns the probability that an absent signature has a count of at least `threshold` in the one-line counting
/// layout, after one insertion of each of n keys.
///
/// For refined counting, the result is an upper bound at thresholds above 1, and within 1 % of measurements at
/// threshold 1. To compute the effect of signatures reported `threshold` times or more, pass the number of such
/// signatures as `keys`, and 1 as the threshold. A line whose last row was replaced by entries has one row fewer. So
/// the rate is up to a third higher if many counts exceed 15.
#[must_use]
pub fn counting_line_rate(keys: u64, lines: u64, threshold: u32) -> f64 {
    let threshold = threshold.min(COUNTING_THRESHOLD_MAX);
    if threshold == 0 {
        return 1.0;
    }
    edge_rate(keys, lines, 1).unwrap_or_else(|| {
        poisson_mixture(keys as f64 / lines as f64, saturated_load(threshold), |load| all_cells_reach(load, threshold))
    })
}

/// Returns the probability that all cells of an absent key reach `threshold` in a line of `load` keys, assuming
/// independent rows.
fn all_cells_reach(load: u64, threshold: u32) -> f64 {
    let reach = |share: f64| ln_binomial_range(load as f64, share, f64::from(threshold), f64::INFINITY).exp();
    let rows: [f64; ROWS] = std::array::from_fn(|row| match row {
        // Cell 14 of the last row also stands in for cell 15.
        LAST_ROW => (14.0 * reach(1.0 / ROW_CELLS) + 2.0 * reach(2.0 / ROW_CELLS)) / ROW_CELLS,
        _ => reach(row_share(row) / ROW_CELLS),
    });
    let all =
        |left_out: &[usize; 2]| (0..ROWS).filter(|row| !left_out.contains(row)).map(|row| rows[row]).product::<f64>();
    LEFT_OUT_PAIRS.iter().map(all).sum::<f64>() / LEFT_OUT_PAIRS.len() as f64
}

/// Returns the fraction of keys that use `row`.
fn row_share(row: usize) -> f64 {
    let left_out = LEFT_OUT_PAIRS.iter().filter(|pair| pair.contains(&row)).count();
    1.0 - left_out as f64 / LEFT_OUT_PAIRS.len() as f64
}

/// Returns a load at which every cell of a line has almost certainly reached `threshold`.
fn saturated_load(threshold: u32) -> u64 {
    // If the mean of a cell is nine standard deviations above the threshold, the probability of a lower value is
    // 10^-18. This mean x solves x − 9√x = t.
    let root = 4.5 + (20.25 + f64::from(threshold)).sqrt();
    // The row that keys skip most often has five eighths of the load.
    (root * root * ROW_CELLS * 8.0 / 5.0).ceil() as u64
}

/// Returns the minimum number of lines at which the probability that an absent signature has a count above 0 is at most
/// `rate`.
///
/// # Errors
/// [`SizingError`] if the rate is outside (0, 1), if there are no keys, or if the filter exceeds a PiB.
pub fn counting_lines_for_rate(keys: u64, rate: f64) -> Result<u64, SizingError> {
    ensure_keys(keys)?;
    ensure_rate(rate)?;
    let enough = |lines| counting_line_rate(keys, lines, 1) <= rate;
    fewest(CELLS_MAX / u64::from(LINE_BITS), enough).ok_or(SizingError::TooLarge)
}
