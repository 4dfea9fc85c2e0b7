//! Reporters: the accounts, how reliable their reports were over time, and changes to them.

use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use bruit_engine::accounts::AccountChange;
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_protocols::http::{AccountDay, AccountEntry, AccountName, AccountPage, AccountPatch, NewAccount};
use maud::{Markup, html};
use serde::Deserialize;

use super::super::Http;
use super::super::body::{SMALL_BYTES_MAX, collect};
use super::super::caller::Right;
use super::super::fault::Fault;
use super::super::{accounts, claims};
use super::chart::Range;
use super::failure::{Failure, capitalised};
use super::form::Form;
use super::format::{counted, grouped, percent, time};
use super::page::{self, View};
use super::precision;
use super::sign_in::media;
use super::viewer::Viewer;
use crate::audit::audit;
use crate::service::Service;

/// The protocols whose accounts can be added here.
const PROTOCOLS: [&str; 3] = ["pyzor", "razor", "dcc"];

/// The standings that an operator can assign.
const STANDINGS: [&str; 4] = ["account", "own", "pinned", "trap"];

#[derive(Debug, Default, Deserialize)]
pub(super) struct ReportersQuery {
    #[serde(default)]
    offset: u64,
    name: Option<String>,
    protocol: Option<String>,
    #[serde(default)]
    range: String,
}

/// A page of accounts with their track records.
struct Accounts {
    page: AccountPage,
    /// The track record of each account of the page by the day.
    histories: Vec<Vec<AccountDay>>,
    now: Time,
}

/// Shows a page of accounts, or one account.
pub(super) async fn show(
    State(http): State<Http>,
    viewer: Viewer,
    Query(query): Query<ReportersQuery>,
) -> Result<Markup, Failure> {
    viewer.caller.require(Right::Administer)?;
    let wanted = query.protocol.zip(query.name).filter(|(_, name)| !name.trim().is_empty());
    let sought = wanted.clone().unwrap_or_default();
    let offset = query.offset;
    let is_one = wanted.is_some();
    let found = http.compute(move |service| {
        let page = match wanted {
            Some((protocol, name)) => {
                accounts::one(service, &AccountName { protocol, name: name.trim().to_owned() }).ok()
            }
            None => Some(accounts::page(service, offset)),
        };
        Ok(page.map(|page| {
            let histories = accounts::histories(service, &page.accounts);
            Accounts { page, histories, now: service.now() }
        }))
    });
    let found = found.await?;
    let single = found.as_ref().filter(|_| is_one).and_then(|found| found.page.accounts.first().zip(Some(found)));
    let content = html! {
        (search(&sought))
        @match &found {
            None => { p .alert role="alert" { "There is no account with this name. " a href=(View::Reporters.path()) { "Show all accounts" } } }
            Some(found) => { (list(&viewer, found)) }
        }
        @if let Some((account, found)) = single {
            (history(account, found, precision::range(&query.range)))
            @if viewer.can_administer { (correction(&viewer, account)) }
            p { a href=(View::Reporters.path()) { "Show all accounts" } }
        } @else if viewer.can_administer { (addition(&viewer)) }
    };
    Ok(page::view(&viewer, View::Reporters, &content))
}

/// Returns the address of the page with one account.
fn address(protocol: &str, name: &str) -> Result<String, Fault> {
    let query = serde_urlencoded::to_string([("protocol", protocol), ("name", name)]).map_err(|_| Fault::broken())?;
    Ok(format!("{}?{query}", View::Reporters.path()))
}

/// Shows the precision of an account over time.
fn history(account: &AccountEntry, found: &Accounts, range: Range) -> Markup {
    let days = found.histories.first().map_or(&[][..], |days| days);
    let path = |range: Range| {
        address(&account.protocol, &account.name)
            .map_or_else(|_| View::Reporters.path().to_owned(), |address| format!("{address}&range={}", range.name()))
    };
    precision::chart(days, range, found.now, path)
}

fn search((protocol, name): &(String, String)) -> Markup {
    html! {
        section .card {
            form method="get" action=(View::Reporters.path()) {
                div .row {
                    div { label for="protocol" { "Protocol" } (choice("protocol", &["pyzor", "razor", "dcc", "fuzzy"], protocol)) }
                    div { label for="name" { "Name of an account" } input #name name="name" value=(name) autocomplete="off"; }
                    button type="submit" { "Find" }
                }
            }
        }
    }
}

fn choice(name: &str, values: &[&str], chosen: &str) -> Markup {
    html! {
        select id=(name) name=(name) {
            @for value in values { option value=(value) selected[*value == chosen] { (value) } }
        }
    }
}

fn list(viewer: &Viewer, found: &Accounts) -> Markup {
    let Accounts { page, histories, now } = found;
    html! {
        section .card {
            h2 { (counted(page.total, "account")) }
            @if page.accounts.is_empty() {
                p { "There are no accounts yet. Razor clients register their own; add accounts for other clients below." }
            } @else {
                div .scroll tabindex="0" role="region" aria-label="Accounts" {
                    table {
                        caption {
                            "Precision is a lower bound for the share of an account's claims that turned out to be right. \
                            It determines the weight of its next claims. Claims are settled some days after the first \
                            claim about a signature. Choose an account to see its precision over time, or to change its \
                            password, standing or group."
                        }
                        thead {
                            tr {
                                @for head in ["Account", "Standing"] { th scope="col" { (head) } }
                                th .number scope="col" { "Precision" }
                                th scope="col" { "Last month" }
                                @for head in ["Weight", "Right", "Wrong", "Open"] { th .number scope="col" { (head) } }
                                @for head in ["Last claim", "State"] { th scope="col" { (head) } }
                            }
                        }
                        tbody {
                            @for (account, days) in page.accounts.iter().zip(histories) { (row(viewer, account, days, *now)) }
                        }
                    }
                }
                @if let Some(next) = page.next_offset {
                    p { a href=(format!("{}?offset={next}", View::Reporters.path())) { "Next page" } }
                }
            }
        }
    }
}

fn row(viewer: &Viewer, account: &AccountEntry, days: &[AccountDay], now: Time) -> Markup {
    let trust = account.trust.clone().unwrap_or_default();
    let is_known = account.trust.is_some();
    let of = |text: String| if is_known { text } else { "–".to_owned() };
    html! {
        tr {
            th scope="row" {
                @match address(&account.protocol, &account.name) {
                    Ok(address) => { a .break href=(address) { (account.name) } },
                    Err(_) => { span .break { (account.name) } },
                }
                div .soft { (account.protocol) ", added " (time(account.created)) @if account.registered_by == "itself" { " by itself" } }
            }
            td { (account.standing) div .soft { "group " code { (account.group) } } }
            td .number { (of(percent(trust.precision))) }
            td { (precision::small(days, now)) }
            td .number { (of(format!("{:.2}", trust.weight))) }
            td .number { (of(grouped(trust.confirmed.into()))) }
            td .number { (of(grouped(trust.refuted.into()))) }
            td .number { (of(grouped(trust.unconfirmed.into()))) }
            td { @if let Some(last) = account.last_used { (time(last)) } @else { "none since the start" } }
            td {
                (if account.enabled { "enabled" } else { "disabled" })
                @if viewer.can_administer { div .actions { (switch(viewer, account)) (removal(viewer, account)) } }
            }
        }
    }
}

/// Shows the button that disables or enables an account.
fn switch(viewer: &Viewer, account: &AccountEntry) -> Markup {
    let (action, text) = if account.enabled { ("disable", "Disable") } else { ("enable", "Enable") };
    html! {
        form method="post" action=(View::Reporters.path()) {
            (page::form_token(viewer))
            (named(account))
            input type="hidden" name="action" value=(action);
            button .quiet type="submit" aria-label=(format!("{text} {}", account.name)) { (text) }
        }
    }
}

fn removal(viewer: &Viewer, account: &AccountEntry) -> Markup {
    html! {
        form method="post" action=(View::Reporters.path()) data-confirm=(format!("Remove the account {}?", account.name)) {
            (page::form_token(viewer))
            (named(account))
            input type="hidden" name="action" value="remove";
            button .danger type="submit" aria-label=(format!("Remove {}", account.name)) { "Remove" }
        }
    }
}

fn named(account: &AccountEntry) -> Markup {
    html! {
        input type="hidden" name="protocol" value=(account.protocol);
        input type="hidden" name="name" value=(account.name);
    }
}

/// Shows the forms that change one account.
fn correction(viewer: &Viewer, account: &AccountEntry) -> Markup {
    let form = |content: Markup| {
        html! {
            form method="post" action=(View::Reporters.path()) autocomplete="off" {
                (page::form_token(viewer))
                (named(account))
                input type="hidden" name="action" value="change";
                div .row { (content) }
            }
        }
    };
    html! {
        section .card {
            h2 { "Change this account" }
            p .hint { "A change takes effect at once. The account keeps its track record." }
            @if PROTOCOLS.contains(&&*account.protocol) {
                (form(html! {
                    div { label for="secret" { "New password or key" } input #secret type="password" name="secret" required autocomplete="new-password"; }
                    button type="submit" { "Set password" }
                }))
            } @else {
                p .hint { "The key pair of this account is in the configuration file." }
            }
            (form(html! {
                div {
                    label for="standing" { "Standing" }
                    select #standing name="standing" {
                        @for value in STANDINGS { option value=(value) selected[value == account.standing] { (value) } }
                    }
                }
                button type="submit" { "Set standing" }
            }))
            (form(html! {
                div {
                    label for="group" { "Name of the group (counts as one voice)" }
                    input #group name="group" required autocomplete="off" aria-describedby="group-hint";
                }
                button type="submit" { "Set group" }
            }))
            p .hint #group-hint {
                "The server stores only a hash of the name: " code { (account.group) } ". Accounts with the same hash are in \
                one group."
            }
        }
    }
}

fn addition(viewer: &Viewer) -> Markup {
    html! {
        section .card {
            h2 { "Add or change an account" }
            p .hint {
                "If the account exists already, only the fields that you fill in are changed. For Pyzor, the secret is the \
                part after the comma in the output of " code { "pyzor genkey" } "; for Razor and DCC, it is a password."
            }
            form method="post" action=(View::Reporters.path()) autocomplete="off" {
                (page::form_token(viewer))
                input type="hidden" name="action" value="save";
                div .row {
                    div { label for="new-protocol" { "Protocol" } select #new-protocol name="protocol" { @for value in PROTOCOLS { option value=(value) { (value) } } } }
                    div { label for="new-name" { "Name" } input #new-name name="name" required autocomplete="off"; }
                    div { label for="new-secret" { "Password or key" } input #new-secret type="password" name="secret" autocomplete="new-password"; }
                    div {
                        label for="new-standing" { "Standing" }
                        select #new-standing name="standing" {
                            option value="" { "unchanged, or account" }
                            @for value in STANDINGS { option value=(value) { (value) } }
                        }
                    }
                    div { label for="new-group" { "Group (counts as one voice)" } input #new-group name="group" autocomplete="off"; }
                    button type="submit" { "Save" }
                }
            }
        }
    }
}

/// Carries out a change, and shows the account.
pub(super) async fn change(State(http): State<Http>, viewer: Viewer, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let (bytes, _permits) = collect(body, SMALL_BYTES_MAX, &http.bodies).await?;
    let form = Form::read(media(&parts.headers), &bytes)?;
    viewer.check_change(&form)?;
    let (protocol, name) = (form.text("protocol").to_owned(), form.text("name").to_owned());
    let change = http.compute(move |service| account_change(service, &form)).await;
    let (action, result) = match change {
        Ok((action, change)) => {
            let event = Event::Account { now: http.service.now(), change };
            (action, claims::submit_one(&http, event).await)
        }
        Err(fault) => ("account.change", Err(fault)),
    };
    let subject = format!("{protocol} {name}");
    audit(&viewer.caller.who(), action, &subject, result.as_ref().err().map(Fault::detail));
    result?;
    if action == "account.remove" {
        return Ok(Redirect::to(View::Reporters.path()).into_response());
    }
    Ok(Redirect::to(&address(&protocol, &name)?).into_response())
}

/// Returns the change that a form asks for, with its name for the audit trail.
fn account_change(service: &Service, form: &Form) -> Result<(&'static str, AccountChange), Fault> {
    let passwords = &service.settings().passwords;
    let named = AccountName { protocol: form.text("protocol").to_owned(), name: form.text("name").to_owned() };
    let given = |field: &str| Some(form.text(field).to_owned()).filter(|text| !text.is_empty());
    let patch = |patch: AccountPatch| service.store.check(|engine| accounts::update(engine, passwords, patch));
    let AccountName { protocol, name } = named.clone();
    match form.text("action") {
        "remove" => Ok(("account.remove", accounts::removal(named)?)),
        action @ ("enable" | "disable") => {
            let enabled = Some(action == "enable");
            let change = patch(AccountPatch { protocol, name, enabled, ..AccountPatch::default() })?;
            Ok((if action == "enable" { "account.enable" } else { "account.disable" }, change))
        }
        action @ ("save" | "change") if action == "change" || accounts::one(service, &named).is_ok() => {
            let (secret, standing, group) = (given("secret"), given("standing"), given("group"));
            let change = patch(AccountPatch { protocol, name, secret, standing, group, enabled: None })?;
            Ok(("account.change", change))
        }
        "save" => {
            let secret = given("secret").ok_or_else(|| Fault::malformed("a new account needs a password or key"))?;
            let new = NewAccount { protocol, name, secret, standing: given("standing"), group: given("group") };
            let change = service.store.check(|engine| accounts::registration(engine, passwords, new))?;
            Ok(("account.add", change))
        }
        other => Err(Fault::malformed(format!("{} is not an action", capitalised(other)))),
    }
}
