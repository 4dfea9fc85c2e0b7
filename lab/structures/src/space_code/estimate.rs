//! Estimates counts from hits.

use super::formulas::relative_incremental_inaccuracy;
use super::multi::MultiResolutionFilter;
use super::tables::Table;
use bruit_filters::Fingerprint;
use bruit_filters::bloom::MembershipFilter;

pub use super::tables::CONFIDENCE;

/// The share of hit groups at which the inaccuracy is lowest: 1 − 1/e. Above this share, the inaccuracy grows with the
/// hits. Below it, a coarser filter cannot be more accurate.
const BEST_SHARE: f64 = 1.0 - 0.367_879_441_171_442_33;

/// An estimate of the number of arrivals of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The maximum-likelihood estimate.
    pub likely: f64,
    /// The number of arrivals for which the expected number of hits equals the observed number.
    pub mean: f64,
    /// Lower end of the confidence interval. With fewer arrivals, the probability of this many hits or more is at most
    /// (1 − [`CONFIDENCE`]) / 2.
    pub low: f64,
    /// Upper end of the confidence interval. With more arrivals, the probability of this many hits or fewer is at most
    /// (1 − [`CONFIDENCE`]) / 2. The end is infinite if all groups are hit.
    pub high: f64,
    /// Index of the filter that the estimate is based on: the most relevant one.
    pub resolution: usize,
    /// Number of groups hit in that filter.
    pub hits: u32,
}

/// A filter, with the estimation tables for its current fill.
#[derive(Clone, Debug)]
pub struct Estimator<'f, F> {
    filter: &'f MultiResolutionFilter<F>,
    tables: Vec<Table>,
}

impl<'f, F: MembershipFilter<Key = Fingerprint>> Estimator<'f, F> {
    pub(super) fn new(filter: &'f MultiResolutionFilter<F>) -> Self {
        let table = |(number, resolution): (usize, &super::SpaceCodeFilter<F>)| {
            let rate = resolution.filter().estimated_false_positive_rate();
            Table::new(resolution.groups(), number as u32, rate)
        };
        Self { filter, tables: filter.resolutions().iter().enumerate().map(table).collect() }
    }

    /// Estimates the number of arrivals of `key`.
    #[must_use]
    pub fn estimate(&self, key: &Fingerprint) -> Estimate {
        let (resolution, hits) = self.most_relevant(key);
        let row = self.tables[resolution].row(hits);
        Estimate { likely: row.likely, mean: row.mean, low: row.low, high: row.high, resolution, hits }
    }

    /// Returns the resolution with the lowest relative incremental inaccuracy, and its hits.
    ///
    /// The paper compares all resolutions. If a rare key has two false hits in a coarse filter, the paper's method
    /// prefers that filter and estimates thousands, although a finer filter is accurate. So here, a coarser filter is
    /// considered only if the finer filter has more hits than its optimum.
    fn most_relevant(&self, key: &Fingerprint) -> (usize, u32) {
        let mut best = (0, 0, f64::INFINITY);
        for (number, (resolution, table)) in self.filter.resolutions().iter().zip(&self.tables).enumerate() {
            let hits = resolution.hits(key);
            let true_hits = table.true_hits(hits);
            let inaccuracy = relative_incremental_inaccuracy(resolution.groups(), true_hits);
            // If all groups are hit in several filters, the coarsest is the most informative.
            let is_all_hit = best.2.is_infinite() && true_hits >= resolution.groups();
            if number == 0 || inaccuracy < best.2 || is_all_hit {
                best = (number, hits, inaccuracy);
            }
            if f64::from(true_hits) <= BEST_SHARE * f64::from(resolution.groups()) {
                break;
            }
        }
        (best.0, best.1)
    }

    /// Returns, for each resolution, the fraction of groups in which a key that never arrived is found.
    pub fn false_positive_rates(&self) -> impl Iterator<Item = f64> {
        self.tables.iter().map(Table::false_positive_rate)
    }
}
