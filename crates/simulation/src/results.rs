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
