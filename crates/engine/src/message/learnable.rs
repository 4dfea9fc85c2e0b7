//! The rule for learning the features of a message as those of good mail.

use super::{Evidence, EvidenceSource, MessageVerdict};
use crate::verdict::{Kind, Reason};

/// Returns true if there is no evidence against a message. Its verdict must be unknown or ham, none of its signatures
/// may be listed or suspected, and its text must not resemble a claimed text.
#[must_use]
pub fn is_learnable(evidence: &[Evidence], verdict: &MessageVerdict) -> bool {
    let is_innocent = |one: &Evidence| {
        let is_known_text = matches!(one.source, EvidenceSource::Text(text) if text.name.is_some());
        one.verdict.kind != Kind::Spam && one.verdict.reason != Reason::Suspected && !is_known_text
    };
    matches!(verdict.kind, Kind::Unknown | Kind::Ham) && evidence.iter().all(is_innocent)
}

#[cfg(test)]
mod tests {
    use bruit_filters::Fingerprint;
    use bruit_signatures::Scheme;
    use bruit_signatures::outline::Piece;

    use super::*;
    use crate::message::{MessageContext, TextEvidence, judge};
    use crate::verdict::Verdict;

    fn signature(kind: Kind, reason: Reason) -> Evidence {
        let verdict = Verdict { kind, reason, ..Verdict::default() };
        Evidence { source: EvidenceSource::Signature(Scheme::Exact, Piece::MainText), verdict, is_empty: false }
    }

    fn is_taught(evidence: &[Evidence], is_sender_whitelisted: bool) -> bool {
        let context = MessageContext { is_sender_whitelisted, bulk_threshold: 100, ..MessageContext::default() };
        is_learnable(evidence, &judge(evidence, &context))
    }

    #[test]
    fn mail_with_evidence_against_it_teaches_nothing() {
        let unknown = signature(Kind::Unknown, Reason::NotReported);
        let spam = signature(Kind::Spam, Reason::OwnReports);
        let suspected = signature(Kind::Unknown, Reason::Suspected);
        let resembling = Evidence {
            source: EvidenceSource::Text(TextEvidence {
                name: Some(Fingerprint::new(1, 2)),
                ..TextEvidence::default()
            }),
            ..unknown
        };
        let unlike = Evidence { source: EvidenceSource::Text(TextEvidence::default()), ..unknown };
        let bulk = Evidence { verdict: Verdict { bulk_count: 100, ..Verdict::default() }, ..unknown };
        for is_whitelisted in [false, true] {
            assert!(is_taught(&[unknown, unlike], is_whitelisted) && is_taught(&[], is_whitelisted));
            assert!(is_taught(&[signature(Kind::Ham, Reason::Revoked)], is_whitelisted));
            for against in [spam, suspected, resembling] {
                assert!(!is_taught(&[unknown, against], is_whitelisted), "{against:?}");
            }
        }
        assert!(!is_taught(&[bulk], false));
    }
}
