//! The overview: the server's health with remedies, its answers over time, and the first steps.

use axum::extract::{Query, State};
use bruit_engine::time::Time;
use bruit_protocols::http::{Condition, RequestCount, Ring, Stats};
use maud::{Markup, html};
use serde::Deserialize;

use super::super::{Http, stats};
use super::chart::{Chart, Range, Series};
use super::failure::{Failure, capitalised, sentence};
use super::format::{bound, counted, duration, grouped, percent, rate, size, time};
use super::page::{self, View};
use super::viewer::Viewer;
use crate::config::Listen;
use crate::history::{Slot, Span};
use crate::metrics::{BUCKETS, Disposition, Interface, Metrics, quantile};
use crate::resources::Resources;
use crate::service::Service;

/// The verdicts, in the order of the table.
const VERDICTS: [Disposition; 4] = [Disposition::Spam, Disposition::Bulk, Disposition::Ham, Disposition::Unknown];

/// The share of requests that the response time covers.
const SHARE: f64 = 0.99;

/// Results that mean that a request was not carried out.
const REFUSALS: [Disposition; 5] =
    [Disposition::Refused, Disposition::Malformed, Disposition::Limited, Disposition::Unverified, Disposition::Failed];

/// The columns of the table of requests.
const COLUMNS: [&str; 7] = ["spam", "bulk", "ham", "unknown", "claims", "refused", "other"];

/// The colours of checks, by verdict.
static CHECKS: [Series; 4] = [
    Series { class: "spam", name: "Spam", of: |slot| slot.total(Disposition::Spam) },
    Series { class: "bulk", name: "Bulk", of: |slot| slot.total(Disposition::Bulk) },
    Series { class: "ham", name: "Ham", of: |slot| slot.total(Disposition::Ham) },
    Series { class: "unknown", name: "Unknown", of: |slot| slot.total(Disposition::Unknown) },
];

/// Accepted claims.
static CLAIMS: [Series; 1] =
    [Series { class: "other", name: "Accepted", of: |slot| slot.total(Disposition::Accepted) }];

#[derive(Debug, Default, Deserialize)]
pub(super) struct OverviewQuery {
    #[serde(default)]
    range: String,
}

/// Shows the overview.
pub(super) async fn show(
    State(http): State<Http>,
    viewer: Viewer,
    Query(query): Query<OverviewQuery>,
) -> Result<Markup, Failure> {
    let range = Range::from_name(&query.range);
    let read = move |service: &Service| {
        let resources = Resources::read(service.directory());
        Ok((stats::stats(service), resources, Past::of(service, range), Enabled::of(service)))
    };
    let (stats, resources, past, enabled) = http.compute(read).await?;
    let requests = Requests(&stats.requests);
    let figures = figures(&stats, &resources, &enabled);
    let content = html! {
        (overall(&stats.health))
        (health(&stats.health))
        @if requests.checks() == 0 {
            (first_steps())
        }
        (tiles(&stats, &resources, &past, &figures))
        (traffic(&figures))
        (charts(&past, range))
        p .soft #live role="status" { "Numbers as of when the page was loaded." }
    };
    Ok(page::view(&viewer, View::Overview, &content))
}

/// The figures of a page that come from the history.
struct Past {
    charts: [Chart; 2],
    /// Checks per second in the last minute.
    per_second: f64,
    /// Response time in the last hour, as text.
    response_time: String,
    /// Time when the server started.
    start: u64,
}

impl Past {
    /// Adds up the history. The lock is held for that long only, because the recorder needs it every second.
    fn of(service: &Service, range: Range) -> Self {
        let now = service.now();
        let history = service.history.lock();
        let slots = history.rows(range.span(), now);
        let charts = [
            Chart::new("Checks by verdict", "checks", &slots, range, &CHECKS, now),
            Chart::new("Reports and revocations", "requests", &slots, range, &CLAIMS, now),
        ];
        let response_time = slowest(&history.rows(Span::Day, now), now);
        let start = now.0.saturating_sub(service.uptime().as_secs());
        Self { charts, per_second: service.live.rate(), response_time, start }
    }
}

/// Shows the history in the chosen range.
fn charts(past: &Past, range: Range) -> Markup {
    html! {
        nav aria-label="Time range of the charts" {
            ul .spans {
                @for one in Range::ALL {
                    li { a href=(format!("/?range={}", one.name())) aria-current=[(one == range).then_some("true")] { (one.title()) } }
                }
            }
        }
        @for chart in &past.charts { (chart.render()) }
    }
}

/// The protocols that have an address to listen on.
pub(super) struct Enabled(Vec<Interface>);

impl Enabled {
    pub(super) fn of(service: &Service) -> Self {
        let is_on =
            |protocol: &Interface| service.started_with().is_none_or(|config| listens(&config.listen, *protocol));
        Self(Interface::ALL.into_iter().filter(is_on).collect())
    }

    /// Describes the use of a protocol. Nobody can use one that is switched off.
    fn describe(&self, protocol: Interface, requests: &Requests<'_>) -> &'static str {
        let count: u64 = requests.cells(protocol).iter().map(|(_, count)| count).sum();
        match (self.0.contains(&protocol), count) {
            (false, _) => "switched off",
            (true, 0) => "on, no request yet",
            (true, _) => "on, in use",
        }
    }
}

/// Returns true if a protocol has an address to listen on.
const fn listens(listen: &Listen, protocol: Interface) -> bool {
    let Listen { razor, dcc, pyzor, fuzzy, http, https, http_socket, federation } = listen;
    match protocol {
        Interface::Razor => !razor.is_empty(),
        Interface::Dcc => !dcc.is_empty(),
        Interface::Pyzor => !pyzor.is_empty(),
        Interface::Fuzzy => !fuzzy.is_empty(),
        Interface::Http => !http.is_empty() || !https.is_empty() || http_socket.is_some(),
        Interface::Federation => !federation.is_empty(),
    }
}

/// Returns the figures that change while a page is open, by name.
pub(super) fn figures(stats: &Stats, resources: &Resources, enabled: &Enabled) -> Vec<(String, String)> {
    let requests = Requests(&stats.requests);
    let mut figures = vec![
        ("checks".to_owned(), grouped(requests.checks())),
        ("spam".to_owned(), grouped(requests.total(Disposition::Spam))),
        ("spam-share".to_owned(), requests.spam_share()),
        ("claims".to_owned(), grouped(requests.total(Disposition::Accepted))),
        ("listed".to_owned(), grouped(signatures(&stats.rings, "listed signatures"))),
        ("revoked".to_owned(), grouped(signatures(&stats.rings, "revoked signatures"))),
    ];
    figures.extend(resources.resident_bytes.map(|bytes| ("memory".to_owned(), size(bytes))));
    for protocol in Interface::ALL {
        figures.extend(
            requests.cells(protocol).map(|(column, count)| (format!("{}-{column}", protocol.name()), grouped(count))),
        );
        figures.push((format!("{}-use", protocol.name()), enabled.describe(protocol, &requests).to_owned()));
    }
    figures
}

/// Returns the number of checks since the start.
pub(super) fn checks(metrics: &Metrics) -> u64 {
    let of = |protocol| VERDICTS.iter().map(move |verdict| metrics.of(protocol).total(*verdict));
    Interface::ALL.into_iter().flat_map(of).sum()
}

/// Returns a text that changes when a problem begins or ends.
pub(super) fn problems(conditions: &[Condition]) -> String {
    let newest = conditions.iter().map(|condition| condition.since).max().unwrap_or(0);
    format!("{} {newest}", conditions.len())
}

/// The number of requests since the start.
struct Requests<'r>(&'r [RequestCount]);

impl Requests<'_> {
    fn of(&self, protocol: Interface, answered: Disposition) -> u64 {
        let found = self.0.iter().find(|one| one.protocol == protocol.name() && one.answered == answered.name());
        found.map_or(0, |one| one.count)
    }

    fn total(&self, answered: Disposition) -> u64 {
        self.0.iter().filter(|one| one.answered == answered.name()).map(|one| one.count).sum()
    }

    fn checks(&self) -> u64 {
        VERDICTS.iter().map(|verdict| self.total(*verdict)).sum()
    }

    fn spam_share(&self) -> String {
        match self.checks() {
            0 => "no checks yet".to_owned(),
            checks => format!("{} of all checks", percent(self.total(Disposition::Spam) as f64 / checks as f64)),
        }
    }

    /// Returns the columns of a protocol's row in the table.
    fn cells(&self, protocol: Interface) -> [(&'static str, u64); COLUMNS.len()] {
        let [spam, bulk, ham, unknown] = VERDICTS.map(|verdict| (verdict.name(), self.of(protocol, verdict)));
        let other = [Disposition::Other, Disposition::Duplicate].map(|answered| self.of(protocol, answered));
        let accepted = self.of(protocol, Disposition::Accepted);
        let refused = self.refusals(protocol);
        [spam, bulk, ham, unknown, ("claims", accepted), ("refused", refused), ("other", other.iter().sum())]
    }

    fn refusals(&self, protocol: Interface) -> u64 {
        REFUSALS.iter().map(|answered| self.of(protocol, *answered)).sum()
    }
}

/// Shows the overall health in one line. The script fills the empty element when a problem begins or ends.
fn overall(conditions: &[Condition]) -> Markup {
    let severe = conditions.iter().filter(|condition| class(&condition.severity) == "severe").count();
    let (warnings, is_healthy) = (conditions.len() - severe, conditions.is_empty());
    html! {
        p .overall .state[is_healthy] .good[is_healthy] {
            @match (severe, warnings) {
                (0, 0) => { strong { "Healthy." } " Answering requests. No problem is known." },
                (0, _) => {
                    strong { "Answering requests." }
                    " " (counted(warnings as u64, "warning")) ", nothing severe."
                },
                _ => {
                    strong { "Reports are refused or lost." }
                    " " (severe) " severe, " (counted(warnings as u64, "warning")) "."
                },
            }
        }
        p .notice #health-changed role="status" data-problems=(problems(conditions)) {}
    }
}

/// Lists the active conditions with their remedies.
fn health(conditions: &[Condition]) -> Markup {
    html! {
        @if !conditions.is_empty() {
            section aria-label="Health" {
                @for condition in conditions {
                    div class=(format!("state {}", class(&condition.severity))) {
                        strong { (title(condition)) }
                        span { (capitalised(&condition.severity)) " since " (time(condition.since)) }
                        p {
                            (sentence(&condition.text))
                            @if let Some((view, text)) = page_of(&condition.state) { " " a href=(view.path()) { (text) } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the page with details about a condition, if there is one that every viewer may open.
fn page_of(state: &str) -> Option<(View, &'static str)> {
    match state {
        "shelf_fails" => Some((View::Peers, "Show the peers")),
        _ if state.starts_with("peer_") => Some((View::Peers, "Show the peers")),
        "catching_up" | "reports_refused" | "table_fills" => Some((View::Books, "Show the books")),
        _ if state.starts_with("book_") => Some((View::Books, "Show the books")),
        _ => None,
    }
}

/// Returns the style class of a severity.
fn class(severity: &str) -> &'static str {
    if severity == "severe" { "severe" } else { "warning" }
}

fn title(condition: &Condition) -> String {
    let state = capitalised(&condition.state.replace('_', " "));
    if condition.subject.is_empty() { state } else { format!("{state}: {}", condition.subject) }
}

/// Shows the first steps while no message has been checked.
fn first_steps() -> Markup {
    html! {
        section .card {
            h2 { "What to do first" }
            p { "No message has been checked since the server started. Try it in a shell on this machine:" }
            pre { "bruit report < mail\nbruit check < mail" }
            p {
                "Then connect your mail filter. The pages in " code { "docs/operators/" }
                " describe SpamAssassin, rspamd, Postfix and others. You can also examine a message under "
                a href=(View::Explain.path()) { "Explain" } "."
            }
        }
    }
}

/// Returns a figure of [`figures`] by its name.
fn figure<'f>(figures: &'f [(String, String)], name: &str) -> &'f str {
    figures.iter().find(|(of, _)| of == name).map_or("–", |(_, text)| text.as_str())
}

fn tiles(stats: &Stats, resources: &Resources, past: &Past, figures: &[(String, String)]) -> Markup {
    let figure = |name: &str| figure(figures, name);
    let free = resources.free_bytes.map_or_else(String::new, |free| format!("{} free", size(free)));
    let stored = resources.stored_bytes.map_or_else(|| "–".to_owned(), size);
    html! {
        h2 { "Traffic " small { "totals count from the start, " (time(past.start)) } }
        dl .tiles {
            (tile("Checks now", "rate", &rate(past.per_second), "average of the last minute"))
            (tile("Response time", "response-time", &past.response_time, "for 99\u{a0}% of the last hour's requests"))
            (tile("Checks", "checks", figure("checks"), "in total, all protocols"))
            div .tile {
                dt { "Spam found" }
                dd { span data-live="spam" { (figure("spam")) } small data-live="spam-share" { (figure("spam-share")) } }
            }
            (tile("Reports and revocations", "claims", figure("claims"), "accepted in total"))
        }
        h2 { "Server" }
        dl .tiles {
            (tile("Listed signatures", "listed", figure("listed"), "in the spam book, estimated"))
            (tile("Revoked signatures", "revoked", figure("revoked"), "not spam after all, estimated"))
            (tile("Memory", "memory", figure("memory"), &format!("{} of it for books and tables", size(stats.memory_bytes))))
            (tile("Disk", "", &stored, &free))
            (tile("Running for", "uptime", &duration(stats.uptime_seconds), &format!("version {}", stats.version)))
        }
    }
}

/// Shows a figure. `live` is its name in the stream of updates, or empty if it is not updated.
fn tile(name: &str, live: &str, value: &str, note: &str) -> Markup {
    let live = Some(live).filter(|live| !live.is_empty());
    html! { div .tile { dt { (name) } dd { span data-live=[live] { (value) } small { (note) } } } }
}

/// Returns the response time in the last hour, as text.
pub(super) fn response_time(service: &Service) -> String {
    let now = service.now();
    slowest(&service.history.lock().rows(Span::Day, now), now)
}

/// Returns the time that 99 % of the last hour's requests took at most. It is the bound of a bucket.
fn slowest(slots: &[&Slot], now: Time) -> String {
    let mut durations = [0_u64; BUCKETS];
    for slot in slots.iter().filter(|slot| slot.start + 3_600 > now.0) {
        durations.iter_mut().zip(slot.durations).for_each(|(sum, count)| *sum += count);
    }
    let Some(time) = quantile(&durations, SHARE) else { return "–".to_owned() };
    // The last bucket has no bound.
    let (bounded, total) = (durations.iter().take(BUCKETS - 1).sum::<u64>(), durations.iter().sum::<u64>());
    let is_bounded = bounded as f64 >= total as f64 * SHARE;
    format!("{} {}", if is_bounded { "at most" } else { "more than" }, bound(time))
}

/// Returns the number of signatures in the live generations of a ring.
fn signatures(rings: &[Ring], name: &str) -> u64 {
    let ring = rings.iter().find(|ring| ring.name == name);
    ring.map_or(0, |ring| ring.generations.iter().map(|generation| generation.signatures).sum())
}

/// Shows the requests by protocol and result.
fn traffic(figures: &[(String, String)]) -> Markup {
    html! {
        section .card {
            h2 { "Requests by protocol" }
            p .hint {
                "Since the server started. Bulk was sent to many recipients. Ham was revoked or whitelisted. Unknown means \
                that too little is known against it; this is the usual verdict on good mail. Refused requests are \
                malformed, unverified, over a limit or not permitted. Other requests read pages, statistics and lists. \
                A protocol is switched off if it has no listen address in the configuration."
            }
            div .scroll tabindex="0" role="region" aria-label="Requests by protocol" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Protocol" }
                            @for verdict in VERDICTS { th .number scope="col" { (capitalised(verdict.name())) } }
                            th .number scope="col" { "Reports" }
                            th .number scope="col" { "Refused" }
                            th .number scope="col" { "Other" }
                        }
                    }
                    tbody {
                        @for protocol in Interface::ALL { (row(figures, protocol.name())) }
                    }
                }
            }
        }
    }
}

fn row(figures: &[(String, String)], protocol: &str) -> Markup {
    html! {
        tr {
            @let state = format!("{protocol}-use");
            th scope="row" { (protocol) div .soft data-live=(state) { (figure(figures, &state)) } }
            @for column in COLUMNS {
                @let name = format!("{protocol}-{column}");
                td .number data-live=(name) { (figure(figures, &name)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;

    fn condition(severity: &str, text: &str) -> Condition {
        Condition {
            state: "book_full".into(),
            subject: "listed signatures".into(),
            severity: severity.into(),
            text: text.into(),
            since: 1_800_000_000,
        }
    }

    #[test]
    fn health_names_each_problem_with_its_remedy_and_escapes_it() {
        let peer = Condition { state: "peer_unreachable".into(), ..condition("warning", "<i>peer</i>") };
        let shown = health(&[condition("severe", "raise `memory`"), peer]).into_string();
        for text in [
            "state severe",
            "Book full: listed signatures",
            "Severe since",
            "Raise `memory`. <a href=\"/books\">",
            "&lt;i&gt;peer&lt;/i&gt;. <a href=\"/peers\">",
        ] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert!(health(&[]).into_string().is_empty());
        let other = Condition { state: "clock_jump".into(), ..condition("warning", "x") };
        assert!(!health(&[other]).into_string().contains("href"), "no page says more");
    }

    #[test]
    fn one_line_says_whether_the_server_works_and_changes_with_its_problems() {
        let shown = |conditions: &[Condition]| overall(conditions).into_string();
        assert!(shown(&[]).contains("Healthy.") && shown(&[]).contains("data-problems=\"0 0\""));
        let warning = shown(&[condition("warning", "x")]);
        assert!(warning.contains("Answering requests.</strong> 1 warning, nothing severe."), "{warning}");
        assert!(warning.contains("data-problems=\"1 1800000000\""), "{warning}");
        let severe = shown(&[condition("severe", "x"), condition("warning", "y"), condition("warning", "z")]);
        assert!(severe.contains("refused or lost.</strong> 1 severe, 2 warnings."), "{severe}");
    }

    #[test]
    fn a_response_time_is_a_bound_of_the_last_hour() {
        let mut slot = Slot::new(1_800_000_000);
        slot.durations[1] = 99;
        slot.durations[BUCKETS - 1] = 1;
        assert_eq!(slowest(&[&slot], Time(1_800_000_060)), "at most 20\u{a0}µs");
        assert_eq!(slowest(&[&slot], Time(1_800_003_600)), "–", "an hour later");
        slot.durations[BUCKETS - 1] = 2;
        assert_eq!(slowest(&[&slot], Time(1_800_000_060)), "more than 5.3\u{a0}s");
    }

    #[test]
    fn checks_are_counted_over_all_protocols() {
        let metrics = Metrics::new();
        metrics.of(Interface::Dcc).record(Disposition::Bulk, Duration::ZERO);
        metrics.of(Interface::Pyzor).record(Disposition::Spam, Duration::ZERO);
        metrics.of(Interface::Http).record(Disposition::Accepted, Duration::ZERO);
        assert_eq!(checks(&metrics), 2, "a report is no check");
    }

    #[test]
    fn a_protocol_that_is_switched_off_is_not_shown_like_one_that_nobody_uses() {
        let count = RequestCount { protocol: "pyzor".into(), answered: "spam".into(), count: 1 };
        let stats = Stats { requests: vec![count], ..Stats::default() };
        let config = Config::parse("[razor]\nlisten = []").unwrap();
        let enabled = Interface::ALL.into_iter().filter(|protocol| listens(&config.listen, *protocol));
        let figures = figures(&stats, &Resources::default(), &Enabled(enabled.collect()));
        let shown = traffic(&figures).into_string();
        for (protocol, text) in [
            ("razor", "switched off"),
            ("federation", "switched off"),
            ("dcc", "on, no request yet"),
            ("pyzor", "on, in use"),
        ] {
            let cell = format!("{protocol}<div class=\"soft\" data-live=\"{protocol}-use\">{text}</div>");
            assert!(shown.contains(&cell), "{protocol}: {shown}");
        }
        let columns = Requests(&stats.requests).cells(Interface::Pyzor).map(|(column, _)| column);
        assert_eq!(columns, COLUMNS);
    }

    #[test]
    fn requests_are_added_up_by_verdict_and_protocol() {
        let count = |protocol: &str, answered: &str, count| RequestCount {
            protocol: protocol.into(),
            answered: answered.into(),
            count,
        };
        let counts = [
            count("pyzor", "spam", 2),
            count("http", "spam", 3),
            count("http", "limited", 4),
            count("http", "other", 9),
        ];
        let requests = Requests(&counts);
        assert_eq!((requests.checks(), requests.total(Disposition::Spam)), (5, 5));
        assert_eq!(requests.spam_share(), "100\u{a0}% of all checks");
        assert_eq!((requests.of(Interface::Pyzor, Disposition::Spam), requests.refusals(Interface::Http)), (2, 4));
    }
}
