//! Features that recur in unreported mail on several days.
//!
//! A spam campaign ends or is reported within days. The template of a newsletter or shop, or a disclaimer, recurs for
//! months. So a feature is considered good if it was seen in unreported mail on several different days.
//!
//! [`RecentFeatures`] keeps one filter for each of the last eight days. The filters use [`SEEN_BYTES`] in total,
//! however many features are noted, and no text can be read from them. A [`RecentFeatures`] is not part of the state of
//! an [`Engine`](crate::Engine), and may be lost at any time. The features that it finds must be submitted as an
//! [`Event::GoodFeatures`](crate::event::Event::GoodFeatures).

use std::ops::RangeInclusive;

use bruit_filters::ring::{GENERATIONS, Generations, MembershipRing};
use bruit_filters::{Fingerprint, FingerprintKey, OutOfMemory};
use bruit_signatures::bruit::Features;

use crate::memory::failed_allocation;
use crate::replicas::{select_good, sum};
use crate::time::Time;

/// Memory of a [`RecentFeatures`], in bytes.
pub const SEEN_BYTES: u64 = 8 << 20;

/// Maximum number of different features noted on one day. Further features are ignored that day. At this fill level,
/// one feature in several thousand seems to have been seen on a given day, although it was not.
pub const SEEN_FEATURES_PER_DAY: u64 = 400_000;

/// Allowed values for the number of different days on which a feature must be seen.
pub const SEEN_DAYS: RangeInclusive<u32> = 2..=7;

const LINE_BYTES: u64 = 64;
const LINES: usize = (SEEN_BYTES / LINE_BYTES) as usize;

/// Number of bits of a fingerprint that distinguish features.
const FINGERPRINT_BITS: u32 = 64;

/// The features seen on the last eight days.
#[derive(Clone, Debug)]
pub struct RecentFeatures {
    key: FingerprintKey,
    /// The filters of the last days. An epoch of the ring is one day.
    ring: MembershipRing,
    /// Number of different features noted on the current day.
    noted: u64,
}

impl RecentFeatures {
    /// Creates an empty set. Its current day is the day of `now`.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_new(key: FingerprintKey, now: Time) -> Result<Self, OutOfMemory> {
        let ring = MembershipRing::new(LINES, FINGERPRINT_BITS, key.id(), now.day()).map_err(failed_allocation)?;
        Ok(Self { key, ring, noted: 0 })
    }

    /// Notes a message and returns those of its features that were seen on at least `days` different days, including
    /// today. In a long message, only the features that would be learnt from a good message are noted.
    ///
    /// If `now` is before the latest day, because the clock was set back, the message counts for the latest day.
    pub fn note(&mut self, features: &Features, days: u32, now: Time) -> Vec<u64> {
        self.turn(now.day());
        let (fingerprints, features): (Vec<Fingerprint>, Vec<u64>) =
            select_good(&self.key, features).into_iter().unzip();
        let mut found = vec![Generations::default(); fingerprints.len()];
        let message = sum(&fingerprints);
        let is_new = self.ring.check(&message).is_empty();
        if is_new && !self.is_full() {
            self.ring.check_batch(&fingerprints, &mut found);
            self.noted += 1 + found.iter().filter(|found| !found.contains(0)).count() as u64;
            self.ring.insert_batch(&fingerprints);
            self.ring.insert(&message);
        }
        self.ring.check_batch(&fingerprints, &mut found);
        let is_common = |found: &Generations| found.ages().count() as u64 >= u64::from(days);
        features.into_iter().zip(&found).filter(|(_, found)| is_common(found)).map(|(feature, _)| feature).collect()
    }

    /// Returns true if no more new features are noted today.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.noted >= SEEN_FEATURES_PER_DAY
    }

    /// Returns the memory in use, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ring.bytes()
    }

    /// Advances to `day`.
    fn turn(&mut self, day: u64) {
        if day <= self.ring.epoch() {
            return;
        }
        self.noted = 0;
        for _ in 0..(day - self.ring.epoch()).min(GENERATIONS.into()) {
            self.ring.advance();
        }
        // After a gap of more days than there are filters, all filters are empty. Skip the rest of the gap.
        if self.ring.epoch() < day && self.ring.expire(usize::MAX) && self.ring.is_clear() {
            self.ring.begin_epoch(day);
        }
    }
}

#[cfg(test)]
mod tests {
    use bruit_filters::sizing::ring_rate;

    use super::*;

    const KEY: FingerprintKey = FingerprintKey::new([3; 16]);
    const TODAY: u64 = 20_000;

    fn seen() -> RecentFeatures {
        RecentFeatures::try_new(KEY, on(TODAY)).unwrap()
    }

    fn on(day: u64) -> Time {
        Time(day * Time::DAY + 12 * Time::HOUR)
    }

    fn message(start: u64, count: u64) -> Features {
        Features { pairs: (start..start + count).collect(), ..Features::default() }
    }

    /// Returns the features of a newsletter: 50 features of its template, and 50 features of this issue.
    fn issue(number: u64) -> Features {
        Features { pairs: (0..50).chain(1_000 * number..1_000 * number + 50).collect(), ..Features::default() }
    }

    fn sorted(mut features: Vec<u64>) -> Vec<u64> {
        features.sort_unstable();
        features
    }

    #[test]
    fn features_are_common_after_several_days_not_after_many_messages() {
        let mut seen = seen();
        for number in 1..1_000 {
            assert_eq!(seen.note(&issue(number), 3, on(TODAY)), [], "seen on one day");
        }
        assert_eq!(seen.note(&issue(1_001), 3, on(TODAY + 1)), [], "seen on two days");
        assert_eq!(sorted(seen.note(&issue(1_002), 3, on(TODAY + 2))), (0..50).collect::<Vec<_>>());
        assert_eq!(seen.note(&issue(1_003), 4, on(TODAY + 2)), [], "four days are required");
    }

    #[test]
    fn days_need_not_be_consecutive_and_expire_after_a_week() {
        let mut seen = seen();
        seen.note(&issue(1), 2, on(TODAY));
        assert_eq!(seen.note(&issue(2), 2, on(TODAY + 7)).len(), 50);
        let mut seen = self::seen();
        seen.note(&issue(1), 2, on(TODAY));
        assert_eq!(seen.note(&issue(2), 2, on(TODAY + 8)), []);
    }

    #[test]
    fn a_year_of_days_uses_no_more_memory() {
        let mut seen = seen();
        assert_eq!(seen.bytes(), SEEN_BYTES);
        for day in 0..365 {
            let common = seen.note(&issue(day + 1), 3, on(TODAY + day));
            assert_eq!(common.len(), if day < 2 { 0 } else { 50 }, "day {day}");
            assert_eq!(seen.note(&message(1 << 40 | day << 20, 500), 2, on(TODAY + day)), [], "day {day}");
        }
        assert_eq!(seen.bytes(), SEEN_BYTES);
    }

    #[test]
    fn setting_the_clock_back_a_day_adds_no_day() {
        let mut seen = seen();
        seen.note(&issue(1), 2, on(TODAY));
        assert_eq!(seen.note(&issue(2), 2, on(TODAY - 1)), []);
        assert_eq!(seen.note(&issue(3), 2, on(TODAY)), []);
        assert_eq!(seen.note(&issue(4), 2, on(TODAY + 1)).len(), 50);
    }

    #[test]
    fn a_jump_of_a_year_clears_all_days() {
        let mut seen = seen();
        seen.note(&issue(1), 2, on(TODAY));
        seen.note(&issue(2), 2, on(TODAY + 1));
        assert_eq!(seen.note(&issue(3), 2, on(TODAY + 366)), []);
        assert_eq!(seen.note(&issue(4), 2, on(TODAY + 367)).len(), 50);
        assert_eq!(seen.note(&issue(5), 2, Time::MAX), []);
    }

    #[test]
    fn a_flood_fills_a_day_but_makes_no_feature_common() {
        let mut seen = seen();
        seen.note(&issue(1), 2, on(TODAY));
        let mut start = 1 << 30;
        while !seen.is_full() {
            seen.note(&message(start, 512), 2, on(TODAY));
            start += 512;
        }
        let wrong: usize = (0..400).map(|at| seen.note(&message((2 << 30) + at * 512, 512), 2, on(TODAY)).len()).sum();
        assert_eq!(wrong, 0, "features are not noted on a full day");
        assert_eq!(seen.note(&issue(2), 2, on(TODAY + 1)).len(), 50, "features are noted again on the next day");
        let wrong: usize =
            (0..400).map(|at| seen.note(&message((3 << 30) + at * 512, 512), 2, on(TODAY + 1)).len()).sum();
        assert!(wrong < 400 * 512 / 1_000, "{wrong} of 204,800 features");
        assert!(ring_rate(SEEN_FEATURES_PER_DAY, LINES as u64).generation < 1e-3);
    }

    #[test]
    fn a_long_message_is_noted_up_to_the_number_of_learnt_features() {
        let mut seen = seen();
        seen.note(&message(0, 20_000), 2, on(TODAY));
        let (fingerprints, features): (Vec<_>, Vec<u64>) = select_good(&KEY, &message(0, 20_000)).into_iter().unzip();
        assert_eq!(features.len(), 512);
        let mut found = vec![Generations::default(); fingerprints.len()];
        seen.ring.check_batch(&fingerprints, &mut found);
        assert!(found.iter().all(|found| found.contains(0)) && seen.noted == 513);
    }

    #[test]
    fn repeated_checks_of_one_message_make_no_feature_common() {
        let mut seen = seen();
        for day in 0..30 {
            assert_eq!(seen.note(&issue(1), 2, on(TODAY + day)), [], "the same message checked again on day {day}");
        }
    }
}
