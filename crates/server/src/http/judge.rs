//! What is thought of a message, from what is thought of its signatures.
//!
//! In this order: a whitelisted sender makes it ham; the most certain spam among its signatures makes it spam; one that was
//! revoked or whitelisted makes it ham; enough recipients make it bulk. Razor's e8 and links are shared by innocent mail:
//! they make it spam only beside another signature that does. DCC's checksums count recipients and say nothing else.

use bruit_engine::signature::fingerprint_of;
use bruit_engine::verdict::{Kind, Reason, Verdict};
use bruit_engine::whitelist::Why;
use bruit_engine::{CheckScratch, Engine};
use bruit_filters::Fingerprint;
use bruit_protocols::http::{self, Checked, CheckedSignature, REPLICA_SCHEME};
use bruit_signatures::{Scheme, Signature};

use super::body::Asked;
use super::note::Note;

/// What is thought of a message.
pub(super) struct Judged {
    pub(super) kind: Kind,
    pub(super) checked: Checked,
}

/// What a scheme's verdict says of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// What the message is.
    Decides,
    /// The same, if another says so.
    Supports,
    /// Nothing.
    Counts,
}

impl Part {
    fn of(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Exact | Scheme::Attachment | Scheme::Pyzor | Scheme::Pyzor11 | Scheme::RazorE4 => Self::Decides,
            Scheme::Url | Scheme::RazorE8 => Self::Supports,
            Scheme::DccIp
            | Scheme::DccEnvFrom
            | Scheme::DccFrom
            | Scheme::DccMessageId
            | Scheme::DccReceived
            | Scheme::DccBody
            | Scheme::DccFuz1 => Self::Counts,
        }
    }
}

impl Part {
    /// That an empty part is whitelisted does not make the others good.
    fn in_message(engine: &Engine, signature: &Signature, fingerprint: &Fingerprint) -> Self {
        match engine.whitelist().contains(fingerprint) {
            Some(Why::Empty) => Self::Counts,
            _ => Self::of(signature.scheme()),
        }
    }
}

/// What is thought of a message that many have received from `bulk_threshold` recipients on.
pub(super) fn check(engine: &Engine, asked: &Asked, bulk_threshold: u32, note: Option<&Note>) -> Judged {
    let signatures = &asked.signed.signatures;
    let key = engine.realm().key();
    let fingerprints: Vec<Fingerprint> = signatures.iter().map(|signature| fingerprint_of(key, signature)).collect();
    let mut verdicts = vec![Verdict::default(); fingerprints.len()];
    let mut scratch = CheckScratch::default();
    engine.check_batch(&fingerprints, 0, &mut verdicts, &mut scratch);
    for ((signature, fingerprint), verdict) in signatures.iter().zip(&fingerprints).zip(&mut verdicts) {
        if Part::of(signature.scheme()) == Part::Counts {
            verdict.bulk_count = engine.bulk().total(fingerprint);
        }
    }
    let replica = asked.signed.features.as_ref().map(|features| engine.check_text(features, &mut scratch));
    let parts = signatures
        .iter()
        .zip(&fingerprints)
        .map(|(signature, fingerprint)| Part::in_message(engine, signature, fingerprint));
    let judged: Vec<(Part, Verdict)> =
        parts.zip(verdicts.iter().copied()).chain(replica.map(|verdict| (Part::Decides, verdict))).collect();
    if let Some(note) = note {
        note.set_signatures(signatures.len());
        note.set_judged(fingerprints.iter().zip(&verdicts));
    }
    let is_sender_whitelisted = asked.sender.as_ref().is_some_and(|sender| is_whitelisted(engine, sender));
    let (kind, reason, confidence) = verdict_of(&judged, is_sender_whitelisted, bulk_threshold);
    let named = signatures.iter().zip(&verdicts).map(|(signature, verdict)| signature_json(Some(signature), verdict));
    let checked = Checked {
        verdict: kind_json(kind),
        reason: reason.to_owned(),
        confidence,
        bulk_count: judged.iter().map(|(_, verdict)| verdict.bulk_count).max().unwrap_or(0),
        signatures: named.chain(replica.map(|verdict| signature_json(None, &verdict))).collect(),
    };
    Judged { kind, checked }
}

/// Whether mail of a sender is never spam.
pub(super) fn is_whitelisted(engine: &Engine, sender: &str) -> bool {
    engine.whitelist().senders.contains(sender.as_bytes())
}

fn verdict_of(
    judged: &[(Part, Verdict)],
    is_sender_whitelisted: bool,
    bulk_threshold: u32,
) -> (Kind, &'static str, u8) {
    if is_sender_whitelisted {
        return (Kind::Ham, "sender_whitelisted", 0);
    }
    let of = |kind: Kind| judged.iter().filter(move |(_, verdict)| verdict.kind == kind);
    let is_decided = of(Kind::Spam).any(|(part, _)| *part == Part::Decides);
    let spam = of(Kind::Spam).filter(|(part, _)| is_decided && *part != Part::Counts).map(|(_, verdict)| verdict);
    if let Some(verdict) = spam.max_by_key(|verdict| verdict.confidence) {
        return (Kind::Spam, reason_json(verdict.reason), verdict.confidence);
    }
    if let Some((_, verdict)) = of(Kind::Ham).find(|(part, _)| *part == Part::Decides) {
        return (Kind::Ham, reason_json(verdict.reason), 0);
    }
    if judged.iter().any(|(_, verdict)| verdict.bulk_count >= bulk_threshold) {
        return (Kind::Bulk, reason_json(Reason::ManyRecipients), 0);
    }
    let suspected = judged.iter().filter(|(part, verdict)| *part == Part::Decides && verdict.kind == Kind::Unknown);
    let suspected = suspected.map(|(_, verdict)| verdict).max_by_key(|verdict| verdict.confidence);
    suspected.map_or((Kind::Unknown, "not_reported", 0), |verdict| {
        (Kind::Unknown, reason_json(verdict.reason), verdict.confidence)
    })
}

/// What is thought of one signature; without one, of the near replica.
pub(super) fn signature_json(signature: Option<&Signature>, verdict: &Verdict) -> CheckedSignature {
    CheckedSignature {
        scheme: signature.map_or(REPLICA_SCHEME, |signature| signature.scheme().name()).to_owned(),
        value: signature.map(ToString::to_string),
        verdict: kind_json(verdict.kind),
        reason: reason_json(verdict.reason).to_owned(),
        confidence: verdict.confidence,
        report_count: verdict.counts.reports,
        revoke_count: verdict.counts.revocations,
        bulk_count: verdict.bulk_count,
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

const fn reason_json(reason: Reason) -> &'static str {
    match reason {
        Reason::NotReported => "not_reported",
        Reason::Suspected => "suspected",
        Reason::OwnReports => "own_reports",
        Reason::Evidence => "evidence",
        Reason::Listed => "listed",
        Reason::Revoked => "revoked",
        Reason::Whitelisted => "whitelisted",
        Reason::ManyRecipients => "many_recipients",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(kind: Kind, reason: Reason, confidence: u8) -> Verdict {
        Verdict { kind, reason, confidence, ..Verdict::default() }
    }

    fn spam() -> Verdict {
        verdict(Kind::Spam, Reason::Evidence, 90)
    }

    fn ham() -> Verdict {
        verdict(Kind::Ham, Reason::Revoked, 0)
    }

    fn suspected() -> Verdict {
        verdict(Kind::Unknown, Reason::Suspected, 55)
    }

    fn sent_to(bulk_count: u32) -> Verdict {
        Verdict { bulk_count, ..Verdict::default() }
    }

    fn of(judged: &[(Part, Verdict)]) -> (Kind, &'static str, u8) {
        verdict_of(judged, false, 10)
    }

    #[test]
    fn the_most_certain_spam_decides() {
        let surer = verdict(Kind::Spam, Reason::OwnReports, 95);
        let judged = [Verdict::default(), spam(), surer, ham()].map(|verdict| (Part::Decides, verdict));
        assert_eq!(of(&judged), (Kind::Spam, "own_reports", 95));
    }

    #[test]
    fn what_innocent_mail_shares_needs_company() {
        assert_eq!(
            of(&[(Part::Supports, spam()), (Part::Decides, Verdict::default())]),
            (Kind::Unknown, "not_reported", 0)
        );
        assert_eq!(of(&[(Part::Supports, spam()), (Part::Supports, spam())]), (Kind::Unknown, "not_reported", 0));
        let weaker = verdict(Kind::Spam, Reason::Listed, 80);
        assert_eq!(of(&[(Part::Supports, spam()), (Part::Decides, weaker)]), (Kind::Spam, "evidence", 90));
        assert_eq!(of(&[(Part::Counts, spam()), (Part::Supports, ham())]), (Kind::Unknown, "not_reported", 0));
    }

    #[test]
    fn senders_come_first_and_recipients_last() {
        assert_eq!(verdict_of(&[(Part::Decides, spam())], true, 10), (Kind::Ham, "sender_whitelisted", 0));
        let (many, fewer) = (sent_to(10), sent_to(9));
        assert_eq!(of(&[(Part::Counts, many), (Part::Decides, ham())]), (Kind::Ham, "revoked", 0));
        assert_eq!(of(&[(Part::Counts, many), (Part::Decides, suspected())]), (Kind::Bulk, "many_recipients", 0));
        assert_eq!(of(&[(Part::Counts, fewer), (Part::Decides, suspected())]), (Kind::Unknown, "suspected", 55));
        assert_eq!(of(&[]), (Kind::Unknown, "not_reported", 0));
    }
}
