//! The classical filter: equation (1), its optimum and Table 1.
//!
//! Edge cases are the same for every rate in [`sizing`](super). If a filter has no cells or no positions, every check
//! finds its key, so the rate is 1. If it has cells and positions but no keys, no check finds a key, so the rate is 0.

use std::f64::consts::LN_2;

use super::error::{SizingError, ensure_keys, ensure_rate};
use super::plan::CELLS_MAX;

/// Size in bits of a signature that is stored without a filter. It is a SHA-1 digest, as in Razor.
const SIGNATURE_BITS: u32 = 160;

/// Maximum number of positions per key in a plan of the classical layout. In a half-full filter, 64 positions have a
/// rate of 2^-64. Lower rates are impossible, because the 64 bits of a fingerprint would no longer distinguish keys.
pub const HASHES_MAX: u32 = 64;

/// Returns the false-positive rate by equation (1), first form: (1 − (1 − 1/m)^(kn))^k.
///
/// ```
/// use bruit_filters::sizing::classical_rate;
///
/// assert_eq!(format!("{:.3e}", classical_rate(1_000_000, 16_000_000, 4)), "2.394e-3");
/// assert_eq!(classical_rate(0, 100, 4), 0.0); // No keys: none is found.
/// assert_eq!(classical_rate(5, 0, 4), 1.0); // No cells: every key is found.
/// ```
#[must_use]
pub fn classical_rate(keys: u64, cells: u64, hashes: u32) -> f64 {
    edge_rate(keys, cells, hashes).unwrap_or_else(|| {
        let ln_untouched = f64::from(hashes) * keys as f64 * (-1.0 / cells as f64).ln_1p();
        (-ln_untouched.exp_m1()).powf(f64::from(hashes))
    })
}

/// Returns the false-positive rate by equation (1), second form: (1 − e^(−kn/m))^k.
#[must_use]
pub fn classical_rate_exponential(keys: u64, cells: u64, hashes: u32) -> f64 {
    edge_rate(keys, cells, hashes).unwrap_or_else(|| exponential_form(load(keys, cells, hashes), f64::from(hashes)))
}

/// Returns the real k that minimises the rate: ln 2 · m/n. Infinite if there are no keys.
#[must_use]
pub fn optimal_hashes(keys: u64, cells: u64) -> f64 {
    if cells == 0 { 0.0 } else { LN_2 * cells as f64 / keys as f64 }
}

/// Returns the integer k with the lowest rate, in 1..=[`HASHES_MAX`]. If two values have the same rate, returns the
/// smaller one.
#[must_use]
pub fn best_hashes(keys: u64, cells: u64) -> u32 {
    // The rate has a single minimum in k, so only the neighbours of the real optimum are candidates.
    let below = (optimal_hashes(keys, cells).floor().max(1.0) as u32).min(HASHES_MAX);
    let above = (below + 1).min(HASHES_MAX);
    if classical_rate(keys, cells, above) < classical_rate(keys, cells, below) { above } else { below }
}

/// Returns the rate at the optimal real k: 2^(−ln 2 · m/n), about 0.6185^(m/n).
#[must_use]
pub fn lowest_rate(keys: u64, cells: u64) -> f64 {
    if keys == 0 && cells > 0 { 0.0 } else { (-LN_2 * optimal_hashes(keys, cells)).exp() }
}

/// Returns 160·n/m: the size of n signatures of 160 bits (stored without an index), divided by the size of m cells of
/// one bit. Infinite if there are no cells, 0 if there are no keys.
#[must_use]
pub fn compression_rate(keys: u64, bits: u64) -> f64 {
    if keys == 0 { 0.0 } else { f64::from(SIGNATURE_BITS) * keys as f64 / bits as f64 }
}

/// Returns the minimum number of cells for `rate`, and the corresponding k.
///
/// # Errors
/// [`SizingError`] if the rate is outside (0, 1), if there are no keys, or if the filter exceeds a PiB.
pub fn classical_cells_for_rate(keys: u64, rate: f64) -> Result<(u64, u32), SizingError> {
    ensure_keys(keys)?;
    ensure_rate(rate)?;
    let (cells, hashes) = (1..=HASHES_MAX)
        .map(|hashes| (cells_for(keys, rate, hashes), hashes))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .ok_or(SizingError::TooLarge)?;
    if cells > CELLS_MAX as f64 {
        return Err(SizingError::TooLarge);
    }
    let mut cells = cells.ceil() as u64;
    // A few more cells compensate for the rounding errors of the closed form.
    let mut step = 1;
    while classical_rate(keys, cells, hashes) > rate && cells < CELLS_MAX {
        cells += step;
        step *= 2;
    }
    Ok((cells, hashes))
}

/// Equation (1), first form, solved for m.
fn cells_for(keys: u64, rate: f64, hashes: u32) -> f64 {
    let ln_fill = rate.ln() / f64::from(hashes);
    // There are two formulas for ln(1 − fill). Each is accurate where the other rounds to 0 or to −∞.
    let ln_untouched = if ln_fill < -0.5 { (-ln_fill.exp()).ln_1p() } else { (-ln_fill.exp_m1()).ln() };
    -1.0 / (ln_untouched / (f64::from(hashes) * keys as f64)).exp_m1()
}

/// Returns kn/m, the mean number of increments per cell.
pub(super) fn load(keys: u64, cells: u64, hashes: u32) -> f64 {
    f64::from(hashes) * keys as f64 / cells as f64
}

/// Returns (1 − e^(−load))^k.
pub(super) fn exponential_form(load: f64, hashes: f64) -> f64 {
    (-(-load).exp_m1()).powf(hashes)
}

/// Returns the rate in the edge cases, in which the formulas do not apply.
pub(super) fn edge_rate(keys: u64, cells: u64, hashes: u32) -> Option<f64> {
    if cells == 0 || hashes == 0 {
        Some(1.0)
    } else if keys == 0 {
        Some(0.0)
    } else {
        None
    }
}

/// One row of the paper's Table 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Table1Row {
    /// m/n.
    pub bits_per_key: u32,
    /// k.
    pub hashes: u32,
    /// 160·n/m.
    pub compression_rate: f64,
    /// Equation (1), second form.
    pub false_positive_rate: f64,
}

/// Returns the paper's Table 1: the compression and false-positive rates for five choices of m/n and k.
#[must_use]
pub fn table_1() -> [Table1Row; 5] {
    [(16, 4), (10, 8), (16, 8), (40, 8), (40, 16)].map(|(bits_per_key, hashes)| Table1Row {
        bits_per_key,
        hashes,
        compression_rate: compression_rate(1, u64::from(bits_per_key)),
        false_positive_rate: classical_rate_exponential(1, u64::from(bits_per_key), hashes),
    })
}
