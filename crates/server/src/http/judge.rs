//! Builds the response to a check from the engine's verdict on the message.

use bruit_engine::message::{
    Evidence, EvidenceSource, Limit, MessageContext, MessageReason, MessageVerdict, Role, WhitelistedSource,
    is_learnable, judge as judge_message,
};
use bruit_engine::signature::fingerprint_of;
use bruit_engine::verdict::{Kind, Reason};
use bruit_engine::{CheckScratch, Engine};
use bruit_filters::Fingerprint;
use bruit_protocols::http::{self, Checked, CheckedSignature, REPLICA_SCHEME};
use bruit_signatures::Signature;

use super::body::RequestSubject;
use super::note::Note;

/// The verdict on a message and the response to the check.
pub(super) struct Judgement {
    pub(super) kind: Kind,
    pub(super) checked: Checked,
    /// The fingerprint of the known text that the message resembles.
    pub(super) text: Option<Fingerprint>,
    /// True if the message may be learned as good mail, because there is no evidence against it.
    pub(super) is_learnable: bool,
}

/// Judges a message. It is bulk if it has at least `bulk_threshold` recipients.
pub(super) fn check(engine: &Engine, asked: &RequestSubject, bulk_threshold: u32, note: Option<&Note>) -> Judgement {
    let signed = &asked.signed;
    let evidence = engine.check_message(signed, &mut CheckScratch::default());
    if let Some(note) = note {
        let key = engine.realm().key();
        let fingerprints: Vec<_> = signed.signatures.iter().map(|signature| fingerprint_of(key, signature)).collect();
        note.set_signatures(signed.signatures.len());
        note.set_judged(fingerprints.iter().zip(evidence.iter().map(|one| &one.verdict)));
    }
    let source = whitelisted_source(engine, asked);
    let context = MessageContext {
        outline: signed.outline,
        is_sender_whitelisted: source.sender,
        is_list_whitelisted: source.list,
        bulk_threshold,
    };
    let verdict = judge_message(&evidence, &context);
    let text = evidence.iter().find_map(|one| match one.source {
        EvidenceSource::Text(text) => text.name,
        EvidenceSource::Signature(..) => None,
    });
    Judgement {
        kind: verdict.kind,
        checked: Checked { bulk_threshold: Some(bulk_threshold), ..checked(&signed.signatures, &evidence, &verdict) },
        text,
        is_learnable: is_learnable(&evidence, &verdict),
    }
}

/// Returns true if a sender is whitelisted.
pub(super) fn is_whitelisted(engine: &Engine, sender: &str) -> bool {
    engine.whitelist().senders.contains(sender.as_bytes())
}

/// Returns the whitelist entries that match a message's source.
pub(super) fn whitelisted_source(engine: &Engine, asked: &RequestSubject) -> WhitelistedSource {
    let lists = &engine.whitelist().senders;
    WhitelistedSource {
        sender: asked.sender.as_ref().is_some_and(|sender| is_whitelisted(engine, sender)),
        list: asked.list.as_ref().is_some_and(|list| lists.contains_list(list.as_bytes())),
    }
}

fn checked(signatures: &[Signature], evidence: &[Evidence], verdict: &MessageVerdict) -> Checked {
    let named = signatures.iter().map(Some).chain([None]);
    let all = named.zip(evidence).zip(&verdict.roles).enumerate();
    Checked {
        verdict: kind_json(verdict.kind),
        reason: message_reason_json(verdict.reason),
        confidence: verdict.confidence,
        coverage: verdict.coverage,
        bulk_count: verdict.bulk_count,
        signatures: all
            .map(|(at, ((signature, one), role))| CheckedSignature {
                decided: verdict.decided_by == Some(at) && verdict.kind != Kind::Unknown,
                ..signature_json(signature, one, *role)
            })
            .collect(),
        ..Checked::default()
    }
}

fn signature_json(signature: Option<&Signature>, evidence: &Evidence, role: Role) -> CheckedSignature {
    let verdict = &evidence.verdict;
    let overlap = match evidence.source {
        EvidenceSource::Text(text) if verdict.reason != Reason::NotReported => Some(text.overlap),
        _ => None,
    };
    let is_listed = verdict.kind == Kind::Spam || verdict.reason == Reason::Suspected;
    CheckedSignature {
        scheme: signature.map_or(REPLICA_SCHEME, |signature| signature.scheme().name()).to_owned(),
        value: signature.map(ToString::to_string),
        verdict: kind_json(verdict.kind),
        reason: reason_json(verdict.reason),
        confidence: verdict.confidence,
        report_count: verdict.counts.report_count,
        revoke_count: verdict.counts.revoke_count,
        bulk_count: verdict.bulk_count,
        decided: false,
        of_message: overlap.map(|overlap| overlap.of_message),
        of_report: overlap.map(|overlap| overlap.of_report),
        limit: match role {
            Role::Supports(limit) if is_listed => Some(limit_json(limit)),
            _ => None,
        },
    }
}

const fn kind_json(kind: Kind) -> http::Verdict {
    match kind {
        Kind::Unknown => http::Verdict::Unknown,
        Kind::Spam => http::Verdict::Spam,
        Kind::Bulk => http::Verdict::Bulk,
        Kind::Ham => http::Verdict::Ham,
    }
}

const fn message_reason_json(reason: MessageReason) -> http::Reason {
    match reason {
        MessageReason::SenderWhitelisted => http::Reason::SenderWhitelisted,
        MessageReason::Evidence(reason) => reason_json(reason),
        MessageReason::Suspected => http::Reason::Suspected,
        MessageReason::NotReported => http::Reason::NotReported,
    }
}

const fn reason_json(reason: Reason) -> http::Reason {
    match reason {
        Reason::NotReported => http::Reason::NotReported,
        Reason::Suspected => http::Reason::Suspected,
        Reason::OwnReports => http::Reason::OwnReports,
        Reason::Evidence => http::Reason::Evidence,
        Reason::Listed => http::Reason::Listed,
        Reason::Revoked => http::Reason::Revoked,
        Reason::Whitelisted => http::Reason::Whitelisted,
        Reason::ManyRecipients => http::Reason::ManyRecipients,
    }
}

const fn limit_json(limit: Limit) -> http::Limit {
    match limit {
        Limit::OnePart => http::Limit::OnePart,
        Limit::Picture => http::Limit::Picture,
        Limit::Accessory => http::Limit::Accessory,
        Limit::BesideText => http::Limit::BesideText,
        Limit::OtherFile => http::Limit::OtherFile,
        Limit::ShortText => http::Limit::ShortText,
        Limit::Quoted => http::Limit::Quoted,
        Limit::Resemblance => http::Limit::Resemblance,
        Limit::Template => http::Limit::Template,
    }
}
