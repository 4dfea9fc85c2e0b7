//! Reports and revocations: events for the store, which answers when they are on disk.
//!
//! A text has a name in the books, like a signature. What is a near replica of a text that was reported before is claimed under
//! that text's name; a text that is new is kept and gets a name of its own.

use bruit_engine::event::{By, Event, FINGERPRINTS_MAX};
use bruit_engine::message::{is_claimed, is_text_claimed};
use bruit_engine::signature::fingerprint_of;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::{CheckScratch, Engine, Outcome, Refusal};
use bruit_filters::Fingerprint;
use bruit_protocols::http::Claimed;
use bruit_signatures::bruit::Features;
use bruit_signatures::{Signature, Signed};
use tokio::sync::oneshot;

use super::Http;
use super::body::Asked;
use super::fault::Fault;
use crate::service::Service;

/// Events that make up a claim.
pub(super) fn events(engine: &Engine, asked: &Asked, claim: Claim, by: By) -> Vec<Event> {
    let key = engine.realm().key();
    let Signed { signatures, features, outline, .. } = &asked.signed;
    // A report is about what makes the message what it is. A revocation is about all of it.
    let reported = outline.as_ref().filter(|_| claim == Claim::Report);
    let is_claimed = |one: &&Signature| reported.is_none_or(|outline| is_claimed(one.scheme(), one.piece(), outline));
    let claimed = signatures.iter().filter(is_claimed);
    let mut fingerprints: Vec<Fingerprint> = claimed.map(|signature| fingerprint_of(key, signature)).collect();
    let mut events = Vec::new();
    let claims_text = |features: &&Features| reported.is_none_or(|outline| is_text_claimed(features, outline));
    if let Some(features) = features.as_ref().filter(claims_text) {
        fingerprints.extend(text(engine, features, claim, by, &mut events));
    }
    // Parts may be the same, and count once.
    fingerprints.sort_unstable();
    fingerprints.dedup();
    let claimed = |some: &[Fingerprint]| Event::Claim { by, claim, flag: 0, fingerprints: some.to_vec() };
    events.extend(fingerprints.chunks(FINGERPRINTS_MAX).map(claimed));
    events
}

/// What the text is called in the books, if it is there or shall be, and what has to be kept of it.
fn text(engine: &Engine, features: &Features, claim: Claim, by: By, events: &mut Vec<Event>) -> Option<Fingerprint> {
    let standing = by.reporter.standing;
    let mut keep = |fingerprint, text| events.push(Event::Text { by, fingerprint, text });
    if let Some(found) = engine.find_text(features, &mut CheckScratch::default()) {
        // So that what is still sent does not age. Only own users may say that a text goes by another's name.
        if claim == Claim::Report && !found.is_current && standing == Standing::Own {
            keep(found.fingerprint, engine.replicas().text(features));
        }
        return Some(found.fingerprint);
    }
    let text = engine.replicas().text(features);
    if claim == Claim::Revoke || standing == Standing::Stranger || text.is_empty() {
        return None;
    }
    let name = text.fingerprint(engine.realm().key());
    keep(name, text);
    Some(name)
}

/// Keeps events, and waits until they are on disk.
pub(super) async fn submit(http: &Http, events: Vec<Event>) -> Result<Vec<Outcome>, Fault> {
    let (sender, receiver) = oneshot::channel();
    // Whoever asked may have gone, which changes nothing.
    http.service.store.submit_with(events, move |result| drop(sender.send(result)));
    let result = receiver.await.map_err(|_| Fault::stopping())?;
    http.service.note(&result);
    result.map_err(|error| Fault::of_submit(&error))
}

/// Keeps one event that is done or refused. Whether it changed anything.
pub(super) async fn submit_one(http: &Http, event: Event) -> Result<bool, Fault> {
    match submit(http, vec![event]).await?.first() {
        Some(Outcome::Refused(Refusal::NotListed)) => Ok(false),
        Some(Outcome::Refused(refusal)) => Err(Fault::of_refusal(*refusal)),
        _ => Ok(true),
    }
}

/// What became of a claim, if anything of it was taken or need not be.
pub(super) fn claimed(events: &[Event], outcomes: &[Outcome]) -> Result<Claimed, Fault> {
    let mut claimed = Claimed::default();
    let mut last = None;
    for (event, outcome) in events.iter().zip(outcomes) {
        match (event, outcome) {
            (Event::Claim { fingerprints, .. }, outcome) => {
                last = add(&mut claimed, fingerprints.len() as u32, outcome).or(last);
            }
            // The claims stand, but replicas will not be found.
            (_, Outcome::Refused(refusal)) => last = last.or(Some(*refusal)),
            _ => {}
        }
    }
    claimed.reason = last.map(|refusal| refusal.to_string());
    match last {
        Some(refusal) if claimed.accepted == 0 && claimed.ignored == 0 => Err(Fault::of_refusal(refusal)),
        _ => Ok(claimed),
    }
}

/// Adds the outcome of a claim of `count` signatures; why some were refused.
fn add(claimed: &mut Claimed, count: u32, outcome: &Outcome) -> Option<Refusal> {
    match outcome {
        Outcome::Claimed { listed, revoked, ignored, refused, reason } => {
            claimed.accepted += count.saturating_sub(ignored + refused);
            claimed.listed += listed;
            claimed.revoked += revoked;
            claimed.ignored += ignored;
            claimed.refused += refused;
            *reason
        }
        Outcome::Refused(Refusal::Whitelisted) => {
            claimed.ignored += count;
            None
        }
        Outcome::Refused(refusal) => {
            claimed.refused += count;
            Some(*refusal)
        }
        _ => None,
    }
}

/// The events of a claim, as the books are now. There are none if nothing of the message can be claimed.
pub(super) fn prepare(service: &Service, asked: &Asked, claim: Claim, by: By) -> Vec<Event> {
    let events = service.store.check(|engine| events(engine, asked, claim, by));
    let has_claim = events.iter().any(|event| matches!(event, Event::Claim { .. }));
    if has_claim { events } else { Vec::new() }
}

/// The answer to a claim about a message of which nothing can be claimed.
pub(super) fn nothing_claimed(claim: Claim) -> Claimed {
    let reason = match claim {
        Claim::Report => {
            "nothing tells the message from good mail: its text is short or quoted, and it has no file but pictures"
        }
        Claim::Revoke => "nothing of the message was ever reported",
    };
    Claimed { reason: Some(reason.to_owned()), ..Claimed::default() }
}
