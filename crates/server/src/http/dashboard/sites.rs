//! Mail sites: the milters, watchers of Maildirs, spools and replicas that this server has seen.

use axum::extract::State;
use bruit_protocols::http::{Site, SiteProgram, Sites};
use maud::{Markup, html};

use super::super::Http;
use super::super::caller::Right;
use super::failure::Failure;
use super::format::{counted, duration, grouped, time};
use super::page::{self, View};
use super::viewer::Viewer;
use crate::sites::{SILENT_SECONDS, SITES_MAX};

/// Shows the programs.
pub(super) async fn show(State(http): State<Http>, viewer: Viewer) -> Result<Markup, Failure> {
    viewer.caller.require(Right::Administer)?;
    let (list, now) = (http.service.sites.list(), http.service.now().0);
    let content = html! {
        @if list.sites.is_empty() { (none()) } @else { (seen(&list, now)) }
        section .card {
            h2 { "What is not listed" }
            p {
                "Stock clients, such as razor, pyzor, dccproc, rspamd and SpamAssassin, do not say who they are. "
                a href=(View::Overview.path()) { "Overview" } " counts their requests by protocol, and "
                a href=(View::Reporters.path()) { "Reporters" } " shows when each account made its last claim. Programs \
                without a token are listed only if they run in the server's own networks."
            }
        }
    };
    Ok(page::view(&viewer, View::Sites, &content))
}

/// Shows what to do while no program was seen.
fn none() -> Markup {
    html! {
        section .card {
            h2 { "No mail site was seen since the server started" }
            p { "To check the mail of Postfix or Sendmail, run the milter beside the mail server:" }
            pre tabindex="0" { "bruit milter --config /etc/bruit/milter.toml" }
            p { "To report what users move to Junk, run on the machine with their Maildirs:" }
            pre tabindex="0" { "bruit watch --spool /var/spool/bruit ann=/home/ann/Maildir" }
            p {
                "A running milter appears here within a minute. " code { "docs/operators/postfix.md" } ", "
                code { "docs/operators/sendmail.md" } " and " code { "docs/operators/watch.md" } " describe the steps. \
                On another machine, programs need a token (" code { "[[http.tokens]]" } ")."
            }
        }
    }
}

fn seen(list: &Sites, now: u64) -> Markup {
    html! {
        section .card {
            h2 { (counted(list.sites.len() as u64, "program")) }
            @if list.dropped > 0 {
                p .alert {
                    "The list holds " (SITES_MAX) " programs. " (counted(list.dropped, "program")) " seen longest ago "
                    @if list.dropped == 1 { "was" } @else { "were" } " dropped."
                }
            }
            div .scroll tabindex="0" role="region" aria-label="Programs of mail sites" {
                table {
                    caption {
                        "Programs that made requests since the server started. A milter makes one at least every 30 \
                        seconds, and a watcher or a replica every 60 seconds."
                    }
                    thead {
                        tr {
                            @for head in ["Program", "Connects as", "Last seen"] { th scope="col" { (head) } }
                            @for head in ["Requests", "Waiting claims", "Unchecked messages"] { th .number scope="col" { (head) } }
                        }
                    }
                    tbody { @for site in &list.sites { (row(site, now)) } }
                }
            }
        }
    }
}

fn row(site: &Site, now: u64) -> Markup {
    let silence = now.saturating_sub(site.last_seen);
    let count = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), grouped);
    html! {
        tr {
            th scope="row" {
                (title(site.program))
                @if let Some(version) = &site.version { div .soft .break { "version " (version) } }
            }
            td {
                span .break { (site.name.as_deref().unwrap_or("no token, own network")) }
                div .soft { (site.address) }
            }
            td {
                (time(site.last_seen))
                div .soft { (duration(silence)) " ago, first " (time(site.first_seen)) }
                @if let Some(text) = problem(site, silence) { div { strong { (text) } } }
            }
            td .number { (grouped(site.requests)) }
            td .number { (count(site.spooled)) }
            td .number { (count(site.unchecked)) }
        }
    }
}

const fn title(program: SiteProgram) -> &'static str {
    match program {
        SiteProgram::Milter => "Milter",
        SiteProgram::Watch => "Watcher of Maildirs",
        SiteProgram::Spool => "Spool",
        SiteProgram::Replica => "Replica",
    }
}

/// Returns what to look at, if something seems wrong.
fn problem(site: &Site, silence: u64) -> Option<&'static str> {
    // `bruit spool send` runs only now and then.
    if site.program != SiteProgram::Spool && silence >= SILENT_SECONDS {
        return Some("Silent: check that it runs and reaches the server.");
    }
    site.spooled.is_some_and(|count| count > 0).then_some("Claims wait: see its log, or run bruit spool.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(program: SiteProgram) -> Site {
        Site {
            program,
            name: Some("<b>mx</b>".into()),
            address: "192.0.2.7".into(),
            version: Some("<i>".into()),
            first_seen: 1_800_000_000,
            last_seen: 1_800_000_000,
            requests: 1_234,
            spooled: None,
            unchecked: Some(2),
        }
    }

    #[test]
    fn a_program_is_shown_with_its_state_and_names_are_text() {
        let list = Sites { sites: vec![site(SiteProgram::Milter)], dropped: 1 };
        let shown = seen(&list, 1_800_000_060).into_string();
        for text in
            ["Milter", "&lt;b&gt;mx", "version &lt;i&gt;", "1,234", "1 minute ago", "1 program seen longest ago was"]
        {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert!(!shown.contains("Silent"), "{shown}");
    }

    #[test]
    fn silence_and_waiting_claims_are_problems() {
        let milter = site(SiteProgram::Milter);
        assert_eq!(problem(&milter, SILENT_SECONDS - 1), None);
        assert!(problem(&milter, SILENT_SECONDS).unwrap().starts_with("Silent"));
        assert_eq!(problem(&site(SiteProgram::Spool), SILENT_SECONDS), None, "it runs from a timer");
        let waiting = Site { spooled: Some(1), ..site(SiteProgram::Spool) };
        assert!(problem(&waiting, 0).unwrap().starts_with("Claims wait"));
    }
}
