//! All evidence about signatures, to explain a verdict.

use serde::{Deserialize, Serialize};

use super::answers::{CheckedSignature, Verdict};
use super::reason::Reason;
use super::subject::Outline;

/// An explained verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Verdict on the message, as in a check.
    pub verdict: Verdict,
    /// Reason for the verdict.
    pub reason: Reason,
    /// Confidence that the message is spam, 0 to 100.
    pub confidence: u8,
    /// Share of the message that the deciding evidence covers, in per cent.
    #[serde(default)]
    pub coverage: u8,
    /// Composition of the message, if the request included it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outline: Option<Outline>,
    /// Number of recipients counted for the message's most widely sent signature.
    pub bulk_count: u32,
    /// True if the sender is whitelisted. Absent if the request did not name a sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_whitelisted: Option<bool>,
    /// Result for each signature, in request order. The near replica comes last, with the scheme `bruit`.
    pub signatures: Vec<ExplainedSignature>,
}

/// All evidence about one signature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedSignature {
    /// Result of checking the signature.
    #[serde(flatten)]
    pub checked: CheckedSignature,
    /// Reason why claims about the signature are ignored: `empty` (all empty messages share the signature), `operator` or
    /// `protocol`. Absent if claims are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whitelisted: Option<String>,
    /// Ages, in epochs, of the generations in which the signature is listed. The current generation has age 0.
    pub listed: Vec<u32>,
    /// Ages, in epochs, of the generations in which the signature is revoked.
    pub revoked: Vec<u32>,
    /// True if the signature is listed despite a revocation, because the later reports had more weight.
    pub reinstated: bool,
    /// Claims in each live generation, newest first. Generations without claims are omitted.
    pub claims: Vec<GenerationClaims>,
    /// Recipients in each live generation, newest first. Generations without recipients are omitted.
    pub recipients: Vec<GenerationRecipients>,
    /// Sum of the signature's claims. Absent once the claims are no longer kept individually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Reporters whose claims are kept individually, in the order of their first claims. Present only for
    /// administrators. Strangers are not included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reporters: Vec<SignatureReporter>,
    /// Time when the signature was first claimed or listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<u64>,
    /// Time when the signature was last claimed or listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<u64>,
}

/// The claim of one reporter about a signature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SignatureReporter {
    /// `account`, `token`, `person` (named by the holder of a token), `user` (of the Unix socket), `network` (an address
    /// in an own network), `peer`, or `unknown` (a removed account, or a reporter of another server).
    pub kind: String,
    /// Protocol of the account. Absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Name of the account, the token or the peer. For a person, the name of the token. Absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Standing when the claim was made: `trap`, `own`, `pinned` or `account`.
    pub standing: String,
    /// Group whose members count as one voice, as 16 hex digits.
    pub group: String,
    /// `report` or `revoke`.
    pub claim: String,
    /// Weight of the reporter when it made the claim.
    pub weight: f64,
    /// True if a later change overruled the claim, which is then no longer evidence.
    pub overruled: bool,
}

/// Claims counted in one generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationClaims {
    /// Start of the generation.
    pub since: u64,
    /// Flag under which the claims were counted: a list number of the fuzzy protocol, or 0.
    pub flag: u8,
    /// Number of reports.
    pub report_count: u32,
    /// Number of revocations.
    pub revoke_count: u32,
}

/// Recipients counted in one generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationRecipients {
    /// Start of the generation.
    pub since: u64,
    /// Number of recipients.
    pub bulk_count: u32,
}

/// The sum of a signature's claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Level reached: `unknown`, `suspect` or `block`.
    pub level: String,
    /// Score that is compared with the thresholds: `spam` minus `ham`.
    pub score: f64,
    /// Evidence for spam. Each group counts as one voice.
    pub spam: f64,
    /// Evidence for ham. Each group counts as one voice.
    pub ham: f64,
    /// Part of `ham` that comes from anchors.
    pub ham_anchored: f64,
    /// Number of groups whose reports have weight.
    pub groups: u32,
    /// Number of anchored groups that reported.
    pub anchored_reports: u32,
    /// Number of anchored groups that revoked.
    pub anchored_revokes: u32,
    /// Number of the site's own users who reported the signature.
    pub own_reports: u32,
    /// Number of the site's own users who revoked it.
    pub own_revokes: u32,
    /// True if a trap reported the signature.
    pub trap: bool,
    /// Number of reports, including repeated ones.
    pub report_count: u32,
    /// Number of revocations, including repeated ones.
    pub revoke_count: u32,
    /// Time of the first claim.
    pub first: u64,
    /// Time of the last claim.
    pub last: u64,
    /// Time when the signature was listed, if it is still listed.
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
        assert_eq!(value["signatures"][0]["scheme"], "pyzor", "the result of the check is flattened");
        assert_eq!(serde_json::from_value::<Explained>(value).unwrap(), explained);
    }
}
