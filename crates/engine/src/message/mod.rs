//! The rule for messages: from what is known of the signatures of a message, and what each of them covers, to a verdict.
//!
//! Spam copies pieces of good mail: a logo, a footer, a template, a quoted thread. So a listed signature says no more about a
//! message than it covers of it. In this order:
//!
//! 1. A whitelisted sender makes it ham.
//! 2. The signature of the whole text decides before anything else, either way: nothing is more specific.
//! 3. The main thing decides ([`Main`]): the text by its near replica, or the files, all of them together, or the links.
//! 4. What was revoked or whitelisted makes it ham.
//! 5. Enough recipients make it bulk.
//! 6. Everything else that is listed makes it suspected: a score, never a reason to reject.
//!
//! A message that only resembles a reported text, as two messages of one template do, is not spam by that: the near replica
//! must be close ([`Stored::is_close`](bruit_signatures::bruit::Stored::is_close)). If most of the reported text is known
//! from good mail, a second person must have reported it.
//!
//! Without an [`Outline`] nobody said what the signatures cover. Each of them then decides for itself, as the server was
//! asked about signatures and not about a message.

mod claim;
mod learnable;

use bruit_filters::Fingerprint;
use bruit_signatures::Scheme;
use bruit_signatures::bruit::Overlap;
use bruit_signatures::outline::{Main, Outline, Piece};

use crate::verdict::{Kind, Reason, Verdict};

pub use claim::{claim_events, is_claimed, is_text_claimed};
pub use learnable::is_learnable;

/// People who must have reported a text that is mostly known from good mail before its near replicas are spam.
pub const PEOPLE_AGREEING: u32 = 2;

/// The highest confidence of what is only suspected.
pub const CONFIDENCE_SUSPECTED_MAX: u8 = 60;

/// What is known of one signature of a message, or of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What it is.
    pub source: EvidenceSource,
    /// What is known of it.
    pub verdict: Verdict,
    /// Whether every empty message has this signature, so that it says nothing.
    pub is_empty: bool,
}

/// What evidence is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceSource {
    /// A signature, by its scheme and the piece it covers.
    Signature(Scheme, Piece),
    /// The text, as a near replica of one that was claimed.
    Text(TextEvidence),
}

/// How a text resembles one that was claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextEvidence {
    /// How much they have in common.
    pub overlap: Overlap,
    /// Whether the message is close to the text.
    pub is_close: bool,
    /// Whether most of the text that was claimed is known from good mail.
    pub is_template: bool,
    /// Whether the message only quotes or forwards it.
    pub is_quoted: bool,
    /// What the claimed text is called in the books; none if there is no such text.
    pub name: Option<Fingerprint>,
}

/// What a piece of evidence has to do with the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It may decide.
    Decides,
    /// It only adds suspicion, because of this.
    Supports(Limit),
    /// It counts recipients, and says nothing else.
    Counts,
}

/// Why evidence does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It covers one part of the message, and other messages may share that part.
    OnePart,
    /// Pictures are copied from good mail.
    Picture,
    /// Business cards, invitations, keys and tiny files are everybody's.
    Accessory,
    /// The message has a text of its own, which is what makes it what it is.
    BesideText,
    /// Another file of the message is not listed.
    OtherFile,
    /// The text is so short that it is everybody's.
    ShortText,
    /// The text is quoted or forwarded.
    Quoted,
    /// The message resembles the text, but is not close to it.
    Resemblance,
    /// Most of the reported text is known from good mail, and only one person has reported it.
    Template,
}

/// The verdict on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageVerdict {
    /// What it is.
    pub kind: Kind,
    /// Why.
    pub reason: MessageReason,
    /// How sure that it is spam, 0 to 100.
    pub confidence: u8,
    /// How much of the message the deciding evidence covers, in per cent.
    pub coverage: u8,
    /// The evidence that decided, by its place.
    pub decided_by: Option<usize>,
    /// What each piece of evidence has to do with it, in the order given.
    pub roles: Vec<Role>,
}

/// Why a message is what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageReason {
    /// Its sender is whitelisted.
    SenderWhitelisted,
    /// What is known of the deciding evidence.
    Evidence(Reason),
    /// Nothing that is listed decides, but something is.
    Suspected,
    /// Nothing is known.
    #[default]
    NotReported,
}

/// What besides the evidence a verdict depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageContext {
    /// What the message consists of, if that is known.
    pub outline: Option<Outline>,
    /// Whether the sender is whitelisted.
    pub is_sender_whitelisted: bool,
    /// From this many recipients on it is bulk.
    pub bulk_threshold: u32,
}

/// Judges a message.
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
    MessageVerdict { kind, reason, confidence, coverage, decided_by, roles }
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
    if evidence.iter().any(|one| one.verdict.bulk_count >= context.bulk_threshold) {
        return (Kind::Bulk, MessageReason::Evidence(Reason::ManyRecipients), None);
    }
    let is_suspect = |one: &Evidence| one.verdict.kind == Kind::Spam || one.verdict.reason == Reason::Suspected;
    let suspects = all().filter(|(_, (one, role))| is_suspect(one) && **role != Role::Counts);
    match suspects.max_by_key(sure) {
        Some((at, _)) => (Kind::Unknown, MessageReason::Suspected, Some(at)),
        None => (Kind::Unknown, MessageReason::NotReported, None),
    }
}

/// How much of the message evidence covers, in per cent.
const fn coverage(evidence: &Evidence) -> u8 {
    match evidence.source {
        EvidenceSource::Text(text) => text.overlap.of_message,
        EvidenceSource::Signature(..) => 100,
    }
}

/// A confidence in view of how much of the message the evidence covers: evidence for half of it loses an eighth.
const fn graded(confidence: u8, coverage: u8) -> u8 {
    (confidence as u32 * (300 + coverage as u32) / 400) as u8
}

fn role(one: &Evidence, all: &[Evidence], outline: Option<&Outline>) -> Role {
    match one.source {
        _ if one.is_empty => Role::Counts,
        EvidenceSource::Text(text) => role_of_text(&text, &one.verdict, outline),
        EvidenceSource::Signature(scheme, piece) => role_of_signature(scheme, piece, all, outline),
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

fn role_of_signature(scheme: Scheme, piece: Piece, all: &[Evidence], outline: Option<&Outline>) -> Role {
    match (scheme, outline) {
        _ if scheme.is_dcc() => Role::Counts,
        (Scheme::Url | Scheme::RazorE8, _) => Role::Supports(Limit::OnePart),
        (_, None) => Role::Decides,
        (Scheme::Exact, Some(outline)) if outline.is_told_by_text() => Role::Decides,
        (Scheme::Exact, Some(_)) => Role::Supports(Limit::ShortText),
        (Scheme::Attachment, Some(outline)) => role_of_file(piece, all, outline),
        (_, Some(_)) => Role::Supports(Limit::OnePart),
    }
}

/// A file decides if the message is next to nothing but files, and all of them are listed.
fn role_of_file(piece: Piece, all: &[Evidence], outline: &Outline) -> Role {
    let is_file = |one: &&Evidence| one.source == EvidenceSource::Signature(Scheme::Attachment, Piece::File);
    match piece {
        Piece::Picture => Role::Supports(Limit::Picture),
        Piece::Accessory => Role::Supports(Limit::Accessory),
        _ if outline.main() != Main::Files => Role::Supports(Limit::BesideText),
        _ if all.iter().filter(is_file).any(|one| one.verdict.kind != Kind::Spam) => Role::Supports(Limit::OtherFile),
        _ => Role::Decides,
    }
}

#[cfg(test)]
mod tests;
