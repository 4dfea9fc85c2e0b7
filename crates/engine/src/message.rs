//! The verdict on a message. It is derived from the evidence about each signature, and from the piece of the message
//! that the signature covers.
//!
//! Spam copies pieces of good mail: a logo, a footer, a template, a quoted thread. So a listed signature is evidence
//! only for the piece of the message that it covers. These rules apply in order:
//!
//! 1. A whitelisted sender makes the message ham.
//! 2. The signature of the whole text, the most specific evidence, decides for spam or ham.
//! 3. The main content ([`Main`]) decides for spam: the text (as a near replica of a reported text), all files
//!    together, or the links.
//! 4. Revoked or whitelisted main content makes the message ham.
//! 5. Enough recipients make the message bulk, unless its mailing list or a signature that counts its recipients is
//!    whitelisted.
//! 6. Any other listed evidence makes the message suspected. This may raise a score, but is never a reason to reject
//!    the message.
//!
//! A message is not spam merely because it resembles a reported text: two messages from one template resemble each
//! other, too. The near replica must be close ([`Stored::is_close`](bruit_signatures::bruit::Stored::is_close)). If
//! much of the reported text is known from good mail, a second person must have reported it.
//!
//! Without an [`Outline`], the request is about single signatures, and the pieces that they cover are unknown. Each
//! signature then decides by itself.

mod claim;
pub(crate) mod files;
mod learnable;
pub(crate) mod recipients;

use bruit_filters::Fingerprint;
use bruit_signatures::Scheme;
use bruit_signatures::bruit::Overlap;
use bruit_signatures::outline::{Main, Outline, Piece};

use crate::verdict::{Kind, Reason, Verdict};

pub use claim::{claim_events, is_claimed, is_text_claimed};
pub use files::{good_features, is_good_file};
pub use learnable::is_learnable;
pub use recipients::{NotCounted, WhitelistedSource, count_event};

/// Minimum number of people who must report a template before its near replicas are spam. A template is a text with
/// many features that are known from good mail.
pub const PEOPLE_AGREEING: u32 = 2;

/// Maximum confidence for a message that is only suspected.
pub const CONFIDENCE_SUSPECTED_MAX: u8 = 60;

/// The evidence from one signature of a message, or from its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The signature or text.
    pub source: EvidenceSource,
    /// The verdict on it.
    pub verdict: Verdict,
    /// True if this is a signature of empty content, which is not evidence.
    pub is_empty: bool,
}

/// The source of a piece of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceSource {
    /// A signature, by its scheme and the piece it covers.
    Signature(Scheme, Piece),
    /// The text of the message, as a near replica of a claimed text.
    Text(TextEvidence),
}

/// The resemblance of a message to a claimed text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextEvidence {
    /// Overlap of the two texts.
    pub overlap: Overlap,
    /// True if the message is close to the claimed text.
    pub is_close: bool,
    /// True if much of the claimed text is known from good mail.
    pub is_template: bool,
    /// True if the message only quotes or forwards the claimed text.
    pub is_quoted: bool,
    /// Fingerprint of the claimed text in the books; `None` if there is no such text.
    pub name: Option<Fingerprint>,
}

/// The role of a piece of evidence in the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The evidence may decide the verdict.
    Decides,
    /// The evidence can raise suspicion but cannot decide the verdict; the [`Limit`] is the reason.
    Supports(Limit),
    /// The evidence only counts recipients.
    Counts,
}

/// The reason why a piece of evidence cannot decide the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The evidence covers one part of the message, and other messages may share that part.
    OnePart,
    /// The evidence is a picture, and spam often copies pictures from good mail.
    Picture,
    /// The evidence is a business card, an invitation, a key or a tiny file. These occur in many messages.
    Accessory,
    /// The message has its own text, which is its main content.
    BesideText,
    /// Another file of the message is not listed.
    OtherFile,
    /// The text is so short that it occurs in many messages.
    ShortText,
    /// The text is quoted or forwarded.
    Quoted,
    /// The message resembles the claimed text, but is not close to it.
    Resemblance,
    /// Much of the reported text is known from good mail, and only one person has reported it.
    Template,
}

/// The verdict on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageVerdict {
    /// The kind of message.
    pub kind: Kind,
    /// The reason for that kind.
    pub reason: MessageReason,
    /// Confidence that the message is spam, 0 to 100.
    pub confidence: u8,
    /// Share of the message that the deciding evidence covers, in per cent.
    pub coverage: u8,
    /// Number of recipients counted.
    pub bulk_count: u32,
    /// Index of the piece of evidence that decided, if any.
    pub decided_by: Option<usize>,
    /// The role of each piece of evidence, in the order given.
    pub roles: Vec<Role>,
}

/// The reason for the verdict on a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageReason {
    /// The sender of the message is whitelisted.
    SenderWhitelisted,
    /// The evidence decided, for this reason.
    Evidence(Reason),
    /// A signature or text is listed or suspected, but does not decide.
    Suspected,
    /// There is no evidence about the message.
    #[default]
    NotReported,
}

/// The inputs of a verdict in addition to the evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageContext {
    /// The outline of the message, if known.
    pub outline: Option<Outline>,
    /// True if the sender is whitelisted.
    pub is_sender_whitelisted: bool,
    /// True if the mailing list is whitelisted. Its mail can be spam, but is never bulk.
    pub is_list_whitelisted: bool,
    /// Minimum number of recipients of a bulk message.
    pub bulk_threshold: u32,
}

/// Returns the verdict on a message.
#[must_use]
pub fn judge(evidence: &[Evidence], context: &MessageContext) -> MessageVerdict {
    let roles: Vec<Role> = evidence.iter().map(|one| role(one, evidence, context.outline.as_ref())).collect();
    let (kind, reason, decided_by) = decide(evidence, &roles, context);
    let decisive = decided_by.and_then(|at| evidence.get(at));
    let coverage = decisive.map_or(0, coverage);
    let confidence = match (kind, decisive) {
        (Kind::Spam, Some(one)) => graded(one.verdict.confidence, coverage),
        (Kind::Unknown, Some(one)) => graded(one.verdict.confidence, coverage).min(CONFIDENCE_SUSPECTED_MAX),
        _ => 0,
    };
    let bulk_count = recipients::recipients(evidence);
    MessageVerdict { kind, reason, confidence, coverage, bulk_count, decided_by, roles }
}

fn decide(evidence: &[Evidence], roles: &[Role], context: &MessageContext) -> (Kind, MessageReason, Option<usize>) {
    if context.is_sender_whitelisted {
        return (Kind::Ham, MessageReason::SenderWhitelisted, None);
    }
    let all = || evidence.iter().zip(roles).enumerate();
    let of = |kind: Kind| all().filter(move |(_, (one, _))| one.verdict.kind == kind);
    let decided = |kind: Kind, at: usize, one: &Evidence| (kind, MessageReason::Evidence(one.verdict.reason), Some(at));
    let is_exact = |one: &Evidence| matches!(one.source, EvidenceSource::Signature(Scheme::Exact, _));
    let exact = all().find(|(_, (one, role))| is_exact(one) && **role == Role::Decides);
    if let Some((at, (one, _))) = exact.filter(|(_, (one, _))| matches!(one.verdict.kind, Kind::Spam | Kind::Ham)) {
        return decided(one.verdict.kind, at, one);
    }
    let decides = |(_, (_, role)): &(usize, (&Evidence, &Role))| **role == Role::Decides;
    let sure = |(_, (one, _)): &(usize, (&Evidence, &Role))| graded(one.verdict.confidence, coverage(one));
    if let Some((at, (one, _))) = of(Kind::Spam).filter(decides).max_by_key(sure) {
        return decided(Kind::Spam, at, one);
    }
    if let Some((at, (one, _))) = of(Kind::Ham).find(decides) {
        return decided(Kind::Ham, at, one);
    }
    if is_bulk(evidence, context) {
        return (Kind::Bulk, MessageReason::Evidence(Reason::ManyRecipients), None);
    }
    let is_suspect = |one: &Evidence| one.verdict.kind == Kind::Spam || one.verdict.reason == Reason::Suspected;
    let suspects = all().filter(|(_, (one, role))| is_suspect(one) && **role != Role::Counts);
    match suspects.max_by_key(sure) {
        Some((at, _)) => (Kind::Unknown, MessageReason::Suspected, Some(at)),
        None => (Kind::Unknown, MessageReason::NotReported, None),
    }
}

/// Returns true if enough recipients were counted and no whitelist prevents a bulk verdict.
fn is_bulk(evidence: &[Evidence], context: &MessageContext) -> bool {
    let is_whitelisted = context.is_list_whitelisted || recipients::is_whitelisted(evidence);
    !is_whitelisted && recipients::recipients(evidence) >= context.bulk_threshold.max(1)
}

/// Returns the share of the message that the evidence covers, in per cent.
const fn coverage(evidence: &Evidence) -> u8 {
    match evidence.source {
        EvidenceSource::Text(text) => text.overlap.of_message,
        EvidenceSource::Signature(..) => 100,
    }
}

/// Reduces the confidence of evidence that covers only part of the message. With half of the message covered, the
/// confidence falls by an eighth.
const fn graded(confidence: u8, coverage: u8) -> u8 {
    (confidence as u32 * (300 + coverage as u32) / 400) as u8
}

fn role(one: &Evidence, all: &[Evidence], outline: Option<&Outline>) -> Role {
    match one.source {
        _ if one.is_empty => Role::Counts,
        EvidenceSource::Text(text) => role_of_text(&text, &one.verdict, outline),
        EvidenceSource::Signature(Scheme::Attachment, piece) => role_of_file(piece, one, all, outline),
        EvidenceSource::Signature(scheme, _) => role_of_signature(scheme, outline),
    }
}

fn role_of_text(text: &TextEvidence, verdict: &Verdict, outline: Option<&Outline>) -> Role {
    let is_agreed = verdict.voices >= PEOPLE_AGREEING;
    let is_main = outline.is_none_or(|outline| matches!(outline.main(), Main::Text | Main::Links));
    if text.is_quoted {
        Role::Supports(Limit::Quoted)
    } else if !is_main {
        Role::Supports(Limit::ShortText)
    } else if text.is_template && !is_agreed {
        Role::Supports(Limit::Template)
    } else if !text.is_close {
        Role::Supports(Limit::Resemblance)
    } else {
        Role::Decides
    }
}

fn role_of_signature(scheme: Scheme, outline: Option<&Outline>) -> Role {
    match (scheme, outline) {
        _ if scheme.is_dcc() => Role::Counts,
        (Scheme::Url | Scheme::RazorE8, _) => Role::Supports(Limit::OnePart),
        (_, None) => Role::Decides,
        (Scheme::Exact, Some(outline)) if outline.is_identified_by_text() => Role::Decides,
        (Scheme::Exact, Some(_)) => Role::Supports(Limit::ShortText),
        (_, Some(_)) => Role::Supports(Limit::OnePart),
    }
}

/// Returns the role of a file. The file decides if files are the main content of the message and all of them are
/// listed.
fn role_of_file(piece: Piece, file: &Evidence, all: &[Evidence], outline: Option<&Outline>) -> Role {
    let Some(outline) = outline else { return Role::Decides };
    let is_other = |one: &&Evidence| one.source == file.source && !std::ptr::eq(*one, file);
    match piece {
        Piece::Picture => Role::Supports(Limit::Picture),
        Piece::Accessory => Role::Supports(Limit::Accessory),
        Piece::Forwarded => Role::Supports(Limit::Quoted),
        _ if outline.main() != Main::Files => Role::Supports(Limit::BesideText),
        _ if all.iter().filter(is_other).any(|one| one.verdict.kind != Kind::Spam) => Role::Supports(Limit::OtherFile),
        _ => Role::Decides,
    }
}

#[cfg(test)]
mod tests;
