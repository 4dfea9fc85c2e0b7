//! Peers: the servers that this one exchanges data with.

use axum::extract::{Request, State};
use axum::response::Redirect;
use bruit_protocols::http::PeerStatus;
use maud::{Markup, html};

use super::super::Http;
use super::super::body::{SMALL_BYTES_MAX, collect};
use super::super::fault::Fault;
use super::super::{claims, federation};
use super::failure::{Failure, capitalised};
use super::form::Form;
use super::format::{counted, duration, grouped, size, time};
use super::page::{self, View};
use super::sign_in::media;
use super::viewer::Viewer;
use crate::audit::audit;
use crate::federation::{FORGOTTEN_STATES, PAUSED_STATE};

/// Number of peers in the drawing. The table lists all of them.
const DRAWN_MAX: usize = 16;

/// An example of a peer in the configuration file.
const SECTION: &str = "\
[federation]
listen = \"0.0.0.0:8626\"

[[peers]]
name = \"bruit.example.net\"
url = \"https://bruit.example.net:8626\"
key = \"KEY OF THE OTHER SERVER\"
relation = \"peer\"";

/// Shows the peers.
pub(super) async fn show(State(http): State<Http>, viewer: Viewer) -> Markup {
    let federation = &http.service.federation;
    let (key, peers) = (federation.key(), federation.peers());
    let content = html! {
        @if peers.is_empty() { (none()) } @else {
            section .card {
                h2 { (counted(peers.len() as u64, "server")) }
                (drawing(&peers))
                (table(&viewer, &peers))
            }
        }
        (addition(&key))
    };
    page::view(&viewer, View::Peers, &content)
}

fn none() -> Markup {
    html! {
        section .card {
            h2 { "No other servers" }
            p {
                "This server works alone. It can exchange reports with other operators' servers, or be a node of a \
                cluster of your own servers. Neither is needed to use it."
            }
        }
    }
}

/// Shows how to add a server. Peers are part of the configuration file, so a page cannot add one.
fn addition(key: &str) -> Markup {
    html! {
        section .card {
            h2 { "Add a server" }
            p { "Each of the two servers needs the other's public key. The key of this server is:" }
            pre tabindex="0" { (key) }
            p {
                "Add the other server to the configuration file of this one, and this one to that of the other server. \
                Use " code { "relation = \"cluster\"" } " only for your own servers."
            }
            pre tabindex="0" { (SECTION) }
            p { "Then check the file and restart:" }
            pre tabindex="0" { "bruit serve --config /etc/bruit.toml --check-config\nsystemctl restart bruit" }
            p .hint { code { "docs/operators/peers.md" } " and " code { "docs/operators/cluster.md" } " describe the steps." }
        }
    }
}

/// Draws this server and its peers. The figures are in the table below, so the drawing is hidden from screen readers.
fn drawing(peers: &[PeerStatus]) -> Markup {
    let drawn: Vec<&PeerStatus> = peers.iter().take(DRAWN_MAX).collect();
    let rows = drawn.len().div_ceil(2).max(1);
    let (height, middle) = (36 + 44 * rows, 40 + 22 * (rows - 1));
    html! {
        svg .peers viewBox=(format!("0 0 760 {height}")) aria-hidden="true" {
            @for (at, peer) in drawn.iter().enumerate() {
                @let x = if at % 2 == 0 { 120 } else { 640 };
                @let y = 40 + 44 * (at / 2);
                @let near = if at % 2 == 0 { 310 } else { 450 };
                line class=(format!("link {}", link_class(&peer.state))) x1=(if at % 2 == 0 { 220 } else { 540 }) y1=(y) x2=(near) y2=(middle) {}
                rect .node x=(x - 100) y=(y - 16) width="200" height="32" rx="8" {}
                text x=(x) y=(y + 4) text-anchor="middle" { (shortened(&peer.name)) }
            }
            rect .node .own x="310" y=(middle - 18) width="140" height="36" rx="8" {}
            text .own x="380" y=(middle + 4) text-anchor="middle" { "this server" }
        }
    }
}

/// Returns the style class of a link.
fn link_class(state: &str) -> &'static str {
    match state {
        "up_to_date" => "good",
        "behind" | "not_asked" | "paused" | "forgotten" | "forgetting" => "soft",
        _ => "bad",
    }
}

fn shortened(name: &str) -> String {
    const CHARS_MAX: usize = 26;
    if name.chars().count() <= CHARS_MAX {
        return name.to_owned();
    }
    let start: String = name.chars().take(CHARS_MAX - 1).collect();
    format!("{start}…")
}

fn table(viewer: &Viewer, peers: &[PeerStatus]) -> Markup {
    html! {
        div .scroll tabindex="0" role="region" aria-label="Peers" {
            table {
                thead {
                    tr {
                        th scope="col" { "Server" }
                        th scope="col" { "State" }
                        @for head in ["Behind", "Clock", "Received", "Sent", "Learned"] { th .number scope="col" { (head) } }
                        th scope="col" { "Last agreement" }
                    }
                }
                tbody { @for peer in peers { (row(viewer, peer)) } }
            }
        }
    }
}

fn row(viewer: &Viewer, peer: &PeerStatus) -> Markup {
    html! {
        tr {
            th scope="row" {
                span .break { (peer.name) }
                div .soft { (if peer.relation == "cluster" { "own node" } else { "other operator" }) ", by " (peer.transport) }
                @if viewer.can_administer { div .actions { (actions(viewer, peer)) } }
            }
            td {
                (capitalised(&peer.state.replace('_', " ")))
                div .soft { "since " (time(peer.since)) }
                @if let Some(reason) = &peer.reason { div .break { (reason) } }
                @for refused in &peer.refused { div { "Refused (" (refused.reason) "): " (grouped(refused.count)) } }
            }
            td .number { (counted(peer.lag_segments, "segment")) div .soft { (duration(peer.lag_seconds)) } }
            td .number { (peer.clock_skew_seconds.map_or_else(|| "unknown".to_owned(), |skew| format!("{skew:+} s"))) }
            td .number { (size(peer.bytes_in)) }
            td .number { (size(peer.bytes_out)) }
            td .number { (grouped(peer.signatures_learned)) }
            td { @if let Some(at) = peer.last_digest_match { (time(at)) } @else { "never" } }
        }
    }
}

/// Shows the buttons of a peer.
fn actions(viewer: &Viewer, peer: &PeerStatus) -> Markup {
    if FORGOTTEN_STATES.contains(&&*peer.state) {
        return button(viewer, peer, ("restore", "Accept again", "quiet"), None);
    }
    let warning = format!("Forget {}? Everything that was learned from it is removed.", peer.name);
    html! {
        @if peer.state == PAUSED_STATE {
            (button(viewer, peer, ("resume", "Resume", "quiet"), None))
        } @else if peer.transport == "https" {
            (button(viewer, peer, ("pause", "Pause", "quiet"), None))
        }
        (button(viewer, peer, ("forget", "Forget", "danger"), Some(warning)))
    }
}

fn button(
    viewer: &Viewer,
    peer: &PeerStatus,
    (action, text, class): (&str, &str, &str),
    warning: Option<String>,
) -> Markup {
    html! {
        form method="post" action=(View::Peers.path()) data-confirm=[warning] {
            (page::form_token(viewer))
            input type="hidden" name="peer" value=(peer.name);
            input type="hidden" name="action" value=(action);
            button class=(class) type="submit" aria-label=(format!("{text}: {}", peer.name)) { (text) }
        }
    }
}

/// Pauses, resumes or forgets a peer, or accepts it again.
pub(super) async fn change(State(http): State<Http>, viewer: Viewer, request: Request) -> Result<Redirect, Failure> {
    let (parts, body) = request.into_parts();
    let (bytes, _permits) = collect(body, SMALL_BYTES_MAX, &http.bodies).await?;
    let form = Form::read(media(&parts.headers), &bytes)?;
    viewer.check_change(&form)?;
    let peer = form.text("peer");
    let (action, result) = match form.text("action") {
        "forget" => ("peer.forget", forget(&http, peer, true).await),
        "restore" => ("peer.restore", forget(&http, peer, false).await),
        "pause" => ("peer.pause", federation::pausing(&http.service, peer, true)),
        "resume" => ("peer.resume", federation::pausing(&http.service, peer, false)),
        _ => return Err(Fault::malformed("unknown action: expected forget, restore, pause or resume").into()),
    };
    audit(&viewer.caller.who(), action, peer, result.as_ref().err().map(Fault::detail));
    result?;
    Ok(Redirect::to(View::Peers.path()))
}

async fn forget(http: &Http, peer: &str, is_forgotten: bool) -> Result<bool, Fault> {
    match federation::forgetting(&http.service, peer, is_forgotten)? {
        Some(event) => claims::submit_one(http, event).await,
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_bounded_and_names_are_text() {
        let peer = PeerStatus { name: "<b>".repeat(40), state: "unreachable".into(), ..PeerStatus::default() };
        let drawn = drawing(&vec![peer; 40]).into_string();
        assert_eq!(drawn.matches("<line").count(), DRAWN_MAX);
        assert!(drawn.contains("link bad") && !drawn.contains("<b>") && drawn.contains('…'), "{drawn}");
    }
}
