//! Peers: the servers that this one exchanges data with.

use axum::extract::{Request, State};
use axum::response::Redirect;
use bruit_protocols::http::{NewPeer, PeerStatus};
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
use crate::config::{PEER_NAME_BYTES_MAX, PEER_URL_BYTES_MAX};
use crate::federation::{FORGOTTEN_STATES, PAUSED_STATE};

/// Number of peers in the drawing. The table lists all of them.
const DRAWN_MAX: usize = 16;

/// Shows the peers.
pub(super) async fn show(State(http): State<Http>, viewer: Viewer) -> Markup {
    let (key, peers) = (http.service.federation.key(), federation::states(&http.service));
    let is_reachable = http.service.started_with().is_none_or(|config| !config.listen.federation.is_empty());
    let content = html! {
        @if peers.is_empty() { (none()) } @else {
            section .card {
                h2 { (counted(peers.len() as u64, "server")) }
                (drawing(&peers))
                (table(&viewer, &peers))
            }
        }
        (addition(&viewer, &key, is_reachable))
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

/// Shows the key of this server, and the form that adds another one.
fn addition(viewer: &Viewer, key: &str, is_reachable: bool) -> Markup {
    html! {
        section .card {
            h2 { "Add a server" }
            p { "Each of the two servers needs the other's public key. The key of this server is:" }
            pre tabindex="0" { (key) }
            @if !is_reachable {
                p {
                    "Other servers cannot ask this one, because it has no address for them. Set one in the configuration \
                    file, and restart:"
                }
                pre tabindex="0" { "[federation]\nlisten = \"0.0.0.0:8626\"" }
            }
            @if viewer.can_administer {
                form method="post" action=(View::Peers.path()) autocomplete="off" {
                    (page::form_token(viewer))
                    input type="hidden" name="action" value="add";
                    div .row {
                        div {
                            label for="peer-name" { "Name" }
                            input #peer-name name="peer" required maxlength=(PEER_NAME_BYTES_MAX) pattern="[A-Za-z0-9._\\-]+"
                                title="letters, digits, dots, underscores and hyphens" autocomplete="off";
                        }
                        div {
                            label for="peer-url" { "URL (empty if it cannot be reached)" }
                            input #peer-url name="url" maxlength=(PEER_URL_BYTES_MAX) placeholder="https://bruit.example.net:8626" autocomplete="off";
                        }
                        div {
                            label for="peer-key" { "Public key (" code { "bruit keys show" } ")" }
                            input #peer-key name="key" required spellcheck="false" autocomplete="off";
                        }
                        div {
                            label for="peer-relation" { "Relation" }
                            select #peer-relation name="relation" {
                                option value="peer" { "another operator's server" }
                                option value="cluster" { "my own node: counts add up" }
                            }
                        }
                        button type="submit" { "Add" }
                    }
                }
                p .hint {
                    "A server that is added here is asked at once, and after every restart. Anyone who has the key of your \
                    own node can list and revoke anything here. Through a broker, the data of an added server arrives only \
                    after a restart."
                }
            }
            p .hint {
                "Both servers must have the same realm. " code { "docs/operators/peers.md" } " and "
                code { "docs/operators/cluster.md" } " describe the steps, and the settings that only the configuration file has."
            }
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
        "behind" | "waiting" | "not_asked" | "paused" | "forgotten" | "forgetting" => "soft",
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
        return html! { (button(viewer, peer, ("restore", "Accept again", "quiet"), None)) (removal(viewer, peer)) };
    }
    let warning = format!("Forget {}? Everything that was learned from it is removed.", peer.name);
    html! {
        @if peer.state == PAUSED_STATE {
            (button(viewer, peer, ("resume", "Resume", "quiet"), None))
        } @else if peer.transport == "https" {
            (button(viewer, peer, ("pause", "Pause", "quiet"), None))
        }
        (button(viewer, peer, ("forget", "Forget", "danger"), Some(warning)))
        (removal(viewer, peer))
    }
}

/// Shows the button that removes an added peer. Peers of the configuration file are removed there.
fn removal(viewer: &Viewer, peer: &PeerStatus) -> Markup {
    let warning = format!("Remove {}? What was learned from it stays.", peer.name);
    html! { @if peer.added { (button(viewer, peer, ("remove", "Remove", "danger"), Some(warning))) } }
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

/// Adds, removes, pauses, resumes or forgets a peer, or accepts it again.
pub(super) async fn change(State(http): State<Http>, viewer: Viewer, request: Request) -> Result<Redirect, Failure> {
    let (parts, body) = request.into_parts();
    let (bytes, _permits) = collect(body, SMALL_BYTES_MAX, &http.bodies).await?;
    let form = Form::read(media(&parts.headers), &bytes)?;
    viewer.check_change(&form)?;
    let peer = form.text("peer");
    let mut subject = peer.to_owned();
    let (action, result) = match form.text("action") {
        "add" => {
            let (described, result) = federation::addition(&http, new_peer(&form)).await;
            subject = described;
            ("peer.add", result.map(|()| true))
        }
        "remove" => ("peer.remove", federation::removal(&http, peer).await.map(|()| true)),
        "forget" => ("peer.forget", forget(&http, peer, true).await),
        "restore" => ("peer.restore", forget(&http, peer, false).await),
        "pause" => ("peer.pause", federation::pausing(&http.service, peer, true)),
        "resume" => ("peer.resume", federation::pausing(&http.service, peer, false)),
        _ => {
            return Err(
                Fault::malformed("unknown action: expected add, remove, forget, restore, pause or resume").into()
            );
        }
    };
    audit(&viewer.caller.who(), action, &subject, result.as_ref().err().map(Fault::detail));
    result?;
    Ok(Redirect::to(View::Peers.path()))
}

fn new_peer(form: &Form) -> NewPeer {
    let text = |name: &str| form.text(name).to_owned();
    NewPeer { name: text("peer"), url: Some(text("url")), key: text("key"), relation: text("relation") }
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
