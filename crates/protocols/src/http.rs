//! The JSON of our own HTTP interface: what is asked, and what is answered.
//!
//! Signatures are spelt as `bruit sign` prints them. The features of a text, by which near replicas are found, are numbers
//! of 8 bytes, little-endian, in base64. `GET /v1/openapi.json` of a server describes all of it.

use serde::{Deserialize, Serialize};

/// Most signatures in one request.
pub const SIGNATURES_MAX: usize = 256;

/// Most features of a text in one request: as many as a message has at most.
pub const FEATURES_MAX: usize = 1 << 17;

/// What a check, report, revocation or explanation is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Subject {
    /// Signatures, at most [`SIGNATURES_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<NamedSignature>,
    /// The text, for near replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// The sender's address, for the whitelist of senders. It is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

/// A signature by its scheme's name and in its spelling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedSignature {
    /// The scheme, such as `pyzor`.
    pub scheme: String,
    /// The signature.
    pub value: String,
}

/// The features of a text, each list in base64 of little-endian numbers of 8 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Text {
    /// Pairs of words.
    pub pairs: String,
    /// Links.
    pub links: String,
    /// The whole, 16 hexadecimal digits, of texts with few features.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
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
    /// Recipients counted of the most widely sent of its signatures.
    pub bulk_count: u32,
    /// Signature by signature, in the order of the request; the near replica last, under the scheme `bruit`.
    pub signatures: Vec<CheckedSignature>,
}

/// What is thought of one signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedSignature {
    /// The scheme.
    pub scheme: String,
    /// The signature; absent for near replicas, which have none.
    #[serde(skip_serializing_if = "Option::is_none")]
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
}

/// The answer to a report or revocation: it is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// Signatures whose claim was taken.
    pub accepted: u32,
    /// Signatures that are listed as spam since.
    pub listed: u32,
    /// Signatures that are revoked since.
    pub revoked: u32,
    /// Signatures of which no claim is taken, as they are whitelisted.
    pub ignored: u32,
    /// Signatures whose claim was refused.
    pub refused: u32,
    /// Why the last of them was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What went wrong, as `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What kind of problem it is: a page of its own, or `about:blank`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong with this request.
    pub detail: String,
}
