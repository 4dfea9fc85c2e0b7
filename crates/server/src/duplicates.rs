//! Requests that were sent twice: clients repeat what they got no answer to, and that must not count twice.
//!
//! A request that changes something is remembered by a keyed hash of what identifies it. While the first copy waits for the disk,
//! others are dropped, as its answer is on the way; afterwards they are given what the first one came to.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bruit_engine::Outcome;
use bruit_filters::Fingerprint;

/// How long a request is remembered. DCC clients repeat theirs for 16 s, and their server remembers 32.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(60);

/// Most requests that are remembered; the oldest is forgotten for a new one.
pub(crate) const REMEMBERED_MAX: usize = 1 << 16;

/// The requests of one protocol.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Fingerprint, Entry>,
    /// Oldest first.
    order: VecDeque<(Duration, Fingerprint)>,
}

#[derive(Debug)]
struct Entry {
    since: Duration,
    outcomes: Option<Arc<[Outcome]>>,
}

/// What a request is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    /// The first of its kind.
    First,
    /// One whose answer is on its way.
    UnderWay,
    /// One that was answered.
    Answered(Arc<[Outcome]>),
}

impl Duplicates {
    /// Which copy of a request this is. The first is under way from now on, until [`answer`](Self::answer) or
    /// [`forget`](Self::forget).
    pub(crate) fn begin(&self, request: Fingerprint, now: Duration) -> Copy {
        let mut table = self.table();
        table.expire(now);
        match table.entries.get(&request) {
            Some(Entry { outcomes: Some(outcomes), .. }) => Copy::Answered(Arc::clone(outcomes)),
            Some(_) => Copy::UnderWay,
            None => {
                table.insert(request, now);
                Copy::First
            }
        }
    }

    /// Remembers what a request came to.
    pub(crate) fn answer(&self, request: Fingerprint, outcomes: &Arc<[Outcome]>) {
        if let Some(entry) = self.table().entries.get_mut(&request) {
            entry.outcomes = Some(Arc::clone(outcomes));
        }
    }

    /// Forgets a request that failed, so that the next copy is tried.
    pub(crate) fn forget(&self, request: Fingerprint) {
        self.table().entries.remove(&request);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn expire(&mut self, now: Duration) {
        while let Some(&(since, request)) = self.order.front()
            && (now.saturating_sub(since) > REMEMBERED || self.order.len() >= REMEMBERED_MAX)
        {
            self.order.pop_front();
            // A request that was forgotten and came again has a later place in the order.
            if self.entries.get(&request).is_some_and(|entry| entry.since == since) {
                self.entries.remove(&request);
            }
        }
    }

    fn insert(&mut self, request: Fingerprint, now: Duration) {
        self.entries.insert(request, Entry { since: now, outcomes: None });
        self.order.push_back((now, request));
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
        assert_eq!(duplicates.begin(request(1), Duration::ZERO), Copy::First);
        assert_eq!(duplicates.begin(request(1), Duration::ZERO), Copy::UnderWay);
        duplicates.answer(request(1), &outcomes());
        assert_eq!(duplicates.begin(request(1), REMEMBERED), Copy::Answered(outcomes()));
        assert_eq!(duplicates.begin(request(2), REMEMBERED), Copy::First);
    }

    #[test]
    fn a_request_is_forgotten_after_a_while() {
        let duplicates = Duplicates::default();
        duplicates.begin(request(1), Duration::ZERO);
        duplicates.answer(request(1), &outcomes());
        assert_eq!(duplicates.begin(request(1), REMEMBERED + Duration::from_secs(1)), Copy::First);
    }

    #[test]
    fn a_failed_request_may_be_tried_again() {
        let duplicates = Duplicates::default();
        duplicates.begin(request(1), Duration::ZERO);
        duplicates.forget(request(1));
        assert_eq!(duplicates.begin(request(1), Duration::from_secs(9)), Copy::First);
        duplicates.begin(request(2), REMEMBERED + Duration::from_secs(1));
        assert_eq!(duplicates.begin(request(1), REMEMBERED + Duration::from_secs(1)), Copy::UnderWay);
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let duplicates = Duplicates::default();
        for number in 0..REMEMBERED_MAX as u64 + 10 {
            assert_eq!(duplicates.begin(request(number), Duration::ZERO), Copy::First);
        }
        let table = duplicates.table();
        assert!(table.entries.len() <= REMEMBERED_MAX && table.order.len() <= REMEMBERED_MAX);
        assert!(
            !table.entries.contains_key(&request(0)) && table.entries.contains_key(&request(REMEMBERED_MAX as u64))
        );
    }
}
