//! The evidence behind a verdict, as parts of a page.

use bruit_protocols::http::{Evidence, Explained, ExplainedSignature, Outline, Reason, Verdict};
use maud::{Markup, html};

use super::failure::{capitalised, sentence};
use super::format::{counted, grouped, time};

/// Shows the verdict on a message, with the reason for it.
pub(super) fn verdict(explained: &Explained) -> Markup {
    let Explained { verdict, reason, confidence, coverage, outline, bulk_count, sender_whitelisted, .. } = explained;
    let decided = explained.signatures.iter().find(|signature| signature.checked.decided);
    html! {
        section .card {
            h2 { "Verdict" }
            p .big { (badge(*verdict)) " " (sentence(reason.sentence())) }
            @if *verdict == Verdict::Unknown && *reason == Reason::NotReported {
                p { "The server has no evidence against this message. A filter would let it pass." }
            }
            ul {
                @if *confidence > 0 { li { "Confidence " (confidence) " of 100." } }
                @if *coverage > 0 { li { "The evidence covers " (coverage) " % of the message." } }
                @if let Some(signature) = decided {
                    li { "The signature " code { (signature.checked.scheme) } " decided: " (who(signature)) "." }
                }
                @if *bulk_count > 0 { li { "The server counted " (counted((*bulk_count).into(), "recipient")) "." } }
                @if let Some(is_whitelisted) = sender_whitelisted {
                    li { "The sender is " (if *is_whitelisted { "" } else { "not " }) "whitelisted." }
                }
                @if let Some(outline) = outline { li { (contents(outline)) } }
            }
        }
    }
}

fn badge(verdict: Verdict) -> Markup {
    html! { span class=(format!("verdict {}", verdict.name())) { (capitalised(verdict.name())) } }
}

/// Describes who reported a signature.
fn who(signature: &ExplainedSignature) -> String {
    let Some(Evidence { own_reports, own_revokes, groups, anchored_reports, trap, .. }) = &signature.evidence else {
        return signature.checked.reason.sentence().to_owned();
    };
    let mut parts = Vec::new();
    if *own_reports > 0 {
        parts.push(format!("{} by the site's own users", counted((*own_reports).into(), "report")));
    }
    if *own_revokes > 0 {
        parts.push(format!("{} by the site's own users", counted((*own_revokes).into(), "revocation")));
    }
    if *trap {
        parts.push("a report by a trap".to_owned());
    }
    if *groups > 0 {
        parts.push(format!(
            "claims of {} ({anchored_reports} anchored)",
            counted((*groups).into(), "independent group")
        ));
    }
    if parts.is_empty() { signature.checked.reason.sentence().to_owned() } else { parts.join(", ") }
}

fn contents(outline: &Outline) -> String {
    let Outline { words, own_words, files, pictures, links } = *outline;
    format!(
        "The message has {} of its own ({} with quotations), {}, {} and {}.",
        counted(own_words.into(), "word"),
        grouped(words.into()),
        counted(files.into(), "file"),
        counted(pictures.into(), "picture"),
        counted(links.into(), "link")
    )
}

/// Shows every signature with its evidence.
pub(super) fn signatures(explained: &Explained) -> Markup {
    html! {
        section .card {
            h2 { "Signatures" }
            div .scroll tabindex="0" role="region" aria-label="Signatures" {
                table {
                    caption { "Every signature of the message, with the server's evidence about it." }
                    thead {
                        tr {
                            th scope="col" { "Scheme" }
                            th scope="col" { "Verdict" }
                            th .number scope="col" { "Reports" }
                            th .number scope="col" { "Revocations" }
                            th .number scope="col" { "Recipients" }
                            th scope="col" { "Evidence" }
                        }
                    }
                    tbody { @for signature in &explained.signatures { (row(signature)) } }
                }
            }
        }
    }
}

fn row(signature: &ExplainedSignature) -> Markup {
    let checked = &signature.checked;
    html! {
        tr {
            th scope="row" {
                (checked.scheme)
                @if checked.decided { " (decided)" }
            }
            td { (badge(checked.verdict)) }
            td .number { (grouped(checked.report_count.into())) }
            td .number { (grouped(checked.revoke_count.into())) }
            td .number { (grouped(checked.bulk_count.into())) }
            td {
                (sentence(checked.reason.sentence()))
                @if let Some(value) = &checked.value { div { code .soft { (value) } } }
                (details(signature))
            }
        }
    }
}

fn details(signature: &ExplainedSignature) -> Markup {
    let checked = &signature.checked;
    html! {
        @if let Some((of_message, of_report)) = checked.of_message.zip(checked.of_report) {
            div { "It resembles a claimed text: " (of_message) " % of this message matches " (of_report) " % of that text." }
        }
        @if let Some(limit) = &checked.limit {
            div { "It does not decide alone, because " (limit.sentence()) "." }
        }
        @if let Some(by) = &signature.whitelisted { div { "It is whitelisted (" (by) ")." } }
        @if signature.reinstated { div { "It was listed again after a revocation." } }
        @for claims in &signature.claims {
            div {
                "Since " (time(claims.since)) ": " (counted(claims.report_count.into(), "report")) ", "
                (counted(claims.revoke_count.into(), "revocation")) "."
            }
        }
        @if let Some(evidence) = &signature.evidence { (weight(evidence)) }
        @if let Some((first, last)) = signature.first_seen.zip(signature.last_seen) {
            div { "First seen " (time(first)) ", last seen " (time(last)) "." }
        }
    }
}

/// Shows the weights of claims that are still stored.
fn weight(evidence: &Evidence) -> Markup {
    let Evidence { level, score, spam, ham, groups, own_reports, own_revokes, trap, last, .. } = evidence;
    html! {
        div {
            "Score " (format!("{score:.2}")) @if level != "unknown" { " (" (level) ")" } ": " (format!("{spam:.2}")) " for spam, " (format!("{ham:.2}"))
            " against, from " (counted((*groups).into(), "group")) "; own users: " (grouped((*own_reports).into()))
            " for spam, " (grouped((*own_revokes).into())) " against"
            @if *trap { "; reported by a trap" }
            ". Last claim " (time(*last)) "."
        }
    }
}

#[cfg(test)]
mod tests {
    use bruit_protocols::http::CheckedSignature;

    use super::*;

    fn explained() -> Explained {
        let checked = CheckedSignature {
            scheme: "pyzor".into(),
            value: Some("<script>".into()),
            verdict: Verdict::Spam,
            reason: "own_reports".into(),
            decided: true,
            limit: Some("picture".into()),
            ..CheckedSignature::default()
        };
        let evidence = Evidence { own_reports: 1, level: "block".into(), ..Evidence::default() };
        let signature = ExplainedSignature { checked, evidence: Some(evidence), ..ExplainedSignature::default() };
        Explained {
            verdict: Verdict::Spam,
            reason: "own_reports".into(),
            confidence: 99,
            signatures: vec![signature],
            ..Explained::default()
        }
    }

    #[test]
    fn a_verdict_says_why_and_who() {
        let shown = verdict(&explained()).into_string();
        for text in
            ["Spam", "The site's own users reported it.", "Confidence 99 of 100", "1 report by the site's own users"]
        {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        let unknown = Explained { reason: "not_reported".into(), ..Explained::default() };
        assert!(verdict(&unknown).into_string().contains("no evidence against this message"));
    }

    #[test]
    fn signatures_are_text_and_their_limits_are_sentences() {
        let shown = signatures(&explained()).into_string();
        assert!(shown.contains("&lt;script&gt;") && !shown.contains("<script>"), "{shown}");
        assert!(shown.contains("pictures are copied from good mail"), "{shown}");
    }
}
