//! What time it is, and days as people write them.

use std::time::{SystemTime, UNIX_EPOCH};

use bruit_engine::time::Time;

/// Days from the start of March of the year 0 to the start of 1970. Years that begin in March have their leap day last.
const DAYS_BEFORE_1970: u64 = 719_468;
const DAYS_IN_400_YEARS: u64 = 146_097;

/// What time it is.
pub(crate) fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// The day of a time in UTC: `2024-10-09`. The rule is that of "days to civil" by Howard Hinnant.
pub(crate) fn date(time: Time) -> String {
    let days = time.day() + DAYS_BEFORE_1970;
    let (era, day) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Counted from March, as are the lengths of the months: 31, 30, 31, 30, 31 and again.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year + 400 * era + next_year)
}

/// A time in UTC to the second: `2024-10-09 17:05:00`.
pub(crate) fn moment(time: Time) -> String {
    let second = time.0 % 86_400;
    format!("{} {:02}:{:02}:{:02}", date(time), second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_seconds() {
        assert_eq!(moment(Time(1_700_000_000)), "2023-11-14 22:13:20");
        assert_eq!(moment(Time(86_399)), "1970-01-01 23:59:59");
    }

    #[test]
    fn dates_are_right_at_the_ends_of_months_years_and_centuries() {
        let known = [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_728_432_000, "2024-10-09"),
            (4_107_456_000, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
            (253_402_300_799, "9999-12-31"),
            (u64::MAX, "584554051223-11-09"),
        ];
        for (seconds, expected) in known {
            assert_eq!(date(Time(seconds)), expected);
        }
    }
}
