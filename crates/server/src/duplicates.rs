//! Detects repeated requests. Clients retry when they receive no reply, and a retry must not be counted again.
//!
//! Requests that change something are remembered by a keyed hash of their identity. While the first copy waits for the
//! disk, further copies are dropped, because the client will get the reply to the first one. Copies that arrive later
//! receive the outcome of the first copy.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bruit_engine::Outcome;
use bruit_filters::Fingerprint;

/// Time for which requests are remembered by default. DCC clients retry for 16 s, and the original DCC server remembers
/// requests for 32 s.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(60);

/// Maximum number of remembered requests. A new request evicts the oldest.
pub(crate) const REMEMBERED_MAX: usize = 1 << 16;

/// The requests of one protocol.
#[derive(Debug)]
pub(crate) struct Duplicates {
    table: Mutex<RequestTable>,
    remembered: Duration,
}

#[derive(Debug, Default)]
struct RequestTable {
    entries: HashMap<Fingerprint, Entry>,
    /// The remembered requests, oldest first.
    order: VecDeque<(Duration, Fingerprint)>,
}

#[derive(Debug)]
struct Entry {
    since: Duration,
    outcomes: Option<Arc<[Outcome]>>,
}

/// The state of the first copy of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FirstCopy {
    /// The first copy is in progress.
    InProgress,
    /// The first copy was answered with these outcomes.
    Answered(Arc<[Outcome]>),
}

impl Default for Duplicates {
    fn default() -> Self {
        Self::remembering(REMEMBERED)
    }
}

impl Duplicates {
    /// Creates an empty table that remembers requests for the time `remembered`.
    pub(crate) fn remembering(remembered: Duration) -> Self {
        Self { table: Mutex::default(), remembered }
    }

    /// Returns the state of the first copy of a request. If this is the first copy, returns `None` and remembers the
    /// request as in progress, as [`begin`](Self::begin) does.
    pub(crate) fn claim(&self, request: Fingerprint, now: Duration) -> Option<FirstCopy> {
        let mut table = self.table();
        table.expire(now, self.remembered);
        let found = table.copy(request);
        if found.is_none() {
            table.insert(request, now, self.remembered);
        }
        found
    }

    /// Returns the state of the first copy of a request, or `None` if this is the first copy.
    pub(crate) fn find(&self, request: Fingerprint, now: Duration) -> Option<FirstCopy> {
        let mut table = self.table();
        table.expire(now, self.remembered);
        table.copy(request)
    }

    /// Remembers a request as in progress until [`answer`](Self::answer) or [`forget`](Self::forget) is called.
    pub(crate) fn begin(&self, request: Fingerprint, now: Duration) {
        self.table().insert(request, now, self.remembered);
    }

    /// Remembers the outcomes of a request.
    pub(crate) fn answer(&self, request: Fingerprint, outcomes: &Arc<[Outcome]>) {
        if let Some(entry) = self.table().entries.get_mut(&request) {
            entry.outcomes = Some(Arc::clone(outcomes));
        }
    }

    /// Forgets a request that failed, so that its next copy is processed.
    pub(crate) fn forget(&self, request: Fingerprint) {
        self.table().entries.remove(&request);
    }

    fn table(&self) -> MutexGuard<'_, RequestTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestTable {
    fn copy(&self, request: Fingerprint) -> Option<FirstCopy> {
        let entry = self.entries.get(&request)?;
        Some(
            entry.outcomes.as_ref().map_or(FirstCopy::InProgress, |outcomes| FirstCopy::Answered(Arc::clone(outcomes))),
        )
    }

    fn expire(&mut self, now: Duration, remembered: Duration) {
        while let Some(&(since, request)) = self.order.front()
            && (now.saturating_sub(since) > remembered || self.order.len() > REMEMBERED_MAX)
        {
            self.order.pop_front();
            // A request that was forgotten and then repeated has a later entry in the order.
            if self.entries.get(&request).is_some_and(|entry| entry.since == since) {
                self.entries.remove(&request);
            }
        }
    }

    fn insert(&mut self, request: Fingerprint, now: Duration, remembered: Duration) {
        self.entries.insert(request, Entry { since: now, outcomes: None });
        self.order.push_back((now, request));
        self.expire(now, remembered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> Fingerprint {
        Fingerprint::new(number, 0)
    }

    fn outcomes() -> Arc<[Outcome]> {
        vec![Outcome::Done].into()
    }

    #[test]
    fn the_second_copy_waits_for_the_first_and_gets_its_answer() {
        let duplicates = Duplicates::default();
        assert_eq!(duplicates.find(request(1), Duration::ZERO), None);
        duplicates.begin(request(1), Duration::ZERO);
        assert_eq!(duplicates.find(request(1), Duration::ZERO), Some(FirstCopy::InProgress));
        duplicates.answer(request(1), &outcomes());
        assert_eq!(duplicates.find(request(1), REMEMBERED), Some(FirstCopy::Answered(outcomes())));
        assert_eq!(duplicates.find(request(2), REMEMBERED), None);
    }

    #[test]
    fn of_copies_that_come_at_once_one_is_the_first() {
        let duplicates = Duplicates::remembering(2 * REMEMBERED);
        assert_eq!(duplicates.claim(request(1), Duration::ZERO), None);
        assert_eq!(duplicates.claim(request(1), Duration::ZERO), Some(FirstCopy::InProgress));
        duplicates.answer(request(1), &outcomes());
        assert_eq!(duplicates.claim(request(1), 2 * REMEMBERED), Some(FirstCopy::Answered(outcomes())));
        assert_eq!(duplicates.claim(request(1), 2 * REMEMBERED + Duration::from_secs(1)), None);
    }

    #[test]
    fn a_request_is_forgotten_after_a_while() {
        let duplicates = Duplicates::default();
        duplicates.begin(request(1), Duration::ZERO);
        duplicates.answer(request(1), &outcomes());
        assert_eq!(duplicates.find(request(1), REMEMBERED + Duration::from_secs(1)), None);
    }

    #[test]
    fn a_failed_request_may_be_tried_again() {
        let duplicates = Duplicates::default();
        duplicates.begin(request(1), Duration::ZERO);
        duplicates.forget(request(1));
        assert_eq!(duplicates.find(request(1), Duration::from_secs(9)), None);
        duplicates.begin(request(1), Duration::from_secs(9));
        // When the leftover entry of the first attempt expires, the second attempt is still remembered.
        assert_eq!(duplicates.find(request(1), REMEMBERED + Duration::from_secs(1)), Some(FirstCopy::InProgress));
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let duplicates = Duplicates::default();
        (0..REMEMBERED_MAX as u64 + 10).for_each(|number| duplicates.begin(request(number), Duration::ZERO));
        let table = duplicates.table();
        assert!(table.entries.len() == REMEMBERED_MAX && table.order.len() == REMEMBERED_MAX);
        assert!(!table.entries.contains_key(&request(9)) && table.entries.contains_key(&request(10)));
    }
}
