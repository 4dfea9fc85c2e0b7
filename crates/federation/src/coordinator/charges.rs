//! Limits on servers that send invalid segments: a maximum of refused bytes per hour and server, and growing pauses for
//! each chain.
//!
//! Pure: time is an argument. A chain with invalid segments is requested less and less often. Once
//! [`REFUSED_BYTES_MAX`] of a server's bytes were refused within an hour, nothing at all is requested from that server.
//! A pause affects neither other servers nor other chains of the same server.

use std::collections::BTreeMap;
use std::time::Duration;

use bruit_engine::exchange::Chain;

/// Number of refused bytes within an hour at which nothing more is requested from a server.
pub const REFUSED_BYTES_MAX: u64 = 64 << 20;

/// Period for which refused bytes count.
pub const WINDOW: Duration = Duration::from_secs(3_600);

/// Pause of a chain after the first refusal. Every further refusal doubles it.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Maximum pause of a chain.
pub const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Maximum number of chains with pauses. Beyond this number, the pauses that end first are forgotten.
const CHAINS_MAX: usize = 1_024;

/// Refused bytes by server, and pauses by chain.
#[derive(Clone, Debug, Default)]
pub struct Charges {
    servers: BTreeMap<[u8; 32], Account>,
    chains: BTreeMap<Chain, Pause>,
}

/// The refused bytes of one server.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    bytes: u64,
    window_bytes: u64,
    window_began: Duration,
}

/// The pause of a chain.
#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    end: Duration,
}

impl Charges {
    /// Charges refused bytes of a chain to its origin. Returns the resulting pause of the chain.
    pub fn charge(&mut self, chain: &Chain, bytes: u64, now: Duration) -> Duration {
        let account = self.servers.entry(chain.origin.key).or_default();
        if now.saturating_sub(account.window_began) >= WINDOW {
            (account.window_bytes, account.window_began) = (0, now);
        }
        account.bytes += bytes;
        account.window_bytes += bytes;
        let length = self.chains.get(chain).map_or(PAUSE_MIN, |pause| (pause.length * 2).min(PAUSE_MAX));
        self.make_room(chain);
        self.chains.insert(*chain, Pause { length, end: now + length });
        length
    }

    /// Ends the pause of a chain, after one of its segments was accepted.
    pub fn forgive(&mut self, chain: &Chain) {
        self.chains.remove(chain);
    }

    /// Returns true if a chain may be requested.
    #[must_use]
    pub fn may_ask(&self, chain: &Chain, now: Duration) -> bool {
        let is_spent = |account: &Account| {
            account.window_bytes >= REFUSED_BYTES_MAX && now.saturating_sub(account.window_began) < WINDOW
        };
        let is_pausing = self.chains.get(chain).is_some_and(|pause| now < pause.end);
        !is_pausing && !self.servers.get(&chain.origin.key).is_some_and(is_spent)
    }

    /// Returns the time until the next pause ends; `None` if there is no pause.
    #[must_use]
    pub fn shortest_pause(&self, now: Duration) -> Option<Duration> {
        self.chains.values().filter_map(|pause| pause.end.checked_sub(now)).filter(|left| !left.is_zero()).min()
    }

    /// Returns the number of refused bytes of a server since the start.
    #[must_use]
    pub fn refused_bytes(&self, key: &[u8; 32]) -> u64 {
        self.servers.get(key).map_or(0, |account| account.bytes)
    }

    fn make_room(&mut self, chain: &Chain) {
        if self.chains.len() < CHAINS_MAX || self.chains.contains_key(chain) {
            return;
        }
        let first = self.chains.iter().min_by_key(|(_, pause)| pause.end).map(|(chain, _)| *chain);
        first.map(|first| self.chains.remove(&first));
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::exchange::{Book, Origin};

    use super::*;

    fn chain(server: u8, generation: u64) -> Chain {
        Chain { origin: Origin { key: [server; 32], incarnation: 1 }, book: Book::Listed, generation }
    }

    /// Requests a chain as often as allowed for this many seconds, and refuses every answer. Returns the number of
    /// requests.
    fn refused_within(charges: &mut Charges, seconds: u64, bytes: u64) -> usize {
        let asked = |second: &u64| {
            let now = Duration::from_secs(*second);
            let may_ask = charges.may_ask(&chain(1, 1), now);
            if may_ask {
                charges.charge(&chain(1, 1), bytes, now);
            }
            may_ask
        };
        (0..seconds).filter(asked).count()
    }

    #[test]
    fn a_chain_is_asked_for_less_and_less_often_and_others_as_before() {
        let mut charges = Charges::default();
        // The requests come after 0, 1, 3, 7, … 511 s, and then every 600 s.
        assert_eq!(refused_within(&mut charges, 3_600, 1), 10 + 5);
        let now = Duration::from_secs(3_600);
        assert!(charges.may_ask(&chain(1, 2), now) && charges.may_ask(&chain(2, 1), now));
        assert_eq!(charges.shortest_pause(now), Some(Duration::from_secs(1_023 + 5 * 600 - 3_600)));
        charges.forgive(&chain(1, 1));
        assert_eq!(charges.shortest_pause(now), None);
        assert!(charges.may_ask(&chain(1, 1), now));
        assert_eq!(charges.charge(&chain(1, 1), 1, now), PAUSE_MIN);
    }

    #[test]
    fn a_server_whose_bytes_are_spent_is_not_asked_until_the_hour_is_over() {
        let mut charges = Charges::default();
        assert_eq!(refused_within(&mut charges, 3_599, REFUSED_BYTES_MAX / 2), 2);
        assert_eq!(charges.refused_bytes(&[1; 32]), REFUSED_BYTES_MAX);
        let before = WINDOW - Duration::from_secs(1);
        assert!(!charges.may_ask(&chain(1, 7), before) && charges.may_ask(&chain(2, 1), before));
        assert!(charges.may_ask(&chain(1, 7), WINDOW));
    }

    #[test]
    fn one_byte_below_the_limit_is_allowed() {
        let mut charges = Charges::default();
        charges.charge(&chain(1, 1), REFUSED_BYTES_MAX - 1, Duration::ZERO);
        assert!(charges.may_ask(&chain(1, 2), Duration::ZERO));
        charges.charge(&chain(1, 1), 1, Duration::ZERO);
        assert!(!charges.may_ask(&chain(1, 2), Duration::ZERO));
    }

    #[test]
    fn the_number_of_pauses_is_bounded() {
        let mut charges = Charges::default();
        for generation in 0..=CHAINS_MAX as u64 {
            charges.charge(&chain(1, generation), 1, Duration::from_millis(generation));
        }
        assert_eq!(charges.chains.len(), CHAINS_MAX);
        assert!(!charges.chains.contains_key(&chain(1, 0)));
    }
}
