//! Time comes in as an argument: the engine has no clock.

/// Seconds since the start of 1970, as the server's clock says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Seconds in a minute, an hour and a day.
    pub const MINUTE: u64 = 60;
    /// See [`MINUTE`](Self::MINUTE).
    pub const HOUR: u64 = 60 * Self::MINUTE;
    /// See [`MINUTE`](Self::MINUTE).
    pub const DAY: u64 = 24 * Self::HOUR;

    /// How many seconds have passed since `earlier`; none if it lies ahead, as clocks may be set back.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The number of the epoch of `seconds` seconds that this time lies in, the same on all servers.
    #[must_use]
    pub const fn epoch(self, seconds: u64) -> u64 {
        self.0 / seconds
    }

    /// The number of the day.
    #[must_use]
    pub const fn day(self) -> u64 {
        self.epoch(Self::DAY)
    }
}
