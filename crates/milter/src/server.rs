//! Requests to the clearinghouse, and outages.
//!
//! A request without an answer begins an outage. So does an error that concerns every message, such as the refusal of a
//! token. Any other error may concern only a single message, so an outage begins after several such errors in a row.
//! The first request that succeeds ends the outage. The beginning and the end of an outage are each logged once. During
//! an outage, one message per [`PROBE_INTERVAL`] tries the server, and all others pass at once.
//!
//! Checks and reports of traps have different tokens and rights, so each kind has its own outages.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bruit_client::http::{Checked, Claimed, SiteState, Subject};
use bruit_client::spool::SpooledReport;
use bruit_client::{CheckOptions, Client, ClientError};

use crate::config::Settings;

/// Time between two attempts to reach the server during an outage.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// A request that fails this early is repeated once: the server may have closed an idle connection.
const RETRY_WITHIN: Duration = Duration::from_millis(100);

/// Number of errors in a row that begin an outage, if each of them may concern only a single message.
const ERRORS_MAX: u32 = 3;

/// Minimum time for a request. If less is left, no request is made.
const REQUEST_TIME_MIN: Duration = Duration::from_millis(10);

/// The time by which a message must have its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    end: Instant,
    /// The whole time for a message.
    timeout: Duration,
}

/// A local copy of the listings, used while the server does not answer.
pub trait Listings: Send + Sync {
    /// Returns true if one of the signatures may be listed, and false if none is. Returns `None` if the copy in `file`
    /// cannot be used or is older than `max_age`.
    fn look_up(&self, file: &Path, max_age: Duration, subject: &Subject) -> Option<bool>;
}

/// The reason for a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unavailable {
    TimedOut,
    Unreachable,
    /// The server refuses this request, and would refuse others, too.
    Refused,
    /// The server refuses this request because of its contents.
    Rejected,
    Malformed,
    /// There was no time left for a request.
    Busy,
}

/// The state of the server for one kind of request, as seen by all connections.
#[derive(Debug)]
pub(crate) struct Health {
    kind: RequestKind,
    state: Mutex<OutageState>,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Check,
    TrapReport,
}

#[derive(Debug, Default)]
struct OutageState {
    outage: Option<Outage>,
    /// Number of errors in a row so far, while there is no outage.
    errors: u32,
}

/// A period in which the server does not answer.
#[derive(Clone, Copy, Debug)]
struct Outage {
    since: Instant,
    next_probe: Instant,
    reason: Unavailable,
    /// Number of messages whose request failed or was not made.
    messages: u64,
}

/// The clients for one configuration.
pub(crate) struct Remote {
    checks: Client,
    /// Reports of traps have a token of their own.
    reports: Client,
}

impl Unavailable {
    /// The names in metrics, except "busy", which is also the name for messages that did not fit into memory.
    pub(crate) const NAMES: [&str; 4] = ["timed_out", "unreachable", "refused", "malformed"];

    /// Returns the name in metrics and header fields.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Refused | Self::Rejected => "refused",
            Self::Malformed => "malformed",
            Self::Busy => "busy",
        }
    }

    const fn of(error: &ClientError) -> Self {
        match error {
            ClientError::TimedOut { .. } => Self::TimedOut,
            ClientError::Unreachable { .. } => Self::Unreachable,
            ClientError::Refused { .. } => Self::Refused,
            _ => Self::Malformed,
        }
    }
}

impl Deadline {
    /// Returns the deadline of a message that is complete now.
    pub(crate) fn start(timeout: Duration) -> Self {
        Self { end: Instant::now() + timeout, timeout }
    }

    /// Returns the remaining time.
    pub(crate) fn remaining(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Returns the deadline for the first of two requests.
    pub(crate) fn half(self) -> Self {
        Self { end: Instant::now() + self.remaining() / 2, ..self }
    }

    /// Returns true if a healthy server may fail to answer in this time.
    fn is_short(self, time: Duration) -> bool {
        time < self.timeout / 4
    }
}

impl Health {
    pub(crate) fn new(kind: RequestKind) -> Self {
        Self { kind, state: Mutex::default() }
    }

    /// Returns true if the server is currently not answering.
    pub(crate) fn is_down(&self) -> bool {
        self.lock().outage.is_some()
    }

    /// Runs a request within the remaining time. During an outage, runs no request if another message has just tried
    /// the server.
    pub(crate) fn ask<T>(
        &self,
        deadline: Deadline,
        request: impl Fn(Duration) -> Result<T, ClientError>,
    ) -> Result<T, Unavailable> {
        let time = deadline.remaining();
        if time < REQUEST_TIME_MIN {
            return Err(Unavailable::Busy);
        }
        self.admit(Instant::now())?;
        let mut answer = request(time);
        let left = deadline.remaining();
        let is_early = time - left.min(time) < RETRY_WITHIN && left >= REQUEST_TIME_MIN;
        if matches!(answer, Err(ClientError::Unreachable { .. })) && !self.is_down() && is_early {
            answer = request(left);
        }
        match answer {
            Ok(answer) => {
                self.end(Instant::now());
                Ok(answer)
            }
            // The request is at fault, not the server.
            Err(ClientError::Refused { problem, server }) if matches!(problem.status, 400 | 413 | 422) => {
                self.end(Instant::now());
                tracing::debug!(server, %problem, "request refused");
                Err(Unavailable::Rejected)
            }
            Err(error) => {
                self.fail(&error, deadline.is_short(time), Instant::now());
                Err(Unavailable::of(&error))
            }
        }
    }

    /// Refuses requests during an outage, except one per [`PROBE_INTERVAL`].
    fn admit(&self, now: Instant) -> Result<(), Unavailable> {
        let mut state = self.lock();
        let Some(outage) = state.outage.as_mut() else { return Ok(()) };
        if now < outage.next_probe {
            outage.messages = outage.messages.saturating_add(1);
            return Err(outage.reason);
        }
        outage.next_probe = now + PROBE_INTERVAL;
        Ok(())
    }

    /// Notes a failure. `is_short` means that the server had less time than usual.
    fn fail(&self, error: &ClientError, is_short: bool, now: Instant) {
        let mut state = self.lock();
        let next_probe = now + PROBE_INTERVAL;
        let reason = Unavailable::of(error);
        if let Some(outage) = state.outage.as_mut() {
            *outage = Outage { next_probe, reason, messages: outage.messages.saturating_add(1), ..*outage };
            return;
        }
        state.errors = state.errors.saturating_add(1);
        if may_concern_one_message(error, is_short) && state.errors < ERRORS_MAX {
            drop(state);
            tracing::debug!(%error, "request failed");
            return;
        }
        *state = OutageState { outage: Some(Outage { since: now, next_probe, reason, messages: 1 }), errors: 0 };
        drop(state);
        match self.kind {
            RequestKind::Check => tracing::warn!(%error, "the server does not answer; mail passes unchecked"),
            RequestKind::TrapReport => tracing::warn!(%error, "the server does not accept reports of traps"),
        }
    }

    fn end(&self, now: Instant) {
        let OutageState { outage: Some(outage), .. } = std::mem::take(&mut *self.lock()) else { return };
        let seconds = now.saturating_duration_since(outage.since).as_secs();
        let messages = outage.messages;
        match self.kind {
            RequestKind::Check => tracing::info!(seconds, unchecked = messages, "the server answers again"),
            RequestKind::TrapReport => tracing::info!(seconds, messages, "the server accepts reports of traps again"),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OutageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the error may concern only this message, so that the request for another message may succeed.
const fn may_concern_one_message(error: &ClientError, is_short: bool) -> bool {
    match error {
        ClientError::TimedOut { .. } => is_short,
        ClientError::Refused { problem, .. } => matches!(problem.status, 429 | 500..),
        ClientError::Malformed { .. } => true,
        _ => false,
    }
}

impl Remote {
    /// Creates the clients. Nothing is sent yet.
    pub(crate) fn new(settings: &Settings) -> Result<Self, ClientError> {
        let server = &settings.server;
        let trap_token = settings.traps.token.as_ref().or(server.token.as_ref());
        Ok(Self {
            checks: Client::new(&server.url, server.token.as_deref(), server.timeout)?,
            reports: Client::new(&server.url, trap_token.map(String::as_str), server.timeout)?,
        })
    }

    /// Checks a message and counts its recipients. Requests with the same key count once.
    pub(crate) fn check(
        &self,
        subject: &Subject,
        options: CheckOptions,
        key: &str,
        time: Duration,
        state: SiteState,
    ) -> Result<Checked, ClientError> {
        let client = self.checks.clone().with_timeout(time).with_site(state);
        client.with_idempotency_key(key)?.check_with(subject, options)
    }

    /// Describes the milter to the server's operator.
    pub(crate) fn announce(&self, state: SiteState) -> Result<(), ClientError> {
        self.checks.clone().with_site(state).announce()
    }

    /// Reports a message. A report that is repeated later counts once.
    pub(crate) fn report(&self, report: &SpooledReport, time: Duration) -> Result<Claimed, ClientError> {
        self.reports.clone().with_timeout(time).send_spooled(report)
    }

    /// Returns the client for reports.
    pub(crate) const fn reports(&self) -> &Client {
        &self.reports
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use bruit_client::http::Problem;

    use super::*;

    fn timed_out() -> ClientError {
        ClientError::TimedOut { server: "s".into(), timeout: Duration::ZERO }
    }

    fn refused(status: u16) -> ClientError {
        ClientError::Refused { server: "s".into(), problem: Problem::new(status, "no", "no") }
    }

    fn soon() -> Deadline {
        Deadline::start(Duration::from_secs(60))
    }

    #[test]
    fn a_message_has_one_deadline_for_all_its_requests() {
        let deadline = soon();
        let half = deadline.half();
        let limit = Duration::from_secs(30);
        assert!(half.remaining() <= limit && half.remaining() > limit / 2 && deadline.remaining() > limit);
        let over = Deadline::start(Duration::ZERO);
        let health = Health::new(RequestKind::Check);
        assert_eq!(health.ask(over, |_| Ok(())), Err(Unavailable::Busy));
        assert!(!health.is_down());
    }

    #[test]
    fn a_timeout_begins_an_outage_only_if_the_server_had_time() {
        let late = Deadline { timeout: Duration::from_secs(600), ..soon() };
        let health = Health::new(RequestKind::Check);
        assert_eq!(health.ask(late, |_| Err::<(), _>(timed_out())), Err(Unavailable::TimedOut));
        assert!(!health.is_down(), "a tenth of the time was left");
        assert_eq!(health.ask(soon(), |_| Err::<(), _>(timed_out())), Err(Unavailable::TimedOut));
        assert!(health.is_down());
    }

    #[test]
    fn an_outage_lets_one_message_per_interval_wait() {
        let health = Health::new(RequestKind::Check);
        let now = Instant::now();
        assert_eq!(health.admit(now), Ok(()));
        health.fail(&timed_out(), false, now);
        assert!(health.is_down());
        assert_eq!(health.admit(now), Err(Unavailable::TimedOut));
        assert_eq!(health.admit(now + PROBE_INTERVAL), Ok(()));
        assert_eq!(health.admit(now + PROBE_INTERVAL), Err(Unavailable::TimedOut), "another one tries already");
        health.end(now + PROBE_INTERVAL);
        assert_eq!((health.is_down(), health.admit(now + PROBE_INTERVAL)), (false, Ok(())));
    }

    #[test]
    fn a_request_that_is_refused_for_its_contents_is_no_outage() {
        let health = Health::new(RequestKind::Check);
        for _ in 0..ERRORS_MAX {
            assert_eq!(health.ask(soon(), |_| Err::<(), _>(refused(400))), Err(Unavailable::Rejected));
        }
        assert!(!health.is_down());
        assert_eq!(health.ask(soon(), |_| Err::<(), _>(refused(403))), Err(Unavailable::Refused));
        assert!(health.is_down(), "a wrong token concerns every message");
    }

    /// A single error once began an outage, and the next message ended it.
    #[test]
    fn only_several_errors_in_a_row_begin_an_outage() {
        let fails = |health: &Health, status| {
            assert_eq!(health.ask(soon(), |_| Err::<(), _>(refused(status))), Err(Unavailable::Refused));
        };
        const { assert!(ERRORS_MAX > 1) };
        for status in [429, 500, 503] {
            let health = Health::new(RequestKind::Check);
            for _ in 1..ERRORS_MAX {
                fails(&health, status);
            }
            assert!(!health.is_down(), "{status}");
            assert_eq!(health.ask(soon(), |_| Ok(())), Ok(()));
            for _ in 1..ERRORS_MAX {
                fails(&health, status);
            }
            assert!(!health.is_down(), "an answer in between: {status}");
            fails(&health, status);
            assert!(health.is_down(), "{status}");
        }
    }

    #[test]
    fn a_connection_that_was_closed_while_idle_is_tried_again_once() {
        let health = Health::new(RequestKind::Check);
        let tries = Cell::new(0);
        let request = |_| {
            tries.set(tries.get() + 1);
            let gone = ClientError::Unreachable { server: "s".into(), cause: "closed".into() };
            if tries.get() == 1 { Err(gone) } else { Ok(()) }
        };
        assert_eq!((health.ask(soon(), request), tries.get(), health.is_down()), (Ok(()), 2, false));
        let tries = Cell::new(0);
        let request = |_| {
            tries.set(tries.get() + 1);
            Err::<(), _>(timed_out())
        };
        assert_eq!((health.ask(soon(), request), tries.get()), (Err(Unavailable::TimedOut), 1));
    }
}
