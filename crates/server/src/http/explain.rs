//! Explanations of verdicts: all evidence about the signatures of a message.

use bruit_engine::signature::fingerprint_of;
use bruit_engine::trust::{Assessment, Level};
use bruit_engine::whitelist::{ListAuthor, WhitelistReason};
use bruit_engine::{Engine, Explanation};
use bruit_protocols::http::{
    CheckedSignature, Evidence, Explained, ExplainedSignature, GenerationClaims, GenerationRecipients,
    Outline as OutlineJson,
};

use super::body::RequestSubject;
use super::judge::{self, Judgement};
use super::reporter_names::{Names, ReporterNames};

/// Explains the verdict on a message. Names the reporters if `names` is given.
pub(super) fn explain(
    engine: &Engine,
    asked: &RequestSubject,
    bulk_threshold: u32,
    names: Option<&Names<'_>>,
) -> Explained {
    let Judgement { checked, text, .. } = judge::check(engine, asked, bulk_threshold, None);
    let key = engine.realm().key();
    let fingerprints = asked.signed.signatures.iter().map(|signature| Some(fingerprint_of(key, signature)));
    let text = asked.signed.features.as_ref().map(|_| text);
    let known: Vec<Option<Explanation>> =
        fingerprints.chain(text).map(|name| name.map(|name| engine.explain(&name))).collect();
    let votes = known.iter().flatten().flat_map(|known| &known.votes);
    let reporters = names.map(|names| names.of(engine, votes));
    Explained {
        verdict: checked.verdict,
        reason: checked.reason,
        confidence: checked.confidence,
        coverage: checked.coverage,
        outline: asked.signed.outline.as_ref().map(OutlineJson::of),
        bulk_count: checked.bulk_count,
        sender_whitelisted: asked.sender.as_ref().map(|sender| judge::is_whitelisted(engine, sender)),
        signatures: checked
            .signatures
            .into_iter()
            .zip(known)
            .map(|(checked, known)| signature(checked, known, reporters.as_ref()))
            .collect(),
    }
}

/// Describes the evidence about a signature. `known` is `None` for a text that resembles no reported text.
fn signature(
    checked: CheckedSignature,
    known: Option<Explanation>,
    reporters: Option<&ReporterNames>,
) -> ExplainedSignature {
    let Some(known) = known else { return ExplainedSignature { checked, ..ExplainedSignature::default() } };
    let claims = known.claims.iter().map(|claims| GenerationClaims {
        since: claims.since.0,
        flag: claims.flag,
        report_count: claims.counts.report_count,
        revoke_count: claims.counts.revoke_count,
    });
    let recipients = known
        .recipients
        .iter()
        .map(|counted| GenerationRecipients { since: counted.since.0, bulk_count: counted.recipients });
    ExplainedSignature {
        checked,
        whitelisted: known.whitelisted.map(|why| whitelisted(why).to_owned()),
        listed: known.entry.listed.ages().collect(),
        revoked: known.entry.revoked.ages().collect(),
        reinstated: known.entry.reinstated,
        claims: claims.collect(),
        recipients: recipients.collect(),
        evidence: known.assessment.as_ref().map(evidence),
        reporters: reporters.map_or_else(Vec::new, |names| known.votes.iter().map(|vote| names.claim(vote)).collect()),
        first_seen: known.seen.map(|(first, _)| first.0),
        last_seen: known.seen.map(|(_, last)| last.0),
    }
}

const fn whitelisted(why: WhitelistReason) -> &'static str {
    match why {
        WhitelistReason::Empty => "empty",
        WhitelistReason::Listed(ListAuthor::Operator) => "operator",
        WhitelistReason::Listed(ListAuthor::Protocol) => "protocol",
    }
}

fn evidence(known: &Assessment) -> Evidence {
    let evidence = &known.evidence;
    let level = match evidence.level {
        Level::Unknown => "unknown",
        Level::Suspect => "suspect",
        Level::Block => "block",
    };
    Evidence {
        level: level.to_owned(),
        score: evidence.score(),
        spam: evidence.spam,
        ham: evidence.ham,
        ham_anchored: evidence.ham_anchored,
        groups: evidence.groups,
        anchored_reports: evidence.anchored_reports,
        anchored_revokes: evidence.anchored_revokes,
        own_reports: evidence.own_reports,
        own_revokes: evidence.own_revokes,
        trap: evidence.trap,
        report_count: known.report_count,
        revoke_count: known.revoke_count,
        first: known.first.0,
        last: known.last.0,
        promoted: known.promoted.map(|time| time.0),
    }
}
