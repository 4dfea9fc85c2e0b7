//! Which path leads where.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bruit_engine::accounts::AccountChange;
use bruit_engine::event::{By, Event};
use bruit_engine::message::good_features;
use bruit_engine::trust::Claim;
use bruit_engine::whitelist::WhitelistChange;
use bruit_protocols::http::{
    AccountName, AccountPage, AccountPatch, Checked, Claimed, ClockAccepted, Done, Explained, JSON, NewAccount, Ready,
    Stats, Whitelist, WhitelistEntry,
};
use serde::Deserialize;

use super::body::{Asked, Held, Purpose, read_json, read_subject};
use super::caller::{Caller, Peer, Right, source_of};
use super::count::Options;
use super::fault::{Fault, Reply};
use super::note::{Note, Reason};
use super::{Http, accounts, claims, count, explain, federation, judge, learn, stats, whitelist};
use crate::audit::{Who, audit, audit_refusal};
use crate::clock::Accepted;
use crate::health::Severity;
use crate::metrics::{self, Answered, Language};
use crate::service::{Limited, Service, signatures};

/// Entries of a list that are told at once.
pub(super) const PAGE_MAX: usize = 1_000;

/// The description of everything here, for programs.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

pub(super) type Answer<T> = Result<Reply<T>, Fault>;

/// All paths.
pub(super) fn router(http: Http) -> Router {
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
        .merge(administration(http.clone()))
        .fallback(|| async { Fault::not_found() })
        .method_not_allowed_fallback(|| async { Fault::method() })
        .layer(from_fn_with_state(http.clone(), count_request))
        .with_state(http)
}

/// The paths for administrators. Refusals here go to the audit trail.
fn administration(http: Http) -> Router<Http> {
    Router::new()
        .route("/v1/explain", post(explain_why))
        .route("/v1/stats", get(tell_stats))
        .route("/v1/accounts", get(list_accounts).post(add_account).patch(update_account).delete(remove_account))
        .route("/v1/whitelist", get(list_whitelist).post(add_to_whitelist).delete(remove_from_whitelist))
        .route("/v1/peers", get(federation::peers))
        .route("/v1/clock/accept", post(accept_clock))
        .route("/v1/federation/realm", get(federation::realm))
        .route("/metrics", get(tell_metrics))
        .route_layer(from_fn_with_state(http, audit_refusals))
}

/// Where the next page begins, if there is one.
pub(super) const fn next_offset(offset: u64, total: u64) -> Option<u64> {
    let next = offset.saturating_add(PAGE_MAX as u64);
    if next < total { Some(next) } else { None }
}

/// Counts a request by what became of it.
async fn count_request(State(http): State<Http>, mut request: Request, next: Next) -> Response {
    let received = Instant::now();
    let note = Note::begin(&mut request);
    let from = note.as_ref().map(|_| source(&request, &http));
    let mut response = next.run(request).await;
    let answered = response.extensions_mut().remove().unwrap_or(Answered::Other);
    http.service.metrics.of(Language::Http).record(answered, received.elapsed());
    if let (Some(note), Some(from)) = (note, from) {
        note.write(Language::Http, from, answered, &response);
    }
    response
}

/// Writes to the audit trail that somebody who may not administer tried to.
async fn audit_refusals(State(http): State<Http>, request: Request, next: Next) -> Response {
    let from = source(&request, &http);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let is_refused =
        matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST);
    if let Some(Reason { text, token }) = response.extensions().get().filter(|_| is_refused) {
        audit_refusal(&Who { from, name: token.as_deref() }, &format!("{method} {path}"), text);
    }
    response
}

/// The address that a request comes from; behind a trusted proxy, the one that the proxy names.
fn source(request: &Request, http: &Http) -> IpAddr {
    let Some(peer) = request.extensions().get::<Peer>() else { return IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    source_of(*peer, request.version(), request.headers(), &http.service.settings()).address
}

/// Writes a change to the audit trail, whatever it came to.
fn audited<T>(caller: &Caller, action: &str, subject: &str, answer: Answer<T>) -> Answer<T> {
    audit(&caller.who(), action, subject, answer.as_ref().err().map(Fault::detail));
    answer
}

async fn check(
    State(http): State<Http>,
    caller: Caller,
    options: count::AskedOptions,
    request: Request,
) -> Answer<Checked> {
    caller.require(Right::Check)?;
    let options = Options::read(options)?;
    let wanted = options.recipients.map(|number| count::Wanted::new(number, request.headers())).transpose()?;
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

/// Reads what a check is about.
fn read_check(held: Held, caller: &Caller, service: &Service) -> Result<Asked, Fault> {
    let mut asked = held.asked(Purpose::Check, &caller.settings)?;
    if caller.is_stranger() {
        // Whom we trust is nobody's business who might forge it.
        (asked.sender, asked.list) = (None, None);
        asked.ensure_short(|| caller.take(Limited::Costly, service))?;
    }
    Ok(asked)
}

/// Judges a message for its caller, and learns from it if that is allowed.
fn judge_for(caller: &Caller, asked: &Asked, threshold: u32, service: &Service) -> judge::Judged {
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
    let reporter = caller.claimant(&http.service.key)?;
    let held = read_subject(http, &caller, request).await?;
    let events = http.compute(move |service| {
        let asked = held.asked(Purpose::Claim, &caller.settings)?;
        let events = claims::prepare(service, &asked, claim, By { now: service.now(), reporter });
        let count = signatures(&events);
        if let Some(note) = &caller.note {
            note.set_signatures(count as usize);
        }
        caller.take_claims(count, service)?;
        Ok(events)
    });
    let events = events.await?;
    if events.is_empty() {
        return Ok(Reply(Answered::Accepted, claims::nothing_claimed(claim)));
    }
    let outcomes = claims::submit(http, events.clone()).await?;
    Ok(Reply(Answered::Accepted, claims::claimed(&events, &outcomes)?))
}

async fn explain_why(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Explained> {
    caller.require(Right::Monitor)?;
    let held = read_subject(&http, &caller, request).await?;
    let explained = http.compute(move |service| {
        let asked = held.asked(Purpose::Check, &caller.settings)?;
        Ok(service.store.check(|engine| explain::explain(engine, &asked, caller.settings.http.bulk_threshold)))
    });
    Ok(Reply(Answered::Other, explained.await?))
}

async fn tell_stats(State(http): State<Http>, caller: Caller) -> Answer<Stats> {
    caller.require(Right::Monitor)?;
    Ok(Reply(Answered::Other, http.compute(|service| Ok(stats::stats(service))).await?))
}

/// Where a list goes on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    offset: u64,
}

type AskedPage = Result<Query<Page>, axum::extract::rejection::QueryRejection>;

fn offset(page: AskedPage) -> Result<u64, Fault> {
    page.map(|Query(page)| page.offset).map_err(Fault::malformed)
}

/// Where the list of accounts goes on, or which one is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountQuery {
    #[serde(default)]
    offset: u64,
    protocol: Option<String>,
    name: Option<String>,
}

type AskedAccounts = Result<Query<AccountQuery>, axum::extract::rejection::QueryRejection>;

async fn list_accounts(State(http): State<Http>, caller: Caller, asked: AskedAccounts) -> Answer<AccountPage> {
    caller.require(Right::Administer)?;
    let Query(AccountQuery { offset, protocol, name }) = asked.map_err(Fault::malformed)?;
    let page = http.compute(move |service| match (protocol, name) {
        (None, None) => Ok(accounts::page(service, offset)),
        (Some(protocol), Some(name)) => accounts::one(service, &AccountName { protocol, name }),
        _ => Err(Fault::malformed("an account has a protocol and a name: give both, or neither")),
    });
    Ok(Reply(Answered::Other, page.await?))
}

async fn add_account(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let new: NewAccount = read_json(&http, request).await?;
    let subject = format!("{} {}", new.protocol, new.name);
    let change = http.compute(move |service| {
        let passwords = &service.settings().passwords;
        service.store.check(|engine| accounts::registration(engine, passwords, new))
    });
    audited(&caller, "account.add", &subject, change_account(&http, change.await?).await)
}

async fn update_account(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let patch: AccountPatch = read_json(&http, request).await?;
    let subject = format!("{} {}", patch.protocol, patch.name);
    let change = http.compute(move |service| {
        let passwords = &service.settings().passwords;
        service.store.check(|engine| accounts::update(engine, passwords, patch))
    });
    audited(&caller, "account.change", &subject, change_account(&http, change.await?).await)
}

async fn remove_account(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let named: AccountName = read_json(&http, request).await?;
    let subject = format!("{} {}", named.protocol, named.name);
    audited(&caller, "account.remove", &subject, change_account(&http, accounts::removal(named)?).await)
}

async fn change_account(http: &Http, change: AccountChange) -> Answer<Done> {
    let changed = claims::submit_one(http, Event::Account { now: http.service.now(), change }).await?;
    Ok(Reply(Answered::Accepted, Done { changed }))
}

async fn list_whitelist(State(http): State<Http>, caller: Caller, page: AskedPage) -> Answer<Whitelist> {
    caller.require(Right::Administer)?;
    let offset = offset(page)?;
    let page = http.compute(move |service| Ok(service.store.check(|engine| whitelist::page(engine, offset))));
    Ok(Reply(Answered::Other, page.await?))
}

async fn add_to_whitelist(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let entry: WhitelistEntry = read_json(&http, request).await?;
    let subject = whitelist::subject(&entry);
    let change = http.compute(move |service| service.store.check(|engine| whitelist::addition(engine, entry)));
    audited(&caller, "whitelist.add", &subject, change_whitelist(&http, change.await?).await)
}

async fn remove_from_whitelist(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let entry: WhitelistEntry = read_json(&http, request).await?;
    let subject = whitelist::subject(&entry);
    let change = http.compute(move |service| service.store.check(|engine| whitelist::removal(engine, entry)));
    audited(&caller, "whitelist.remove", &subject, change_whitelist(&http, change.await?).await)
}

async fn change_whitelist(http: &Http, change: WhitelistChange) -> Answer<Done> {
    let changed = claims::submit_one(http, Event::Whitelist { now: http.service.now(), change }).await?;
    Ok(Reply(Answered::Accepted, Done { changed }))
}

async fn accept_clock(State(http): State<Http>, caller: Caller) -> Answer<ClockAccepted> {
    caller.require(Right::Administer)?;
    let service = &http.service;
    let Accepted { before, now, system } = service.clock.accept(&service.settings().clock);
    audit(&caller.who(), "clock.accept", &format!("from {before} to {now}, system clock {system}"), None);
    Ok(Reply(Answered::Accepted, ClockAccepted { before: before.0, now: now.0, system: system.0 }))
}

async fn health(_caller: Caller) -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Answers 204 if the server is healthy, 200 with the conditions if it is degraded but accepts reports, otherwise 503.
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
        (true, false) => Ok(Reply(Answered::Other, Ready { conditions }).into_response()),
    }
}

async fn openapi(_caller: Caller) -> impl IntoResponse {
    ([(CONTENT_TYPE, JSON)], OPENAPI)
}

async fn tell_metrics(State(http): State<Http>, caller: Caller) -> Result<impl IntoResponse, Fault> {
    caller.require(Right::Monitor)?;
    let text = http.compute(|service| Ok(metrics::render(service))).await?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}
