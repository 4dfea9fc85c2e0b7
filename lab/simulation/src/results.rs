//! The results of a study.

use bruit_filters::counting::Extension;

use crate::{CELL_TOP, Experiment, Moments};

/// Results of some or all of the eight experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Number of rounds, each with its own hash functions.
    pub rounds: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Results of the experiments, in ascending order of their numbers.
    pub experiments: Vec<ExperimentResult>,
}

/// Results of one experiment for all sizes and numbers of hash functions.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentResult {
    /// The experiment.
    pub experiment: Experiment,
    /// Results sorted by m, then by k.
    pub configurations: Vec<ConfigurationResult>,
}

impl ExperimentResult {
    /// Adds the results of more rounds.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (total, part) in self.configurations.iter_mut().zip(&other.configurations) {
            total.intuitive.merge(&part.intuitive);
            total.refined.merge(&part.refined);
            total.rate_sum.merge(&part.rate_sum);
        }
    }
}

/// Results of both extensions, with m cells and k hash functions.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigurationResult {
    /// The number of cells.
    pub m: u64,
    /// The number of hash functions.
    pub k: u32,
    /// Results of the intuitive extension: every insertion raises all cells of its key.
    pub intuitive: ExtensionResult,
    /// Results of the refined extension: every insertion raises only the lowest cells of its key.
    pub refined: ExtensionResult,
    /// The sum of the two extensions' rates, per round. Its standard deviation shows how the two rates are correlated.
    pub rate_sum: Moments,
}

impl ConfigurationResult {
    /// Returns the results of one extension.
    #[must_use]
    pub const fn extension(&self, extension: Extension) -> &ExtensionResult {
        match extension {
            Extension::Intuitive => &self.intuitive,
            Extension::Refined => &self.refined,
        }
    }

    /// Returns the ratio of the errors of the intuitive extension to those of the refined extension; `None` if the
    /// refined extension made no errors.
    #[must_use]
    pub fn reduction_rate(&self) -> Option<f64> {
        let (intuitive, refined) = (self.intuitive.rate.mean(), self.refined.rate.mean());
        (refined > 0.0).then(|| intuitive / refined)
    }

    /// Returns the correlation of the two extensions' rates, from −1 to 1; 0 if one of the rates does not vary.
    ///
    /// Both extensions run the same rounds, so a round with many errors in one extension often has many in the other.
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

    /// Returns the relative standard error of the reduction rate, to first order; `None` if the rate does not exist.
    ///
    /// The result is unreliable if fewer than about ten rounds had an error.
    #[must_use]
    pub fn reduction_error(&self) -> Option<f64> {
        let spread = |rate: &Moments| rate.standard_error() / rate.mean();
        let error = || quotient_error(spread(&self.intuitive.rate), spread(&self.refined.rate), self.correlation());
        self.reduction_rate().map(|_| error())
    }
}

/// Returns the relative error of a quotient, from the relative errors of its parts and their correlation.
pub(crate) fn quotient_error(above: f64, below: f64, correlation: f64) -> f64 {
    (above * above + below * below - 2.0 * correlation * above * below).max(0.0).sqrt()
}

/// Results of one extension over all rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtensionResult {
    /// The paper's rate: insertions of keys with a wrong count, divided by all insertions.
    pub rate: Moments,
    /// The paper's second rate: keys with a wrong count, divided by the keys that were inserted.
    pub distinct_rate: Moments,
    /// Histogram of wrong keys per round: `wrong_keys[w]` rounds had w wrong keys.
    pub wrong_keys: Vec<u64>,
    /// Histogram of the final cell values, 0 to [`CELL_TOP`], over all rounds.
    pub cells: Vec<u64>,
    /// Keys with a wrong count, divided by all keys, after each twentieth of the insertions. A key that has not been
    /// inserted yet is not counted as wrong. The list is empty except in experiments 1 and 3.
    pub growth: Vec<Moments>,
}

impl ExtensionResult {
    /// Returns the results of zero rounds.
    pub(crate) fn empty(checkpoints: usize) -> Self {
        let (cells, growth) = (vec![0; usize::from(CELL_TOP) + 1], vec![Moments::default(); checkpoints]);
        Self { cells, growth, ..Self::default() }
    }

    /// Adds a round with this number of wrong keys.
    pub(crate) fn push_wrong_keys(&mut self, wrong_keys: usize) {
        if self.wrong_keys.len() <= wrong_keys {
            self.wrong_keys.resize(wrong_keys + 1, 0);
        }
        self.wrong_keys[wrong_keys] += 1;
    }

    /// Adds the results of more rounds.
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
    fn without_errors_there_is_no_reduction_rate() {
        let result = configuration(&[(0.1, 0.0), (0.2, 0.0)]);
        assert_eq!((result.reduction_rate(), result.reduction_error(), result.correlation()), (None, None, 0.0));
    }
}
