//! The administrative paths and their handlers. Changes and refusals go to the audit trail.

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bruit_engine::accounts::AccountChange;
use bruit_engine::event::Event;
use bruit_engine::whitelist::WhitelistChange;
use bruit_protocols::http::{
    AccountHistory, AccountName, AccountPage, AccountPatch, ClockAccepted, Done, Explained, History, NewAccount,
    NewPeer, PeerName, SignInLink, Sites, Stats, Whitelist, WhitelistEntry,
};
use bruit_protocols::prometheus;
use serde::Deserialize;

use super::body::{Purpose, read_json, read_subject};
use super::caller::{Caller, Right, shown_token};
use super::dashboard::LINK_LIFETIME;
use super::fault::{Fault, Reply};
use super::note::Reason;
use super::reporter_names::Names;
use super::router::{Answer, source};
use super::{Http, accounts, claims, explain, federation, history, stats, whitelist};
use crate::audit::{Actor, audit, audit_refusal};
use crate::clock::Accepted;
use crate::metrics::{self, Disposition};

/// Maximum number of entries on a page of a list.
pub(super) const PAGE_MAX: usize = 1_000;

/// Returns the router of the administrative paths. Refusals here go to the audit trail.
pub(super) fn routes(http: Http) -> Router<Http> {
    Router::new()
        .route("/v1/explain", post(explain_message))
        .route("/v1/stats", get(get_stats))
        .route("/v1/history", get(get_history))
        .route("/v1/accounts", get(list_accounts).post(add_account).patch(update_account).delete(remove_account))
        .route("/v1/accounts/history", get(get_account_history))
        .route("/v1/whitelist", get(list_whitelist).post(add_to_whitelist).delete(remove_from_whitelist))
        .route("/v1/sites", get(list_sites))
        .route("/v1/dashboard/link", post(create_link))
        .route("/v1/peers", get(federation::peers).post(add_peer).delete(remove_peer))
        .route("/v1/peers/forget", post(forget_peer))
        .route("/v1/peers/restore", post(restore_peer))
        .route("/v1/peers/pause", post(pause_peer))
        .route("/v1/peers/resume", post(resume_peer))
        .route("/v1/clock/accept", post(accept_clock))
        .route("/v1/federation/realm", get(federation::realm))
        .route("/metrics", get(get_metrics))
        .route_layer(from_fn_with_state(http, audit_refusals))
}

/// Returns the offset of the next page, if there is one.
pub(super) const fn next_offset(offset: u64, total: u64) -> Option<u64> {
    let next = offset.saturating_add(PAGE_MAX as u64);
    if next < total { Some(next) } else { None }
}

/// Records refused administrative requests in the audit trail.
pub(super) async fn audit_refusals(State(http): State<Http>, request: Request, next: Next) -> Response {
    let from = source(&request, &http);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let is_refused =
        matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST);
    if let Some(Reason { text, token }) = response.extensions().get().filter(|_| is_refused) {
        audit_refusal(&Actor { from, name: token.as_deref() }, &format!("{method} {path}"), text);
    }
    response
}

/// Records a change and its result in the audit trail.
fn audited<T>(caller: &Caller, action: &str, subject: &str, answer: Answer<T>) -> Answer<T> {
    audit(&caller.who(), action, subject, answer.as_ref().err().map(Fault::detail));
    answer
}

async fn explain_message(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Explained> {
    caller.require(Right::Monitor)?;
    let held = read_subject(&http, &caller, request).await?;
    let explained = http.compute(move |service| {
        let asked = held.asked(Purpose::Check, &caller.settings)?;
        let (threshold, names) = (caller.settings.http.bulk_threshold, Names::for_caller(&caller));
        Ok(service.store.check(|engine| explain::explain(engine, &asked, threshold, names.as_ref())))
    });
    Ok(Reply(Disposition::Other, explained.await?))
}

async fn get_stats(State(http): State<Http>, caller: Caller) -> Answer<Stats> {
    caller.require(Right::Monitor)?;
    Ok(Reply(Disposition::Other, http.compute(|service| Ok(stats::stats(service))).await?))
}

/// The span of the history.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    #[serde(default)]
    span: history::SpanName,
}

type HistoryResult = Result<Query<HistoryQuery>, axum::extract::rejection::QueryRejection>;

async fn get_history(State(http): State<Http>, caller: Caller, query: HistoryResult) -> Answer<History> {
    caller.require(Right::Monitor)?;
    let Query(HistoryQuery { span }) = query.map_err(Fault::malformed)?;
    Ok(Reply(Disposition::Other, http.compute(move |service| Ok(history::history(service, span.into()))).await?))
}

/// The position in a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    offset: u64,
}

type PageResult = Result<Query<Page>, axum::extract::rejection::QueryRejection>;

fn offset(page: PageResult) -> Result<u64, Fault> {
    page.map(|Query(page)| page.offset).map_err(Fault::malformed)
}

/// The position in the list of accounts, or the requested account.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountQuery {
    #[serde(default)]
    offset: u64,
    protocol: Option<String>,
    name: Option<String>,
}

type AccountsResult = Result<Query<AccountQuery>, axum::extract::rejection::QueryRejection>;

async fn list_accounts(State(http): State<Http>, caller: Caller, asked: AccountsResult) -> Answer<AccountPage> {
    caller.require(Right::Administer)?;
    let Query(AccountQuery { offset, protocol, name }) = asked.map_err(Fault::malformed)?;
    let page = http.compute(move |service| match (protocol, name) {
        (None, None) => Ok(accounts::page(service, offset)),
        (Some(protocol), Some(name)) => accounts::one(service, &AccountName { protocol, name }),
        _ => Err(Fault::malformed("give both protocol and name, or neither")),
    });
    Ok(Reply(Disposition::Other, page.await?))
}

type AccountNameResult = Result<Query<AccountName>, axum::extract::rejection::QueryRejection>;

async fn get_account_history(
    State(http): State<Http>,
    caller: Caller,
    named: AccountNameResult,
) -> Answer<AccountHistory> {
    caller.require(Right::Administer)?;
    let Query(named) = named.map_err(Fault::malformed)?;
    Ok(Reply(Disposition::Other, http.compute(move |service| accounts::history(service, named)).await?))
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
    Ok(Reply(Disposition::Accepted, Done { changed }))
}

async fn list_whitelist(State(http): State<Http>, caller: Caller, page: PageResult) -> Answer<Whitelist> {
    caller.require(Right::Administer)?;
    let offset = offset(page)?;
    let page = http.compute(move |service| Ok(service.store.check(|engine| whitelist::page(engine, offset))));
    Ok(Reply(Disposition::Other, page.await?))
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
    Ok(Reply(Disposition::Accepted, Done { changed }))
}

async fn list_sites(State(http): State<Http>, caller: Caller) -> Answer<Sites> {
    caller.require(Right::Administer)?;
    Ok(Reply(Disposition::Other, http.service.sites.list()))
}

/// Creates a link that signs in to the dashboard once. The session has the rights of the caller's token. If the caller
/// has no token but may administer over the Unix socket, the session has the rights of the administrator's token.
async fn create_link(State(http): State<Http>, caller: Caller, headers: HeaderMap) -> Answer<SignInLink> {
    caller.require(Right::Administer)?;
    let service = &http.service;
    let token = shown_token(&headers)?.or_else(|| service.admin_token.hash());
    let off = || Fault::conflict("the dashboard is turned off, or has no address");
    let url = token.and_then(|token| service.sign_in_link(token)).ok_or_else(off);
    audit(&caller.who(), "dashboard.link", "a link that signs in once", url.as_ref().err().map(Fault::detail));
    Ok(Reply(Disposition::Accepted, SignInLink { url: url?, seconds: LINK_LIFETIME.as_secs() }))
}

async fn add_peer(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let new: NewPeer = read_json(&http, request).await?;
    let (subject, added) = federation::addition(&http, new).await;
    let answer = added.map(|()| Reply(Disposition::Accepted, Done { changed: true }));
    audited(&caller, "peer.add", &subject, answer)
}

async fn remove_peer(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let named: PeerName = read_json(&http, request).await?;
    let removed = federation::removal(&http, &named.peer).await;
    let answer = removed.map(|()| Reply(Disposition::Accepted, Done { changed: true }));
    audited(&caller, "peer.remove", &named.peer, answer)
}

async fn forget_peer(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let named: PeerName = read_json(&http, request).await?;
    let answer = change_peer(&http, &named.peer, true).await;
    audited(&caller, "peer.forget", &named.peer, answer)
}

async fn restore_peer(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let named: PeerName = read_json(&http, request).await?;
    let answer = change_peer(&http, &named.peer, false).await;
    audited(&caller, "peer.restore", &named.peer, answer)
}

async fn pause_peer(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let named: PeerName = read_json(&http, request).await?;
    let changed = federation::pausing(&http.service, &named.peer, true);
    audited(&caller, "peer.pause", &named.peer, changed.map(|changed| Reply(Disposition::Accepted, Done { changed })))
}

async fn resume_peer(State(http): State<Http>, caller: Caller, request: Request) -> Answer<Done> {
    caller.require(Right::Administer)?;
    let named: PeerName = read_json(&http, request).await?;
    let changed = federation::pausing(&http.service, &named.peer, false);
    audited(&caller, "peer.resume", &named.peer, changed.map(|changed| Reply(Disposition::Accepted, Done { changed })))
}

async fn change_peer(http: &Http, peer: &str, is_forgotten: bool) -> Answer<Done> {
    let event = federation::forgetting(&http.service, peer, is_forgotten)?;
    let changed = match event {
        Some(event) => claims::submit_one(http, event).await?,
        None => false,
    };
    Ok(Reply(Disposition::Accepted, Done { changed }))
}

async fn accept_clock(State(http): State<Http>, caller: Caller) -> Answer<ClockAccepted> {
    caller.require(Right::Administer)?;
    let service = &http.service;
    let Accepted { before, now, system } = service.clock.accept(&service.settings().clock);
    audit(&caller.who(), "clock.accept", &format!("from {before} to {now}, system clock {system}"), None);
    Ok(Reply(Disposition::Accepted, ClockAccepted { before: before.0, now: now.0, system: system.0 }))
}

async fn get_metrics(State(http): State<Http>, caller: Caller) -> Result<impl IntoResponse, Fault> {
    caller.require(Right::Monitor)?;
    let text = http.compute(|service| Ok(metrics::render(service))).await?;
    Ok(([(CONTENT_TYPE, prometheus::CONTENT_TYPE)], text))
}
