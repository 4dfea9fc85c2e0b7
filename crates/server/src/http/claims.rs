//! Reports and revocations. They are submitted to the store as events, and acknowledged once they are on disk.

use axum::http::HeaderMap;
use bruit_engine::claim_ids::ClaimTotals;
use bruit_engine::event::{By, Event};
use bruit_engine::message::claim_events;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter};
use bruit_engine::{Outcome, Refusal};
use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_protocols::http::Claimed;
use tokio::sync::oneshot;

use super::Http;
use super::body::RequestSubject;
use super::count::idempotency_key;
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

/// A prepared claim.
pub(super) enum Prepared {
    /// The events to submit. There are none if nothing can be claimed.
    Events(Vec<Event>),
    /// The claim was already made.
    Repeated(Claimed),
}

/// Returns the ID of a claim: a keyed hash of the reporter, the kind of claim, and the request's idempotency key. It
/// does not depend on the message, because the same message may produce different events later.
pub(super) fn claim_id(
    headers: &HeaderMap,
    reporter: &Reporter,
    claim: Claim,
    key: &FingerprintKey,
) -> Result<Option<Fingerprint>, Fault> {
    let Some(name) = idempotency_key(headers)? else { return Ok(None) };
    let kind: &[u8] = match claim {
        Claim::Report => b"claim ID: report",
        Claim::Revoke => b"claim ID: revoke",
    };
    Ok(Some(key.fingerprint(&[kind, &reporter.id.to_le_bytes(), name].concat())))
}

/// Returns the response to a claim that was already made.
pub(super) fn repeated(service: &Service, id: &Fingerprint) -> Option<Claimed> {
    let totals = service.store.check(|engine| engine.claim_ids().get(id))?;
    Some(Claimed { repeated: true, ..response(totals) })
}

/// Makes a claim, and returns its result. A claim with an ID counts only once, even if copies of it arrive at the same
/// time.
pub(super) async fn make(
    http: &Http,
    events: Vec<Event>,
    id: Option<Fingerprint>,
    now: Time,
) -> Result<Claimed, Fault> {
    let Some(id) = id else {
        let outcomes = submit(http, events.clone()).await?;
        return claimed(&events, &outcomes);
    };
    let identified = Event::IdentifiedClaim { now, id, events: events.clone() };
    match submit(http, vec![identified]).await?.pop() {
        Some(Outcome::Identified(outcomes)) => claimed(&events, &outcomes),
        Some(Outcome::Refused(Refusal::Repeated)) => repeated(&http.service, &id).ok_or_else(Fault::broken),
        Some(Outcome::Refused(refusal)) => claimed(&events, &vec![Outcome::Refused(refusal); events.len()]),
        _ => Err(Fault::broken()),
    }
}

/// Returns the result of a claim, or an error if all of it was refused.
fn claimed(events: &[Event], outcomes: &[Outcome]) -> Result<Claimed, Fault> {
    let is_claim = |event: &Event| matches!(event, Event::Claim { .. });
    let refusals = |of_claims: bool| {
        let pairs = events.iter().zip(outcomes).filter(move |(event, _)| is_claim(event) == of_claims);
        pairs.filter_map(|(_, outcome)| outcome.refusal()).filter(|refusal| *refusal != Refusal::Whitelisted)
    };
    // Report the refusal of a claim rather than that of another event. If no claim was refused, report the other refusal:
    // if it is that of the text, near replicas will not be recognised.
    let last = refusals(true).next_back().or_else(|| refusals(false).next());
    let claimed =
        Claimed { reason: last.map(|refusal| refusal.to_string()), ..response(ClaimTotals::of(events, outcomes)) };
    match last {
        Some(refusal) if claimed.accepted == 0 && claimed.ignored == 0 => Err(Fault::of_refusal(refusal)),
        _ => Ok(claimed),
    }
}

fn response(totals: ClaimTotals) -> Claimed {
    let ClaimTotals { accepted, listed, revoked, ignored, refused } = totals;
    Claimed { accepted, listed, revoked, ignored, refused, ..Claimed::default() }
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
