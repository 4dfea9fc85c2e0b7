//! The matching rule, which decides whether enough of a report is found in a message.
//!
//! A replica that was altered word by word keeps part of every quarter of the report. A replica with added text keeps
//! nearly all of the report. Two issues of a newsletter share some quarters in full and nothing of the others, so the
//! evidence from each quarter is capped. `docs/near-replicas.md` has figures and experiments.

/// Number of quarters of a text.
pub const QUARTERS: usize = 4;

/// Maximum number of stored features of a report.
pub const STORED_MAX: usize = 48;

/// Minimum number of stored features. A report with fewer features is found only by the hash of its whole text.
pub const STORED_MIN: usize = 6;

/// Fixed part of the minimum number of found features, in hundredths of a feature. Every match needs this minimum.
const FLOOR: u64 = 300;
/// Variable part of that minimum, in per cent of the stored features.
const FLOOR_SHARE: u64 = 31;

/// Percentage of the report that must be found in a message that contains the report and other text.
const MOST_SHARE: u64 = 70;

/// Percentage of the message that must be found in the report if the message omits part of the report.
const WITHIN_SHARE: u64 = 62;

/// Fixed part of the minimum number of found features in a message with altered words, in hundredths of a feature.
const SPREAD: u64 = 200;
/// Variable part of that minimum, in per cent of the stored features.
const SPREAD_SHARE: u64 = 34;
/// Maximum percentage of a quarter's stored features that counts towards the minimum for altered words.
const QUARTER_CAP: u64 = 50;

/// Weight of a feature in each quarter. Messages made from one template share their first and last quarters, so these
/// two quarters count less.
const QUARTER_WEIGHTS: [u64; QUARTERS] = [4, 6, 6, 4];

/// Minimum sum of the two shares of an [`Overlap`] for a close replica of a short report. It is lower than for a long
/// report, because few features give less exact shares.
const CLOSE_SUM: u32 = 126;
/// Minimum sum of the two shares for a close replica of a long report.
const CLOSE_SUM_LONG: u32 = 132;
/// Minimum of each of the two shares of a close replica.
const CLOSE_SHARE: u32 = 48;
/// Minimum shares of the message and the report, in this order, for a close replica that omits text of the report.
const CLOSE_CUT: (u32, u32) = (66, 40);
/// Minimum shares of the report and the message, in this order, for a close replica with added text.
const CLOSE_ADDED: (u32, u32) = (78, 35);
/// Minimum share of the report for a close replica of a long report inside a longer message.
const CLOSE_CONTAINED: u32 = 85;
/// Minimum share of the message for a close replica of a short report in which words were altered everywhere.
const CLOSE_ALTERED: u32 = 25;
/// Minimum share of the message for a close replica of a long report in which words were altered everywhere.
const CLOSE_ALTERED_LONG: u32 = 10;
/// Minimum number of stored features of a long report. A shorter report may be a stock sentence.
const CLOSE_STORED: u64 = 32;

/// Words count as altered everywhere only if at least this percentage of the worst quarter's features is found. If a
/// block of text was replaced instead, some quarters are found completely and others hardly at all.
const ALTERED_QUARTER: u64 = 25;
/// Words count as altered everywhere only if, on average, at least this percentage of the features of the two worst
/// quarters is found.
const ALTERED_HALF: u64 = 33;
/// Words count as altered everywhere only if the share found in the two worst quarters is at least this percentage of
/// the share found in the two best.
const ALTERED_RATIO: u64 = 50;

/// The properties of a report that are stored with its features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Number of stored features in each quarter.
    pub by_quarter: [u8; QUARTERS],
    /// Number of features of the reported text, stored or not.
    pub features: u32,
}

/// The percentages of a report and of a message that the two have in common. The middle of the report counts more than
/// its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Share of the report.
    pub of_report: u8,
    /// Share of the message.
    pub of_message: u8,
    /// True if the missing features are spread over all quarters of the report, as they are if words were altered one
    /// by one.
    pub is_even: bool,
}

impl Stored {
    /// Returns the number of stored features.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_quarter.iter().copied().map(u64::from).sum()
    }

    /// Returns the overlap of this report with a message that has `features` features. `found` is the number of stored
    /// features found in the message, for each quarter. Returns `None` if the message is not a replica.
    #[must_use]
    pub fn overlap(&self, found: [u32; QUARTERS], features: u32) -> Option<Overlap> {
        if !self.is_matched_by(found, features) {
            return None;
        }
        let of_report = weighted(self.found_of(found)) * 100 / weighted(self.by_quarter.map(u64::from)).max(1);
        let of_message = of_report * u64::from(self.features) / u64::from(features.max(1));
        let per_cent = |share: u64| u8::try_from(share.min(100)).unwrap_or(100);
        let is_even = self.is_even(found);
        Some(Overlap { of_report: per_cent(of_report), of_message: per_cent(of_message), is_even })
    }

    /// Returns true if all quarters are found to a similar extent.
    fn is_even(&self, found: [u32; QUARTERS]) -> bool {
        // A quarter without stored features provides no evidence.
        if self.by_quarter.contains(&0) {
            return false;
        }
        let mut shares = [0; QUARTERS];
        for ((share, found), stored) in shares.iter_mut().zip(self.found_of(found)).zip(self.by_quarter) {
            *share = found * 100 / u64::from(stored);
        }
        shares.sort_unstable();
        let [lowest, low, high, highest] = shares;
        lowest >= ALTERED_QUARTER
            && lowest + low >= 2 * ALTERED_HALF
            && (lowest + low) * 100 >= (high + highest) * ALTERED_RATIO
    }

    /// Returns the number of features found in each quarter, limited to the number stored. The limit is necessary
    /// because a feature may be found twice if the index cannot distinguish it from another feature.
    fn found_of(&self, found: [u32; QUARTERS]) -> impl Iterator<Item = u64> {
        found.into_iter().zip(self.by_quarter).map(|(found, stored)| u64::from(found.min(u32::from(stored))))
    }

    /// Returns the number of features found, in hundredths, with each quarter limited to its cap.
    fn capped(&self, found: [u32; QUARTERS]) -> u64 {
        let quarters = self.found_of(found).zip(self.by_quarter);
        quarters.map(|(found, stored)| (found * 100).min(QUARTER_CAP * u64::from(stored))).sum()
    }

    /// Returns true if a replica with this overlap is close enough to the report to count as the same message.
    ///
    /// A replica is close if most of both texts agrees, if text was only added or only omitted, or if words were
    /// altered everywhere. Two messages made from one template are further apart, because each has text that the other
    /// lacks. A short report inside a long message is not close.
    #[must_use]
    pub fn is_close(&self, overlap: &Overlap) -> bool {
        let (of_report, of_message) = (u32::from(overlap.of_report), u32::from(overlap.of_message));
        let is_long = self.total() >= CLOSE_STORED;
        let sum = if is_long { CLOSE_SUM_LONG } else { CLOSE_SUM };
        (of_report + of_message >= sum && of_report.min(of_message) >= CLOSE_SHARE)
            || (of_message >= CLOSE_CUT.0 && of_report >= CLOSE_CUT.1)
            || (of_report >= CLOSE_ADDED.0 && of_message >= CLOSE_ADDED.1)
            || (of_report >= CLOSE_CONTAINED && is_long)
            || (overlap.is_even && of_message >= if is_long { CLOSE_ALTERED_LONG } else { CLOSE_ALTERED })
    }

    /// Returns true if a message with `features` features is a replica of this report. `found` is the number of stored
    /// features found in the message, for each quarter.
    #[must_use]
    pub fn is_matched_by(&self, found: [u32; QUARTERS], features: u32) -> bool {
        let stored = self.total();
        let all: u64 = self.found_of(found).sum();
        if stored < STORED_MIN as u64 || all * 100 < FLOOR + FLOOR_SHARE * stored {
            return false;
        }
        let is_contained = all * 100 >= MOST_SHARE * stored;
        let is_within =
            features > 0 && all * u64::from(self.features) * 100 >= WITHIN_SHARE * stored * u64::from(features);
        is_contained || is_within || self.capped(found) >= SPREAD + SPREAD_SHARE * stored
    }
}

/// Returns the sum of the features of all quarters, weighted by [`QUARTER_WEIGHTS`].
fn weighted(quarters: impl IntoIterator<Item = u64>) -> u64 {
    quarters.into_iter().zip(QUARTER_WEIGHTS).map(|(features, weight)| features * weight).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report with 200 features, of which 48 are stored.
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
    fn what_is_close_to_a_report() {
        let is_close = |found, features| REPORT.overlap(found, features).is_some_and(|found| REPORT.is_close(&found));
        assert!(is_close([12, 12, 12, 12], 200) && is_close([11, 11, 12, 12], 210), "only a name was replaced");
        assert!(is_close([7, 7, 7, 7], 200), "words altered everywhere");
        assert!(is_close([4, 5, 6, 7], 400), "words altered everywhere, and as much text added");
        assert!(!is_close([3, 4, 12, 12], 250), "the lower half of the report, below other text");
        assert!(is_close([12, 12, 0, 0], 110), "half of the report and nothing else");
        assert!(is_close([12, 12, 12, 10], 5_000), "all of the report in a long message");
        assert!(!is_close([12, 3, 3, 12], 200), "the first and last quarters, around other text");
        assert!(!is_close([12, 12, 5, 0], 200), "the upper half of the report, above other text");
        assert!(!is_close([9, 9, 9, 9], 2_000), "much of the report in a long message");
        let small = Stored { by_quarter: [3; 4], features: 12 };
        let found = small.overlap([3; 4], 300).unwrap();
        assert!(!small.is_close(&found), "a short report in a long message");
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
