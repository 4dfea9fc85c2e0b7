//! What is counted while serving, and how Prometheus is told.
//!
//! What a stranger can trigger at will is a counter here, never a line of the log.

use std::fmt::Write as _;
use std::time::Duration;

use bruit_protocols::http::PeerStatus;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::health::{Health, State};
use crate::service::Service;

/// The languages the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Language {
    Razor,
    Dcc,
    Pyzor,
    Fuzzy,
    Http,
    Federation,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// A check, by its verdict.
    Spam,
    Bulk,
    Ham,
    Unknown,
    /// A claim that was kept.
    Accepted,
    /// A claim that was not taken, or something its sender may not do.
    Refused,
    /// A question that is neither: a ping, a greeting, statistics.
    Other,
    /// A copy of a request that is answered already or will be.
    Duplicate,
    /// What follows no rule of its language.
    Malformed,
    /// More than its sender may ask for.
    Limited,
    /// A signature or password that is wrong.
    Unverified,
    /// The clearinghouse could not take it.
    Failed,
}

impl Language {
    pub(crate) const ALL: [Self; 6] = [Self::Razor, Self::Dcc, Self::Pyzor, Self::Fuzzy, Self::Http, Self::Federation];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Razor => "razor",
            Self::Dcc => "dcc",
            Self::Pyzor => "pyzor",
            Self::Fuzzy => "fuzzy",
            Self::Http => "http",
            Self::Federation => "federation",
        }
    }
}

impl Answered {
    pub(crate) const ALL: [Self; 12] = [
        Self::Spam,
        Self::Bulk,
        Self::Ham,
        Self::Unknown,
        Self::Accepted,
        Self::Refused,
        Self::Other,
        Self::Duplicate,
        Self::Malformed,
        Self::Limited,
        Self::Unverified,
        Self::Failed,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spam => "spam",
            Self::Bulk => "bulk",
            Self::Ham => "ham",
            Self::Unknown => "unknown",
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Other => "other",
            Self::Duplicate => "duplicate",
            Self::Malformed => "malformed",
            Self::Limited => "limited",
            Self::Unverified => "unverified",
            Self::Failed => "failed",
        }
    }
}

impl From<bruit_engine::verdict::Kind> for Answered {
    fn from(kind: bruit_engine::verdict::Kind) -> Self {
        use bruit_engine::verdict::Kind;
        match kind {
            Kind::Spam => Self::Spam,
            Kind::Bulk => Self::Bulk,
            Kind::Ham => Self::Ham,
            Kind::Unknown => Self::Unknown,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    protocol: &'static str,
    answered: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProtocolLabels {
    protocol: &'static str,
}

/// The counters of one language, at hand.
#[derive(Clone, Debug)]
pub(crate) struct LanguageMetrics {
    answered: [Counter; Answered::ALL.len()],
    /// From receiving a batch to its replies being sent; of claims, with the wait for the disk.
    seconds: Histogram,
}

/// Requests of a batch, before they are added to the counters: an addition each would cost more than some checks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally([u32; Answered::ALL.len()]);

/// All that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    languages: [LanguageMetrics; Language::ALL.len()],
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let requests = Family::<RequestLabels, Counter>::default();
        let make: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_01, 2.0, 20));
        let seconds = Family::<ProtocolLabels, Histogram, _>::new_with_constructor(make);
        let mut registry = Registry::with_prefix("bruit");
        registry.register("requests", "Requests by protocol and by what became of them", requests.clone());
        registry.register("request_seconds", "Time from receiving requests to replying", seconds.clone());
        let languages = Language::ALL.map(|language| {
            let protocol = language.name();
            let answered = Answered::ALL
                .map(|answered| requests.get_or_create(&RequestLabels { protocol, answered: answered.name() }).clone());
            LanguageMetrics { answered, seconds: seconds.get_or_create(&ProtocolLabels { protocol }).clone() }
        });
        Self { registry, languages }
    }

    pub(crate) const fn of(&self, language: Language) -> &LanguageMetrics {
        let [razor, dcc, pyzor, fuzzy, http, federation] = &self.languages;
        match language {
            Language::Razor => razor,
            Language::Dcc => dcc,
            Language::Pyzor => pyzor,
            Language::Fuzzy => fuzzy,
            Language::Http => http,
            Language::Federation => federation,
        }
    }
}

impl LanguageMetrics {
    pub(crate) fn count(&self, answered: Answered) {
        if let Some(counter) = self.answered.get(answered as usize) {
            counter.inc();
        }
    }

    pub(crate) fn add(&self, tally: &Tally) {
        for (counter, &count) in self.answered.iter().zip(&tally.0).filter(|(_, count)| **count > 0) {
            counter.inc_by(count.into());
        }
    }

    pub(crate) fn took(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    /// How many requests came to this.
    pub(crate) fn total(&self, answered: Answered) -> u64 {
        self.answered.get(answered as usize).map_or(0, Counter::get)
    }
}

impl Tally {
    pub(crate) fn count(&mut self, answered: Answered) {
        if let Some(count) = self.0.get_mut(answered as usize) {
            *count += 1;
        }
    }
}

/// Everything in Prometheus' text format: what was counted, and how the clearinghouse is doing now.
pub(crate) fn render(service: &Service) -> String {
    let mut out = String::new();
    for gauge in gauges(service).into_iter().chain(peer_gauges(&service.federation.peers())) {
        // Writing to a string does not fail.
        let _ = gauge.write(&mut out);
    }
    let _ = text::encode(&mut out, &service.metrics.registry);
    out
}

/// A number that is asked for when it is wanted.
struct Gauge {
    name: &'static str,
    help: &'static str,
    values: Vec<(String, f64)>,
}

impl Gauge {
    fn one(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { name, help, values: vec![(String::new(), value)] }
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "# HELP bruit_{0} {1}\n# TYPE bruit_{0} gauge", self.name, self.help)?;
        self.values.iter().try_for_each(|(labels, value)| writeln!(out, "bruit_{}{labels} {value}", self.name))
    }
}

/// How it goes with other servers. Their names are of letters, digits and a few signs, so they can stand in labels.
fn peer_gauges(peers: &[PeerStatus]) -> Vec<Gauge> {
    let of = |name, help, value: fn(&PeerStatus) -> f64| Gauge {
        name,
        help,
        values: peers.iter().map(|peer| (format!("{{peer=\"{}\"}}", peer.name), value(peer))).collect(),
    };
    let refused = peers.iter().flat_map(|peer| {
        let label = |reason: &str| format!("{{peer=\"{}\",reason=\"{reason}\"}}", peer.name);
        peer.refused.iter().map(move |refused| (label(&refused.reason), refused.count as f64))
    });
    let refused = Gauge {
        name: "peer_refused_segments",
        help: "Segments of the server that were not taken, since the start",
        values: refused.collect(),
    };
    let label = |peer: &PeerStatus| format!("{{peer=\"{}\",state=\"{}\"}}", peer.name, peer.state);
    let states = Gauge {
        name: "peer_state",
        help: "The state of each server, as `bruit peers` has it; always 1",
        values: peers.iter().map(|peer| (label(peer), 1.0)).collect(),
    };
    let known_skew = |peer: &PeerStatus| Some((format!("{{peer=\"{}\"}}", peer.name), peer.clock_skew_seconds? as f64));
    let skew = Gauge {
        name: "peer_clock_skew_seconds",
        help: "By how much its clock is ahead of ours, negative if behind",
        values: peers.iter().filter_map(known_skew).collect(),
    };
    let gauges = vec![
        of("peer_up", "Whether the server is heard and its clock agrees: up to date, or behind", |peer| {
            f64::from(matches!(&*peer.state, "up_to_date" | "behind"))
        }),
        states,
        of("peer_silent_seconds", "Seconds since its heads last changed; they change every 10 s", |peer| {
            peer.silent_seconds as f64
        }),
        skew,
        of("peer_lag_segments", "Segments that the server has and we lack", |peer| peer.lag_segments as f64),
        of("peer_lag_seconds", "Seconds since we last had everything of it", |peer| peer.lag_seconds as f64),
        of("peer_bytes_in", "Bytes of its segments, since the start", |peer| peer.bytes_in as f64),
        of("peer_bytes_refused", "Bytes of its segments that were refused, since the start", |peer| {
            peer.bytes_refused as f64
        }),
        of("peer_bytes_out", "Bytes of segments it was sent, since the start", |peer| peer.bytes_out as f64),
        of("peer_signatures_learned", "Entries taken from it", |peer| peer.signatures_learned as f64),
        of("peer_digest_match_time", "When its digests and ours were last the same, seconds since 1970", |peer| {
            peer.last_digest_match.unwrap_or(0) as f64
        }),
        refused,
    ];
    gauges.into_iter().filter(|gauge| !gauge.values.is_empty()).collect()
}

fn gauges(service: &Service) -> Vec<Gauge> {
    let store = service.store.status();
    let status = service.store.check(|engine| engine.status());
    let (rings, tables) = (&status.rings, &status.tables);
    let of_rings = |name, help, value: fn(&bruit_engine::RingStatus) -> f64| Gauge {
        name,
        help,
        values: rings.iter().map(|ring| (format!("{{ring=\"{}\"}}", ring.name), value(ring))).collect(),
    };
    let of_tables = |name, help, value: fn(&bruit_engine::TableStatus) -> f64| Gauge {
        name,
        help,
        values: tables.iter().map(|table| (format!("{{table=\"{}\"}}", table.name), value(table))).collect(),
    };
    vec![
        Gauge::one("journal_sequence", "The number of the last event applied", store.sequence as f64),
        Gauge::one("journal_bytes_written", "Bytes of journal written since the start", store.journal_bytes as f64),
        Gauge::one("journal_records_written", "Group commits since the start", store.records as f64),
        Gauge::one("journal_segments", "Files of the journal", store.segments as f64),
        Gauge::one("journal_waiting_events", "Events that wait for the disk", store.waiting_events as f64),
        Gauge::one(
            "journal_poisoned",
            "Whether the disk failed and nothing is accepted",
            f64::from(store.poisoned.is_some()),
        ),
        health_gauge(&service.health),
        Gauge {
            name: "refused_events",
            help: "Reports and other changes of which something was refused, by reason, since the start",
            values: refused_values(service),
        },
        Gauge::one(
            "exports_waiting_bytes",
            "Bytes of accepted claims that wait to be written for other servers",
            service.store.check(|engine| engine.exchange().pending_bytes()) as f64,
        ),
        Gauge::one("snapshots", "Snapshots that are kept", store.snapshots.len() as f64),
        Gauge::one("snapshot_failed", "Whether the last snapshot failed", f64::from(store.snapshot_failure.is_some())),
        Gauge::one(
            "clock_offset_seconds",
            "How far the system clock is ahead of the time that events get",
            service.clock.ahead_seconds(),
        ),
        Gauge::one("uptime_seconds", "Time since the start", service.uptime().as_secs_f64()),
        of_rings(
            "ring_fill",
            "How full the fullest generation is, of what it was made for",
            bruit_engine::RingStatus::fill,
        ),
        of_rings("ring_error_rate", "The estimated rate of false positives or wrong counts", |ring| ring.error_rate),
        generations(rings),
        of_tables("table_used", "Entries of a table", |table| table.used as f64),
        of_tables("table_capacity", "Entries a table has room for", |table| table.capacity as f64),
    ]
}

fn refused_values(service: &Service) -> Vec<(String, f64)> {
    let counts = service.refusals.counts().into_iter();
    counts.map(|(reason, count)| (format!("{{reason=\"{reason}\"}}"), count as f64)).collect()
}

/// The number of active conditions in each degraded state, 0 if none.
fn health_gauge(health: &Health) -> Gauge {
    let value = |state: &State| {
        let labels = format!("{{state=\"{}\",severity=\"{}\"}}", state.name(), state.severity().name());
        (labels, health.count(*state) as f64)
    };
    Gauge {
        name: "health",
        help: "Conditions of each degraded state; 0 if all is well",
        values: State::ALL.iter().map(value).collect(),
    }
}

fn generations(rings: &[bruit_engine::RingStatus]) -> Gauge {
    let of_ring = |ring: &bruit_engine::RingStatus| {
        let name = ring.name;
        let values = ring.generations.iter().enumerate();
        values
            .map(move |(age, &(_, held))| (format!("{{ring=\"{name}\",age=\"{age}\"}}"), held as f64))
            .collect::<Vec<_>>()
    };
    let values = rings.iter().flat_map(of_ring).collect();
    Gauge {
        name: "ring_signatures",
        help: "About how many signatures a generation holds; age 0 is the current one",
        values,
    }
}
