//! The current time, and dates and times as text.

use std::time::{SystemTime, UNIX_EPOCH};

use bruit_engine::time::Time;

/// Number of days from 1 March of year 0 to 1 January 1970. Years are counted from March, so that a leap day is the
/// last day of its year.
const DAYS_BEFORE_1970: u64 = 719_468;
const SECONDS_PER_DAY: u64 = 86_400;

/// Returns the current time.
pub fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Formats the day in UTC: `2024-10-09`.
pub fn date(time: Time) -> String {
    time.date()
}

/// Formats a time in UTC: `2024-10-09 17:05:00`.
pub fn moment(time: Time) -> String {
    time.to_string()
}

/// Parses seconds since 1970, a day, or a time in UTC as printed by [`moment`], with or without seconds. Returns
/// seconds since 1970. For a day, this is its first second.
pub fn parse_moment(text: &str) -> Result<u64, String> {
    let bad_input =
        || "expected 2024-10-09, '2024-10-09 17:05', '2024-10-09 17:05:00' or seconds since 1970".to_owned();
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let (day, clock) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let day = numbers(day, '-').and_then(|numbers| days_since_1970(&numbers)).ok_or_else(bad_input)?;
    let second = numbers(clock, ':').and_then(|numbers| second_of_day(&numbers)).ok_or_else(bad_input)?;
    Ok(day * SECONDS_PER_DAY + second)
}

fn numbers(text: &str, between: char) -> Option<Vec<u64>> {
    text.split(between).map(|number| number.parse().ok()).collect()
}

/// Converts year, month and day to days since 1970. Returns `None` for an invalid date.
fn days_since_1970(numbers: &[u64]) -> Option<u64> {
    let &[year @ 1970..=9999, month @ 1..=12, day @ 1..=31] = numbers else { return None };
    let (year_of_march, month_of_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year_of_march / 4 - year_of_march / 100 + year_of_march / 400;
    let days = 365 * year_of_march + leap_days + (153 * month_of_march + 2) / 5 + day - 1 - DAYS_BEFORE_1970;
    // Reject a day after the end of its month, which would otherwise count as a day of the next month.
    let is_day = date(Time(days * SECONDS_PER_DAY)) == format!("{year:04}-{month:02}-{day:02}");
    is_day.then_some(days)
}

fn second_of_day(numbers: &[u64]) -> Option<u64> {
    match *numbers {
        [hour @ 0..24, minute @ 0..60] => Some(hour * 3600 + minute * 60),
        [hour @ 0..24, minute @ 0..60, second @ 0..60] => Some(hour * 3600 + minute * 60 + second),
        _ => None,
    }
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
    fn moments_are_read_as_they_are_printed() {
        for seconds in (0..253_402_300_800).step_by(1_234_567_891).chain([951_782_400, 253_402_300_799]) {
            assert_eq!(parse_moment(&moment(Time(seconds))), Ok(seconds));
        }
        assert_eq!(parse_moment("2023-11-14"), Ok(1_699_920_000));
        assert_eq!(parse_moment("2023-11-14T22:13"), Ok(1_699_999_980));
        assert_eq!(parse_moment("1700000000"), Ok(1_700_000_000));
        for text in [
            "",
            "yesterday",
            "2023-02-29",
            "2023-13-01",
            "1969-12-31",
            "2023-11-14 24:00",
            "2023-11-14 1",
            "10000-01-01",
        ] {
            assert!(parse_moment(text).is_err(), "{text}");
        }
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
