//! Answers to checks and claims, and errors.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::reason::{Limit, Reason};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(super) const fn is_false(value: &bool) -> bool {
    !*value
}

/// A verdict on a message or signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// There is not enough evidence.
    #[default]
    Unknown,
    /// Spam.
    Spam,
    /// The message was sent to many recipients.
    Bulk,
    /// The message or signature was revoked or whitelisted.
    Ham,
}

impl Verdict {
    /// Returns the name used in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Spam => "spam",
            Self::Bulk => "bulk",
            Self::Ham => "ham",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// The answer to a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Verdict on the message.
    pub verdict: Verdict,
    /// Reason for the verdict.
    pub reason: Reason,
    /// Confidence that the message is spam, 0 to 100.
    pub confidence: u8,
    /// Share of the message that the deciding evidence covers, in per cent.
    #[serde(default)]
    pub coverage: u8,
    /// Number of recipients counted, including those of this request.
    pub bulk_count: u32,
    /// Number of recipients at which a message becomes bulk, as set by the request or, failing that, by the server.
    /// Older servers omit this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk_threshold: Option<u32>,
    /// Number of recipients that this request added to the total. Present only if the request counts recipients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<u32>,
    /// Reason why fewer recipients were counted than requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_reason: Option<String>,
    /// Result for each signature, in request order. The near replica comes last, with the scheme `bruit`.
    pub signatures: Vec<CheckedSignature>,
}

/// Verdict on one signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedSignature {
    /// The scheme.
    pub scheme: String,
    /// The signature. Absent for near replicas, which have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Verdict on the signature.
    pub verdict: Verdict,
    /// Reason for the verdict.
    pub reason: Reason,
    /// Confidence that the signature is spam, 0 to 100.
    pub confidence: u8,
    /// Number of reports by reporters with weight.
    pub report_count: u32,
    /// Number of revocations.
    pub revoke_count: u32,
    /// Number of recipients counted.
    pub bulk_count: u32,
    /// True if the signature decided the verdict on the message.
    #[serde(default, skip_serializing_if = "is_false")]
    pub decided: bool,
    /// For a near replica: share of the message that agrees with the claimed text, in per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_message: Option<u8>,
    /// For a near replica: share of the claimed text that agrees with the message, in per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_report: Option<u8>,
    /// Reason why the signature does not decide the verdict on the message, although it is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// The answer to a report or revocation, sent once the claims are on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// Number of accepted claims. The text of a message counts as one signature.
    pub accepted: u32,
    /// Number of signatures newly listed as spam.
    pub listed: u32,
    /// Number of signatures newly revoked.
    pub revoked: u32,
    /// Number of claims ignored because the signature is whitelisted.
    pub ignored: u32,
    /// Number of refused claims.
    pub refused: u32,
    /// Reason for a refusal, if any claim was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True if a request with the same idempotency key was accepted before. This request changed nothing, and the
    /// numbers are those of the first request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub repeated: bool,
}

/// The answer to a request to count recipients, sent once the count is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Number of recipients that this request added to the total.
    pub counted: u32,
    /// Number of recipients counted, including those of this request.
    pub bulk_count: u32,
    /// Reason why fewer recipients were added than requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_reason: Option<String>,
}

/// The answer to a request to learn a good message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnAnswer {
    /// Number of features learned from the text. A feature is treated as good once it has occurred in two different
    /// messages.
    pub learnt: u32,
    /// Reason why no features were learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An error, as `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{title}: {detail}")]
pub struct Problem {
    /// Problem type. Always `about:blank`, because the status already identifies the problem.
    #[serde(rename = "type", default = "blank")]
    pub kind: String,
    /// Name of the problem type.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Details of this occurrence.
    pub detail: String,
}

fn blank() -> String {
    "about:blank".to_owned()
}

impl Problem {
    /// Creates a problem whose type is its HTTP status.
    #[must_use]
    pub fn new(status: u16, title: &str, detail: impl fmt::Display) -> Self {
        Self { kind: blank(), title: title.to_owned(), status, detail: detail.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_one_name() {
        for verdict in [Verdict::Unknown, Verdict::Spam, Verdict::Bulk, Verdict::Ham] {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
    }

    #[test]
    fn answers_may_have_more_fields_and_fewer() {
        let text = r#"{"scheme": "bruit", "verdict": "spam", "reason": "listed", "confidence": 88, "report_count": 1,
            "revoke_count": 0, "bulk_count": 0, "colour": "red"}"#;
        let read: CheckedSignature = serde_json::from_str(text).unwrap();
        assert_eq!((read.value, read.verdict), (None, Verdict::Spam));
    }

    #[test]
    fn a_problem_reads_well() {
        let problem = Problem::new(403, "not allowed", "reporting needs a token");
        assert_eq!(problem.to_string(), "not allowed: reporting needs a token");
        let text = serde_json::to_string(&problem).unwrap();
        assert!(text.starts_with(r#"{"type":"about:blank""#), "{text}");
        assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
    }
}
