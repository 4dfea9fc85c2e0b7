//! The classical filter: equation (1), its optimum and Table 1.
//!
//! Edges, the same for every rate in [`sizing`](super): a filter without cells, or one that looks at no position, says
//! yes to everything (rate 1); otherwise a filter that holds no key says no to everything (rate 0).

use std::f64::consts::LN_2;

use super::error::{SizingError, ensure_keys, ensure_rate};
use super::plan::CELLS_MAX;

/// Bits of the signatures that a filter replaces: Razor's are SHA-1 digests.
pub const SIGNATURE_BITS: u32 = 160;

/// Most positions a plan gives a key of the classical layout: half-full, a rate of 2^-64, below which the 64 bits a
/// filter may look at no longer tell keys apart.
pub const HASHES_MAX: u32 = 64;

/// The false-positive rate by equation (1), first form: (1 − (1 − 1/m)^(kn))^k.
///
/// ```
/// use bruit_filters::sizing::classical_rate;
///
/// assert_eq!(format!("{:.3e}", classical_rate(1_000_000, 16_000_000, 4)), "2.394e-3");
/// assert_eq!(classical_rate(0, 100, 4), 0.0); // Nothing inserted: always no.
/// assert_eq!(classical_rate(5, 0, 4), 1.0); // Nowhere to look: always yes.
/// ```
#[must_use]
pub fn classical_rate(keys: u64, cells: u64, hashes: u32) -> f64 {
    edge_rate(keys, cells, hashes).unwrap_or_else(|| {
        let ln_untouched = f64::from(hashes) * keys as f64 * (-1.0 / cells as f64).ln_1p();
        (-ln_untouched.exp_m1()).powf(f64::from(hashes))
    })
}

/// The false-positive rate by equation (1), second form: (1 − e^(−kn/m))^k.
#[must_use]
pub fn classical_rate_exponential(keys: u64, cells: u64, hashes: u32) -> f64 {
    edge_rate(keys, cells, hashes).unwrap_or_else(|| exponential_form(load(keys, cells, hashes), f64::from(hashes)))
}

/// The k that would minimise the rate if k need not be whole: ln 2 · m/n. Infinite for no keys.
#[must_use]
pub fn optimal_hashes(keys: u64, cells: u64) -> f64 {
    if cells == 0 { 0.0 } else { LN_2 * cells as f64 / keys as f64 }
}

/// The whole k with the lowest rate, in 1..=[`HASHES_MAX`]; the smaller of two equals.
#[must_use]
pub fn best_hashes(keys: u64, cells: u64) -> u32 {
    // The rate has one minimum in k, so the neighbours of the real optimum are the only candidates.
    let below = (optimal_hashes(keys, cells).floor().max(1.0) as u32).min(HASHES_MAX);
    let above = (below + 1).min(HASHES_MAX);
    if classical_rate(keys, cells, above) < classical_rate(keys, cells, below) { above } else { below }
}

/// The rate at the optimal real k: 2^(−ln 2 · m/n), about 0.6185^(m/n).
#[must_use]
pub fn lowest_rate(keys: u64, cells: u64) -> f64 {
    if keys == 0 && cells > 0 { 0.0 } else { (-LN_2 * optimal_hashes(keys, cells)).exp() }
}

/// How many times smaller m cells of one bit are than n signatures of 160 bits, without the index those would need:
/// 160·n/m. For no cells it is infinite, for no keys 0.
#[must_use]
pub fn compression_rate(keys: u64, bits: u64) -> f64 {
    if keys == 0 { 0.0 } else { f64::from(SIGNATURE_BITS) * keys as f64 / bits as f64 }
}

/// The fewest cells for `rate`, and the k that goes with them.
///
/// # Errors
/// [`SizingError`] for a rate outside (0, 1), no keys, or more than a PiB.
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
    // The closed form rounds; a few cells more put the promise right.
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
    // Two ways to ln(1 − fill): each keeps its digits where the other rounds to 0 or to −∞.
    let ln_untouched = if ln_fill < -0.5 { (-ln_fill.exp()).ln_1p() } else { (-ln_fill.exp_m1()).ln() };
    -1.0 / (ln_untouched / (f64::from(hashes) * keys as f64)).exp_m1()
}

/// kn/m, the mean number of times a cell is touched.
pub(super) fn load(keys: u64, cells: u64, hashes: u32) -> f64 {
    f64::from(hashes) * keys as f64 / cells as f64
}

/// (1 − e^(−load))^k.
pub(super) fn exponential_form(load: f64, hashes: f64) -> f64 {
    (-(-load).exp_m1()).powf(hashes)
}

/// The rate where it does not depend on a formula.
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

/// The paper's Table 1: what five choices of m/n and k save and cost.
#[must_use]
pub fn table_1() -> [Table1Row; 5] {
    [(16, 4), (10, 8), (16, 8), (40, 8), (40, 16)].map(|(bits_per_key, hashes)| Table1Row {
        bits_per_key,
        hashes,
        compression_rate: compression_rate(1, u64::from(bits_per_key)),
        false_positive_rate: classical_rate_exponential(1, u64::from(bits_per_key), hashes),
    })
}
