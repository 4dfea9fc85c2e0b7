//! Sends the reports of a spool.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{ClaimKind, Spool, SpoolError, SpooledReport, Stored};
use crate::http::Claimed;
use crate::{Client, ClientError};

/// Age at which a report is dropped. The server remembers IDs for one day longer.
pub const REPORT_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Number of failures after which the others are not tried. If the server cannot be reached, one is enough.
pub const FAILURES_MAX: usize = 3;

/// Minimum time for a request, even if [`SendLimits::time`] is nearly over.
pub const REQUEST_TIME_MIN: Duration = Duration::from_millis(500);

/// How much to send at a time.
#[derive(Clone, Copy, Debug)]
pub struct SendLimits {
    /// Maximum number of reports.
    pub reports: usize,
    /// Time after which no further report is begun. A request under way ends then too, or [`REQUEST_TIME_MIN`] after
    /// it began.
    pub time: Duration,
}

/// The result of sending one report.
#[derive(Debug)]
#[non_exhaustive]
pub enum Sending {
    /// The server answered. The report is no longer in the spool.
    Answered(Claimed),
    /// The server did not answer. The report waits.
    Waits(ClientError),
    /// The server refused the report for its contents. It is no longer in the spool.
    Refused(ClientError),
}

/// The result of sending a report that was just stored.
#[derive(Debug)]
pub struct Attempt {
    /// The result.
    pub result: Sending,
    /// Error of the spool after the request. The report is still in the spool, as it was before the request; if the
    /// server has answered, it is sent again and recognised.
    pub fault: Option<SpoolError>,
}

/// The result of sending a spool.
#[derive(Debug, Default)]
pub struct Sent {
    /// Number of reports that the server answered.
    pub sent: usize,
    /// Number of those that the server had received before.
    pub repeated: usize,
    /// Number of reports dropped because of their age.
    pub dropped: usize,
    /// Reports that the server refused; they were set aside.
    pub refused: Vec<String>,
    /// Damaged files; they were set aside.
    pub damaged: Vec<PathBuf>,
    /// Files that could not be read or changed. They stay where they are.
    pub faults: Vec<SpoolError>,
    /// The last error, if the server did not answer.
    pub error: Option<ClientError>,
}

impl Client {
    /// Sends a report from a spool. The server counts it once.
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
    pub fn send_one(&self, client: &Client, stored: Stored) -> Attempt {
        let (result, kept) = match client.send_spooled(&stored.report) {
            Ok(claimed) => (Sending::Answered(claimed), self.remove(&stored)),
            Err(error) if waits(&error) => {
                let kept = self.note_failure(stored, &error.to_string()).map(drop);
                (Sending::Waits(error), kept)
            }
            Err(error) => (Sending::Refused(error), self.remove(&stored)),
        };
        Attempt { result, fault: kept.err() }
    }

    /// Sends the reports that wait, until the limits are reached or the server does not answer. Reports that another
    /// process is sending are left to it.
    ///
    /// # Errors
    /// [`SpoolError`] if the folder cannot be read.
    pub fn send(&self, client: &Client, limits: SendLimits) -> Result<Sent, SpoolError> {
        let (mut sent, mut failures, begun) = (Sent::default(), 0, Instant::now());
        for path in self.waiting()? {
            let is_enough = sent.sent + sent.refused.len() + failures >= limits.reports;
            let time_left = limits.time.saturating_sub(begun.elapsed());
            if is_enough || time_left.is_zero() || failures >= FAILURES_MAX {
                break;
            }
            let client = client.clone().with_timeout(client.timeout().min(time_left.max(REQUEST_TIME_MIN)));
            let outcome = match self.claim(&path, &mut sent.damaged) {
                Ok(Some(stored)) => self.send_claimed(&client, stored, &mut sent, &mut failures),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            sent.faults.extend(outcome.err());
        }
        Ok(sent)
    }

    /// Sends a report and notes the result in `sent`.
    fn send_claimed(
        &self,
        client: &Client,
        stored: Stored,
        sent: &mut Sent,
        failures: &mut usize,
    ) -> Result<(), SpoolError> {
        if is_old(&stored.report) {
            self.remove(&stored)?;
            sent.dropped += 1;
            return Ok(());
        }
        match client.send_spooled(&stored.report) {
            Ok(claimed) => {
                sent.sent += 1;
                sent.repeated += usize::from(claimed.repeated);
                self.remove(&stored)
            }
            Err(error) if waits(&error) => {
                *failures += if is_down(&error) { FAILURES_MAX } else { 1 };
                let noted = self.note_failure(stored, &error.to_string()).map(drop);
                sent.error = Some(error);
                noted
            }
            Err(error) => {
                sent.refused.push(format!("{}: {error}", stored.report.id));
                self.refuse(stored, &error.to_string())
            }
        }
    }
}

/// Returns true if the server did not answer at all, so that other reports need not be tried.
#[must_use]
pub const fn is_down(error: &ClientError) -> bool {
    !matches!(error, ClientError::Refused { .. })
}

/// Returns true if the report may be accepted later. A missing right waits too, because the operator can grant it.
fn waits(error: &ClientError) -> bool {
    error.is_passing()
        || matches!(error, ClientError::Refused { problem, .. } if matches!(problem.status, 401 | 403 | 404 | 408 | 421))
}

fn is_old(report: &SpooledReport) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs().saturating_sub(report.time) > REPORT_AGE_MAX.as_secs()
}

#[cfg(test)]
mod tests {
    use tempfile::{TempDir, tempdir};

    use super::*;
    use crate::http::Subject;
    use crate::spool::SpoolEntry;

    const LIMITS: SendLimits = SendLimits { reports: 10, time: Duration::from_secs(60) };

    /// Returns a spool with reports of these ages in seconds, and a client whose server does not exist.
    fn spool(ages: &[u64]) -> (TempDir, Spool, Client) {
        let folder = tempdir().unwrap();
        let spool = Spool::open(folder.path()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        for age in ages {
            let report = SpooledReport::new(ClaimKind::Report, None, Subject::default(), now - age).unwrap();
            spool.store(report).unwrap();
        }
        let client = Client::new("http://127.0.0.1:1", None, Duration::from_secs(5)).unwrap();
        (folder, spool, client)
    }

    #[test]
    fn old_reports_are_dropped_and_counted() {
        let limit = REPORT_AGE_MAX.as_secs();
        let (_folder, spool, client) = spool(&[limit + 60, limit - 60]);
        let sent = spool.send(&client, LIMITS).unwrap();
        assert_eq!((sent.dropped, sent.sent, spool.waiting().unwrap().len()), (1, 0, 1));
    }

    #[test]
    fn nothing_else_is_tried_if_the_server_cannot_be_reached() {
        let (_folder, spool, client) = spool(&[1, 2, 3]);
        assert!(matches!(spool.send(&client, LIMITS).unwrap().error, Some(ClientError::Unreachable { .. })));
        let attempts = spool.list().unwrap().into_iter().map(|entry| match entry {
            SpoolEntry::Waiting(report) => report.attempts,
            other => panic!("{other:?}"),
        });
        assert_eq!(attempts.sum::<u32>(), 1);
    }

    #[test]
    fn a_full_disk_keeps_the_report_as_it_was() {
        let (folder, spool, client) = spool(&[1, 2]);
        for entry in spool.list().unwrap() {
            let SpoolEntry::Waiting(report) = entry else { panic!("{entry:?}") };
            fill_disk(folder.path(), &report);
        }
        let before = spool.list().unwrap();
        let sent = spool.send(&client, LIMITS).unwrap();
        assert!(matches!(&sent.faults[..], [SpoolError::DiskFull { .. }]), "{:?}", sent.faults);
        assert!(matches!(sent.error, Some(ClientError::Unreachable { .. })));
        assert_eq!(spool.list().unwrap(), before);
    }

    #[test]
    fn a_report_is_kept_if_the_disk_fills_up_during_the_request() {
        let (folder, spool, client) = spool(&[]);
        let report = SpooledReport::new(ClaimKind::Report, None, Subject::default(), 7).unwrap();
        let stored = spool.store(report.clone()).unwrap();
        fill_disk(folder.path(), &report);
        let attempt = spool.send_one(&client, stored);
        assert!(matches!(attempt.result, Sending::Waits(ClientError::Unreachable { .. })), "{attempt:?}");
        assert!(matches!(attempt.fault, Some(SpoolError::DiskFull { .. })), "{attempt:?}");
        assert_eq!(spool.list().unwrap(), [SpoolEntry::Waiting(report)]);
    }

    /// Makes every later change of the report fail as on a full disk.
    fn fill_disk(folder: &std::path::Path, report: &SpooledReport) {
        for number in 0..2_000 {
            let temporary = folder.join(format!(".tmp-{}-{}-{number}", report.id, std::process::id()));
            std::os::unix::fs::symlink("/dev/full", temporary).unwrap();
        }
    }

    /// A Sieve script has 10 seconds. Sending the spool took the timeout of one request longer than its limit.
    #[test]
    fn a_request_ends_with_the_time_limit() {
        let (_folder, spool, _) = spool(&[1, 2]);
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let client = Client::new(&url, None, Duration::from_secs(600)).unwrap();
        let sent = spool.send(&client, SendLimits { reports: 10, time: Duration::from_millis(10) }).unwrap();
        let Some(ClientError::TimedOut { timeout, .. }) = sent.error else { panic!("{:?}", sent.error) };
        assert_eq!(timeout, REQUEST_TIME_MIN);
    }

    #[test]
    fn a_report_without_right_waits_and_a_malformed_one_does_not() {
        let refused = |status| ClientError::Refused {
            server: "s".into(),
            problem: crate::http::Problem::new(status, "no", "no"),
        };
        assert!([401, 403, 429, 500, 503].into_iter().all(|status| waits(&refused(status))));
        assert!(![400, 413, 422].into_iter().any(|status| waits(&refused(status))));
    }
}
