//! The membership ring: eight generations in the eight words of the same lines.
//!
//! A key has two random lines. In word g of each it sets four positions of 64, repeats allowed: four in the first line,
//! four others in the second. A check is a false positive of generation g if all its positions are set in both words.
//!
//! A word thus holds Poisson(2n/L) half-keys of four throws each. Two things make a check of eight generations cheaper or
//! dearer than eight checks, and both are counted: a check whose positions repeat is easier to satisfy, in all
//! generations alike; beyond that, generations are independent.

use super::error::{SizingError, ensure_keys, ensure_rate};
use super::one_line::{LINE_BITS, fewest};
use super::plan::CELLS_MAX;
use super::probability::poisson_mixture;

/// Generations of the ring: the words of a line.
pub const RING_GENERATIONS: u32 = 8;
/// Positions a key sets in each of its two lines.
pub const RING_POSITIONS_PER_LINE: u32 = 4;

const WORD_BITS: f64 = 64.0;
const POSITIONS: usize = RING_POSITIONS_PER_LINE as usize;

/// False-positive rates of a ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingRate {
    /// That a check finds an absent key in one given generation.
    pub generation: f64,
    /// That it finds it in any of the eight.
    pub window: f64,
}

/// The rates of a ring of `lines` lines with `keys_per_generation` keys in each of the eight generations.
///
/// No lines: always yes. No keys: always no.
#[must_use]
pub fn ring_rate(keys_per_generation: u64, lines: u64) -> RingRate {
    if lines == 0 {
        return RingRate { generation: 1.0, window: 1.0 };
    }
    let half_keys = 2.0 * keys_per_generation as f64 / lines as f64;
    let covered = covered_by_load(half_keys);
    let distinct = distinct_positions();
    let mut rate = RingRate { generation: 0.0, window: 0.0 };
    for (chance_a, covered_a) in distinct.iter().zip(&covered) {
        for (chance_b, covered_b) in distinct.iter().zip(&covered) {
            let both = covered_a * covered_b;
            rate.generation += chance_a * chance_b * both;
            // 1 − (1 − both)^8, exact for tiny rates too.
            rate.window += chance_a * chance_b * -(f64::from(RING_GENERATIONS) * (-both).ln_1p()).exp_m1();
        }
    }
    rate
}

/// The fewest lines for a wanted rate over the whole window.
///
/// # Errors
/// [`SizingError`] for a rate outside (0, 1), no keys, or more than a PiB.
pub fn ring_lines_for_rate(keys_per_generation: u64, window_rate: f64) -> Result<u64, SizingError> {
    ensure_keys(keys_per_generation)?;
    ensure_rate(window_rate)?;
    let enough = |lines| ring_rate(keys_per_generation, lines).window <= window_rate;
    fewest(CELLS_MAX / u64::from(LINE_BITS), enough).ok_or(SizingError::TooLarge)
}

/// Entry u: the probability that u given positions of a word are all set, for a Poisson number of half-keys.
fn covered_by_load(mean_half_keys: f64) -> [f64; POSITIONS + 1] {
    let by_load = covered_after_half_keys();
    std::array::from_fn(|u| poisson_mixture(mean_half_keys, by_load.len() as u64, |load| by_load[load as usize][u]))
}

/// Entry `[h][u]`: the probability that u given positions are all set after h half-keys, up to an h where it is 1.
fn covered_after_half_keys() -> Vec<[f64; POSITIONS + 1]> {
    // 64 · ln(4 · 10^16) throws leave less than 10^-16.
    const HALF_KEYS_MAX: usize = 640;
    let mut chains: [[f64; POSITIONS + 1]; POSITIONS + 1] = std::array::from_fn(one_at);
    let covered = |chains: &[[f64; POSITIONS + 1]; POSITIONS + 1]| std::array::from_fn(|u| chains[u][0]);
    let mut rows = vec![covered(&chains)];
    for _ in 0..HALF_KEYS_MAX {
        for _ in 0..POSITIONS {
            chains.iter_mut().for_each(throw);
        }
        rows.push(covered(&chains));
    }
    rows
}

fn one_at(index: usize) -> [f64; POSITIONS + 1] {
    std::array::from_fn(|u| if u == index { 1.0 } else { 0.0 })
}

/// One throw at a word of which u positions are still asked for: it meets one of them with probability u/64.
fn throw(missing: &mut [f64; POSITIONS + 1]) {
    for u in 1..=POSITIONS {
        let met = missing[u] * u as f64 / WORD_BITS;
        missing[u - 1] += met;
        missing[u] -= met;
    }
}

/// Entry u: the probability that four throws at a word meet u different positions.
fn distinct_positions() -> [f64; POSITIONS + 1] {
    let mut distinct = one_at(0);
    for _ in 0..POSITIONS {
        for u in (0..=POSITIONS).rev() {
            let repeated = distinct[u] * u as f64 / WORD_BITS;
            let fresh = if u == 0 { 0.0 } else { distinct[u - 1] * (WORD_BITS - (u - 1) as f64) / WORD_BITS };
            distinct[u] = repeated + fresh;
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_throws_meet_four_positions_mostly() {
        let distinct = distinct_positions();
        assert!((distinct.iter().sum::<f64>() - 1.0).abs() < 1e-15);
        assert!((distinct[4] - 63.0 * 62.0 * 61.0 / 64f64.powi(3)).abs() < 1e-15);
        assert!((distinct[1] - 64f64.powi(-3)).abs() < 1e-18);
    }

    #[test]
    fn one_position_is_covered_like_one_bit_in_64() {
        let rows = covered_after_half_keys();
        assert!((rows[3][1] - (1.0 - (63.0f64 / 64.0).powi(12))).abs() < 1e-14);
        assert_eq!(rows[0], [1.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(rows[rows.len() - 1].iter().all(|covered| 1.0 - covered < 1e-12));
    }
}
