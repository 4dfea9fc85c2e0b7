//! What refused segments cost those who sent them: bytes by server and hour, and longer and longer waits by chain.
//!
//! Pure: time comes in. A server that signs rubbish is asked for the same chain less and less often, and for nothing at all once it
//! has sent [`REFUSED_BYTES_MAX`] in an hour. Other servers, and its other chains, are asked as before.

use std::collections::BTreeMap;
use std::time::Duration;

use bruit_engine::exchange::Chain;

/// Bytes of one server that may be refused in an hour before it is not asked any more.
pub const REFUSED_BYTES_MAX: u64 = 64 << 20;

/// How long these count.
pub const WINDOW: Duration = Duration::from_secs(3_600);

/// How long a chain is left alone after the first refusal. Every further one doubles it.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);
/// And at most.
pub const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Most chains whose refusals are remembered. Of more than that, those are forgotten whose pauses end first.
const CHAINS_MAX: usize = 1_024;

/// What was refused, of whom.
#[derive(Clone, Debug, Default)]
pub struct Charges {
    servers: BTreeMap<[u8; 32], Account>,
    chains: BTreeMap<Chain, Pause>,
}

/// What one server has sent in vain.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    bytes: u64,
    window_bytes: u64,
    window_began: Duration,
}

/// When a chain may be asked for again.
#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    end: Duration,
}

impl Charges {
    /// Charges refused bytes of a chain to its origin. How long the chain is left alone now.
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

    /// Forgets the refusals of a chain of which something was taken.
    pub fn forgive(&mut self, chain: &Chain) {
        self.chains.remove(chain);
    }

    /// Whether a chain may be asked for.
    #[must_use]
    pub fn may_ask(&self, chain: &Chain, now: Duration) -> bool {
        let is_spent = |account: &Account| {
            account.window_bytes >= REFUSED_BYTES_MAX && now.saturating_sub(account.window_began) < WINDOW
        };
        let is_pausing = self.chains.get(chain).is_some_and(|pause| now < pause.end);
        !is_pausing && !self.servers.get(&chain.origin.key).is_some_and(is_spent)
    }

    /// How long it is until the next chain may be asked for again; none if all may be.
    #[must_use]
    pub fn shortest_pause(&self, now: Duration) -> Option<Duration> {
        self.chains.values().filter_map(|pause| pause.end.checked_sub(now)).filter(|left| !left.is_zero()).min()
    }

    /// Bytes of a server that were refused so far.
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

    /// Asks whenever it may for so long, and is refused. How often.
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
        // After 0, 1, 3, 7, … 511 s, and then every 600 s.
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
    fn one_byte_less_than_the_most_is_not_too_much() {
        let mut charges = Charges::default();
        charges.charge(&chain(1, 1), REFUSED_BYTES_MAX - 1, Duration::ZERO);
        assert!(charges.may_ask(&chain(1, 2), Duration::ZERO));
        charges.charge(&chain(1, 1), 1, Duration::ZERO);
        assert!(!charges.may_ask(&chain(1, 2), Duration::ZERO));
    }

    #[test]
    fn so_many_chains_are_remembered() {
        let mut charges = Charges::default();
        for generation in 0..=CHAINS_MAX as u64 {
            charges.charge(&chain(1, generation), 1, Duration::from_millis(generation));
        }
        assert_eq!(charges.chains.len(), CHAINS_MAX);
        assert!(!charges.chains.contains_key(&chain(1, 0)));
    }
}
