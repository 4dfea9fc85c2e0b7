//! Sizes and rates of rings: eight generations in the lanes of the same lines.
//!
//! In a membership ring the lanes are words. A key has two random lines. In word g of each line, a key of generation g
//! sets four of 64 positions, which may repeat; the positions in the two lines are independent. The check of an absent
//! key is a false positive of generation g if all positions of the key are set in word g of both lines.
//!
//! A *half-key* consists of the four random positions of a key in one of its lines. A word thus contains Poisson(2n/L)
//! half-keys. Generations are independent, except that a key whose own positions repeat is more often a false positive
//! in all generations. The formulas take this into account.

use std::sync::LazyLock;

use super::error::{SizingError, ensure_keys, ensure_rate};
use super::one_line::{LINE_BITS, fewest};
use super::plan::CELLS_MAX;
use super::probability::poisson_mixture;

/// Number of generations of a ring: one for each word of a line.
pub const RING_GENERATIONS: u32 = 8;
/// Number of positions that a key sets in each of its two lines.
const RING_POSITIONS_PER_LINE: u32 = 4;

/// Number of lines of a key.
pub(crate) const LINES_PER_KEY: u32 = 2;
/// Number of lines of a key in both stages of a staged ring.
pub(crate) const STAGED_LINES_PER_KEY: u32 = 4;
/// Bits of a word.
pub(crate) const WORD_BITS: f64 = 64.0;
/// Number of half-keys at which a word counts as full. After 64 · ln(4 · 10^16) random positions, the probability that
/// a given position is still clear is below 10^-16.
const HALF_KEYS_MAX: usize = 640;
/// Slots in half a line of counts.
const HALF_SLOTS: f64 = 8.0;
const POSITIONS: usize = RING_POSITIONS_PER_LINE as usize;

/// False-positive rates of a ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingRate {
    /// Rate for one given generation.
    pub generation: f64,
    /// Rate over all live generations. There are eight unless stated otherwise.
    pub window: f64,
}

/// Returns the rates of a ring of `lines` lines with `keys_per_generation` keys in each of the eight generations.
///
/// The rates are 1 if there are no lines. They are 0 if there are lines but no keys.
#[must_use]
pub fn ring_rate(keys_per_generation: u64, lines: u64) -> RingRate {
    let half_keys = half_keys(keys_per_generation, lines);
    rates(RING_GENERATIONS, |generations| window_rate(&vec![half_keys; generations], LINES_PER_KEY))
}

/// Returns the minimum number of lines for a rate over all eight generations.
///
/// # Errors
/// [`SizingError`] if the rate is outside (0, 1), if there are no keys, or if the filter exceeds a PiB.
pub fn ring_lines_for_rate(keys_per_generation: u64, window_rate: f64) -> Result<u64, SizingError> {
    ensure_keys(keys_per_generation)?;
    ensure_rate(window_rate)?;
    let enough = |lines| ring_rate(keys_per_generation, lines).window <= window_rate;
    fewest(CELLS_MAX / u64::from(LINE_BITS), enough).ok_or(SizingError::TooLarge)
}

/// Returns the rates of a [`StagedRing`](crate::ring::StagedRing) of two times `lines_per_stage` lines with
/// `keys_per_generation` keys in each of `live_generations` generations. Eight are live from the first insertion of an
/// epoch to the first step of expiry, and seven while the oldest is being cleared.
///
/// The rates are 1 if there are no lines. They are 0 if there are lines but no keys.
#[must_use]
pub fn staged_ring_rate(keys_per_generation: u64, lines_per_stage: u64, live_generations: u32) -> RingRate {
    let half_keys = half_keys(keys_per_generation, lines_per_stage);
    rates(live_generations, |generations| window_rate(&vec![half_keys; generations], STAGED_LINES_PER_KEY))
}

/// Returns the minimum number of lines per stage of a [`StagedRing`](crate::ring::StagedRing) for a rate over
/// `live_generations` generations.
///
/// ```
/// use bruit_filters::sizing::{ring_lines_for_rate, staged_ring_lines_for_rate};
///
/// let bits_per_key = |lines: u64| (lines * 512) as f64 / 8e6;
/// let staged = bits_per_key(2 * staged_ring_lines_for_rate(1_000_000, 8, 1e-6)?);
/// assert!((staged - 39.9).abs() < 0.1, "{staged}");
/// assert!(bits_per_key(ring_lines_for_rate(1_000_000, 1e-6)?) > 91.0);
/// # Ok::<(), bruit_filters::sizing::SizingError>(())
/// ```
///
/// # Errors
/// [`SizingError`] if the rate is outside (0, 1), if there are no keys, or if the filter exceeds a PiB.
pub fn staged_ring_lines_for_rate(
    keys_per_generation: u64,
    live_generations: u32,
    window_rate: f64,
) -> Result<u64, SizingError> {
    ensure_keys(keys_per_generation)?;
    ensure_rate(window_rate)?;
    let enough = |lines| staged_ring_rate(keys_per_generation, lines, live_generations).window <= window_rate;
    fewest(CELLS_MAX / u64::from(LINE_BITS) / 2, enough).ok_or(SizingError::TooLarge)
}

/// Returns the probability that a [`CountsRing`](crate::ring::CountsRing) of `lines` lines has a count above 0 for an
/// absent key, with `keys_per_generation` keys in each of `live_generations` generations.
///
/// The rate is also an upper bound on the fraction of wrong counts. A refined count is too high only if other keys
/// share all cells of the key, which is as likely for a present key as for an absent one.
///
/// A key has two random lines, and in each a slot among the first eight and one among the last eight. After h
/// half-keys, a given one of these eight slots is still 0 with probability (7/8)^h, where h is Poisson(2n/L). For a
/// given h, the two halves are independent, and so are the generations.
///
/// The rate is 1 if there are no lines. It is 0 if there are lines but no keys.
#[must_use]
pub fn counts_ring_rate(keys_per_generation: u64, lines: u64, live_generations: u32) -> RingRate {
    rates(live_generations, |generations| counts_window_rate(&vec![keys_per_generation; generations], lines))
}

/// Returns the minimum number of lines of a [`CountsRing`](crate::ring::CountsRing) for the rate that
/// [`counts_ring_rate`] defines, over `live_generations` generations.
///
/// # Errors
/// [`SizingError`] if the rate is outside (0, 1), if there are no keys, or if the filter exceeds a PiB.
pub fn counts_ring_lines_for_rate(
    keys_per_generation: u64,
    live_generations: u32,
    window_rate: f64,
) -> Result<u64, SizingError> {
    ensure_keys(keys_per_generation)?;
    ensure_rate(window_rate)?;
    let enough = |lines| counts_ring_rate(keys_per_generation, lines, live_generations).window <= window_rate;
    fewest(CELLS_MAX / u64::from(LINE_BITS), enough).ok_or(SizingError::TooLarge)
}

/// Returns the rates of a ring, where `any(g)` is the rate over g generations, at most eight.
fn rates(live_generations: u32, any: impl Fn(usize) -> f64) -> RingRate {
    RingRate { generation: any(1), window: any(live_generations.min(RING_GENERATIONS) as usize) }
}

/// Returns the mean number of half-keys in a word; infinite if there are no lines.
fn half_keys(keys_per_generation: u64, lines: u64) -> f64 {
    if lines == 0 { f64::INFINITY } else { f64::from(LINES_PER_KEY) * keys_per_generation as f64 / lines as f64 }
}

/// Returns the mean number of half-keys per word, computed from `fill`, the fraction of bits that are set in a ring of
/// `lines` lines.
pub(crate) fn half_keys_by_fill(fill: f64, lines: usize) -> f64 {
    // A full ring would give infinity, so half a bit is assumed to be zero.
    let zeros = (1.0 - fill).max(0.5 / (lines as f64 * WORD_BITS));
    let set_by_one = -(f64::from(RING_POSITIONS_PER_LINE) * (-1.0 / WORD_BITS).ln_1p()).exp_m1();
    -zeros.ln() / set_by_one
}

/// Returns the probability that an absent key is found in any of several generations, from the mean number of half-keys
/// per word of each generation. A key has one word in each of `lines_per_key` lines.
pub(crate) fn window_rate(half_keys: &[f64], lines_per_key: u32) -> f64 {
    let covered: Vec<_> = half_keys.iter().map(|&half_keys| covered_by_load(half_keys)).collect();
    let distinct = distinct_positions();
    // The loop covers all ways in which the positions of a check can repeat, each with its probability and the
    // resulting rate in each generation.
    let mut ways = vec![(1.0, vec![1.0; covered.len()])];
    for _ in 0..lines_per_key {
        let with = |all: &[f64], u: usize| all.iter().zip(&covered).map(|(all, covered)| all * covered[u]).collect();
        let more = |(chance, all): &(f64, Vec<f64>)| -> Vec<_> {
            (1..=POSITIONS).map(|u| (chance * distinct[u], with(all, u))).collect()
        };
        ways = ways.iter().flat_map(more).collect();
    }
    // 1 − (1 − a)(1 − b)…, in a form that is also precise for tiny rates.
    let any = |all: &[f64]| -all.iter().map(|all| (-all).ln_1p()).sum::<f64>().exp_m1();
    ways.iter().map(|(chance, all)| chance * any(all)).sum()
}

/// Returns the probability that an absent key has a count above 0 in any of several generations with these numbers of
/// keys.
pub(crate) fn counts_window_rate(keys: &[u64], lines: u64) -> f64 {
    let ln_none: f64 = keys.iter().map(|&keys| (-counts_generation_rate(keys, lines)).ln_1p()).sum();
    -ln_none.exp_m1()
}

fn counts_generation_rate(keys: u64, lines: u64) -> f64 {
    let both_set = |load: u64| (1.0 - (1.0 - 1.0 / HALF_SLOTS).powi(load as i32)).powi(2);
    poisson_mixture(half_keys(keys, lines), HALF_KEYS_MAX as u64, both_set).powi(2)
}

/// Returns a table. Entry u is the probability that u given positions of a word are all set, for a Poisson number of
/// half-keys.
fn covered_by_load(mean_half_keys: f64) -> [f64; POSITIONS + 1] {
    let by_load = &*COVERED_AFTER_HALF_KEYS;
    std::array::from_fn(|u| poisson_mixture(mean_half_keys, by_load.len() as u64, |load| by_load[load as usize][u]))
}

/// The result of [`covered_after_half_keys`], computed once: it is the same for every ring, and searches for a size
/// need it thousands of times.
static COVERED_AFTER_HALF_KEYS: LazyLock<Vec<[f64; POSITIONS + 1]>> = LazyLock::new(covered_after_half_keys);

/// Returns a table. Entry `[h][u]` is the probability that u given positions are all set after h half-keys, up to an h
/// at which the probability is 1.
fn covered_after_half_keys() -> Vec<[f64; POSITIONS + 1]> {
    let mut chains: [[f64; POSITIONS + 1]; POSITIONS + 1] = std::array::from_fn(one_at);
    let covered = |chains: &[[f64; POSITIONS + 1]; POSITIONS + 1]| std::array::from_fn(|u| chains[u][0]);
    let mut rows = vec![covered(&chains)];
    for _ in 0..HALF_KEYS_MAX {
        for _ in 0..POSITIONS {
            chains.iter_mut().for_each(set_random_position);
        }
        rows.push(covered(&chains));
    }
    rows
}

fn one_at(index: usize) -> [f64; POSITIONS + 1] {
    std::array::from_fn(|u| if u == index { 1.0 } else { 0.0 })
}

/// Sets one random position of a word. If u of the given positions are not set yet, the new position is one of them
/// with probability u/64.
fn set_random_position(missing: &mut [f64; POSITIONS + 1]) {
    for u in 1..=POSITIONS {
        let met = missing[u] * u as f64 / WORD_BITS;
        missing[u - 1] += met;
        missing[u] -= met;
    }
}

/// Returns a table. Entry u is the probability that four random positions of a word have u distinct values.
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
    fn four_random_positions_are_mostly_distinct() {
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
