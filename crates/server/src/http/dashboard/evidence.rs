//! The evidence behind a verdict, as parts of a page.

use bruit_protocols::http::{
    Evidence, Explained, ExplainedSignature, Outline, Reason, SignatureReporter, TrustPolicy, Verdict,
};
use maud::{Markup, html};

use super::failure::{capitalised, sentence};
use super::format::{GAP, counted, grouped, time};
use super::page::View;

/// Number of characters of a value between two places where it may break.
const VALUE_CHUNK: usize = 16;

/// Shows the verdict on a message, with the reason for it. `heading` has fields of the message.
pub(super) fn verdict(explained: &Explained, heading: &[(&str, String)]) -> Markup {
    let Explained { verdict, reason, confidence, coverage, outline, bulk_count, sender_whitelisted, .. } = explained;
    let decided = explained.signatures.iter().find(|signature| signature.checked.decided);
    html! {
        section .card {
            h2 { "Verdict" }
            @if !heading.is_empty() {
                dl .heading { @for (name, text) in heading { dt { (name) } dd { bdi { (text) } } } }
            }
            p .big { (badge(*verdict)) " " (sentence(reason.sentence())) }
            @if *verdict == Verdict::Unknown && *reason == Reason::NotReported {
                p { "The server has no evidence against this message. A filter would let it pass." }
            }
            ul {
                @if *confidence > 0 { li { "Confidence " (confidence) " of 100." } }
                @if *coverage > 0 { li { "The evidence covers " (coverage) (GAP) "% of the message." } }
                @if let Some(signature) = decided {
                    li {
                        "The signature " code { (signature.checked.scheme) }
                        @if let Some(phrase) = phrase(&signature.checked.scheme) { " (" (phrase) ")" }
                        " decided: " (who(signature)) (last_claim(signature)) "."
                    }
                }
                @if *bulk_count > 0 { li { "The server counted " (counted((*bulk_count).into(), "recipient")) "." } }
                @if let Some(is_whitelisted) = sender_whitelisted {
                    li { "The sender is " (if *is_whitelisted { "" } else { "not " }) "whitelisted." }
                }
                @if let Some(outline) = outline { li { (contents(outline)) } }
            }
            p { a href=(View::Explain.path()) { "Explain another message" } }
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
        parts.push(format!("{own_reports} of the site's own users reported it"));
    }
    if *own_revokes > 0 {
        parts.push(format!("{own_revokes} of the site's own users revoked it"));
    }
    if *trap {
        parts.push("a trap, which receives nothing but spam, reported it".to_owned());
    }
    // These reporters are groups as well, so only further groups are worth a word.
    if *groups > own_reports + u32::from(*trap) {
        let trusted = match anchored_reports {
            0 => String::new(),
            count => format!(", {count} of them trusted without a record (own users, traps and pinned peers)"),
        };
        parts.push(format!("{} reported it{trusted}", counted((*groups).into(), "independent group")));
    }
    if parts.is_empty() { signature.checked.reason.sentence().to_owned() } else { parts.join(", ") }
}

/// Shows the time of the last claim.
fn last_claim(signature: &ExplainedSignature) -> Markup {
    let claimed = signature.evidence.as_ref().filter(|evidence| evidence.last > 0);
    html! {
        @if let Some(Evidence { last, revoke_count, .. }) = claimed {
            "; last " (if *revoke_count == 0 { "report" } else { "report or revocation" }) " " (time(*last))
        }
    }
}

/// Describes a scheme: what a signature of it covers.
fn phrase(scheme: &str) -> Option<&'static str> {
    Some(match scheme {
        "exact" => "the visible text, letter for letter",
        "attachment" => "one attached file, byte for byte",
        "url" => "one link, by its host and path",
        "pyzor" => "Pyzor: up to six lines of the text",
        "pyzor_1_1" => "Pyzor 1.1: up to six lines of the text, without NUL characters",
        "razor_e4" => "Razor: two sections of the text of one part",
        "razor_e8" => "Razor: a domain in the links of one part, and the size of the part",
        "dcc_ip" => "DCC: the address of the sending host",
        "dcc_env_from" => "DCC: the envelope sender",
        "dcc_from" => "DCC: the From field",
        "dcc_message_id" => "DCC: the Message-ID field",
        "dcc_received" => "DCC: the last Received field",
        "dcc_body" => "DCC: everything after the header",
        "dcc_fuz1" => "DCC: the letters of the text, without greetings, digits and punctuation",
        "bruit" => "a similar text: word pairs that a reported message also has",
        _ => return None,
    })
}

fn contents(outline: &Outline) -> String {
    let Outline { words, own_words, files, pictures, links } = *outline;
    let quoted =
        if words == own_words { String::new() } else { format!(" ({} with quotations)", grouped(words.into())) };
    format!(
        "The message has {} of its own{quoted}, {}, {} and {}.",
        counted(own_words.into(), "word"),
        counted(files.into(), "file"),
        counted(pictures.into(), "picture"),
        counted(links.into(), "link")
    )
}

/// Shows every signature with its evidence. `policy` has the thresholds of evidence.
pub(super) fn signatures(explained: &Explained, policy: &TrustPolicy) -> Markup {
    let TrustPolicy { suspect_score, suspect_groups, block_score, block_groups, .. } = policy;
    html! {
        section .card {
            h2 { "Signatures" }
            p .hint {
                "Every signature of the message, with the server's evidence about it. A signature is suspected from a \
                score of " (suspect_score) " by " (suspect_groups) " independent groups, and listed from " (block_score)
                " by " (block_groups) ". Reports by own users can list it at any score."
            }
            div .scroll tabindex="0" role="region" aria-label="Signatures" {
                table {
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
                @if let Some(phrase) = phrase(&checked.scheme) { div .soft { (phrase) } }
            }
            td { (badge(checked.verdict)) }
            td .number { (grouped(checked.report_count.into())) }
            td .number { (grouped(checked.revoke_count.into())) }
            td .number { (grouped(checked.bulk_count.into())) }
            td {
                (sentence(checked.reason.sentence()))
                @if let Some(value) = &checked.value { div { (breakable(value)) } }
                (details(signature))
            }
        }
    }
}

/// Shows a signature's value. It breaks into equal parts, so that no line has only its last characters.
fn breakable(value: &str) -> Markup {
    let letters: Vec<char> = value.chars().collect();
    html! {
        code .value {
            @for (nth, part) in letters.chunks(VALUE_CHUNK).enumerate() {
                @if nth > 0 { wbr; }
                (part.iter().collect::<String>())
            }
        }
    }
}

fn details(signature: &ExplainedSignature) -> Markup {
    let checked = &signature.checked;
    html! {
        @if let Some((of_message, of_report)) = checked.of_message.zip(checked.of_report) {
            div { "It resembles a claimed text: " (of_message) (GAP) "% of this message matches " (of_report) (GAP) "% of that text." }
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
        @if let Some(evidence) = &signature.evidence {
            div { (capitalised(&who(signature))) (last_claim(signature)) "." }
            (weight(evidence))
            (reporters(signature, evidence))
        }
        @if let Some((first, last)) = signature.first_seen.zip(signature.last_seen) {
            div { "First seen " (time(first)) ", last seen " (time(last)) "." }
        }
    }
}

/// Shows the weights of claims that are still stored.
fn weight(evidence: &Evidence) -> Markup {
    let Evidence { score, spam, ham, .. } = evidence;
    html! {
        div {
            "Score " (format!("{score:.2}")) ": " (format!("{spam:.2}")) " for spam, minus " (format!("{ham:.2}"))
            " against."
        }
    }
}

/// Shows the reporters by name and weight, with the time of their claims. The server keeps one period for all claims
/// about a signature, not the time of each.
fn reporters(signature: &ExplainedSignature, evidence: &Evidence) -> Markup {
    let Evidence { first, last, report_count, revoke_count, .. } = evidence;
    let is_one = *first == *last || report_count + revoke_count == 1;
    html! {
        @if !signature.reporters.is_empty() {
            div {
                @if is_one { "Claimed " (time(*last)) " by:" }
                @else { "Claimed between " (time(*first)) " and " (time(*last)) ", in this order, by:" }
            }
            ul .reporters { @for one in &signature.reporters { li { (reporter(one)) } } }
        }
    }
}

fn reporter(one: &SignatureReporter) -> Markup {
    let name = one.name.as_deref().unwrap_or_default();
    let account =
        serde_urlencoded::to_string([("protocol", one.protocol.as_deref().unwrap_or_default()), ("name", name)]);
    html! {
        @match (&*one.kind, account) {
            ("account", Ok(query)) => {
                a .break href=(format!("{}?{query}", View::Reporters.path())) { (name) }
                " (" (one.protocol.as_deref().unwrap_or_default()) " account)"
            },
            ("token", _) => { "the token " span .break { (name) } },
            ("person", _) => { "a person named by the token " span .break { (name) } },
            ("peer", _) => { "the peer " span .break { (name) } },
            ("user", _) => { "a user of the Unix socket" },
            ("network", _) => { "a program in an own network, without an account" },
            _ => { "a reporter without a name here: a removed account, or a reporter of another server" },
        }
        ": " (if one.claim == "report" { "report" } else { "revocation" }) ", weight " (format!("{:.2}", one.weight))
        ", standing " (one.standing)
        @if one.overruled { ", overruled by a later decision" }
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
        let evidence = Evidence { own_reports: 1, last: 1_800_000_000, ..Evidence::default() };
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
        let shown = verdict(&explained(), &[("Subject", "<b>".into())]).into_string();
        for text in [
            "Spam",
            "The site's own users reported it.",
            "Confidence 99 of 100",
            "</code> (Pyzor: up to six lines of the text) decided: 1 of the site's own users reported it; last report <time",
            "<bdi>&lt;b&gt;</bdi>",
            "Explain another message",
        ] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        let unknown = Explained { reason: "not_reported".into(), ..Explained::default() };
        assert!(verdict(&unknown, &[]).into_string().contains("no evidence against this message"));
    }

    #[test]
    fn groups_are_mentioned_only_if_they_say_more() {
        let described =
            |evidence: Evidence| who(&ExplainedSignature { evidence: Some(evidence), ..Default::default() });
        let own = Evidence { own_reports: 1, groups: 1, anchored_reports: 1, ..Evidence::default() };
        assert_eq!(described(own.clone()), "1 of the site's own users reported it");
        let more = described(Evidence { groups: 3, ..own });
        assert!(more.contains(", 3 independent groups reported it, 1 of them trusted without a record ("), "{more}");
        let trap = described(Evidence { trap: true, groups: 1, anchored_reports: 1, ..Evidence::default() });
        assert_eq!(trap, "a trap, which receives nothing but spam, reported it");
        assert_eq!(described(Evidence::default()), Reason::default().sentence());
    }

    #[test]
    fn reporters_are_named_with_their_weight_and_the_time_of_their_claims() {
        let one = |kind: &str, name: Option<&str>| SignatureReporter {
            kind: kind.into(),
            name: name.map(str::to_owned),
            protocol: (kind == "account").then(|| "pyzor".to_owned()),
            standing: "account".into(),
            claim: "report".into(),
            weight: 1.25,
            ..SignatureReporter::default()
        };
        let evidence = Evidence { report_count: 2, first: 1_800_000_000, last: 1_800_000_060, ..Evidence::default() };
        let names = vec![one("account", Some("<b>")), one("token", Some("mail")), one("unknown", None)];
        let signature = ExplainedSignature { reporters: names, ..ExplainedSignature::default() };
        let shown = reporters(&signature, &evidence).into_string();
        for text in [
            "Claimed between <time datetime=\"2027-01-15T08:00:00Z\"",
            "href=\"/reporters?protocol=pyzor&amp;name=%3Cb%3E\">&lt;b&gt;</a> (pyzor account): report, weight 1.25, standing account",
            "the token <span class=\"break\">mail</span>",
            "a reporter without a name here",
        ] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        let single = reporters(&signature, &Evidence { last: evidence.first, ..evidence }).into_string();
        assert!(single.contains("Claimed <time") && !single.contains("between"), "{single}");
        assert!(reporters(&ExplainedSignature::default(), &Evidence::default()).into_string().is_empty());
    }

    #[test]
    fn every_scheme_is_explained() {
        for scheme in bruit_signatures::Scheme::ALL.map(|scheme| scheme.name()).into_iter().chain(["bruit"]) {
            assert!(phrase(scheme).is_some(), "{scheme}");
        }
    }

    #[test]
    fn a_value_breaks_into_equal_parts_and_equal_numbers_are_not_repeated() {
        assert_eq!(
            breakable(&"a".repeat(32)).into_string(),
            format!("<code class=\"value\">{0}<wbr>{0}</code>", "a".repeat(16))
        );
        let outline = Outline { words: 114, own_words: 114, files: 0, pictures: 0, links: 4 };
        assert!(contents(&outline).contains("114 words of its own, 0 files"));
        assert!(contents(&Outline { own_words: 14, ..outline }).contains("14 words of its own (114 with quotations)"));
    }

    #[test]
    fn signatures_are_text_and_their_limits_are_sentences() {
        let policy = TrustPolicy { suspect_score: 4.0, block_score: 6.5, ..TrustPolicy::default() };
        let shown = signatures(&explained(), &policy).into_string();
        assert!(shown.contains("suspected from a score of 4 by") && shown.contains("listed from 6.5 by"), "{shown}");
        assert!(shown.contains("&lt;script&gt;") && !shown.contains("<script>"), "{shown}");
        assert!(shown.contains("pictures are copied from good mail"), "{shown}");
    }
}
