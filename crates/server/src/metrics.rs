//! Counters of requests, and everything that `/metrics` says.
//!
//! What a stranger can trigger at will is a counter here, and no line of the log at its default level.
//!
//! | module | what it is |
//! |---|---|
//! | `exposition` | Prometheus' text format |
//! | `families` | the state of the clearinghouse, as metrics |
//! | `histogram` | how long requests take |
//! | `peers` | the other servers, as metrics |
//! | `process` | memory, processor time and files of the process |

mod exposition;
mod families;
mod histogram;
mod peers;
mod process;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use exposition::CONTENT_TYPE;
use exposition::{Family, Labels};
use histogram::Histogram;

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

/// What became of a request. One about several signatures is counted once, as the first of these that applies to any of them.
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

/// The counters of one language.
#[derive(Debug, Default)]
pub(crate) struct LanguageMetrics {
    answered: [AtomicU64; Answered::ALL.len()],
    /// Connections that were closed unread, as there were too many.
    connections_refused: AtomicU64,
    /// From receiving a request to its reply; of claims, with the wait for the disk. One observation per request.
    seconds: Histogram,
}

/// Requests of a batch, before they are added to the counters: an addition each would cost more than some checks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally([u32; Answered::ALL.len()]);

/// All that is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    languages: [LanguageMetrics; Language::ALL.len()],
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self::default()
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

    fn families(&self) -> Vec<Family> {
        let of = |language: Language| Labels::one("protocol", language.name());
        let mut requests = Family::counter("bruit_requests_total", "Requests by protocol and by what became of them.");
        let mut refused = Family::counter(
            "bruit_connections_refused_total",
            "Connections closed unread because there were too many.",
        );
        let mut seconds = Family::histogram(
            "bruit_request_duration_seconds",
            "Time from receiving a request to its reply. Reports wait for the disk, peers for news.",
        );
        for language in Language::ALL {
            let metrics = self.of(language);
            for answered in Answered::ALL {
                requests.add(of(language).and("answered", answered.name()), metrics.total(answered) as f64);
            }
            refused.add(of(language), metrics.connections_refused.load(Ordering::Relaxed) as f64);
            metrics.seconds.write(&mut seconds, &of(language));
        }
        vec![requests, refused, seconds]
    }
}

impl LanguageMetrics {
    /// Counts one request, and how long it took.
    pub(crate) fn record(&self, answered: Answered, time: Duration) {
        let mut tally = Tally::default();
        tally.count(answered);
        self.add(&tally, time);
    }

    /// Counts the requests of a batch, each of which took as long as the batch.
    pub(crate) fn add(&self, tally: &Tally, time: Duration) {
        for (counter, &count) in self.answered.iter().zip(&tally.0).filter(|(_, count)| **count > 0) {
            counter.fetch_add(count.into(), Ordering::Relaxed);
        }
        self.seconds.observe(time, tally.total());
    }

    /// Counts a connection that there was no room for.
    pub(crate) fn refuse_connection(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests came to this.
    pub(crate) fn total(&self, answered: Answered) -> u64 {
        self.answered.get(answered as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}

impl Tally {
    pub(crate) fn count(&mut self, answered: Answered) {
        if let Some(count) = self.0.get_mut(answered as usize) {
            *count += 1;
        }
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }
}

/// Everything in Prometheus' text format: what was counted, and how the clearinghouse is doing now.
pub(crate) fn render(service: &Service) -> String {
    let families = service.metrics.families().into_iter();
    let families = families.chain(families::of(service)).chain(peers::of(&service.federation.peers()));
    exposition::text(families.chain(process::families()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(metrics: &Metrics, name: &str) -> f64 {
        let text = exposition::text(metrics.families());
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().parse().unwrap()
    }

    #[test]
    fn a_batch_is_observed_once_for_each_of_its_requests() {
        let metrics = Metrics::new();
        let mut tally = Tally::default();
        [Answered::Spam, Answered::Spam, Answered::Limited].into_iter().for_each(|answered| tally.count(answered));
        metrics.of(Language::Pyzor).add(&tally, Duration::from_millis(2));
        metrics.of(Language::Pyzor).add(&Tally::default(), Duration::from_secs(9));
        metrics.of(Language::Http).record(Answered::Accepted, Duration::from_millis(30));
        assert_eq!(sample(&metrics, "bruit_requests_total{protocol=\"pyzor\",answered=\"spam\"}"), 2.0);
        assert_eq!(sample(&metrics, "bruit_request_duration_seconds_count{protocol=\"pyzor\"}"), 3.0);
        let sum = sample(&metrics, "bruit_request_duration_seconds_sum{protocol=\"pyzor\"}");
        assert!((sum - 0.006).abs() < 1e-9, "{sum}");
        assert_eq!(sample(&metrics, "bruit_request_duration_seconds_count{protocol=\"http\"}"), 1.0);
    }

    #[test]
    fn a_refused_connection_is_no_request() {
        let metrics = Metrics::new();
        metrics.of(Language::Razor).refuse_connection();
        assert_eq!(sample(&metrics, "bruit_connections_refused_total{protocol=\"razor\"}"), 1.0);
        assert_eq!(sample(&metrics, "bruit_request_duration_seconds_count{protocol=\"razor\"}"), 0.0);
    }
}
