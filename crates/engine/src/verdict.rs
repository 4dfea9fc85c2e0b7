//! What a check is answered: a verdict, with its reason.

use bruit_filters::ring::Generations;

use crate::spam::ClaimCounts;

/// What is thought of a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
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

/// Why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nobody whose word counts has said anything, as far as is remembered.
    #[default]
    NotReported,
    /// Reported, but not by enough to say so aloud: a score, never a reason to reject.
    Suspected,
    /// The site's own users reported it.
    OwnReports,
    /// Independent reporters agree, one of whom the operator trusts.
    Evidence,
    /// It was listed before the time that is remembered in detail.
    Listed,
    /// It was listed, and then revoked.
    Revoked,
    /// The operator says so, or every empty message has this signature.
    Whitelisted,
    /// At least as many recipients as the threshold.
    ManyRecipients,
}

/// The answer to a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is thought of it.
    pub kind: Kind,
    /// Why.
    pub reason: Reason,
    /// How sure that it is spam, 0 to 100.
    pub confidence: u8,
    /// Independent people, groups of them or servers who reported it, as far as is remembered.
    pub voices: u32,
    /// Claims that were counted, by reporters whose word has weight.
    pub counts: ClaimCounts,
    /// The recipients over the window, if the question was about the bulk book.
    pub bulk_count: u32,
    /// The generations of the spam book in which it was listed.
    pub generations: Generations,
}

/// The confidence of a signature that is listed by evidence long forgotten: that of the least evidence that lists.
pub const CONFIDENCE_LISTED: u8 = 88;
/// The confidence of what this many own users reported: 80, 90, 95, and so on. One of them may be mistaken.
#[must_use]
pub const fn confidence_of_own(reports: u32) -> u8 {
    100 - (40_u8 >> if reports > 5 { 5 } else { reports })
}
