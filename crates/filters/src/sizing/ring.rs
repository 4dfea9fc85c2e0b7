//! The rings: eight generations in the lanes of the same lines.
//!
//! In a membership ring the lanes are words. A key has two random lines. In word g of each it sets four positions of 64, repeats allowed: four in the first line,
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

/// Lines of a key.
pub(crate) const LINES_PER_KEY: u32 = 2;
/// Lines of a key in both stages of a staged ring.
pub(crate) const STAGED_LINES_PER_KEY: u32 = 4;
/// Bits of a word.
pub(crate) const WORD_BITS: f64 = 64.0;
/// From so many half-keys on all that is asked for is there: 64 · ln(4 · 10^16) throws leave less than 10^-16.
const HALF_KEYS_MAX: usize = 640;
/// Slots of half a line of counts.
const HALF_SLOTS: f64 = 8.0;
const POSITIONS: usize = RING_POSITIONS_PER_LINE as usize;

/// False-positive rates of a ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingRate {
    /// That a check finds an absent key in one given generation.
    pub generation: f64,
    /// That it finds it in any of the live ones: all eight, unless the question was about fewer.
    pub window: f64,
}

/// The rates of a ring of `lines` lines with `keys_per_generation` keys in each of the eight generations.
///
/// No lines: always yes. No keys: always no.
#[must_use]
pub fn ring_rate(keys_per_generation: u64, lines: u64) -> RingRate {
    let half_keys = half_keys(keys_per_generation, lines);
    rates(RING_GENERATIONS, |generations| window_rate(&vec![half_keys; generations], LINES_PER_KEY))
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

/// The rates of a [`StagedRing`](crate::ring::StagedRing) with two times `lines_per_stage` lines and
/// `keys_per_generation` keys in each of `live_generations` generations: eight between the first insertion of an epoch and
/// the first step of expiry, seven while the oldest is being cleared.
///
/// No lines: always yes. No keys: always no.
#[must_use]
pub fn staged_ring_rate(keys_per_generation: u64, lines_per_stage: u64, live_generations: u32) -> RingRate {
    let half_keys = half_keys(keys_per_generation, lines_per_stage);
    rates(live_generations, |generations| window_rate(&vec![half_keys; generations], STAGED_LINES_PER_KEY))
}

/// The fewest lines per stage of a [`StagedRing`](crate::ring::StagedRing) for a wanted rate over `live_generations`
/// generations.
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
/// [`SizingError`] for a rate outside (0, 1), no keys, or more than a PiB.
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

/// How often a [`CountsRing`](crate::ring::CountsRing) of `lines` lines reads above 0 for a key that never arrived, with
/// `keys_per_generation` keys in each of `live_generations` generations.
///
/// It is also an upper bound of the share of wrong counts: a refined count is too high only if other keys share all cells
/// of the key, which is as likely for a key that is there as for one that is not.
///
/// A key has two random lines, and in each a slot among the first eight and one among the last eight. After h half-keys a
/// slot of eight is still 0 with probability (7/8)^h, and what is in one half tells nothing about the other but for h; h
/// is Poisson(2n/L). Generations are independent.
///
/// No lines: always. No keys: never.
#[must_use]
pub fn counts_ring_rate(keys_per_generation: u64, lines: u64, live_generations: u32) -> RingRate {
    rates(live_generations, |generations| counts_window_rate(&vec![keys_per_generation; generations], lines))
}

/// The fewest lines of a [`CountsRing`](crate::ring::CountsRing) for a wanted rate, as [`counts_ring_rate`] gives it, over
/// `live_generations` generations.
///
/// # Errors
/// [`SizingError`] for a rate outside (0, 1), no keys, or more than a PiB.
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

/// The rates of a ring whose `any` is the rate over so many generations. There are no more than eight.
fn rates(live_generations: u32, any: impl Fn(usize) -> f64) -> RingRate {
    RingRate { generation: any(1), window: any(live_generations.min(RING_GENERATIONS) as usize) }
}

/// The mean number of half-keys in a word; endless if there are no lines.
fn half_keys(keys_per_generation: u64, lines: u64) -> f64 {
    if lines == 0 { f64::INFINITY } else { f64::from(LINES_PER_KEY) * keys_per_generation as f64 / lines as f64 }
}

/// The mean number of half-keys in a word that leaves this share of bits set, in a ring of `lines` lines.
pub(crate) fn half_keys_by_fill(fill: f64, lines: usize) -> f64 {
    // A full ring says "many": half a zero stands for less than one.
    let zeros = (1.0 - fill).max(0.5 / (lines as f64 * WORD_BITS));
    let set_by_one = -(f64::from(RING_POSITIONS_PER_LINE) * (-1.0 / WORD_BITS).ln_1p()).exp_m1();
    -zeros.ln() / set_by_one
}

/// The probability that an absent key is found in any of several generations, given the mean number of half-keys that a
/// word of each holds, where a key has a word in each of `lines_per_key` lines.
pub(crate) fn window_rate(half_keys: &[f64], lines_per_key: u32) -> f64 {
    let covered: Vec<_> = half_keys.iter().map(|&half_keys| covered_by_load(half_keys)).collect();
    let distinct = distinct_positions();
    // Every way in which a check's positions can repeat: how likely it is, and how likely each generation then has all.
    let mut ways = vec![(1.0, vec![1.0; covered.len()])];
    for _ in 0..lines_per_key {
        let with = |all: &[f64], u: usize| all.iter().zip(&covered).map(|(all, covered)| all * covered[u]).collect();
        let more = |(chance, all): &(f64, Vec<f64>)| -> Vec<_> {
            (1..=POSITIONS).map(|u| (chance * distinct[u], with(all, u))).collect()
        };
        ways = ways.iter().flat_map(more).collect();
    }
    // 1 − (1 − a)(1 − b)…, exact for tiny rates too.
    let any = |all: &[f64]| -all.iter().map(|all| (-all).ln_1p()).sum::<f64>().exp_m1();
    ways.iter().map(|(chance, all)| chance * any(all)).sum()
}

/// That a key which never arrived reads above 0 in any of several generations, of so many keys each.
pub(crate) fn counts_window_rate(keys: &[u64], lines: u64) -> f64 {
    let ln_none: f64 = keys.iter().map(|&keys| (-counts_generation_rate(keys, lines)).ln_1p()).sum();
    -ln_none.exp_m1()
}

fn counts_generation_rate(keys: u64, lines: u64) -> f64 {
    let both_set = |load: u64| (1.0 - (1.0 - 1.0 / HALF_SLOTS).powi(load as i32)).powi(2);
    poisson_mixture(half_keys(keys, lines), HALF_KEYS_MAX as u64, both_set).powi(2)
}

/// Entry u: the probability that u given positions of a word are all set, for a Poisson number of half-keys.
fn covered_by_load(mean_half_keys: f64) -> [f64; POSITIONS + 1] {
    let by_load = covered_after_half_keys();
    std::array::from_fn(|u| poisson_mixture(mean_half_keys, by_load.len() as u64, |load| by_load[load as usize][u]))
}

/// Entry `[h][u]`: the probability that u given positions are all set after h half-keys, up to an h where it is 1.
fn covered_after_half_keys() -> Vec<[f64; POSITIONS + 1]> {
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
