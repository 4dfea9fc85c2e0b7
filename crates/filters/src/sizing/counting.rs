//! How often a counting filter says "seen", or "seen in bulk", of what it has not seen.
//!
//! Equations (3) and (4) treat the nk increments as independent: n is the number of insertions, and they fit a stream in
//! which each signature comes once. A signature reported t times by itself lifts its cells together; for such streams
//! the rate at threshold t is that of a filter holding only the signatures reported t times or more, which lies between
//! equation (4) and the rate at threshold 1.
//!
//! In the one-line layout a key picks a line and then one cell in each of six of its eight rows. Rows of a line share its
//! load, so the rate is a Poisson mixture over that load, as in [`one_line_rate`](super::one_line_rate).

use super::bloom::edge_rate;
use super::error::{SizingError, ensure_keys, ensure_rate};
use super::one_line::{LINE_BITS, fewest};
use super::plan::CELLS_MAX;
use super::probability::{ln_binomial_probability, ln_binomial_range, poisson_mixture};
use crate::counting::rows::{LAST_ROW, LEFT_OUT_PAIRS, ROWS};

/// Cells of a row of the one-line counting layout.
const ROW_CELLS: f64 = 16.0;

/// Higher thresholds are answered for this one in the one-line layout, which errs to the safe side.
pub const COUNTING_THRESHOLD_MAX: u32 = 1024;

/// ln P(c = j), equation (3): the probability that a cell is touched j times by n insertions of k positions in m cells.
///
/// Without cells no cell is ever touched.
#[must_use]
pub fn ln_cell_probability(insertions: u64, cells: u64, hashes: u32, touched: u64) -> f64 {
    let share = if cells == 0 { 0.0 } else { 1.0 / cells as f64 };
    ln_binomial_probability(insertions as f64 * f64::from(hashes), touched as f64, share)
}

/// ln of [`bulk_rate`], for rates too small for an `f64`.
#[must_use]
pub fn ln_bulk_rate(insertions: u64, cells: u64, hashes: u32, threshold: u32, count_max: Option<u32>) -> f64 {
    if cells == 0 || hashes == 0 || threshold == 0 && count_max.is_none() {
        return 0.0;
    }
    let trials = insertions as f64 * f64::from(hashes);
    let high = count_max.map_or(f64::INFINITY, f64::from);
    f64::from(hashes) * ln_binomial_range(trials, 1.0 / cells as f64, f64::from(threshold), high)
}

/// f_dcc, equation (4): the probability that all k cells of a signature hold between `threshold` and `count_max`
/// (`None`: any number) although it was never reported. Below 10^-308 it is 0; see [`ln_bulk_rate`].
#[must_use]
pub fn bulk_rate(insertions: u64, cells: u64, hashes: u32, threshold: u32, count_max: Option<u32>) -> f64 {
    ln_bulk_rate(insertions, cells, hashes, threshold, count_max).exp()
}

/// The probability that an absent signature reads at least `threshold` in the one-line counting layout, each of n keys
/// inserted once.
///
/// An upper bound for refined counting at thresholds above 1; at 1 within 1 % of what is measured. To ask about
/// signatures reported `threshold` times and more, pass their number as `keys` and 1 as threshold. A line whose last row
/// has given way to entries does without that row: heavy traffic is up to a third worse.
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

/// The probability that all cells of an absent key reach `threshold` in a line of `load` keys, taking the rows as
/// independent.
fn all_cells_reach(load: u64, threshold: u32) -> f64 {
    let reach = |share: f64| ln_binomial_range(load as f64, share, f64::from(threshold), f64::INFINITY).exp();
    let rows: [f64; ROWS] = std::array::from_fn(|row| match row {
        // Cell 14 of the last row stands in for cell 15 too.
        LAST_ROW => (14.0 * reach(1.0 / ROW_CELLS) + 2.0 * reach(2.0 / ROW_CELLS)) / ROW_CELLS,
        _ => reach(row_share(row) / ROW_CELLS),
    });
    let all =
        |left_out: &[usize; 2]| (0..ROWS).filter(|row| !left_out.contains(row)).map(|row| rows[row]).product::<f64>();
    LEFT_OUT_PAIRS.iter().map(all).sum::<f64>() / LEFT_OUT_PAIRS.len() as f64
}

/// The share of keys that do not leave out `row`.
fn row_share(row: usize) -> f64 {
    let left_out = LEFT_OUT_PAIRS.iter().filter(|pair| pair.contains(&row)).count();
    1.0 - left_out as f64 / LEFT_OUT_PAIRS.len() as f64
}

/// The load from which every cell of a line has surely reached `threshold`.
fn saturated_load(threshold: u32) -> u64 {
    // Nine standard deviations above leave 10^-18: the mean x of a cell solves x − 9√x = t.
    let root = 4.5 + (20.25 + f64::from(threshold)).sqrt();
    // The row that keys leave out most has five eighths of the load.
    (root * root * ROW_CELLS * 8.0 / 5.0).ceil() as u64
}

/// The fewest lines of counts in which an absent signature reads more than 0 at most at `rate`.
///
/// # Errors
/// [`SizingError`] for a rate outside (0, 1), no keys, or more than a PiB.
pub fn counting_lines_for_rate(keys: u64, rate: f64) -> Result<u64, SizingError> {
    ensure_keys(keys)?;
    ensure_rate(rate)?;
    let enough = |lines| counting_line_rate(keys, lines, 1) <= rate;
    fewest(CELLS_MAX / u64::from(LINE_BITS), enough).ok_or(SizingError::TooLarge)
}
