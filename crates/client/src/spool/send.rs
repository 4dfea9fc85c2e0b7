//! Sends the reports of a spool.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::folder::{is_lesson, is_postponed, stored_at};
use super::order::Order;
use super::{ClaimKind, Spool, SpoolError, SpooledReport, Stored};
use crate::http::Claimed;
use crate::{Client, ClientError, Rspamd, RspamdError};

/// Age at which a report is dropped. The server remembers IDs for one day longer.
pub const REPORT_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Number of failures after which the remaining reports are not tried. If the server cannot be reached, one failure is
/// enough.
pub const FAILURES_MAX: usize = 3;

/// Minimum time for a request. It applies even if less of [`SendLimits::time`] is left.
pub const REQUEST_TIME_MIN: Duration = Duration::from_millis(500);

/// Limits on one attempt to send a spool.
#[derive(Clone, Copy, Debug)]
pub struct SendLimits {
    /// Maximum number of reports.
    pub reports: usize,
    /// Time after which no further report is sent. A request in progress is aborted at that time or, if this is later,
    /// [`REQUEST_TIME_MIN`] after it began.
    pub time: Duration,
}

/// The servers that a spool is sent to.
#[derive(Clone, Copy, Debug)]
pub struct Destinations<'a> {
    /// The server that gets the reports.
    pub server: &'a Client,
    /// The rspamd that gets the messages. Without an rspamd, the messages stay in the spool.
    pub rspamd: Option<&'a Rspamd>,
}

impl<'a> From<&'a Client> for Destinations<'a> {
    fn from(server: &'a Client) -> Self {
        Self { server, rspamd: None }
    }
}

/// The result of sending one report.
#[derive(Debug)]
#[non_exhaustive]
pub enum Sending {
    /// The server answered. The report is no longer in the spool.
    Answered(Claimed),
    /// The server did not answer, or refused the report temporarily. The report stays in the spool.
    Waits(ClientError),
    /// An earlier, opposite claim about the same message is still waiting, so this claim waits, too.
    Held,
    /// The server refused the report because of its contents. It is no longer in the spool.
    Refused(ClientError),
}

/// The result of sending one message to rspamd.
#[derive(Debug)]
#[non_exhaustive]
pub enum Teaching {
    /// rspamd learned the message. It is no longer in the spool.
    Learned,
    /// rspamd did not answer, or refused the message temporarily. The message stays in the spool.
    Waits(RspamdError),
    /// An earlier, opposite claim about the same message is still waiting, so this claim waits, too.
    Held,
    /// rspamd refused the message. It is no longer in the spool.
    Refused(RspamdError),
}

/// The result of sending a report that was just stored.
#[derive(Debug)]
pub struct Attempt<T> {
    /// The result.
    pub result: T,
    /// Error, if the spool could not be changed after the request. The report is then still in the spool, unchanged. If
    /// the server has already counted the report, it does not count the report again.
    pub fault: Option<SpoolError>,
}

/// The result of sending a spool.
#[derive(Debug, Default)]
pub struct Sent {
    /// Number of reports that the server answered.
    pub sent: usize,
    /// Number of these reports that the server had received before.
    pub repeated: usize,
    /// Number of messages that rspamd learned.
    pub taught: usize,
    /// Number of reports dropped because of their age.
    pub dropped: usize,
    /// Reports that the server refused; they were set aside.
    pub refused: Vec<String>,
    /// Damaged files; they were set aside.
    pub damaged: Vec<PathBuf>,
    /// Files that could not be read or changed. They stay where they are.
    pub faults: Vec<SpoolError>,
    /// The last error, if the server did not answer or refused a report temporarily.
    pub error: Option<ClientError>,
    /// The last error, if rspamd did not answer or refused a message temporarily.
    pub rspamd_error: Option<RspamdError>,
}

impl Client {
    /// Sends a report from a spool. The server counts a report only once, even if it is sent again.
    ///
    /// # Errors
    /// [`ClientError`] if the claim was not accepted, or if the result is unknown.
    pub fn send_spooled(&self, report: &SpooledReport) -> Result<Claimed, ClientError> {
        let client = self.clone().with_idempotency_key(&report.id)?;
        let client = match &report.reporter {
            Some(name) => client.with_reporter(name)?,
            None => client,
        };
        match report.claim {
            ClaimKind::Report => client.report(&report.subject),
            ClaimKind::Revoke => client.revoke(&report.subject),
        }
    }
}

impl Spool {
    /// Sends a report that was just stored.
    pub fn send_one(&self, client: &Client, stored: Stored) -> Attempt<Sending> {
        if self.is_held(&stored) {
            return Attempt { result: Sending::Held, fault: None };
        }
        let (result, kept) = match client.send_spooled(&stored.report) {
            Ok(claimed) => (Sending::Answered(claimed), self.remove(&stored)),
            Err(error) if waits(&error) => {
                let kept = self.keep(stored, &error.to_string(), is_down(&error));
                (Sending::Waits(error), kept)
            }
            Err(error) => (Sending::Refused(error), self.remove(&stored)),
        };
        Attempt { result, fault: kept.err() }
    }

    /// Sends a message for rspamd that was just stored.
    pub fn teach_one(&self, rspamd: &Rspamd, stored: Stored) -> Attempt<Teaching> {
        if self.is_held(&stored) {
            return Attempt { result: Teaching::Held, fault: None };
        }
        let (result, kept) = match rspamd.teach_spooled(&stored.report) {
            Ok(()) => (Teaching::Learned, self.remove(&stored)),
            Err(error) if error.waits() => {
                let kept = self.keep(stored, &error.to_string(), error.is_down());
                (Teaching::Waits(error), kept)
            }
            Err(error) => (Teaching::Refused(error), self.remove(&stored)),
        };
        Attempt { result, fault: kept.err() }
    }

    /// Sends the waiting reports, until the limits are reached or no server answers. Skips reports that another
    /// process is sending.
    ///
    /// # Errors
    /// [`SpoolError`] if the folder cannot be read.
    pub fn send<'a>(&self, to: impl Into<Destinations<'a>>, limits: SendLimits) -> Result<Sent, SpoolError> {
        let to = to.into();
        let lesson_failures = if to.rspamd.is_some() { 0 } else { FAILURES_MAX };
        let (sent, order) = (Sent::default(), Order::default());
        let mut run = Run { to, limits, begun: Instant::now(), sent, order, failures: 0, lesson_failures };
        let waiting = self.waiting()?;
        // Postponed reports come last, but other reports may have to wait for them.
        waiting.iter().filter(|path| is_postponed(path)).for_each(|path| run.order.add_file(path));
        let held: Vec<_> = waiting.into_iter().filter(|path| run.visit(self, path)).collect();
        for path in held {
            run.visit(self, &path);
        }
        Ok(run.sent)
    }

    /// Keeps a report that was not sent. The report keeps its place in the order, unless the server refused only this
    /// report.
    fn keep(&self, stored: Stored, error: &str, is_down: bool) -> Result<(), SpoolError> {
        let kept = if is_down { self.note_failure(stored, error) } else { self.postpone(stored, error) };
        kept.map(drop)
    }
}

impl Rspamd {
    /// Trains rspamd with a message from a spool. Does nothing if the report is not for rspamd.
    fn teach_spooled(&self, report: &SpooledReport) -> Result<(), RspamdError> {
        report.rspamd.as_ref().map_or(Ok(()), |lesson| self.teach(report.claim, lesson))
    }
}

/// One attempt to send a spool.
struct Run<'a> {
    to: Destinations<'a>,
    limits: SendLimits,
    begun: Instant,
    sent: Sent,
    /// Reports that could not be sent when it was their turn, and reports that were temporarily refused earlier.
    order: Order,
    /// Number of failures of the server so far. If it cannot be reached, that counts as [`FAILURES_MAX`] failures.
    failures: usize,
    /// Number of failures of rspamd so far, counted in the same way.
    lesson_failures: usize,
}

impl Run<'_> {
    fn is_over(&self) -> bool {
        let is_down = self.failures >= FAILURES_MAX && self.lesson_failures >= FAILURES_MAX;
        let Sent { sent, taught, refused, .. } = &self.sent;
        sent + taught + refused.len() + self.failures >= self.limits.reports || self.time_left().is_zero() || is_down
    }

    fn time_left(&self) -> Duration {
        self.limits.time.saturating_sub(self.begun.elapsed())
    }

    /// Sends the report at `path`, unless another process is sending it. Returns true if an earlier report holds it
    /// back.
    fn visit(&mut self, spool: &Spool, path: &Path) -> bool {
        if self.is_over() {
            return false;
        }
        // If the server that the report is for does not answer, the report is not sent. But it is dropped if it is too
        // old.
        let failures = if is_lesson(path) { self.lesson_failures } else { self.failures };
        if failures >= FAILURES_MAX && !stored_at(path).is_some_and(|time| is_past(time.as_secs())) {
            return false;
        }
        let stored = match spool.claim(path, &mut self.sent.damaged) {
            Ok(Some(stored)) => stored,
            Ok(None) => {
                self.order.add_file(path);
                return false;
            }
            Err(error) => {
                self.sent.faults.push(error);
                return false;
            }
        };
        let is_held = self.order.holds(path, &stored.report);
        self.order.add(path, &stored.report);
        if !is_held {
            let outcome = self.send_or_drop(spool, stored, failures < FAILURES_MAX);
            self.sent.faults.extend(outcome.err());
        }
        is_held
    }

    /// Drops the report if it is too old. Otherwise, sends it if `is_up` is true, i.e. if the server that the report is
    /// for answers.
    fn send_or_drop(&mut self, spool: &Spool, stored: Stored, is_up: bool) -> Result<(), SpoolError> {
        if is_past(stored.report.time) {
            self.order.remove(&stored.path, &stored.report);
            spool.remove(&stored)?;
            self.sent.dropped += 1;
            return Ok(());
        }
        if is_up { self.send(spool, stored) } else { Ok(()) }
    }

    /// Sends a report and notes the result.
    fn send(&mut self, spool: &Spool, stored: Stored) -> Result<(), SpoolError> {
        let time = self.time_left().max(REQUEST_TIME_MIN);
        let (server, rspamd) = (self.to.server, self.to.rspamd);
        match (&stored.report.rspamd, rspamd) {
            (None, _) => self.claim(spool, &server.clone().with_timeout(server.timeout().min(time)), stored),
            (Some(_), Some(rspamd)) => {
                self.teach(spool, &rspamd.clone().with_timeout(rspamd.timeout().min(time)), stored)
            }
            (Some(_), None) => Ok(()),
        }
    }

    fn claim(&mut self, spool: &Spool, client: &Client, stored: Stored) -> Result<(), SpoolError> {
        match client.send_spooled(&stored.report) {
            Ok(claimed) => {
                self.sent.sent += 1;
                self.sent.repeated += usize::from(claimed.repeated);
                self.order.remove(&stored.path, &stored.report);
                spool.remove(&stored)
            }
            Err(error) if waits(&error) => {
                self.failures += if is_down(&error) { FAILURES_MAX } else { 1 };
                let noted = spool.keep(stored, &error.to_string(), is_down(&error));
                self.sent.error = Some(error);
                noted
            }
            Err(error) => self.refuse(spool, stored, &error.to_string()),
        }
    }

    fn teach(&mut self, spool: &Spool, rspamd: &Rspamd, stored: Stored) -> Result<(), SpoolError> {
        match rspamd.teach_spooled(&stored.report) {
            Ok(()) => {
                self.sent.taught += 1;
                self.order.remove(&stored.path, &stored.report);
                spool.remove(&stored)
            }
            Err(error) if error.waits() => {
                self.lesson_failures += if error.is_down() { FAILURES_MAX } else { 1 };
                let noted = spool.keep(stored, &error.to_string(), error.is_down());
                self.sent.rspamd_error = Some(error);
                noted
            }
            Err(error) => self.refuse(spool, stored, &error.to_string()),
        }
    }

    fn refuse(&mut self, spool: &Spool, stored: Stored, error: &str) -> Result<(), SpoolError> {
        self.order.remove(&stored.path, &stored.report);
        self.sent.refused.push(format!("{}: {error}", stored.report.id));
        spool.refuse(stored, error)
    }
}

/// Returns true if there is no valid answer from the server, so that other reports need not be tried.
#[must_use]
pub const fn is_down(error: &ClientError) -> bool {
    !matches!(error, ClientError::Refused { .. })
}

/// Returns true if the report may be accepted later. This includes a report that was refused because its reporter lacks
/// a right: the operator can grant the right.
fn waits(error: &ClientError) -> bool {
    error.is_passing()
        || matches!(error, ClientError::Refused { problem, .. } if matches!(problem.status, 401 | 403 | 404 | 408 | 421))
}

/// Returns true if a report made at this time is too old to be sent.
fn is_past(time: u64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs().saturating_sub(time) > REPORT_AGE_MAX.as_secs()
}

#[cfg(test)]
mod tests;
