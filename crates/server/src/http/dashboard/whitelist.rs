//! The whitelist: senders whose mail is never spam, and signatures that are never listed.

use axum::extract::{Query, Request, State};
use axum::response::Redirect;
use bruit_engine::event::Event;
use bruit_protocols::http::{Whitelist, WhitelistEntry};
use maud::{Markup, html};
use serde::Deserialize;

use super::super::Http;
use super::super::body::{SMALL_BYTES_MAX, collect};
use super::super::caller::Right;
use super::super::fault::Fault;
use super::super::{claims, whitelist};
use super::explain::named;
use super::failure::Failure;
use super::form::Form;
use super::format::{counted, grouped};
use super::page::{self, View};
use super::sign_in::media;
use super::viewer::Viewer;
use crate::audit::audit;

#[derive(Debug, Default, Deserialize)]
pub(super) struct WhitelistQuery {
    #[serde(default)]
    offset: u64,
}

/// Shows a page of the whitelist.
pub(super) async fn show(
    State(http): State<Http>,
    viewer: Viewer,
    Query(query): Query<WhitelistQuery>,
) -> Result<Markup, Failure> {
    viewer.caller.require(Right::Administer)?;
    let list = http.compute(move |service| Ok(service.store.check(|engine| whitelist::page(engine, query.offset))));
    let list = list.await?;
    let content = html! {
        @if viewer.can_administer { (additions(&viewer)) }
        (senders(&viewer, &list))
        section .card {
            h2 { (counted(list.signature_count, "whitelisted signature")) }
            p .hint {
                "The server keeps only hashes of whitelisted signatures, so it cannot list them. Enter a signature above \
                to remove it. " a href=(View::Explain.path()) { "Explain" } " shows whether a signature is whitelisted."
            }
        }
    };
    Ok(page::view(&viewer, View::Whitelist, &content))
}

fn additions(viewer: &Viewer) -> Markup {
    html! {
        section .card {
            h2 { "Add or remove an entry" }
            form method="post" action=(View::Whitelist.path()) autocomplete="off" {
                (page::form_token(viewer))
                label for="sender" { "Sender" }
                input #sender name="sender" autocomplete="off" placeholder="news@example.org";
                p .hint {
                    "An address; " code { "example.org" } " for all addresses of a domain; " code { ".example.org" }
                    " for those of its subdomains; " code { "list:news.example.org" } " for a mailing list. Senders can \
                    be forged, so use this only if your filter checks SPF or DKIM."
                }
                label for="signature" { "or a signature" }
                input #signature name="signature" autocomplete="off" placeholder="pyzor:9f11ff1a25d0…";
                div .actions {
                    button type="submit" name="action" value="add" { "Add" }
                    button .danger type="submit" name="action" value="remove" { "Remove" }
                }
            }
        }
    }
}

fn senders(viewer: &Viewer, list: &Whitelist) -> Markup {
    html! {
        section .card {
            h2 { (counted(list.sender_count, "whitelisted sender")) }
            @if list.senders.is_empty() {
                p { "No sender is whitelisted. Add one if its mail is found to be spam or bulk, but is wanted." }
            } @else {
                div .scroll tabindex="0" role="region" aria-label="Whitelisted senders" {
                    table {
                        thead { tr { th scope="col" { "Sender" } @if viewer.can_administer { th scope="col" { "Action" } } } }
                        tbody { @for sender in &list.senders { (row(viewer, sender)) } }
                    }
                }
                @if let Some(next) = list.next_offset {
                    p { a href=(format!("{}?offset={next}", View::Whitelist.path())) { "Next page, from entry " (grouped(next + 1)) } }
                }
            }
        }
    }
}

fn row(viewer: &Viewer, sender: &str) -> Markup {
    html! {
        tr {
            th .break scope="row" { (sender) }
            @if viewer.can_administer {
                td {
                    form method="post" action=(View::Whitelist.path()) {
                        (page::form_token(viewer))
                        input type="hidden" name="sender" value=(sender);
                        button .danger type="submit" name="action" value="remove" aria-label=(format!("Remove {sender}")) { "Remove" }
                    }
                }
            }
        }
    }
}

/// Adds or removes an entry.
pub(super) async fn change(State(http): State<Http>, viewer: Viewer, request: Request) -> Result<Redirect, Failure> {
    let (parts, body) = request.into_parts();
    let (bytes, _permits) = collect(body, SMALL_BYTES_MAX, &http.bodies).await?;
    let form = Form::read(media(&parts.headers), &bytes)?;
    viewer.check_change(&form)?;
    let entry = entry(&form)?;
    let subject = whitelist::subject(&entry);
    let is_addition = match form.text("action") {
        "add" => true,
        "remove" => false,
        _ => return Err(Fault::malformed("unknown action: expected add or remove").into()),
    };
    let change = http.compute(move |service| {
        let change = if is_addition { whitelist::addition } else { whitelist::removal };
        service.store.check(|engine| change(engine, entry))
    });
    let event = Event::Whitelist { now: http.service.now(), change: change.await? };
    let result = claims::submit_one(&http, event).await;
    let action = if is_addition { "whitelist.add" } else { "whitelist.remove" };
    audit(&viewer.caller.who(), action, &subject, result.as_ref().err().map(Fault::detail));
    result?;
    Ok(Redirect::to(View::Whitelist.path()))
}

fn entry(form: &Form) -> Result<WhitelistEntry, Fault> {
    let (sender, signature) = (form.text("sender"), form.text("signature"));
    match (sender.is_empty(), signature.is_empty()) {
        (false, true) => Ok(WhitelistEntry::Sender(sender.to_owned())),
        (true, false) => Ok(WhitelistEntry::Signature(named(signature)?)),
        _ => Err(Fault::malformed("enter either a sender or a signature")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_sender_or_a_signature() {
        let read = |body: &str| entry(&Form::read("application/x-www-form-urlencoded", body.as_bytes()).unwrap());
        assert_eq!(read("sender=.example.org&signature=").unwrap(), WhitelistEntry::Sender(".example.org".into()));
        let digest = format!("signature=pyzor:{}", "0a".repeat(20));
        assert!(matches!(read(&digest).unwrap(), WhitelistEntry::Signature(named) if named.scheme == "pyzor"));
        for wrong in ["", "sender=a&signature=b", "signature=x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
