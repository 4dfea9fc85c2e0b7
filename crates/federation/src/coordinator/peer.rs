//! The state of another server, derived from the heads that it signs.
//!
//! Pure: it turns a link's observations into a state. Heads are signed anew every [`HEARTBEAT`], so a server whose
//! heads no longer change is silent, over any transport. The time in newly signed heads shows the server's clock.

use std::fmt;
use std::time::Duration;

use bruit_engine::exchange::{Chain, Frontier};
use bruit_engine::time::Time;

use super::judge::{Frontiers, Known};
use crate::epochs::Epochs;
use crate::heads::Heads;
use crate::shelf::HEARTBEAT;

/// Time after which a server whose heads do not change is silent.
pub const SILENT_AFTER: Duration = HEARTBEAT.saturating_mul(3);

/// Difference in seconds beyond which clocks count as different, unless [`clock_bound`] derives another bound from the
/// epochs.
const CLOCK_SECONDS: u64 = 60;

/// Maximum delay of heads in transit. A smaller difference of clocks cannot be distinguished from such a delay.
const DELAY_SECONDS: u64 = 5;

/// The state of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// We have all segments of the server.
    UpToDate,
    /// The server has segments that we lack.
    Behind {
        /// The number of missing segments.
        segments: u64,
    },
    /// The server's heads have not changed for several heartbeats.
    Silent {
        /// The time of the last change, by our clock.
        since: Time,
    },
    /// The server's clock and ours differ too much for generations to begin and end together.
    ClockDiffers {
        /// Seconds by which the server's clock is ahead of ours; negative if it is behind.
        seconds: i64,
    },
    /// The server refuses us, or we refuse its data.
    Refused {
        /// The reason.
        reason: String,
    },
    /// The server, or the broker in between, cannot be reached.
    Unreachable {
        /// The reason.
        reason: String,
    },
    /// The server's first heads have not arrived yet.
    Waiting,
    /// Nothing is fetched from the server: it has no address, and there is no broker.
    NotAsked,
}

impl PeerState {
    /// The names of all states.
    pub const NAMES: [&str; 8] =
        ["up_to_date", "behind", "silent", "clock_differs", "refused", "unreachable", "waiting", "not_asked"];

    /// Returns the name of the state in replies, metrics and logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UpToDate => "up_to_date",
            Self::Behind { .. } => "behind",
            Self::Silent { .. } => "silent",
            Self::ClockDiffers { .. } => "clock_differs",
            Self::Refused { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::Waiting => "waiting",
            Self::NotAsked => "not_asked",
        }
    }

    /// Returns the reason, for states that have one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Refused { reason } | Self::Unreachable { reason } => Some(reason),
            _ => None,
        }
    }
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpToDate => f.write_str("up to date"),
            Self::Behind { segments } => write!(f, "behind by {segments} segments"),
            Self::Silent { since } => write!(f, "silent since {} (seconds since 1970)", since.0),
            Self::ClockDiffers { seconds } => write!(f, "clock differs by {seconds} s"),
            Self::Refused { reason } => write!(f, "refused: {reason}"),
            Self::Unreachable { reason } => write!(f, "unreachable: {reason}"),
            Self::Waiting => f.write_str("waiting for its first heads"),
            Self::NotAsked => f.write_str("not asked"),
        }
    }
}

/// A problem that affects a whole link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The source cannot be reached.
    Unreachable(String),
    /// The source refuses us, or we refuse its offer.
    Refused(String),
}

/// The first sighting of an origin's latest heads, and what it shows about the origin's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The time in the heads.
    pub time: Time,
    /// The time of the first sighting, by a monotonic clock.
    pub seen: Duration,
    /// The seconds by which the origin's clock is ahead of ours, if known.
    pub skew: Option<i64>,
}

impl Sighting {
    /// Records heads with this `time`; `before` is the previous sighting. `now` is our clock, and `uptime` a monotonic
    /// one.
    ///
    /// Heads may have been stored at a broker or on another server. Heads show the origin's clock only if they cannot
    /// be old, that is, if they followed other heads within [`SILENT_AFTER`] or their time is in the future.
    #[must_use]
    pub fn next(before: Option<Self>, time: Time, now: Time, uptime: Duration) -> Self {
        if let Some(before) = before.filter(|before| before.time == time) {
            return before;
        }
        let is_new = before.is_some_and(|before| uptime.saturating_sub(before.seen) <= SILENT_AFTER);
        let skew = difference(time, now);
        Self { time, seen: uptime, skew: (is_new || skew > 0).then_some(skew) }
    }

    /// Returns the time that the origin's clock shows now.
    fn present(&self, uptime: Duration) -> Time {
        Time(self.time.0.saturating_add(uptime.saturating_sub(self.seen).as_secs()))
    }
}

/// The facts about a server that a link has observed.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// A problem with the link, or with segments of this server.
    pub trouble: Option<Trouble>,
    /// The sighting of the server's latest heads.
    pub sighting: Option<Sighting>,
    /// The latest time at which news could have arrived, by a monotonic clock that started with the link.
    pub listened: Duration,
    /// Number of segments that the server has and we lack.
    pub lag_segments: u64,
    /// Present time on this server.
    pub now: Time,
    /// The largest difference of clocks that is tolerated, in seconds.
    pub clock_bound: u64,
}

impl Evidence {
    /// Returns the time without news, by the monotonic clock.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.listened.saturating_sub(self.sighting.map_or(Duration::ZERO, |sighting| sighting.seen))
    }

    /// Returns the resulting state. If there are several problems, the state shows the one that may cause the others.
    #[must_use]
    pub fn state(&self) -> PeerState {
        match &self.trouble {
            Some(Trouble::Unreachable(reason)) => return PeerState::Unreachable { reason: reason.clone() },
            Some(Trouble::Refused(reason)) => return PeerState::Refused { reason: reason.clone() },
            None => {}
        }
        let is_silent = self.silence() >= SILENT_AFTER;
        let Some(sighting) = self.sighting else {
            return if is_silent { PeerState::Silent { since: self.last_news() } } else { PeerState::Waiting };
        };
        match sighting.skew {
            _ if is_silent => PeerState::Silent { since: self.last_news() },
            Some(seconds) if seconds.unsigned_abs() > self.clock_bound => PeerState::ClockDiffers { seconds },
            _ if self.lag_segments > 0 => PeerState::Behind { segments: self.lag_segments },
            _ => PeerState::UpToDate,
        }
    }

    /// Returns the time of the last news, by our clock. For heads that were stored on the way, this is the time in the
    /// heads, if it is earlier.
    fn last_news(&self) -> Time {
        let seen = Time(self.now.0.saturating_sub(self.silence().as_secs()));
        match self.sighting {
            Some(Sighting { time, skew: None, .. }) => time.min(seen),
            _ => seen,
        }
    }
}

/// Returns the difference beyond which clocks count as different: a minute, or a twentieth of the shortest epoch if
/// that is more, but at most half of that epoch. It is never less than the time that heads may take to arrive.
#[must_use]
pub fn clock_bound(epochs: &Epochs) -> u64 {
    let shortest = epochs.shortest_seconds();
    CLOCK_SECONDS.max(shortest / 20).min(shortest / 2).max(DELAY_SECONDS)
}

/// Returns the number of segments that we lack, according to the heads of all incarnations of another server.
/// Generations that have not begun on this server count, too. Generations that are over by either server's clock do
/// not.
pub(crate) fn lag(
    heads: &[Heads],
    frontiers: &impl Frontiers,
    known: &Known,
    (epochs, now): (&Epochs, Time),
    sighting: Option<(Sighting, Duration)>,
) -> u64 {
    let present = sighting.map_or(now, |(sighting, uptime)| sighting.present(uptime).max(now));
    let is_missed = |(chain, _): &(Chain, Frontier)| {
        frontiers.own() != Some(chain.origin)
            && known.key_for(chain).is_ok()
            && !epochs.is_over(chain.book, chain.generation, present)
    };
    let missing = |(chain, to): (Chain, Frontier)| to.sequence.saturating_sub(frontiers.frontier(&chain).sequence);
    heads.iter().flat_map(|heads| heads.chains().filter(is_missed).map(missing)).sum()
}

/// Returns `left` minus `right`, in seconds.
fn difference(left: Time, right: Time) -> i64 {
    let seconds = left.0.abs_diff(right.0).min(i64::MAX as u64) as i64;
    if left >= right { seconds } else { -seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_700_000_000);
    const LATER: Duration = SILENT_AFTER.saturating_add(HEARTBEAT);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// Returns a server whose clock is `skew` seconds ahead. Its latest heads arrived `age` seconds ago, one heartbeat
    /// after the heads before them.
    fn heard(skew: i64, age: u64) -> Evidence {
        let uptime = seconds(500);
        let time = |now: Time| Time(now.0.saturating_add_signed(skew));
        let first = Sighting::next(None, time(Time(NOW.0 - 2)), Time(NOW.0 - 2), uptime - HEARTBEAT);
        let sighting = Sighting::next(Some(first), time(NOW), NOW, uptime);
        let (listened, now) = (uptime + seconds(age), Time(NOW.0 + age));
        Evidence { trouble: None, sighting: Some(sighting), listened, lag_segments: 0, now, clock_bound: 60 }
    }

    #[test]
    fn a_server_is_up_to_date_or_behind_while_its_heads_change() {
        assert_eq!(heard(0, 5).state(), PeerState::UpToDate);
        let behind = Evidence { lag_segments: 7, ..heard(-60, 7) };
        assert_eq!(behind.state(), PeerState::Behind { segments: 7 });
    }

    #[test]
    fn heads_that_no_longer_change_are_of_a_silent_server_since_they_were_seen() {
        let silent = Evidence { lag_segments: 7, ..heard(-4_000, 8) };
        assert_eq!(silent.state(), PeerState::Silent { since: NOW });
        let sighting = silent.sighting.unwrap();
        let again = Sighting::next(Some(sighting), sighting.time, silent.now, silent.listened);
        assert_eq!(again, sighting, "repeated heads are not news");
    }

    #[test]
    fn a_clock_that_differs_is_told_with_its_sign_and_hides_the_lag() {
        for skew in [-3_456_000, -61, 61, 34_560_000] {
            let differs = Evidence { lag_segments: 7, ..heard(skew, 5) };
            assert_eq!(differs.state(), PeerState::ClockDiffers { seconds: skew });
        }
    }

    #[test]
    fn stored_heads_do_not_show_the_clock_and_have_their_own_age() {
        let stored = Sighting::next(None, Time(NOW.0 - 7_200), NOW, Duration::ZERO);
        assert_eq!(stored.skew, None);
        let evidence = |sighting, listened| Evidence { sighting: Some(sighting), listened, ..heard(0, 0) };
        assert_eq!(evidence(stored, seconds(5)).state(), PeerState::UpToDate);
        assert_eq!(evidence(stored, SILENT_AFTER).state(), PeerState::Silent { since: Time(NOW.0 - 7_200) });
        let back = Sighting::next(Some(stored), Time(NOW.0 - 3_600), NOW, LATER);
        assert_eq!(back.skew, None, "stored while we were away");
        let fresh = Sighting::next(Some(back), Time(NOW.0 - 3_590), Time(NOW.0 + 10), LATER + HEARTBEAT);
        assert_eq!(fresh.skew, Some(-3_600));
        let future = Sighting::next(None, Time(NOW.0 + 99), NOW, Duration::ZERO);
        assert_eq!(future.skew, Some(99), "a delay cannot explain heads from the future");
    }

    #[test]
    fn a_server_without_heads_is_waited_for_and_then_silent() {
        let never = |listened| Evidence { sighting: None, listened, ..heard(0, 0) };
        assert_eq!(never(seconds(7)).state(), PeerState::Waiting);
        assert_eq!(never(seconds(8)).state(), PeerState::Silent { since: Time(NOW.0 - 8) });
    }

    #[test]
    fn every_state_is_among_the_names() {
        let reason = String::new;
        let states = [
            PeerState::UpToDate,
            PeerState::Behind { segments: 1 },
            PeerState::Silent { since: NOW },
            PeerState::ClockDiffers { seconds: 1 },
            PeerState::Refused { reason: reason() },
            PeerState::Unreachable { reason: reason() },
            PeerState::Waiting,
            PeerState::NotAsked,
        ];
        assert_eq!(states.map(|state| state.name()), PeerState::NAMES);
    }

    #[test]
    fn trouble_with_the_link_comes_first_with_its_reason() {
        let unreachable = Evidence { trouble: Some(Trouble::Unreachable("no route".into())), ..heard(0, 900) };
        assert_eq!(unreachable.state(), PeerState::Unreachable { reason: "no route".into() });
        let refused = Evidence { trouble: Some(Trouble::Refused("forged".into())), ..heard(9_999, 0) };
        assert_eq!((refused.state().name(), refused.state().reason()), ("refused", Some("forged")));
    }

    #[test]
    fn clocks_may_differ_by_a_small_part_of_an_epoch() {
        let bound = |seconds| clock_bound(&Epochs::new(86_400 * 5, seconds));
        assert_eq!([86_400, 3_600, 100, 4].map(bound), [4_320, 180, 50, 5]);
    }
}
