//! Everything that is known of signatures, for whoever wants to know why.

use serde::{Deserialize, Serialize};

use super::answers::{CheckedSignature, Verdict};
use super::subject::Outline;

/// The answer to the question why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// What is thought of the message, as a check is answered.
    pub verdict: Verdict,
    /// Why, as in [`Checked::reason`](super::Checked::reason).
    pub reason: String,
    /// How sure that it is spam, 0 to 100.
    pub confidence: u8,
    /// How much of the message the deciding evidence covers, in per cent.
    #[serde(default)]
    pub coverage: u8,
    /// What the message consists of, if the request said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outline: Option<Outline>,
    /// Recipients counted of the most widely sent of its signatures.
    pub bulk_count: u32,
    /// Whether the sender is whitelisted; absent if none was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_whitelisted: Option<bool>,
    /// Signature by signature, in the order of the request; the near replica last, under the scheme `bruit`.
    pub signatures: Vec<ExplainedSignature>,
}

/// Everything known of one signature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedSignature {
    /// What a check of it is answered.
    #[serde(flatten)]
    pub checked: CheckedSignature,
    /// Why no claim about it counts, if so: `empty` (every empty message has it), `operator` or `protocol`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whitelisted: Option<String>,
    /// The generations in which it is listed, by how many epochs ago they began: 0 is the current one.
    pub listed: Vec<u32>,
    /// The generations in which it is revoked.
    pub revoked: Vec<u32>,
    /// Whether it is listed in spite of its revocation, by more weight than that had.
    pub reinstated: bool,
    /// Claims in each live generation, newest first, where there are any.
    pub claims: Vec<GenerationClaims>,
    /// Recipients in each live generation, newest first, where there are any.
    pub recipients: Vec<GenerationRecipients>,
    /// What its claims add up to, while they are remembered one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// When it was first claimed or listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<u64>,
    /// When it was last claimed or listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<u64>,
}

/// Claims counted in a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationClaims {
    /// When the generation began.
    pub since: u64,
    /// The kind under which they were counted.
    pub flag: u8,
    /// Claims that it is spam.
    pub report_count: u32,
    /// Claims that it is not.
    pub revoke_count: u32,
}

/// Recipients counted in a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationRecipients {
    /// When the generation began.
    pub since: u64,
    /// How many.
    pub bulk_count: u32,
}

/// What the claims of a signature add up to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// How far it goes: `unknown`, `suspect` or `block`.
    pub level: String,
    /// What is compared with thresholds: spam less ham.
    pub score: f64,
    /// Evidence for spam, one voice per group.
    pub spam: f64,
    /// Evidence for ham.
    pub ham: f64,
    /// The part of `ham` that comes from anchors.
    pub ham_anchored: f64,
    /// Groups with a report that weighs something.
    pub groups: u32,
    /// Anchored groups among them.
    pub anchored_reports: u32,
    /// Anchored groups that revoke.
    pub anchored_revokes: u32,
    /// Own reporters who report.
    pub own_reports: u32,
    /// Own reporters who revoke.
    pub own_revokes: u32,
    /// Whether a trap reports.
    pub trap: bool,
    /// Reports, repeated ones too.
    pub report_count: u32,
    /// Revocations, repeated ones too.
    pub revoke_count: u32,
    /// When it was first claimed.
    pub first: u64,
    /// When it was last claimed.
    pub last: u64,
    /// When it was listed, if it was and still is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_is_read_as_written() {
        let checked =
            CheckedSignature { scheme: "pyzor".into(), value: Some("00".into()), ..CheckedSignature::default() };
        let evidence = Evidence { level: "block".into(), score: 7.5, promoted: Some(9), ..Evidence::default() };
        let signature = ExplainedSignature {
            checked,
            listed: vec![0, 3],
            claims: vec![GenerationClaims { since: 1, flag: 0, report_count: 2, revoke_count: 3 }],
            evidence: Some(evidence),
            ..ExplainedSignature::default()
        };
        let explained = Explained { signatures: vec![signature], ..Explained::default() };
        let value = serde_json::to_value(&explained).unwrap();
        assert_eq!(value["signatures"][0]["scheme"], "pyzor", "the answer of a check lies flat in it");
        assert_eq!(serde_json::from_value::<Explained>(value).unwrap(), explained);
    }
}
