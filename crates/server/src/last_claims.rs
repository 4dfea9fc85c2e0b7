//! The time of each account's last claim since the server started.
//!
//! The times are kept in memory only. They cannot be restored from the books, which do not record the reporters of
//! claims.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bruit_engine::accounts::ACCOUNTS_MAX;
use bruit_engine::time::Time;

/// Times by reporter ID.
#[derive(Debug, Default)]
pub(crate) struct LastClaims(Mutex<HashMap<u64, Time>>);

impl LastClaims {
    /// Records the time of a claim. The table has at most as many entries as the maximum number of accounts. If it is
    /// full, the entry with the oldest time is evicted.
    pub(crate) fn note(&self, id: u64, now: Time) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() >= ACCOUNTS_MAX && !times.contains_key(&id) {
            let oldest = times.iter().min_by_key(|(id, time)| (**time, **id)).map(|(id, _)| *id);
            oldest.and_then(|oldest| times.remove(&oldest));
        }
        times.insert(id, now);
    }

    /// Returns the time of a reporter's last claim.
    pub(crate) fn of(&self, id: u64) -> Option<Time> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_claimed_longest_ago_is_forgotten_at_the_bound() {
        let claims = LastClaims::default();
        let most = ACCOUNTS_MAX as u64;
        (0..most).for_each(|id| claims.note(id, Time(id + 1)));
        claims.note(0, Time(most + 1));
        assert_eq!((claims.of(0), claims.of(1)), (Some(Time(most + 1)), Some(Time(2))));
        claims.note(most, Time(most + 2));
        assert_eq!((claims.of(0), claims.of(1), claims.of(most)), (Some(Time(most + 1)), None, Some(Time(most + 2))));
    }
}
