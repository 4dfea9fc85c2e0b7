//! Explain: the verdict on a message or signature, the evidence for it, and buttons to correct it.
//!
//! The page calls the same functions as `/v1/explain`, `/v1/report` and `/v1/revoke`. The server does not keep the
//! message: the buttons send back the signatures, which contain no word of it.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use bruit_engine::event::By;
use bruit_engine::trust::Claim;
use bruit_protocols::http::{Claimed, Explained, NamedSignature, SUBJECT_BYTES_MAX, Subject, TrustPolicy, Verdict};
use bruit_signatures::message::Message;
use bruit_signatures::reading::Reading;
use maud::{Markup, html};

use super::super::Http;
use super::super::body::{Purpose, ReceivedBody, RequestSubject, collect};
use super::super::claims::{self, Prepared};
use super::super::explain as explanation;
use super::super::fault::Fault;
use super::super::reporter_names::Names;
use super::evidence;
use super::failure::{Failure, sentence};
use super::form::Form;
use super::page::{self, View};
use super::sign_in::media;
use super::viewer::Viewer;
use crate::audit::audit;
use crate::metrics::Disposition;
use crate::policy;
use crate::service::{Limited, Service, signatures};

/// Length of the other fields and the boundaries of the form.
const FORM_BYTES: usize = 64 << 10;

/// Maximum length of hidden text that is shown.
const HIDDEN_CHARS_MAX: usize = 4_000;

/// The fields that identify a message to a person.
const HEADING: [&str; 3] = ["Subject", "From", "Date"];

/// Maximum length of such a field.
const HEADING_CHARS_MAX: usize = 200;

/// Maximum length of the value that identifies a claim.
const ID_BYTES_MAX: usize = 64;

/// The subject of a question, and the answer.
struct Examined {
    explained: Explained,
    /// The thresholds of evidence.
    policy: TrustPolicy,
    /// Names and texts of the fields in [`HEADING`].
    heading: Vec<(&'static str, String)>,
    /// The subject of a claim, as JSON.
    subject: String,
    sender: Option<String>,
    hidden: String,
}

/// Shows the empty form.
pub(super) async fn show(viewer: Viewer) -> Markup {
    let hint = html! {
        section .card {
            h2 { "What this page shows" }
            p {
                "The verdict on the message and the reason for it, each of its signatures, who reported or revoked them \
                and with what weight, and text that is hidden from readers. Nothing is recorded, and the message is not \
                kept."
            }
        }
    };
    page::view(&viewer, View::Explain, &html! { (form(&viewer)) (hint) })
}

fn form(viewer: &Viewer) -> Markup {
    html! {
        section .card {
            form method="post" action=(View::Explain.path()) enctype="multipart/form-data" {
                (page::form_token(viewer))
                label for="message" { "Message, with all header fields" }
                textarea #message name="message" spellcheck="false" autocomplete="off" data-drop="file"
                    placeholder="Paste the source of a message, or drop its file here" {}
                div .row {
                    div {
                        label for="file" { "or a file with a message" }
                        input #file type="file" name="file";
                    }
                    div {
                        label for="signature" { "or one signature" }
                        input #signature name="signature" autocomplete="off" spellcheck="false"
                            placeholder="pyzor:9f11ff1a25d0…";
                    }
                }
                div .actions { button type="submit" { "Explain" } }
            }
        }
    }
}

/// Explains the contents of the form.
pub(super) async fn explain(State(http): State<Http>, viewer: Viewer, request: Request) -> Result<Markup, Failure> {
    let (parts, body) = request.into_parts();
    viewer.caller.take(Limited::Costly, &http.service)?;
    let bytes_max = viewer.caller.settings.http.body_bytes_max + FORM_BYTES;
    let (bytes, permits) = collect(body, bytes_max, &http.bodies).await?;
    let (media, asker) = (media(&parts.headers).to_owned(), viewer.clone());
    let examined = http.compute(move |service| {
        // Held until the form is no longer needed.
        let _permits = permits;
        let form = Form::read(&media, &bytes)?;
        drop(bytes);
        asker.check_form(&form)?;
        examine(service, &asker, &form)
    });
    let examined = examined.await?;
    let content = html! { (answer(&viewer, &examined)) (form(&viewer)) };
    Ok(page::view(&viewer, View::Explain, &content))
}

/// Explains the file, the signature or the message in a form, whichever is given.
fn examine(service: &Service, viewer: &Viewer, form: &Form) -> Result<Examined, Fault> {
    let (file, signature) = (form.bytes("file"), form.text("signature"));
    if file.is_empty() && !signature.is_empty() {
        let subject = Subject { signatures: vec![named(signature)?], ..Subject::default() };
        return examine_subject(service, viewer, &subject);
    }
    let message = if file.is_empty() { form.bytes("message") } else { file };
    if message.trim_ascii().is_empty() {
        return Err(Fault::malformed("nothing to explain: paste a message, choose a file, or enter a signature"));
    }
    let settings = &viewer.caller.settings;
    let read = |purpose| ReceivedBody::new(message.to_vec(), true, Vec::new()).asked(purpose, settings);
    let (asked, claimed) = (read(Purpose::Check)?, read(Purpose::Claim)?);
    let (explained, policy) = explained(service, viewer, &asked);
    let message = Message::read(message);
    let heading = HEADING.into_iter().filter_map(|name| Some((name, shortened(&message.fields.text(name)?))));
    Ok(Examined {
        explained,
        policy,
        heading: heading.collect(),
        subject: json(&Subject::of(&claimed.signed, None))?,
        sender: asked.sender,
        hidden: Reading::of(&message).hidden,
    })
}

fn explained(service: &Service, viewer: &Viewer, asked: &RequestSubject) -> (Explained, TrustPolicy) {
    let (threshold, names) = (viewer.caller.settings.http.bulk_threshold, Names::for_caller(&viewer.caller));
    service.store.check(|engine| {
        let explained = explanation::explain(engine, asked, threshold, names.as_ref());
        (explained, policy::shown(engine.trust().policy()))
    })
}

/// Cuts a field to its maximum length, and replaces its control characters.
fn shortened(text: &str) -> String {
    let shown = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    let mut short: String = shown.take(HEADING_CHARS_MAX).collect();
    if text.chars().nth(HEADING_CHARS_MAX).is_some() {
        short.push('…');
    }
    short
}

fn examine_subject(service: &Service, viewer: &Viewer, subject: &Subject) -> Result<Examined, Fault> {
    let settings = &viewer.caller.settings;
    let text = json(subject)?;
    let asked = ReceivedBody::new(text.clone().into_bytes(), false, Vec::new()).asked(Purpose::Check, settings)?;
    let (explained, policy) = explained(service, viewer, &asked);
    Ok(Examined { explained, policy, heading: Vec::new(), subject: text, sender: None, hidden: String::new() })
}

fn json(subject: &Subject) -> Result<String, Fault> {
    serde_json::to_string(subject).map_err(|_| Fault::broken())
}

/// Parses a signature after the name of its scheme.
pub(super) fn named(text: &str) -> Result<NamedSignature, Fault> {
    let expected = || Fault::malformed("invalid signature: expected SCHEME:VALUE, such as pyzor:9f11ff1a…");
    let (scheme, value) = text.split_once(':').ok_or_else(expected)?;
    let named = NamedSignature { scheme: scheme.trim().to_owned(), value: value.trim().to_owned(), piece: None };
    named.signature().map(|_| named).map_err(Fault::malformed)
}

fn answer(viewer: &Viewer, examined: &Examined) -> Markup {
    html! {
        (evidence::verdict(&examined.explained, &examined.heading))
        @if viewer.can_administer {
            (corrections(viewer, examined))
        }
        (evidence::signatures(&examined.explained, &examined.policy))
        (hidden(&examined.hidden))
    }
}

/// Shows the buttons that correct a verdict.
fn corrections(viewer: &Viewer, examined: &Examined) -> Markup {
    let id = nonce();
    let button = |claim: &str, text: &str, style: &str| {
        html! {
            form method="post" action="/explain/claim" {
                (page::form_token(viewer))
                input type="hidden" name="claim" value=(claim);
                input type="hidden" name="id" value=(id);
                input type="hidden" name="subject" value=(examined.subject);
                button type="submit" class=(style) { (text) }
            }
        }
    };
    // The claim that agrees with the verdict is no correction.
    let (revoke, report) = match examined.explained.verdict {
        Verdict::Spam => ("Revoke: it is not spam", ("Report again", "quiet")),
        Verdict::Ham => ("Revoke again", ("Report: it is spam", "danger")),
        _ => ("Revoke: it is not spam", ("Report: it is spam", "danger")),
    };
    html! {
        section .card {
            h2 { "Correct or confirm the verdict" }
            p .hint { "A report or revocation by the site's own users takes effect at once, for all protocols." }
            div .actions {
                (button("revoke", revoke, "quiet"))
                (button("report", report.0, report.1))
            }
            @if let Some(sender) = &examined.sender {
                (whitelist_form(viewer, sender))
            }
        }
    }
}

/// Shows the form for whitelisting. Browsers refuse to send it before its box is checked, also without scripts.
fn whitelist_form(viewer: &Viewer, sender: &str) -> Markup {
    html! {
        details {
            summary { "Whitelist the sender " span .break { (sender) } }
            form method="post" action=(View::Whitelist.path()) {
                (page::form_token(viewer))
                input type="hidden" name="action" value="add";
                input type="hidden" name="sender" value=(sender);
                p {
                    "Mail with this sender is then never spam. The addresses of senders can be forged, so do this only if \
                    your filter checks SPF or DKIM. To correct the verdict on one message, revoke it instead."
                }
                label .check {
                    input type="checkbox" name="confirmed" required;
                    "Anyone may forge this address, and I want it on the whitelist."
                }
                div .actions { button .quiet type="submit" { "Whitelist the sender" } }
            }
        }
    }
}

/// Returns a value that makes a claim count once, however often its form is sent.
fn nonce() -> String {
    let mut random = [0; 16];
    // Without random bytes, claims are made without an ID.
    match getrandom::fill(&mut random) {
        Ok(()) => random.iter().map(|byte| format!("{byte:02x}")).collect(),
        Err(_) => String::new(),
    }
}

fn hidden(text: &str) -> Markup {
    let shown: String = text.trim().chars().take(HIDDEN_CHARS_MAX).collect();
    html! {
        @if !shown.is_empty() {
            section .card {
                h2 { "Hidden text" }
                p .hint { "Readers do not see this text. It is often there to mislead filters." }
                pre tabindex="0" { (shown) }
            }
        }
    }
}

/// A claim from a form.
struct FormClaim {
    claim: Claim,
    id: String,
    subject: Subject,
}

/// Reports or revokes the explained message or signature, and shows the new verdict.
pub(super) async fn claim(
    State(http): State<Http>,
    viewer: Viewer,
    request: Request,
) -> Result<impl IntoResponse, Failure> {
    let (parts, body) = request.into_parts();
    // Encoding a form triples the length of some characters.
    let (bytes, permits) = collect(body, 3 * SUBJECT_BYTES_MAX + FORM_BYTES, &http.bodies).await?;
    let (media, asker) = (media(&parts.headers).to_owned(), viewer.clone());
    let read = http.compute(move |_| read_claim(&asker, &Form::read(&media, &bytes)?));
    let FormClaim { claim, id, subject } = read.await?;
    let claimed = make(&http, &viewer, claim, &id, subject.clone()).await;
    let action = if claim == Claim::Report { "dashboard.report" } else { "dashboard.revoke" };
    let about = format!("{} signatures", subject.signatures.len());
    audit(&viewer.caller.who(), action, &about, claimed.as_ref().err().map(Fault::detail));
    let asker = viewer.clone();
    let examined = http.compute(move |service| {
        let _permits = permits;
        examine_subject(service, &asker, &subject)
    });
    let examined = examined.await?;
    let content = html! { (result(claim, &claimed?)) (answer(&viewer, &examined)) (form(&viewer)) };
    // Counted as claims over the API are.
    Ok((Extension(Disposition::Accepted), page::view(&viewer, View::Explain, &content)))
}

fn read_claim(viewer: &Viewer, form: &Form) -> Result<FormClaim, Fault> {
    viewer.check_change(form)?;
    let claim = match form.text("claim") {
        "report" => Claim::Report,
        "revoke" => Claim::Revoke,
        _ => return Err(Fault::malformed("unknown claim: expected report or revoke")),
    };
    let subject = serde_json::from_slice(form.bytes("subject")).map_err(Fault::malformed)?;
    Ok(FormClaim { claim, id: form.text("id").to_owned(), subject })
}

async fn make(http: &Http, viewer: &Viewer, claim: Claim, id: &str, subject: Subject) -> Result<Claimed, Fault> {
    let service = &http.service;
    let reporter = viewer.caller.claimant(&service.key)?;
    if id.len() > ID_BYTES_MAX {
        return Err(Fault::malformed("the claim's ID is too long"));
    }
    let kind = if claim == Claim::Report { "report" } else { "revoke" };
    let name = format!("claim ID: dashboard: {kind}:{id}:{:016x}", reporter.id);
    let id = (!id.is_empty()).then(|| service.key.fingerprint(name.as_bytes()));
    let (now, caller) = (service.now(), viewer.caller.clone());
    let prepared = http.compute(move |service| {
        if let Some(claimed) = id.and_then(|id| claims::repeated(service, &id)) {
            return Ok(Prepared::Repeated(claimed));
        }
        let body = serde_json::to_vec(&subject).map_err(|_| Fault::broken())?;
        let asked = ReceivedBody::new(body, false, Vec::new()).asked(Purpose::Claim, &caller.settings)?;
        let events = claims::prepare(service, &asked, claim, By { now, reporter });
        caller.take_claims(signatures(&events), service)?;
        Ok(Prepared::Events(events))
    });
    match prepared.await? {
        Prepared::Repeated(claimed) => Ok(claimed),
        Prepared::Events(events) if events.is_empty() => Ok(claims::nothing_claimed(claim)),
        Prepared::Events(events) => claims::make(http, events, id, now).await,
    }
}

/// Describes the result of a claim.
fn result(claim: Claim, claimed: &Claimed) -> Markup {
    let text = match (claim, claimed) {
        (_, Claimed { repeated: true, .. }) => "This form was sent before. It counts once.".to_owned(),
        (_, Claimed { accepted: 0, .. }) => {
            let reason = claimed.reason.as_deref().unwrap_or("the same claim was made before");
            format!("Nothing changed: {}", sentence(reason))
        }
        (Claim::Report, Claimed { accepted, listed, .. }) => {
            format!("Reported. Signatures accepted: {accepted}; now listed as spam: {listed}.")
        }
        (Claim::Revoke, Claimed { accepted, revoked, .. }) => {
            format!("Revoked. Signatures accepted: {accepted}; now revoked: {revoked}.")
        }
    };
    html! { p .done role="status" { (text) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_has_a_scheme_and_a_valid_value() {
        let digest = "0a".repeat(20);
        assert_eq!(named(&format!("pyzor: {digest}")).unwrap().value, digest);
        for wrong in ["", "pyzor", "pyzor:1", "md5:0a", ":"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn results_of_claims_are_told_apart() {
        let shown = |claim, claimed: &Claimed| result(claim, claimed).into_string();
        let accepted = Claimed { accepted: 3, listed: 2, revoked: 1, ..Claimed::default() };
        assert!(shown(Claim::Report, &accepted).contains("Signatures accepted: 3; now listed as spam: 2."));
        assert!(shown(Claim::Revoke, &accepted).contains("Signatures accepted: 3; now revoked: 1."));
        assert!(shown(Claim::Report, &Claimed { repeated: true, ..accepted }).contains("counts once"));
        assert!(shown(Claim::Report, &Claimed::default()).contains("Nothing changed"));
    }

    #[test]
    fn fields_are_cut_and_have_no_control_characters() {
        assert_eq!(shortened("a\tb\u{7}"), "a b ");
        assert_eq!(shortened(&"ä".repeat(HEADING_CHARS_MAX)), "ä".repeat(HEADING_CHARS_MAX));
        assert_eq!(
            shortened(&"x".repeat(HEADING_CHARS_MAX + 1)).chars().count(),
            HEADING_CHARS_MAX + 1,
            "with an ellipsis"
        );
    }

    #[test]
    fn hidden_text_is_shown_as_text_and_cut() {
        let shown = hidden(&format!("<b>{}", "x".repeat(HIDDEN_CHARS_MAX * 2))).into_string();
        assert!(shown.contains("&lt;b&gt;x") && shown.len() < HIDDEN_CHARS_MAX + 500);
        assert!(hidden(" \n").into_string().is_empty());
    }
}
