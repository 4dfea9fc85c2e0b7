//! Log lines of requests, one per request at level debug. Strangers can also cause some lines at other levels; this
//! module limits the rate of these lines.
//!
//! Callers check [`is_on`] first, so nothing is formatted or allocated unless the level is enabled. No line contains
//! mail content, secrets or whole signatures. At level trace, a signature is identified by the first 32 bits of its
//! fingerprint, which are meaningless without the realm's key.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bruit_engine::verdict::Verdict;
use bruit_filters::Fingerprint;

use crate::metrics::{Disposition, Interface};

/// The target of request lines.
const TARGET: &str = "bruit::request";

/// The description of a request in the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestDescription {
    /// The operation, in the protocol's own terms.
    pub(crate) operation: String,
    /// The account or token named in the request.
    pub(crate) account: Option<String>,
    /// Number of signatures.
    pub(crate) signatures: usize,
}

impl RequestDescription {
    pub(crate) fn new(operation: &str, account: Option<&[u8]>, signatures: usize) -> Self {
        let account = account.map(|name| String::from_utf8_lossy(name).into_owned());
        Self { operation: operation.to_owned(), account, signatures }
    }
}

/// A request's log line.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) protocol: Interface,
    pub(crate) from: IpAddr,
    pub(crate) described: RequestDescription,
    pub(crate) answered: Disposition,
    /// The reason for a refusal, if the result alone does not explain it.
    pub(crate) reason: Option<String>,
    /// The signatures and their verdicts, if the log includes signatures.
    pub(crate) judged: Vec<(Fingerprint, Verdict)>,
}

/// Returns true if requests are logged.
pub(crate) fn is_on() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
}

/// Returns true if the log includes signatures.
pub(crate) fn is_trace_on() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::TRACE)
}

impl Line {
    pub(crate) fn write(&self) {
        let Self { protocol, from, described, answered, reason, judged } = self;
        let RequestDescription { operation, account, signatures } = described;
        let reason = reason.as_deref().or_else(|| usual_reason(*answered));
        tracing::debug!(
            target: TARGET,
            protocol = protocol.name(),
            from = %from,
            account = account.as_deref(),
            operation = operation.as_str(),
            signatures,
            answered = answered.name(),
            reason,
            "request"
        );
        for (fingerprint, verdict) in judged {
            self.write_signature(fingerprint, verdict);
        }
    }

    fn write_signature(&self, fingerprint: &Fingerprint, verdict: &Verdict) {
        tracing::trace!(
            target: TARGET,
            protocol = self.protocol.name(),
            from = %self.from,
            fingerprint = %format_args!("{:08x}", fingerprint.high() >> 32),
            verdict = Disposition::from(verdict.kind).name(),
            reason = ?verdict.reason,
            confidence = verdict.confidence,
            "signature"
        );
    }
}

/// Returns the default reason of a refusal.
const fn usual_reason(answered: Disposition) -> Option<&'static str> {
    match answered {
        Disposition::Refused => Some("not allowed by the configured rights"),
        Disposition::Duplicate => Some("a copy of an earlier request"),
        Disposition::Malformed => Some("malformed request"),
        Disposition::Limited => Some("beyond the configured limits"),
        Disposition::Unverified => Some("unknown account, or wrong signature, password or time"),
        Disposition::Failed => Some("the store failed"),
        _ => None,
    }
}

/// A limit on the number of lines of one kind per minute.
#[derive(Debug)]
pub(crate) struct LineLimit {
    per_minute: u32,
    state: Mutex<Minute>,
}

#[derive(Debug)]
struct Minute {
    began: Option<Instant>,
    written: u32,
    suppressed: u64,
}

const MINUTE: Duration = Duration::from_secs(60);

impl LineLimit {
    pub(crate) const fn new(per_minute: u32) -> Self {
        Self { per_minute, state: Mutex::new(Minute { began: None, written: 0, suppressed: 0 }) }
    }

    /// Returns `None` if the limit is reached, otherwise the number of lines suppressed since the last one.
    pub(crate) fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let mut minute = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if minute.began.is_none_or(|began| now.saturating_duration_since(began) >= MINUTE) {
            (minute.began, minute.written) = (Some(now), 0);
        }
        if minute.written >= self.per_minute {
            minute.suppressed += 1;
            return None;
        }
        minute.written += 1;
        Some(std::mem::take(&mut minute.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_by_the_minute_and_the_next_one_says_how_many_are_missing() {
        let (limit, start) = (LineLimit::new(3), Instant::now());
        let admitted = (0..10).filter_map(|_| limit.admit_at(start)).collect::<Vec<_>>();
        assert_eq!(admitted, [0, 0, 0]);
        assert_eq!(limit.admit_at(start + MINUTE - Duration::from_millis(1)), None);
        assert_eq!(limit.admit_at(start + MINUTE), Some(8));
        assert_eq!(limit.admit_at(start + MINUTE), Some(0));
    }

    #[test]
    fn every_refusal_has_a_reason_and_no_answer_does() {
        use Disposition::{Accepted, Bulk, Ham, Other, Spam, Unknown};
        for answered in Disposition::ALL {
            let is_answer = matches!(answered, Spam | Bulk | Ham | Unknown | Accepted | Other);
            assert_eq!(usual_reason(answered).is_none(), is_answer, "{answered:?}");
        }
    }
}
