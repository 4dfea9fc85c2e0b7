//! What a check or claim is answered, and what went wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(super) const fn is_false(value: &bool) -> bool {
    !*value
}

/// What is thought of a message or signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing that decides.
    #[default]
    Unknown,
    /// It is spam.
    Spam,
    /// Many have received it.
    Bulk,
    /// It was called spam wrongly, or must never be.
    Ham,
}

impl Verdict {
    /// The word for it, as in JSON.
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
    /// What is thought of the message.
    pub verdict: Verdict,
    /// Why, in a word: `own_reports`, `evidence`, `listed`, `revoked`, `whitelisted`, `sender_whitelisted`,
    /// `many_recipients`, `suspected` or `not_reported`.
    pub reason: String,
    /// How sure that it is spam, 0 to 100.
    pub confidence: u8,
    /// Share of the message that the deciding evidence covers, in per cent.
    #[serde(default)]
    pub coverage: u8,
    /// Recipients counted, with those that this request counted.
    pub bulk_count: u32,
    /// Number of recipients from which the message is bulk: that of the request, or else the server's. Older servers do not
    /// say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk_threshold: Option<u32>,
    /// Recipients that this request added to the total, if it was to count any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<u32>,
    /// Reason why they are fewer than the request says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_reason: Option<String>,
    /// Signature by signature, in the order of the request; the near replica last, under the scheme `bruit`.
    pub signatures: Vec<CheckedSignature>,
}

/// What is thought of one signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedSignature {
    /// The scheme.
    pub scheme: String,
    /// The signature; absent for near replicas, which have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What is thought of it.
    pub verdict: Verdict,
    /// Why, as in [`Checked::reason`].
    pub reason: String,
    /// How sure that it is spam, 0 to 100.
    pub confidence: u8,
    /// Claims that it is spam, by reporters whose word has weight.
    pub report_count: u32,
    /// Claims that it is not.
    pub revoke_count: u32,
    /// Recipients counted.
    pub bulk_count: u32,
    /// Whether it decided the verdict on the message.
    #[serde(default, skip_serializing_if = "is_false")]
    pub decided: bool,
    /// For a near replica: share of the message that agrees with the claimed text, in per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_message: Option<u8>,
    /// For a near replica: share of the claimed text that agrees with the message, in per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_report: Option<u8>,
    /// Reason why it does not decide although it is listed: `one_part`, `picture`, `accessory`, `beside_text`,
    /// `other_file`, `short_text`, `quoted`, `resemblance` or `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

/// The answer to a report or revocation: it is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// Signatures whose claim was taken; the text of a message is one of them.
    pub accepted: u32,
    /// Signatures that are listed as spam since.
    pub listed: u32,
    /// Signatures that are revoked since.
    pub revoked: u32,
    /// Signatures of which no claim is taken, as they are whitelisted.
    pub ignored: u32,
    /// Signatures whose claim was refused.
    pub refused: u32,
    /// Why, if any was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to a request to count the recipients of a message: they are on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Recipients that this request added to the total.
    pub counted: u32,
    /// Recipients counted, with them.
    pub bulk_count: u32,
    /// Reason why fewer were added than the request says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_reason: Option<String>,
}

/// The answer to a request to learn a good message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnAnswer {
    /// Number of features learnt from its text. A feature becomes good once two different messages had it.
    pub learnt: u32,
    /// Reason why none were learnt, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What went wrong, as `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{title}: {detail}")]
pub struct Problem {
    /// What kind of problem it is: `about:blank`, as the status says it all.
    #[serde(rename = "type", default = "blank")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong with this request.
    pub detail: String,
}

fn blank() -> String {
    "about:blank".to_owned()
}

impl Problem {
    /// A problem whose kind is its status.
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
