//! The paper's 78 reduction rates. Each is the ratio of intuitive to refined errors.
//!
//! The paper prints them without standard errors. Each rate is the quotient of two means over the same rounds. So its
//! error depends on the deviations of the two means, and on the correlation of the two extensions. The paper prints the
//! deviations, but not the correlation. The paper's program and ours run the same experiments, so our correlation is
//! used instead.

use std::sync::LazyLock;

use bruit_filters::counting::Extension;

use super::{Figure, ROUNDS, find};
use crate::results::quotient_error;
use crate::{ConfigurationResult, Experiment};

/// One of the paper's reduction rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// The experiment.
    pub experiment: Experiment,
    /// The number of cells.
    pub m: u64,
    /// The number of hash functions.
    pub k: u32,
    /// The rate as printed; `None` if the paper prints a dash because neither extension made an error.
    pub rate: Option<f64>,
}

impl Reduction {
    /// Returns the quotient of the two means that the paper prints for the rate; `None` if the refined extension made
    /// no errors.
    #[must_use]
    pub fn from_means(&self) -> Option<f64> {
        let [intuitive, refined] = self.figures();
        (refined.mean > 0.0).then(|| intuitive.mean / refined.mean)
    }

    /// Returns true if the printed rate is the quotient of the printed means, allowing for rounding.
    #[must_use]
    pub fn is_quotient(&self) -> bool {
        let (Some(rate), Some(quotient)) = (self.rate, self.from_means()) else {
            return self.rate.is_none() && self.from_means().is_none();
        };
        let [above, below] = self.figures().map(|figure| half_of_last_digit(figure.mean) / figure.mean);
        (rate - quotient).abs() <= quotient * (above + below) + HALF_OF_LAST_DECIMAL
    }

    /// Returns the relative standard error of the paper's rate, assuming that the two extensions are correlated as in
    /// `ours`.
    #[must_use]
    pub fn error(&self, ours: &ConfigurationResult) -> Option<f64> {
        let spread = |figure: &Figure| figure.standard_deviation / figure.mean / (ROUNDS as f64).sqrt();
        let [intuitive, refined] = self.figures();
        self.rate.map(|_| quotient_error(spread(intuitive), spread(refined), ours.correlation()))
    }

    /// Returns how far our rate is above the printed rate, in standard errors of the difference; `None` if either rate
    /// does not exist. The logarithms of the rates are compared, because they are less skewed than the rates.
    #[must_use]
    pub fn distance(&self, ours: &ConfigurationResult) -> Option<f64> {
        let difference = (ours.reduction_rate()? / self.rate?).ln();
        let error = self.error(ours)?.hypot(ours.reduction_error()?);
        Some(if difference == 0.0 { 0.0 } else { difference / error })
    }

    /// Returns the two means that the rate is computed from. Tables 4, 5 and 7 print no intuitive rates, because the
    /// order of insertions does not affect these rates.
    fn figures(&self) -> [&'static Figure; 2] {
        let same_counts = |experiment: &Experiment| experiment.counts() == self.experiment.counts();
        let first = Experiment::ALL.into_iter().find(same_counts).expect("an experiment has its own counts");
        [(first, Extension::Intuitive), (self.experiment, Extension::Refined)].map(|(experiment, extension)| {
            find(experiment, extension, self.m, self.k).expect("the paper has both means for each reduction rate")
        })
    }
}

/// Returns half a unit of the last digit of a mean, which has four digits, as in 2.390E-2.
fn half_of_last_digit(mean: f64) -> f64 {
    0.5 * 10f64.powi(mean.log10().floor() as i32 - 3)
}

/// Half a unit of the last decimal of a reduction rate, which has three decimals.
const HALF_OF_LAST_DECIMAL: f64 = 0.0005;

/// Returns all 78 reduction rates.
#[must_use]
pub fn reductions() -> &'static [Reduction] {
    static REDUCTIONS: LazyLock<Vec<Reduction>> = LazyLock::new(|| {
        let lines = include_str!("../../data/reduction-rates.csv").lines().skip(1);
        lines.map(|line| reduction(line).expect("the paper's reduction rates are well formed")).collect()
    });
    &REDUCTIONS
}

/// Returns the paper's reduction rate for this configuration, if it has one.
#[must_use]
pub fn find_reduction(experiment: Experiment, m: u64, k: u32) -> Option<&'static Reduction> {
    reductions().iter().find(|reduction| (reduction.experiment, reduction.m, reduction.k) == (experiment, m, k))
}

fn reduction(line: &str) -> Option<Reduction> {
    let mut fields = line.split(',');
    let reduction = Reduction {
        experiment: Experiment::new(fields.next()?.parse().ok()?)?,
        m: fields.next()?.parse().ok()?,
        k: fields.next()?.parse().ok()?,
        rate: match fields.next()? {
            "-" => None,
            rate => Some(rate.parse().ok()?),
        },
    };
    fields.next().is_none().then_some(reduction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HASHES;

    #[test]
    fn every_configuration_has_its_reduction_rate() {
        assert_eq!(reductions().len(), 78);
        let configurations = Experiment::ALL.into_iter().flat_map(|experiment| {
            let sizes = experiment.sizes().iter();
            sizes.flat_map(move |&m| HASHES.map(|k| (experiment, m, k)))
        });
        let printed = reductions().iter().map(|reduction| (reduction.experiment, reduction.m, reduction.k));
        assert!(printed.eq(configurations));
        let dashes: Vec<_> = reductions().iter().filter(|reduction| reduction.rate.is_none()).collect();
        assert_eq!(dashes.len(), 1);
        assert_eq!((dashes[0].experiment.number(), dashes[0].m, dashes[0].k), (8, 640_000, 8));
    }

    /// Table 9 (c) prints 2.725, but the means in Table 9 (a) and (b) give 2.753. The other 76 rates agree with the
    /// means.
    #[test]
    fn one_printed_rate_is_not_the_quotient_of_the_printed_means() {
        let slips: Vec<_> = reductions().iter().filter(|reduction| !reduction.is_quotient()).collect();
        assert_eq!(slips.len(), 1, "{slips:?}");
        let slip = slips[0];
        assert_eq!((slip.experiment.number(), slip.m, slip.k, slip.rate), (7, 320_000, 8, Some(2.725)));
        assert_eq!(format!("{:.3}", slip.from_means().unwrap()), "2.753");
    }
}
