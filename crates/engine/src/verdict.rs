//! The answer to a check: a verdict with its reason.

use bruit_filters::ring::Generations;

use crate::spam::ClaimCounts;

/// The kind of a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// There is no decisive evidence.
    #[default]
    Unknown,
    /// The signature is spam.
    Spam,
    /// The message has many recipients.
    Bulk,
    /// The signature was reported wrongly or is whitelisted.
    Ham,
}

/// The reason for a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There is no stored claim by a reporter with weight.
    #[default]
    NotReported,
    /// Reported, but without sufficient evidence. This may raise a score, but is never a reason to reject a message.
    Suspected,
    /// The site's own users reported it.
    OwnReports,
    /// Independent reporters agree, at least one of them trusted by the operator.
    Evidence,
    /// Listed, but the detailed evidence is no longer stored.
    Listed,
    /// Listed, and then revoked.
    Revoked,
    /// Whitelisted, or shared by all empty messages.
    Whitelisted,
    /// The number of recipients has reached the threshold.
    ManyRecipients,
}

/// The answer to a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Kind of the verdict.
    pub kind: Kind,
    /// Reason for the kind.
    pub reason: Reason,
    /// Confidence that the signature is spam, 0 to 100.
    pub confidence: u8,
    /// Number of independent voices (people, groups or servers) whose reports are stored.
    pub voices: u32,
    /// Counted claims. Only claims by reporters with weight are counted.
    pub counts: ClaimCounts,
    /// Number of recipients over the window, if the bulk book was checked.
    pub bulk_count: u32,
    /// Generations of the spam book in which the signature was listed.
    pub generations: Generations,
}

/// Confidence for a listed signature without stored evidence. It is the confidence for the least evidence that is
/// sufficient for listing.
pub const CONFIDENCE_LISTED: u8 = 88;
/// Returns the confidence for reports by this many own users: 80 for one user, who may be mistaken, 90 for two, 95 for
/// three, and so on.
#[must_use]
pub const fn confidence_of_own(reports: u32) -> u8 {
    100 - (40_u8 >> if reports > 5 { 5 } else { reports })
}
