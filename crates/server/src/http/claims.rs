//! Reports and revocations. They are submitted to the store as events, and acknowledged once they are on disk.

use bruit_engine::event::{By, Event};
use bruit_engine::message::claim_events;
use bruit_engine::trust::Claim;
use bruit_engine::{Outcome, Refusal};
use bruit_protocols::http::Claimed;
use tokio::sync::oneshot;

use super::Http;
use super::body::RequestSubject;
use super::fault::Fault;
use crate::service::Service;

/// Submits events and waits until they are on disk.
pub(super) async fn submit(http: &Http, events: Vec<Event>) -> Result<Vec<Outcome>, Fault> {
    let (sender, receiver) = oneshot::channel();
    // Ignore the result, because the caller may have disconnected.
    http.service.store.submit_with(events, move |result| drop(sender.send(result)));
    let result = receiver.await.map_err(|_| Fault::stopping())?;
    http.service.note(&result);
    result.map_err(|error| Fault::of_submit(&error))
}

/// Submits a single event, which is applied or refused as a whole. Returns true if it changed anything.
pub(super) async fn submit_one(http: &Http, event: Event) -> Result<bool, Fault> {
    match submit(http, vec![event]).await?.first() {
        Some(Outcome::Refused(Refusal::NotListed)) => Ok(false),
        Some(Outcome::Refused(refusal)) => Err(Fault::of_refusal(*refusal)),
        _ => Ok(true),
    }
}

/// Returns the result of a claim, or an error if all of it was refused.
pub(super) fn claimed(events: &[Event], outcomes: &[Outcome]) -> Result<Claimed, Fault> {
    let mut claimed = Claimed::default();
    let mut last = None;
    for (event, outcome) in events.iter().zip(outcomes) {
        match (event, outcome) {
            (Event::Claim { fingerprints, .. }, outcome) => {
                last = add(&mut claimed, fingerprints.len() as u32, outcome).or(last);
            }
            // The claims are accepted, but near replicas will not be recognized.
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

/// Adds the outcome of a claim about `count` signatures, and returns the reason if some were refused.
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

/// Returns the events of a claim, given the current books. There are none if nothing can be claimed.
pub(super) fn prepare(service: &Service, asked: &RequestSubject, claim: Claim, by: By) -> Vec<Event> {
    let events = service.store.check(|engine| claim_events(engine, &asked.signed, claim, by));
    let has_claim = events.iter().any(|event| matches!(event, Event::Claim { .. }));
    if has_claim { events } else { Vec::new() }
}

/// Returns the response to a claim if no part of the message can be claimed.
pub(super) fn nothing_claimed(claim: Claim) -> Claimed {
    let reason = match claim {
        Claim::Report => {
            "nothing distinguishes the message from good mail: its text is short or quoted, and it has no attachment that can be listed"
        }
        Claim::Revoke => "no part of the message was ever reported",
    };
    Claimed { reason: Some(reason.to_owned()), ..Claimed::default() }
}
