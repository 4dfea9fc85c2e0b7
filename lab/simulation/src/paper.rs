//! The figures in Tables 3 to 10 of the paper, and their distance from our results.
//!
//! The files `data/tables-3-to-10.csv` and `data/reduction-rates.csv` contain the paper's printed figures: means and
//! deviations in the first, reduction rates in the second. The paper has no tables of the intuitive extension for
//! experiments 2, 3 and 5, so the files have no lines for them. The tables of experiments 2 and 3 would repeat that of
//! experiment 1; the table of experiment 5 would repeat that of experiment 4.

mod reductions;

use std::sync::LazyLock;

use bruit_filters::counting::Extension;

pub use self::reductions::{Reduction, find_reduction, reductions};
use crate::{Experiment, Moments};

/// Number of rounds behind each of the paper's figures.
pub const ROUNDS: u64 = 1000;

/// One of the paper's means, with its standard deviation over [`ROUNDS`] rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The experiment.
    pub experiment: Experiment,
    /// The extension.
    pub extension: Extension,
    /// The number of cells.
    pub m: u64,
    /// The number of hash functions.
    pub k: u32,
    /// The mean rate.
    pub mean: f64,
    /// Standard deviation of the rate over the rounds.
    pub standard_deviation: f64,
}

impl Figure {
    /// Returns how far the mean of `ours` is above the paper's mean, in standard errors of the difference. Returns 0 if
    /// the means are equal.
    #[must_use]
    pub fn distance(&self, ours: &Moments) -> f64 {
        let theirs = self.standard_deviation / (ROUNDS as f64).sqrt();
        let difference = ours.mean() - self.mean;
        // If all rounds give the same rate, the standard error is 0, and unequal means are infinitely far apart.
        if difference == 0.0 { 0.0 } else { difference / theirs.hypot(ours.standard_error()) }
    }
}

/// Returns all 129 figures.
#[must_use]
pub fn figures() -> &'static [Figure] {
    static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
        let lines = include_str!("../data/tables-3-to-10.csv").lines().skip(1);
        lines.map(|line| figure(line).expect("the paper's figures are well formed")).collect()
    });
    &FIGURES
}

/// Returns the paper's figure for this configuration, if the paper prints one.
#[must_use]
pub fn find(experiment: Experiment, extension: Extension, m: u64, k: u32) -> Option<&'static Figure> {
    let wanted = (experiment, extension, m, k);
    figures().iter().find(|figure| (figure.experiment, figure.extension, figure.m, figure.k) == wanted)
}

fn figure(line: &str) -> Option<Figure> {
    let mut fields = line.split(',');
    let figure = Figure {
        experiment: Experiment::new(fields.next()?.parse().ok()?)?,
        extension: match fields.next()? {
            "intuitive" => Extension::Intuitive,
            "refined" => Extension::Refined,
            _ => return None,
        },
        m: fields.next()?.parse().ok()?,
        k: fields.next()?.parse().ok()?,
        mean: fields.next()?.parse().ok()?,
        standard_deviation: fields.next()?.parse().ok()?,
    };
    fields.next().is_none().then_some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_complete() {
        assert_eq!(figures().len(), 129);
        for experiment in Experiment::ALL {
            let of = |extension| {
                let figures = figures().iter();
                figures.filter(|figure| (figure.experiment, figure.extension) == (experiment, extension)).count()
            };
            let all = experiment.sizes().len() * 3;
            let intuitive = if matches!(experiment.number(), 2 | 3 | 5) { 0 } else { all };
            assert_eq!((of(Extension::Intuitive), of(Extension::Refined)), (intuitive, all));
        }
        let tie = find(Experiment::new(8).unwrap(), Extension::Refined, 640_000, 8).unwrap();
        assert_eq!((tie.mean, tie.standard_deviation), (0.0, 0.0));
    }

    #[test]
    fn distances_are_in_standard_errors_of_the_difference() {
        let figure = Figure { mean: 1e-3, standard_deviation: 3e-4, ..figures()[0] };
        let mut ours = Moments::default();
        // The standard errors are 3e-4/√1000 and 4e-4/√1000, together 5e-4/√1000.
        (0..500).for_each(|_| [1.6e-3, 2.4e-3].into_iter().for_each(|rate| ours.push(rate)));
        assert!((figure.distance(&ours) - 2.0 * 1000f64.sqrt()).abs() < 1e-9);
        let none = Figure { mean: 0.0, standard_deviation: 0.0, ..figure };
        let mut zeros = Moments::default();
        zeros.push(0.0);
        assert_eq!(none.distance(&zeros), 0.0);
        zeros.push(1e-8);
        assert!(none.distance(&zeros) > 0.9);
    }
}
