//! Estimates from the contents of a filter.

use super::StoredFilter;
use crate::bloom::MembershipFilter;
use crate::counting::{Cells, CountingFilter, OneLineCounts, rows};
use crate::hash::{FingerprintHash, HashFamily};
use crate::lines::Line;

/// Estimates from the contents of a filter. In a counting filter, `keys` is the number of distinct keys, and a false
/// positive is a key that was never inserted but has a count above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Estimates {
    /// Fraction of cells that are not 0.
    pub fill: f64,
    /// Number of distinct keys.
    pub keys: f64,
    /// Current probability that a check finds a key that was never inserted.
    pub false_positive_rate: f64,
}

impl StoredFilter {
    /// Computes estimates from the contents. Reads the whole filter.
    #[must_use]
    pub fn estimates(&self) -> Estimates {
        match self {
            Self::ClassicalMembership(filter) => of_membership(filter),
            Self::OneLineMembership(filter) => of_membership(filter),
            Self::ClassicalCounts(filter) => of_classical_counts(filter),
            Self::OneLineCounts(filter) => of_one_line_counts(filter),
        }
    }
}

fn of_membership(filter: &impl MembershipFilter) -> Estimates {
    Estimates {
        fill: filter.fill(),
        keys: filter.estimated_keys(),
        false_positive_rate: filter.estimated_false_positive_rate(),
    }
}

fn of_classical_counts(filter: &CountingFilter<FingerprintHash>) -> Estimates {
    let (cells, hashes) = (filter.cells().len() as f64, f64::from(filter.hash().hashes()));
    let zeros = filter.cells().values().filter(|&value| value == 0).count() as f64;
    let fill = 1.0 - zeros / cells;
    Estimates { fill, keys: cells / hashes * (cells / zeros.max(1.0)).ln(), false_positive_rate: fill.powf(hashes) }
}

/// Number of cells in a row of one-line counts.
const ROW_CELLS: f64 = 16.0;

/// Computes the estimates line by line.
fn of_one_line_counts(filter: &OneLineCounts) -> Estimates {
    // The last row may be replaced by entries. Every key uses the first row, and skips two of the other rows.
    const ROWS: f64 = rows::LAST_ROW as f64;
    let rows_per_key = ROWS - 2.0;
    let (mut used, mut keys, mut rate) = (0.0, 0.0, 0.0);
    for line in filter.lines().iter() {
        let shares = used_shares(line);
        let share = shares[..rows::LAST_ROW].iter().sum::<f64>() / ROWS;
        used += share;
        // A full line would give infinity, so half a cell is assumed to be zero.
        let zeros = (1.0 - share).max(0.5 / (ROWS * ROW_CELLS));
        keys += zeros.ln() / (1.0 - 1.0 / ROW_CELLS).ln() * ROWS / rows_per_key;
        rate += line_rate(&shares);
    }
    let lines = filter.line_count() as f64;
    Estimates { fill: used / lines, keys, false_positive_rate: rate / lines }
}

/// Returns the fraction of non-zero cells in each row. It is 1 for the last row if entries have replaced that row.
fn used_shares(line: &Line) -> [f64; rows::ROWS] {
    const LOW: u64 = 0x1111_1111_1111_1111;
    std::array::from_fn(|row| {
        let word = line.0[row];
        let used = ((word | word >> 1 | word >> 2 | word >> 3) & LOW).count_ones();
        if row == rows::LAST_ROW && rows::is_extended(line) { 1.0 } else { f64::from(used) / ROW_CELLS }
    })
}

/// Returns the probability that all cells of a key are non-zero, averaged over the pairs of rows that keys skip.
fn line_rate(shares: &[f64; rows::ROWS]) -> f64 {
    let rates = rows::LEFT_OUT_PAIRS.iter().map(|left_out| {
        let counted = (0..rows::ROWS).filter(|row| !left_out.contains(row));
        counted.map(|row| shares[row]).product::<f64>()
    });
    rates.sum::<f64>() / rows::LEFT_OUT_PAIRS.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::{ClassicalFilter, OneLineFilter};
    use crate::counting::Extension;
    use crate::{KeyId, test_keys};

    #[test]
    fn estimates_follow_what_was_inserted() {
        let hash = || FingerprintHash::new(400_000, 4, 64, KeyId(0)).unwrap();
        let mut filters = [
            StoredFilter::ClassicalMembership(ClassicalFilter::new(hash()).unwrap()),
            StoredFilter::OneLineMembership(OneLineFilter::new(1000, 6, 64, KeyId(0)).unwrap()),
            StoredFilter::ClassicalCounts(CountingFilter::new(hash(), Extension::Refined, 4).unwrap()),
            StoredFilter::OneLineCounts(OneLineCounts::new(3000, KeyId(0)).unwrap()),
        ];
        let (keys, others) = (test_keys(0, 50_000), test_keys(1 << 40, 50_000));
        for filter in &mut filters {
            filter.insert_batch(&keys);
            let mut counts = vec![0; others.len()];
            filter.count_batch(&others, &mut counts);
            let rate = counts.iter().filter(|&&count| count > 0).count() as f64 / others.len() as f64;
            let estimates = filter.estimates();
            assert!((estimates.keys / 50_000.0 - 1.0).abs() < 0.03, "{estimates:?}");
            // The tolerance is five standard errors, plus a tenth of the rate for the rows that keys skip.
            let error = 5.0 * (rate / others.len() as f64).sqrt() + rate / 10.0;
            assert!((estimates.false_positive_rate - rate).abs() < error, "{estimates:?}, measured {rate}");
        }
    }
}
