//! Signing in and out.
//!
//! A token or a one-time link is exchanged for a session. Opening a link only shows a button, because programs that
//! preview links would otherwise use it up. Attempts are limited for every network, including the site's own.

use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap, SET_COOKIE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::super::Http;
use super::super::body::{SMALL_BYTES_MAX, collect};
use super::super::caller::{Caller, Right};
use super::super::fault::Fault;
use super::failure::{Failure, sentence};
use super::form::Form;
use super::page::{self, HTML};
use super::viewer::{Channel, Viewer, Visitor};
use crate::audit::audit;
use crate::config::sha256;
use crate::limits::Rate;
use crate::sources::Source;

/// The limit on attempts to sign in from one network.
const ATTEMPTS: Rate = Rate { per_second: 0.2, burst: 20 };

/// Distinguishes these attempts from other expensive requests of the same network.
const ATTEMPT: u64 = 0x7369_676e_2d69_6e00;

#[derive(Debug, Deserialize)]
pub(super) struct SignInQuery {
    link: Option<String>,
}

/// Shows the form.
pub(super) async fn show(visitor: Visitor, Query(query): Query<SignInQuery>) -> Response {
    form(visitor.channel, query.link.as_deref(), None).into_response()
}

/// Renders the form. `link` is the secret of a one-time link, and `problem` the reason why the last attempt failed.
fn form(channel: Channel, link: Option<&str>, problem: Option<&str>) -> Markup {
    let content = html! {
        @if let Some(problem) = problem {
            p .alert role="alert" { (problem) }
        }
        @match (channel, link) {
            (Channel::Plain, _) => {
                p .alert {
                    "Signing in needs an encrypted connection, because others on the network could read the token."
                }
                p {
                    "Either give the server a certificate (" code { "tls" } " in the section " code { "[http]" }
                    " of its configuration), or open the dashboard on the server's own machine, for example through "
                    code { "ssh -L 8625:127.0.0.1:8625 SERVER" } " at " code { "http://127.0.0.1:8625" } "."
                }
            }
            (_, Some(link)) => {
                form method="post" action="/sign-in" {
                    input type="hidden" name="link" value=(link);
                    p { "This link signs you in as an administrator, once." }
                    button type="submit" { "Sign in" }
                }
            }
            (_, None) => {
                form method="post" action="/sign-in" autocomplete="off" {
                    // Password managers and browsers look for a user name beside a password.
                    input type="text" name="user" value="token" autocomplete="username" hidden;
                    label for="token" { "Token" }
                    input #token type="password" name="token" required autofocus autocomplete="current-password";
                    p .hint {
                        "The administrator's token is in " code { "admin.token" } " in the server's data directory. A \
                        token with " code { "monitor = true" } " shows the overview, explanations, books and peers."
                    }
                    button type="submit" { "Sign in" }
                }
            }
        }
    };
    page::plain("Sign in", &content)
}

/// Opens a session.
pub(super) async fn sign_in(State(http): State<Http>, visitor: Visitor, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    if visitor.channel == Channel::Plain {
        return Err(Fault::forbidden("signing in needs an encrypted connection").into());
    }
    take_attempt(&http, &visitor)?;
    let (bytes, _permits) = collect(body, SMALL_BYTES_MAX, &http.strangers_bodies).await?;
    let form = Form::read(media(&parts.headers), &bytes)?;
    Ok(open(&http, &parts, &visitor, &form).unwrap_or_else(|fault| refused(&visitor, fault)))
}

fn open(http: &Http, parts: &Parts, visitor: &Visitor, form: &Form) -> Result<Response, Fault> {
    let service = &http.service;
    let link = form.text("link");
    let token = if link.is_empty() {
        sha256(form.text("token").as_bytes())
    } else {
        let used = || Fault::forbidden("the link was used already, or is too old: sign in with a token");
        service.sessions.use_link(link, service.uptime()).ok_or_else(used)?
    };
    let caller = Caller::authenticate(parts, http, Ok(Some(token)))?;
    caller.require(Right::Monitor)?;
    let secret = service.sessions.open(token, service.uptime()).ok_or_else(Fault::broken)?;
    let cookie = visitor.channel.cookie(Some(&secret)).ok_or_else(Fault::broken)?;
    audit(&caller.who(), "dashboard.sign_in", caller.name().unwrap_or_default(), None);
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// Shows the form again, with the reason.
fn refused(visitor: &Visitor, fault: Fault) -> Response {
    let page = form(visitor.channel, None, Some(&sentence(fault.detail())));
    let (mut parts, _) = fault.into_response().into_parts();
    parts.headers.insert(CONTENT_TYPE, axum::http::HeaderValue::from_static(HTML));
    parts.headers.remove(axum::http::header::CONTENT_LENGTH);
    Response::from_parts(parts, page.into_string().into())
}

fn take_attempt(http: &Http, visitor: &Visitor) -> Result<(), Fault> {
    let service = &http.service;
    let source = Source { address: visitor.address, is_own: false };
    let is_admitted = service.limits.costly.admit(source.network(&service.key) ^ ATTEMPT, ATTEMPTS, service.uptime());
    if is_admitted { Ok(()) } else { Err(Fault::limited("attempts to sign in")) }
}

/// Ends the session.
pub(super) async fn sign_out(
    State(http): State<Http>,
    visitor: Visitor,
    viewer: Viewer,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let (bytes, _permits) = collect(body, SMALL_BYTES_MAX, &http.bodies).await?;
    viewer.check_form(&Form::read(media(&parts.headers), &bytes)?)?;
    viewer.sign_out(&http);
    audit(&viewer.caller.who(), "dashboard.sign_out", viewer.caller.name().unwrap_or_default(), None);
    let cookie = visitor.channel.cookie(None).map(|cookie| [(SET_COOKIE, cookie)]);
    Ok((StatusCode::SEE_OTHER, cookie, Redirect::to("/sign-in")).into_response())
}

/// Returns the value of `Content-Type`.
pub(super) fn media(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
