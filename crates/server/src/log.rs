//! Lines of the log that requests cause: one for each at debug, and a bound on those that strangers can cause at other levels.
//!
//! Nothing is formatted or allocated unless the level is on: whoever writes such a line asks [`is_on`] first. No line has mail
//! content, secrets or whole signatures; at trace, signatures are named by the first half of their fingerprint's first word, which
//! says nothing without the realm's key.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bruit_engine::verdict::Verdict;
use bruit_filters::Fingerprint;

use crate::metrics::{Answered, Language};

/// The target of lines about requests.
const TARGET: &str = "bruit::request";

/// What the log says about a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described {
    /// What was asked for, in the words of the protocol.
    pub(crate) operation: String,
    /// The account or token, as the request names it.
    pub(crate) account: Option<String>,
    /// How many signatures it is about.
    pub(crate) signatures: usize,
}

impl Described {
    pub(crate) fn new(operation: &str, account: Option<&[u8]>, signatures: usize) -> Self {
        let account = account.map(|name| String::from_utf8_lossy(name).into_owned());
        Self { operation: operation.to_owned(), account, signatures }
    }
}

/// A line about a request.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) protocol: Language,
    pub(crate) from: IpAddr,
    pub(crate) described: Described,
    pub(crate) answered: Answered,
    /// Why it was refused, if more is known than what it is counted as.
    pub(crate) reason: Option<String>,
    /// Its signatures with what is thought of them, if these are logged.
    pub(crate) judged: Vec<(Fingerprint, Verdict)>,
}

/// Whether lines about requests are written.
pub(crate) fn is_on() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
}

/// Whether their signatures are, too.
pub(crate) fn is_trace_on() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::TRACE)
}

impl Line {
    pub(crate) fn write(&self) {
        let Self { protocol, from, described, answered, reason, judged } = self;
        let Described { operation, account, signatures } = described;
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
            verdict = Answered::from(verdict.kind).name(),
            reason = ?verdict.reason,
            confidence = verdict.confidence,
            "signature"
        );
    }
}

/// Why a request was refused, if nothing else is known of it than what it is counted as.
const fn usual_reason(answered: Answered) -> Option<&'static str> {
    match answered {
        Answered::Refused => Some("the rights in the configuration do not allow it"),
        Answered::Duplicate => Some("a copy of an earlier request"),
        Answered::Malformed => Some("not a request of this protocol"),
        Answered::Limited => Some("more than the limits in the configuration allow"),
        Answered::Unverified => Some("unknown account, or wrong signature, password or time"),
        Answered::Failed => Some("it could not be kept"),
        _ => None,
    }
}

/// A bound on how many lines of a kind are written in a minute.
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

    /// Whether one more line may be written now; if so, how many were not since the last one.
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
        use Answered::{Accepted, Bulk, Ham, Other, Spam, Unknown};
        for answered in Answered::ALL {
            let is_answer = matches!(answered, Spam | Bulk | Ham | Unknown | Accepted | Other);
            assert_eq!(usual_reason(answered).is_none(), is_answer, "{answered:?}");
        }
    }
}
