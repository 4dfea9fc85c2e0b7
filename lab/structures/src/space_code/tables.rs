//! The distribution of hits after a number of packets, from which the number of packets is estimated for given hits.
//!
//! The number j of groups that are truly hit is a Markov chain: a packet hits one more group with probability p (l − j)
//! / l. Each of the other groups is a false positive with a probability equal to the filter's rate. Both distributions
//! are computed exactly. For p = 1, each step is one packet. For smaller p, each step is the number of packets that
//! cause a quarter of an insertion on average.

use super::formulas::{coupon_collector, expected_insertions};

/// The probability that the true number of arrivals lies between an estimate's `low` and `high`.
pub const CONFIDENCE: f64 = 0.95;

/// The tables extend to l (ln l + `TAIL`) insertions. After that many insertions, the probability that some group is
/// still not hit is e^-6. This is less than the probability beyond either end of an interval.
const TAIL: f64 = 6.0;

/// The estimates for one given number of hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) likely: f64,
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The estimates of one resolution.
#[derive(Clone, Debug)]
pub(super) struct Table {
    rows: Vec<Row>,
    false_positive_rate: f64,
}

impl Table {
    /// Computes the table for l = `groups` and the resolution with this index. A group that was not hit is found with
    /// probability `false_positive_rate`.
    pub(super) fn new(groups: u32, resolution: u32, false_positive_rate: f64) -> Self {
        let share = 0.25f64.powi(resolution as i32);
        let rate = false_positive_rate.clamp(0.0, 1.0 - f64::EPSILON);
        let mut rows: Vec<Row> = (0..=groups).map(|hits| empty_row(groups, hits, share, rate)).collect();
        let step = Step::new(groups, resolution, share);
        let mut truly = vec![0.0; groups as usize + 1];
        truly[0] = 1.0;
        let mut greatest = vec![0.0; groups as usize + 1];
        let by_chance = chance_matrix(groups, rate);
        for number in 0..=step.count(groups) {
            let likelihoods = by_chance.apply(&truly);
            note(&mut rows, &mut greatest, &likelihoods, number as f64 * step.packets, step.packets);
            truly = step.matrix.apply(&truly);
        }
        saturate(&mut rows, groups, share);
        Self { rows, false_positive_rate: rate }
    }

    pub(super) fn row(&self, hits: u32) -> Row {
        self.rows[hits as usize]
    }

    pub(super) const fn false_positive_rate(&self) -> f64 {
        self.false_positive_rate
    }

    /// Estimates the number of groups that are truly hit: the hits without the expected number of false positives.
    pub(super) fn true_hits(&self, hits: u32) -> u32 {
        let groups = (self.rows.len() - 1) as f64;
        let expected = (f64::from(hits) - groups * self.false_positive_rate) / (1.0 - self.false_positive_rate);
        expected.round().max(0.0) as u32
    }
}

/// Returns a row that contains only the mean, which has a closed form.
fn empty_row(groups: u32, hits: u32, share: f64, rate: f64) -> Row {
    let l = f64::from(groups);
    let missed = (1.0 - f64::from(hits) / l) / (1.0 - rate);
    let mean = if hits < groups { missed.ln() / (-share / l).ln_1p() } else { f64::INFINITY };
    Row { likely: 0.0, mean: mean.max(0.0), low: f64::INFINITY, high: 0.0 }
}

/// Updates the rows with the likelihoods of the numbers of hits after `packets` packets.
fn note(rows: &mut [Row], greatest: &mut [f64], likelihoods: &[f64], packets: f64, step: f64) {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let (mut fewer, mut total) = (0.0, likelihoods.iter().sum::<f64>());
    for ((row, greatest), &likelihood) in rows.iter_mut().zip(greatest).zip(likelihoods) {
        if likelihood > *greatest {
            (*greatest, row.likely) = (likelihood, packets);
        }
        // `total` is the probability of this many hits or more. Numbers of packets between two steps are not computed,
        // so the interval includes them.
        if row.low.is_infinite() && total >= tail {
            row.low = (packets - step + 1.0).max(0.0);
        }
        fewer += likelihood;
        total -= likelihood;
        if fewer >= tail {
            row.high = packets + step - 1.0;
        }
    }
}

/// Sets the values that the likelihoods do not determine. For instance, if every group is hit, the interval has no
/// upper end.
fn saturate(rows: &mut [Row], groups: u32, share: f64) {
    if let Some(row) = rows.last_mut() {
        row.likely = coupon_collector(groups) / share;
        row.mean = row.likely;
        row.high = f64::INFINITY;
    }
    for (hits, row) in (0..).zip(rows) {
        // The tables end before this number of hits becomes probable enough. So the lower end is the mean number of
        // packets until this number of hits.
        if row.low.is_infinite() {
            row.low = expected_insertions(groups, hits) / share;
        }
        row.high = row.high.max(row.likely);
        row.low = row.low.min(row.likely);
    }
}

/// The transition of the chain for several packets at once.
struct Step {
    packets: f64,
    share: f64,
    matrix: Lower,
}

impl Step {
    fn new(groups: u32, resolution: u32, share: f64) -> Self {
        // In resolution i, counted from 0, a quarter of an insertion is 4^(i−1) packets. The matrix of one packet is
        // squared for each doubling.
        let doublings = 2 * resolution.saturating_sub(1);
        let mut matrix = packet_matrix(groups, share);
        for _ in 0..doublings {
            matrix = matrix.squared();
        }
        Self { packets: f64::from(doublings).exp2(), share, matrix }
    }

    fn count(&self, groups: u32) -> u64 {
        let l = f64::from(groups);
        let insertions = l * (l.ln() + TAIL);
        (insertions / (self.share * self.packets)).ceil() as u64
    }
}

/// A matrix with zeros above its diagonal: the number of hits never decreases.
#[derive(Clone, Debug)]
struct Lower {
    size: usize,
    cells: Vec<f64>,
}

impl Lower {
    fn from_fn(size: usize, cell: impl Fn(usize, usize) -> f64) -> Self {
        let at = |index: usize| (index / size, index % size);
        let at_or_above = |(to, from)| if from <= to { cell(to, from) } else { 0.0 };
        let cells = (0..size * size).map(at).map(at_or_above);
        Self { size, cells: cells.collect() }
    }

    fn row(&self, to: usize) -> &[f64] {
        &self.cells[to * self.size..to * self.size + to + 1]
    }

    fn apply(&self, vector: &[f64]) -> Vec<f64> {
        let dot = |to| self.row(to).iter().zip(vector).map(|(cell, value)| cell * value).sum();
        (0..self.size).map(dot).collect()
    }

    fn squared(&self) -> Self {
        let cell = |to: usize, from: usize| (from..=to).map(|via| self.row(to)[via] * self.row(via)[from]).sum();
        Self::from_fn(self.size, cell)
    }
}

/// Returns the transition matrix, for one packet, of the number of groups that are truly hit.
fn packet_matrix(groups: u32, share: f64) -> Lower {
    let more = |hit: usize| share * (f64::from(groups) - hit as f64) / f64::from(groups);
    Lower::from_fn(groups as usize + 1, |to, from| match to - from {
        0 => 1.0 - more(from),
        1 => more(from),
        _ => 0.0,
    })
}

/// Returns the distribution of all hits, for each number of groups that are truly hit. The number of false hits among
/// the other groups is binomial.
fn chance_matrix(groups: u32, rate: f64) -> Lower {
    Lower::from_fn(groups as usize + 1, |to, from| binomial(groups as usize - from, to - from, rate))
}

/// Returns the binomial probability of `hits` in `trials` at `rate`.
fn binomial(trials: usize, hits: usize, rate: f64) -> f64 {
    let choices: f64 = (0..hits).map(|i| (trials - i) as f64 / (i + 1) as f64).product();
    choices * rate.powi(hits as i32) * (1.0 - rate).powi((trials - hits) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hits_are_exact_without_false_positives_and_sampling() {
        let table = Table::new(32, 0, 0.0);
        let rows: Vec<_> = (0..3).map(|hits| table.row(hits)).collect();
        assert_eq!((rows[0].likely, rows[0].low, rows[0].high), (0.0, 0.0, 0.0));
        // Two insertions hit the same group with probability 1/32, which is just inside the interval. For three
        // insertions, the probability is 1/1024.
        assert_eq!((rows[1].likely, rows[1].low, rows[1].high), (1.0, 1.0, 2.0));
        assert_eq!((rows[2].likely, rows[2].low), (2.0, 2.0));
    }

    #[test]
    fn likelihoods_add_up_to_one_at_every_resolution() {
        for resolution in [0, 1, 5] {
            let step = Step::new(16, resolution, 0.25f64.powi(resolution as i32));
            let mut truly = vec![0.0; 17];
            truly[0] = 1.0;
            for _ in 0..50 {
                truly = step.matrix.apply(&truly);
            }
            let sum: f64 = chance_matrix(16, 0.1).apply(&truly).iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        }
    }

    #[test]
    fn a_step_of_many_packets_is_as_many_steps_of_one() {
        let share = 1.0 / 64.0;
        let (one, step) = (packet_matrix(8, share), Step::new(8, 3, share));
        let start = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let single = (0..step.packets as u32).fold(start.to_vec(), |truly, _| one.apply(&truly));
        for (a, b) in step.matrix.apply(&start).iter().zip(&single) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
    }

    #[test]
    fn there_is_no_upper_end_if_all_groups_are_hit() {
        let row = Table::new(32, 2, 0.01).row(32);
        assert!(row.high.is_infinite() && row.low > 16.0 * 50.0 && row.low < row.likely, "{row:?}");
    }

    #[test]
    fn a_full_filter_does_not_panic() {
        let table = Table::new(32, 0, 1.0);
        let row = table.row(32);
        assert!(row.low == 0.0 && row.high.is_infinite(), "{row:?}");
    }
}
