//! When enough of a report is found in a message.
//!
//! A replica that was altered word by word still has some of every quarter of the report; one that was added to still has
//! nearly all of it. Two issues of a newsletter share whole quarters, and nothing of the others: they are told apart by
//! what a quarter can prove at most. Figures and the trials behind them: `docs/near-replicas.md`.

/// The quarters of a text.
pub const QUARTERS: usize = 4;

/// A report keeps at most this many features.
pub const STORED_MAX: usize = 48;

/// Fewer features than this prove nothing; a message is then known by its whole.
pub const STORED_MIN: usize = 6;

/// Of n features stored, this many must be found in any case: a few, and a share of n. All in per cent.
const FLOOR: u64 = 300;
const FLOOR_SHARE: u64 = 31;

/// Nearly all of the report: the message contains it, whatever else it contains.
const MOST_SHARE: u64 = 70;

/// The message is this much a part of the report: something was left out.
const WITHIN_SHARE: u64 = 62;

/// All quarters together prove this much, when none counts for more than its cap.
const SPREAD: u64 = 200;
const SPREAD_SHARE: u64 = 34;
const QUARTER_CAP: u64 = 50;

/// What is kept of a report besides its features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// How many features of each quarter are kept.
    pub by_quarter: [u8; QUARTERS],
    /// How many features the message had.
    pub features: u32,
}

impl Stored {
    /// How many features are kept.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_quarter.iter().copied().map(u64::from).sum()
    }

    /// Whether a message with `features` features, of which `found` are kept of this report, is a replica of it.
    #[must_use]
    pub fn is_matched_by(&self, found: [u32; QUARTERS], features: u32) -> bool {
        let stored = self.total();
        // A feature can be found twice when different ones look the same to the index.
        let found_of = |(&found, &stored): (&u32, &u8)| u64::from(found.min(u32::from(stored)));
        let quarters = || found.iter().zip(&self.by_quarter);
        let found: u64 = quarters().map(found_of).sum();
        if stored < STORED_MIN as u64 || found * 100 < FLOOR + FLOOR_SHARE * stored {
            return false;
        }
        let capped: u64 = quarters().map(|pair| (found_of(pair) * 100).min(QUARTER_CAP * u64::from(*pair.1))).sum();
        let is_contained = found * 100 >= MOST_SHARE * stored;
        let is_within =
            features > 0 && found * u64::from(self.features) * 100 >= WITHIN_SHARE * stored * u64::from(features);
        is_contained || is_within || capped >= SPREAD + SPREAD_SHARE * stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of 200 features, 48 of them kept.
    const REPORT: Stored = Stored { by_quarter: [12; 4], features: 200 };

    #[test]
    fn a_replica_altered_everywhere_matches() {
        assert!(REPORT.is_matched_by([5, 5, 5, 5], 200));
        assert!(!REPORT.is_matched_by([4, 4, 5, 4], 200));
    }

    #[test]
    fn a_replica_within_much_else_matches() {
        assert!(REPORT.is_matched_by([12, 12, 10, 0], 100_000));
        assert!(!REPORT.is_matched_by([12, 12, 9, 0], 100_000));
    }

    #[test]
    fn half_a_report_matches_if_it_is_all_there_is() {
        assert!(REPORT.is_matched_by([12, 12, 0, 0], 110));
        assert!(!REPORT.is_matched_by([12, 12, 0, 0], 200));
    }

    #[test]
    fn small_reports_must_be_found_nearly_whole() {
        let report = Stored { by_quarter: [2, 2, 1, 1], features: 6 };
        assert!(report.is_matched_by([2, 2, 1, 1], 1000));
        assert!(!report.is_matched_by([1, 1, 1, 1], 6));
        let report = Stored { by_quarter: [2, 1, 1, 1], features: 5 };
        assert!(!report.is_matched_by([2, 1, 1, 1], 5));
    }

    #[test]
    fn a_message_without_features_is_within_nothing() {
        assert!(!REPORT.is_matched_by([12, 12, 0, 0], 0));
    }

    #[test]
    fn no_more_is_found_than_is_stored() {
        assert!(!REPORT.is_matched_by([1000, 0, 0, 0], 1000));
    }
}
