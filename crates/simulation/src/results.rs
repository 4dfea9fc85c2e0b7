//! What a study found.

use bruit_filters::counting::Extension;

use crate::{CELL_TOP, Experiment, Moments};

/// Results of some of the eight experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// How many rounds were run, each with hash functions of its own.
    pub rounds: u64,
    /// What all random choices were derived from.
    pub seed: u64,
    /// In the order of their numbers.
    pub experiments: Vec<ExperimentResult>,
}

/// One experiment, at all sizes and numbers of hash functions.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentResult {
    /// Which one.
    pub experiment: Experiment,
    /// By m, then by k.
    pub configurations: Vec<ConfigurationResult>,
}

impl ExperimentResult {
    /// Adds the results of other rounds.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (total, part) in self.configurations.iter_mut().zip(&other.configurations) {
            total.intuitive.merge(&part.intuitive);
            total.refined.merge(&part.refined);
            total.rate_sum.merge(&part.rate_sum);
        }
    }
}

/// Both extensions, with m cells and k hash functions.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigurationResult {
    /// The number of cells.
    pub m: u64,
    /// The number of hash functions.
    pub k: u32,
    /// Every insertion raises all cells of its key.
    pub intuitive: ExtensionResult,
    /// Every insertion raises the least cells of its key.
    pub refined: ExtensionResult,
    /// The rates of both extensions added, round by round: its deviation says how far they vary together.
    pub rate_sum: Moments,
}

impl ConfigurationResult {
    /// The results of one of them.
    #[must_use]
    pub const fn extension(&self, extension: Extension) -> &ExtensionResult {
        match extension {
            Extension::Intuitive => &self.intuitive,
            Extension::Refined => &self.refined,
        }
    }

    /// How many times fewer errors the refined extension makes; `None` if it makes none.
    #[must_use]
    pub fn reduction_rate(&self) -> Option<f64> {
        let (intuitive, refined) = (self.intuitive.rate.mean(), self.refined.rate.mean());
        (refined > 0.0).then(|| intuitive / refined)
    }

    /// How far the rates of both extensions vary together, from −1 to 1; 0 if one of them does not vary.
    ///
    /// Both see the same rounds, so a round that is bad for one is often bad for the other.
    #[must_use]
    pub fn correlation(&self) -> f64 {
        let [sum, intuitive, refined] =
            [&self.rate_sum, &self.intuitive.rate, &self.refined.rate].map(Moments::standard_deviation);
        if intuitive == 0.0 || refined == 0.0 {
            return 0.0;
        }
        // Var(a + b) = Var(a) + Var(b) + 2 Cov(a, b).
        ((sum * sum - intuitive * intuitive - refined * refined) / (2.0 * intuitive * refined)).clamp(-1.0, 1.0)
    }

    /// The standard error of the reduction rate as a share of it, to first order; `None` where there is no rate.
    ///
    /// It says little where fewer than about ten rounds had an error.
    #[must_use]
    pub fn reduction_error(&self) -> Option<f64> {
        let spread = |rate: &Moments| rate.standard_error() / rate.mean();
        let error = || quotient_error(spread(&self.intuitive.rate), spread(&self.refined.rate), self.correlation());
        self.reduction_rate().map(|_| error())
    }
}

/// The relative error of a quotient, from the relative errors of its parts and their correlation.
pub(crate) fn quotient_error(above: f64, below: f64, correlation: f64) -> f64 {
    (above * above + below * below - 2.0 * correlation * above * below).max(0.0).sqrt()
}

/// What one extension did in all rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtensionResult {
    /// Insertions of keys with a wrong count, divided by all insertions: the paper's rate.
    pub rate: Moments,
    /// Keys with a wrong count, divided by the keys that were inserted: the paper's second rate.
    pub distinct_rate: Moments,
    /// In how many rounds so many keys had a wrong count: `wrong_keys[w]` rounds had w of them.
    pub wrong_keys: Vec<u64>,
    /// How many cells ended at each number, 0 to [`CELL_TOP`], in all rounds together.
    pub cells: Vec<u64>,
    /// Keys with a wrong count, divided by all keys, after each twentieth of the insertions; keys that have not come yet are
    /// not wrong. Empty but for experiments 1 and 3.
    pub growth: Vec<Moments>,
}

impl ExtensionResult {
    /// The results of no rounds.
    pub(crate) fn empty(checkpoints: usize) -> Self {
        let (cells, growth) = (vec![0; usize::from(CELL_TOP) + 1], vec![Moments::default(); checkpoints]);
        Self { cells, growth, ..Self::default() }
    }

    /// One more round, with so many wrong keys.
    pub(crate) fn push_wrong_keys(&mut self, wrong_keys: usize) {
        if self.wrong_keys.len() <= wrong_keys {
            self.wrong_keys.resize(wrong_keys + 1, 0);
        }
        self.wrong_keys[wrong_keys] += 1;
    }

    /// Adds the results of other rounds.
    fn merge(&mut self, other: &Self) {
        self.rate.merge(&other.rate);
        self.distinct_rate.merge(&other.distinct_rate);
        self.wrong_keys.resize(self.wrong_keys.len().max(other.wrong_keys.len()), 0);
        add(&mut self.wrong_keys, &other.wrong_keys);
        add(&mut self.cells, &other.cells);
        self.growth.iter_mut().zip(&other.growth).for_each(|(total, part)| total.merge(part));
    }
}

fn add(totals: &mut [u64], parts: &[u64]) {
    totals.iter_mut().zip(parts).for_each(|(total, part)| *total += part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(rounds: &[(f64, f64)]) -> ConfigurationResult {
        let extension = || ExtensionResult::empty(0);
        let mut result = ConfigurationResult {
            m: 1,
            k: 1,
            intuitive: extension(),
            refined: extension(),
            rate_sum: Moments::default(),
        };
        for &(intuitive, refined) in rounds {
            result.intuitive.rate.push(intuitive);
            result.refined.rate.push(refined);
            result.rate_sum.push(intuitive + refined);
        }
        result
    }

    #[test]
    fn a_quotient_of_rates_that_vary_together_has_no_error() {
        let result = configuration(&[(0.2, 0.1), (0.6, 0.3), (0.4, 0.2)]);
        assert!((result.correlation() - 1.0).abs() < 1e-12);
        assert!((result.reduction_rate().unwrap() - 2.0).abs() < 1e-12);
        assert!(result.reduction_error().unwrap() < 1e-6);
    }

    #[test]
    fn errors_of_independent_rates_add_like_the_sides_of_a_right_angle() {
        let result = configuration(&[(0.3, 0.1), (0.3, 0.3), (0.5, 0.1), (0.5, 0.3)]);
        assert!(result.correlation().abs() < 1e-12);
        let expected = (0.1f64 / 0.4).hypot(0.1 / 0.2) / 2.0;
        assert!((result.reduction_error().unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn what_is_never_wrong_has_no_reduction_and_no_error_of_it() {
        let result = configuration(&[(0.1, 0.0), (0.2, 0.0)]);
        assert_eq!((result.reduction_rate(), result.reduction_error(), result.correlation()), (None, None, 0.0));
    }
}
