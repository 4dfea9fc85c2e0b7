//! The table of active conditions. Each condition has a start time, a severity, and a text that describes the problem
//! and the remedy.
//!
//! Code that detects a problem calls [`Health::set`] with a text while the problem lasts, and with `None` once it is
//! over. One line is logged when a condition begins, and one when it ends. `/v1/ready`, `/metrics` and `bruit stats`
//! read the same table.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bruit_engine::time::Time;
use bruit_protocols::http::Condition;

/// The severity of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Something is degraded, but requests are answered and reports kept.
    Warning,
    /// Reports are refused or lost, and `/v1/ready` fails.
    Severe,
}

impl Severity {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Severe => "severe",
        }
    }
}

macro_rules! states {
    ($($(#[$doc:meta])* $state:ident: $name:literal, $severity:ident;)*) => {
        /// A kind of degradation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum State {
            $($(#[$doc])* $state,)*
        }

        impl State {
            /// Every state.
            pub(crate) const ALL: &[Self] = &[$(Self::$state,)*];

            /// Returns the name used in the log, in metrics and in responses.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$state => $name,)* }
            }

            /// Returns the severity.
            pub(crate) const fn severity(self) -> Severity {
                match self { $(Self::$state => Severity::$severity,)* }
            }
        }
    };
}

states! {
    /// The journal failed, and the process is about to end.
    StoreFailed: "store_failed", Severe;
    /// Recent events could not be written.
    WritesFail: "writes_fail", Severe;
    /// A write has been pending for too long.
    DiskHangs: "disk_hangs", Severe;
    /// The last snapshot could not be written, so the journal grows.
    SnapshotFails: "snapshot_fails", Warning;
    /// The disk has too little free space for the next snapshots.
    DiskFills: "disk_fills", Warning;
    /// The books are several epochs behind the clock and accept no claims.
    CatchingUp: "catching_up", Severe;
    /// The export queue is full, so reports are refused.
    ExportsWait: "exports_wait", Severe;
    /// The folder of logs for other servers and replicas cannot be written.
    ShelfFails: "shelf_fails", Warning;
    /// The heads of a peer no longer change.
    PeerSilent: "peer_silent", Warning;
    /// Segments of a peer have been missing for a while, and none arrive.
    PeerBehind: "peer_behind", Warning;
    /// The clock of a peer, or ours, is wrong.
    PeerClock: "peer_clock", Warning;
    /// A peer refuses this server, or this server refuses the peer's data.
    PeerRefused: "peer_refused", Warning;
    /// A peer or the broker is unreachable.
    PeerUnreachable: "peer_unreachable", Warning;
    /// The data of a forgotten server is being removed.
    PeerForgetting: "peer_forgetting", Warning;
    /// The system clock jumped and is ignored, or it is behind and time stands still.
    ClockJump: "clock_jump", Warning;
    /// The current generation of a book accepts no new signatures.
    BookFull: "book_full", Severe;
    /// Reports were refused recently because a book was full or a reporter's daily quota was used up.
    ReportsRefused: "reports_refused", Warning;
    /// A book is near or above its capacity, so its false-positive rate rises.
    BookFills: "book_fills", Warning;
    /// The certificate of HTTP over TLS expires soon or has expired.
    CertificateEnds: "certificate_ends", Warning;
    /// The file with the history for the dashboard cannot be written.
    HistoryFails: "history_fails", Warning;
    /// A table that rejects new entries when full is nearly full.
    TableFills: "table_fills", Warning;
}

/// An active condition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ActiveCondition {
    text: String,
    since: Time,
}

/// The active conditions, by state and subject. The subject is a ring, a table, a peer, or the empty string.
#[derive(Debug, Default)]
pub(crate) struct Health {
    rows: Mutex<BTreeMap<(State, String), ActiveCondition>>,
}

impl Health {
    /// Begins or updates a condition if `text` is `Some`, and ends it if `text` is `None`. The text describes the
    /// problem and the remedy.
    pub(crate) fn set(&self, state: State, subject: &str, text: Option<String>, now: Time) {
        let mut rows = self.lock();
        change(&mut rows, state, subject, text, now);
    }

    /// Replaces all conditions of a state with `conditions`, given as subjects and texts.
    pub(crate) fn set_all(&self, state: State, conditions: Vec<(String, String)>, now: Time) {
        let mut rows = self.lock();
        let is_over = |(of, subject): &&(State, String)| {
            *of == state && !conditions.iter().any(|(lasting, _)| lasting == subject)
        };
        let over: Vec<String> = rows.keys().filter(is_over).map(|(_, subject)| subject.clone()).collect();
        over.iter().for_each(|subject| change(&mut rows, state, subject, None, now));
        conditions.into_iter().for_each(|(subject, text)| change(&mut rows, state, &subject, Some(text), now));
    }

    /// Returns all conditions, most severe first.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let rows = self.lock();
        let condition = |((state, subject), row): (&(State, String), &ActiveCondition)| Condition {
            state: state.name().to_owned(),
            subject: subject.clone(),
            severity: state.severity().name().to_owned(),
            text: row.text.clone(),
            since: row.since.0,
        };
        let mut conditions: Vec<Condition> = rows.iter().map(condition).collect();
        conditions.sort_by_key(|condition| condition.severity != Severity::Severe.name());
        conditions
    }

    /// Returns the number of active conditions in a state.
    pub(crate) fn count(&self, state: State) -> usize {
        self.lock().keys().filter(|(of, _)| *of == state).count()
    }

    /// Locks the table. Ignores poisoning, because no panic can leave a change half done.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(State, String), ActiveCondition>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn change(
    rows: &mut BTreeMap<(State, String), ActiveCondition>,
    state: State,
    subject: &str,
    text: Option<String>,
    now: Time,
) {
    let key = (state, subject.to_owned());
    match (rows.get_mut(&key), text) {
        (Some(row), Some(text)) => row.text = text,
        (None, Some(text)) => {
            match state.severity() {
                Severity::Severe => tracing::error!(state = state.name(), subject, "degraded: {text}"),
                Severity::Warning => tracing::warn!(state = state.name(), subject, "degraded: {text}"),
            }
            rows.insert(key, ActiveCondition { text, since: now });
        }
        (Some(row), None) => {
            let seconds = now.since(row.since);
            tracing::info!(state = state.name(), subject, seconds, "recovered");
            rows.remove(&key);
        }
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_beginning_and_the_newest_text() {
        let health = Health::default();
        health.set(State::BookFills, "listed signatures", Some("91 %".into()), Time(10));
        health.set(State::BookFills, "listed signatures", Some("95 %".into()), Time(20));
        let [condition] = health.conditions().try_into().unwrap();
        assert_eq!((condition.since, &*condition.text, &*condition.severity), (10, "95 %", "warning"));
        health.set(State::BookFills, "listed signatures", None, Time(30));
        assert!(health.conditions().is_empty());
    }

    #[test]
    fn the_worst_comes_first_and_replacing_a_state_ends_the_rest_of_it() {
        let health = Health::default();
        health.set_all(State::BookFills, vec![("a".into(), "x".into()), ("b".into(), "x".into())], Time(1));
        health.set(State::WritesFail, "", Some("no space".into()), Time(2));
        health.set_all(State::BookFills, vec![("b".into(), "y".into()), ("c".into(), "y".into())], Time(3));
        let rows: Vec<_> = health.conditions().into_iter().map(|row| (row.state, row.subject, row.since)).collect();
        let row = |state: &str, subject: &str, since| (state.to_owned(), subject.to_owned(), since);
        assert_eq!(rows, [row("writes_fail", "", 2), row("book_fills", "b", 1), row("book_fills", "c", 3)]);
        assert_eq!((health.count(State::BookFills), health.count(State::CatchingUp)), (2, 0));
    }

    #[test]
    fn names_of_states_are_unique() {
        let names: std::collections::BTreeSet<_> = State::ALL.iter().map(|state| state.name()).collect();
        assert_eq!(names.len(), State::ALL.len());
    }
}
