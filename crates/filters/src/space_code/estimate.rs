//! From hits to numbers.

use super::formulas::relative_incremental_inaccuracy;
use super::multi::MultiResolutionFilter;
use super::tables::Table;
use crate::Fingerprint;
use crate::bloom::MembershipFilter;

pub use super::tables::CONFIDENCE;

/// From here on the inaccuracy of a filter grows with its hits: 1 − 1/e of the groups. Below, no coarser filter is better.
const BEST_SHARE: f64 = 1.0 - 0.367_879_441_171_442_33;

/// How often a key arrived, by what the filter shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// By maximum likelihood.
    pub likely: f64,
    /// By the mean: so many arrivals give as many hits as were seen, on average.
    pub mean: f64,
    /// Fewer would give as many hits with a probability of (1 − [`CONFIDENCE`]) / 2 at most.
    pub low: f64,
    /// More would give as few hits with a probability of (1 − [`CONFIDENCE`]) / 2 at most; infinite if all groups are hit.
    pub high: f64,
    /// Which filter was asked: the most relevant one, from 0.
    pub resolution: usize,
    /// The groups that were hit there.
    pub hits: u32,
}

/// A filter, and the tables for its present fill.
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

    /// How often `key` arrived.
    #[must_use]
    pub fn estimate(&self, key: &Fingerprint) -> Estimate {
        let (resolution, hits) = self.most_relevant(key);
        let row = self.tables[resolution].row(hits);
        Estimate { likely: row.likely, mean: row.mean, low: row.low, high: row.high, resolution, hits }
    }

    /// The resolution with the least relative incremental inaccuracy, and its hits.
    ///
    /// The paper compares all. A coarse filter in which a rare key has two false hits would then win over a fine one that
    /// knows it, and tell a count in the thousands; so a coarser filter is looked at only if the finer is past its best.
    fn most_relevant(&self, key: &Fingerprint) -> (usize, u32) {
        let mut best = (0, 0, f64::INFINITY);
        for (number, (resolution, table)) in self.filter.resolutions().iter().zip(&self.tables).enumerate() {
            let hits = resolution.hits(key);
            let true_hits = table.true_hits(hits);
            let inaccuracy = relative_incremental_inaccuracy(resolution.groups(), true_hits);
            // Of filters in which all groups are hit, the coarsest tells most.
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

    /// The share of groups in which a key that never arrived is found, of each resolution.
    pub fn false_positive_rates(&self) -> impl Iterator<Item = f64> {
        self.tables.iter().map(Table::false_positive_rate)
    }
}
