//! The paths, and the handlers of checks and claims.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bruit_engine::event::By;
use bruit_engine::message::good_features;
use bruit_engine::trust::Claim;
use bruit_protocols::http::{Checked, Claimed, JSON, Ready};

use super::body::{Purpose, ReceivedBody, RequestSubject, read_subject};
use super::caller::{Caller, RemoteEnd, Right, source_of};
use super::claims::Prepared;
use super::count::Options;
use super::fault::{Fault, Reply};
use super::note::Note;
use super::{Http, Paths, administration, claims, count, dashboard, federation, judge, learn};
use crate::health::Severity;
use crate::metrics::{Disposition, Interface};
use crate::service::{Limited, Service, signatures};

/// The OpenAPI description of this API.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

pub(super) type Answer<T> = Result<Reply<T>, Fault>;

/// Returns the router of the given paths.
pub(super) fn router(http: Http, paths: Paths) -> Router {
    let router = match paths {
        Paths::Api => api(http.clone()),
        Paths::Dashboard => dashboard::routes(http.clone()),
        Paths::All => api(http.clone()).merge(dashboard::routes(http.clone())),
    };
    router
        .fallback(|| async { Fault::not_found() })
        .method_not_allowed_fallback(|| async { Fault::method() })
        .layer(from_fn_with_state(http.clone(), count_request))
        .with_state(http)
}

/// Returns the router of the API.
fn api(http: Http) -> Router<Http> {
    Router::new()
        .route("/v1/check", post(check))
        .route("/v1/count", post(count::count))
        .route("/v1/report", post(report))
        .route("/v1/revoke", post(revoke))
        .route("/v1/learn", post(learn::learn))
        .route("/v1/federation/offer", get(federation::offer))
        .route("/v1/federation/log/{key}/{incarnation}/{book}/{generation}", get(federation::log))
        .route("/v1/health", get(health))
        .route("/v1/ready", get(ready))
        .route("/v1/openapi.json", get(openapi))
        .merge(administration::routes(http))
}

/// Marks the response to a long poll, i.e. a request that waits until there is new data.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongPoll;

/// Counts a request by its result.
async fn count_request(State(http): State<Http>, mut request: Request, next: Next) -> Response {
    let received = Instant::now();
    let note = Note::begin(&mut request);
    let from = note.as_ref().map(|_| source(&request, &http));
    let mut response = next.run(request).await;
    let answered = response.extensions_mut().remove().unwrap_or(Disposition::Other);
    let metrics = http.service.metrics.of(Interface::Http);
    match response.extensions_mut().remove::<LongPoll>() {
        Some(LongPoll) => metrics.record_wait(answered, received.elapsed()),
        None => metrics.record(answered, received.elapsed()),
    }
    if let (Some(note), Some(from)) = (note, from) {
        note.write(Interface::Http, from, answered, &response);
    }
    response
}

/// Returns the source address of a request. Behind a trusted proxy, this is the address that the proxy names.
pub(super) fn source(request: &Request, http: &Http) -> IpAddr {
    let Some(peer) = request.extensions().get::<RemoteEnd>() else { return IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    source_of(*peer, request.version(), request.headers(), &http.service.settings()).address
}

async fn check(
    State(http): State<Http>,
    caller: Caller,
    options: count::OptionsResult,
    request: Request,
) -> Answer<Checked> {
    caller.require(Right::Check)?;
    let options = Options::read(options)?;
    let wanted = options.recipients.map(|number| count::CountRequest::new(number, request.headers())).transpose()?;
    let threshold = options.bulk_threshold.unwrap_or(caller.settings.http.bulk_threshold);
    let held = read_subject(&http, &caller, request).await?;
    let asker = caller.clone();
    let Some(wanted) = wanted else {
        let judged =
            http.compute(move |service| Ok(judge_for(&asker, &read_check(held, &asker, service)?, threshold, service)));
        let judged = judged.await?;
        return Ok(Reply(judged.kind.into(), judged.checked));
    };
    let asked = Arc::new(http.compute(move |service| read_check(held, &asker, service)).await?);
    let (counted, count_reason) = count::count_for_check(&http, &caller, Arc::clone(&asked), &wanted).await;
    let judged = http.compute(move |service| Ok(judge_for(&caller, &asked, threshold, service))).await?;
    let checked = Checked { counted: Some(counted), count_reason, ..judged.checked };
    Ok(Reply(judged.kind.into(), checked))
}

/// Reads the subject of a check.
fn read_check(held: ReceivedBody, caller: &Caller, service: &Service) -> Result<RequestSubject, Fault> {
    let mut asked = held.asked(Purpose::Check, &caller.settings)?;
    if caller.is_stranger() {
        // Do not reveal whitelisted senders to callers who could forge them.
        (asked.sender, asked.list) = (None, None);
        asked.ensure_short(|| caller.take(Limited::Costly, service))?;
    }
    Ok(asked)
}

/// Judges a message for its caller, and learns from it if that is allowed.
fn judge_for(caller: &Caller, asked: &RequestSubject, threshold: u32, service: &Service) -> judge::Judgement {
    let judged = service.store.check(|engine| judge::check(engine, asked, threshold, caller.note.as_ref()));
    if judged.is_learnable
        && caller.teaches_by_checks()
        && let Some(features) = good_features(&asked.signed)
    {
        service.learning.offer(features);
    }
    judged
}

async fn report(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Claimed> {
    caller.require(Right::Report)?;
    claim(&http, caller, request, Claim::Report).await
}

async fn revoke(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Claimed> {
    caller.require(Right::Revoke)?;
    claim(&http, caller, request, Claim::Revoke).await
}

async fn claim(http: &Http, caller: Caller, request: Request, claim: Claim) -> Answer<Claimed> {
    let service = &http.service;
    let reporter = caller.claimant(&service.key)?;
    let id = claims::claim_id(request.headers(), &reporter, claim, &service.key)?;
    let held = read_subject(http, &caller, request).await?;
    let now = service.now();
    let prepared = http.compute(move |service| {
        if let Some(claimed) = id.and_then(|id| claims::repeated(service, &id)) {
            return Ok(Prepared::Repeated(claimed));
        }
        let asked = held.asked(Purpose::Claim, &caller.settings)?;
        let events = claims::prepare(service, &asked, claim, By { now, reporter });
        let count = signatures(&events);
        if let Some(note) = &caller.note {
            note.set_signatures(count as usize);
        }
        caller.take_claims(count, service)?;
        Ok(Prepared::Events(events))
    });
    let claimed = match prepared.await? {
        Prepared::Repeated(claimed) => claimed,
        Prepared::Events(events) if events.is_empty() => claims::nothing_claimed(claim),
        Prepared::Events(events) => claims::make(http, events, id, now).await?,
    };
    Ok(Reply(Disposition::Accepted, claimed))
}

async fn health(_caller: Caller) -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Responds with 204 if the server is healthy. If it is degraded but accepts reports, responds with 200 and the
/// conditions. Otherwise responds with 503.
async fn ready(State(http): State<Http>, _caller: Caller) -> Result<Response, Fault> {
    let conditions = http.service.health.conditions();
    let severe: Vec<String> = conditions
        .iter()
        .filter(|condition| condition.severity == Severity::Severe.name())
        .map(|condition| format!("{}: {}", condition.state, condition.text))
        .collect();
    match (severe.is_empty(), conditions.is_empty()) {
        (false, _) => Err(Fault::busy(severe.join("; "))),
        (true, true) => Ok(StatusCode::NO_CONTENT.into_response()),
        (true, false) => Ok(Reply(Disposition::Other, Ready { conditions }).into_response()),
    }
}

async fn openapi(_caller: Caller) -> impl IntoResponse {
    ([(CONTENT_TYPE, JSON)], OPENAPI)
}
