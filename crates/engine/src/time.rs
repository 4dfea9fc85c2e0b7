//! Time as an argument, because the engine has no clock.

use std::fmt;

/// Number of days from 1 March of the year 0 to the start of 1970. In years that begin in March, the leap day is the
/// last day.
const DAYS_BEFORE_1970: u64 = 719_468;
const DAYS_IN_400_YEARS: u64 = 146_097;

/// Seconds since the start of 1970, by the server's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Seconds in a minute.
    pub const MINUTE: u64 = 60;
    /// Seconds in an hour.
    pub const HOUR: u64 = 60 * Self::MINUTE;
    /// Seconds in a day.
    pub const DAY: u64 = 24 * Self::HOUR;

    /// The end of the year 9999. No valid time is later, so arithmetic with times does not overflow.
    pub const MAX: Self = Self(253_402_300_799);

    /// Returns the seconds since `earlier`, or 0 if `earlier` is later than `self`, as it can be after the clock was
    /// set back.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the number of the epoch that contains this time, for epochs of `seconds` seconds. It is the same on all
    /// servers.
    #[must_use]
    pub const fn epoch(self, seconds: u64) -> u64 {
        self.0 / seconds
    }

    /// Returns the number of days since the start of 1970.
    #[must_use]
    pub const fn day(self) -> u64 {
        self.epoch(Self::DAY)
    }

    /// Returns the date in UTC: `2024-10-09`. The algorithm is Howard Hinnant's "days to civil".
    #[must_use]
    pub fn date(self) -> String {
        let days = self.day() + DAYS_BEFORE_1970;
        let (era, day) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // Count months from March, because their lengths then repeat every five months: 31, 30, 31, 30, 31.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        format!("{:04}-{month:02}-{day:02}", year + 400 * era + next_year)
    }
}

/// Formats the time in UTC, to the second: `2024-10-09 17:05:00`.
impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.0 % Self::DAY;
        write!(formatter, "{} {:02}:{:02}:{:02}", self.date(), second / 3600, second / 60 % 60, second % 60)
    }
}
