//! Request counters, and the contents of `/metrics`.
//!
//! Events that strangers can trigger at will are only counted here, and not logged at the default level.
//!
//! | module | contents |
//! |---|---|
//! | `families` | the state of the clearinghouse |
//! | `histogram` | request durations |
//! | `peers` | the peers |
//! | `process` | memory, processor time and files of the process |

mod families;
mod histogram;
mod peers;
mod process;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bruit_protocols::prometheus::{self, Family, Labels};
use histogram::Histogram;
pub(crate) use histogram::{BUCKETS, quantile};

use crate::service::Service;

/// The interfaces of the server: the protocols of clients, and the exchange with other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interface {
    Razor,
    Dcc,
    Pyzor,
    Fuzzy,
    Http,
    Federation,
}

/// The result of a request. If the signatures of a request have different results, the first one in this list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// A check with the verdict spam. The other verdicts follow.
    Spam,
    Bulk,
    Ham,
    Unknown,
    /// A claim that was accepted.
    Accepted,
    /// A refused claim, or a request without the required right.
    Refused,
    /// Any other request, such as a ping, a greeting, or statistics.
    Other,
    /// A copy of a request that was or will be answered.
    Duplicate,
    /// A malformed request.
    Malformed,
    /// A request that exceeds the sender's limit.
    Limited,
    /// A wrong signature or password.
    Unverified,
    /// A request that the clearinghouse failed to execute.
    Failed,
}

impl Interface {
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

impl Disposition {
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

impl From<bruit_engine::verdict::Kind> for Disposition {
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

/// The counters of one protocol.
#[derive(Debug, Default)]
pub(crate) struct ProtocolMetrics {
    answered: [AtomicU64; Disposition::ALL.len()],
    /// Connections refused because a limit was reached.
    connections_refused: AtomicU64,
    /// Time from receiving a request to its reply, one observation per request. For claims, it includes the write to
    /// disk.
    seconds: Histogram,
    /// The durations of long polls, which are also in `seconds`. A long poll waits until there is new data.
    waits: Histogram,
}

/// Number of requests in a batch by result. The numbers are added to the counters once per batch, because an atomic
/// addition per request would cost more than some checks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally([u32; Disposition::ALL.len()]);

/// All counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    protocols: [ProtocolMetrics; Interface::ALL.len()],
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) const fn of(&self, protocol: Interface) -> &ProtocolMetrics {
        let [razor, dcc, pyzor, fuzzy, http, federation] = &self.protocols;
        match protocol {
            Interface::Razor => razor,
            Interface::Dcc => dcc,
            Interface::Pyzor => pyzor,
            Interface::Fuzzy => fuzzy,
            Interface::Http => http,
            Interface::Federation => federation,
        }
    }

    fn families(&self) -> Vec<Family> {
        let of = |protocol: Interface| Labels::one("protocol", protocol.name());
        let mut requests = Family::counter("bruit_requests_total", "Requests by protocol and result.");
        let mut refused =
            Family::counter("bruit_connections_refused_total", "Connections refused because there were too many.");
        let mut seconds = Family::histogram(
            "bruit_request_duration_seconds",
            "Time from receiving a request to its reply, including disk writes for reports and long polling by peers and replicas.",
        );
        for protocol in Interface::ALL {
            let metrics = self.of(protocol);
            for answered in Disposition::ALL {
                requests.add(of(protocol).and("answered", answered.name()), metrics.total(answered) as f64);
            }
            refused.add(of(protocol), metrics.connections_refused.load(Ordering::Relaxed) as f64);
            metrics.seconds.write(&mut seconds, &of(protocol));
        }
        vec![requests, refused, seconds]
    }
}

impl ProtocolMetrics {
    /// Counts one request and its duration.
    pub(crate) fn record(&self, answered: Disposition, time: Duration) {
        let mut tally = Tally::default();
        tally.count(answered);
        self.add(&tally, time);
    }

    /// Counts one long poll and its duration.
    pub(crate) fn record_wait(&self, answered: Disposition, time: Duration) {
        self.record(answered, time);
        self.waits.observe(time, 1);
    }

    /// Counts the requests of a batch, each with the duration of the batch.
    pub(crate) fn add(&self, tally: &Tally, time: Duration) {
        for (counter, &count) in self.answered.iter().zip(&tally.0).filter(|(_, count)| **count > 0) {
            counter.fetch_add(count.into(), Ordering::Relaxed);
        }
        self.seconds.observe(time, tally.total());
    }

    /// Counts a refused connection.
    pub(crate) fn refuse_connection(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of requests in each bucket of durations, without long polls.
    pub(crate) fn durations(&self) -> [u64; BUCKETS] {
        let waits = self.waits.counts();
        let mut durations = self.seconds.counts();
        durations.iter_mut().zip(waits).for_each(|(count, waits)| *count = count.saturating_sub(waits));
        durations
    }

    /// Returns the number of requests with this result.
    pub(crate) fn total(&self, answered: Disposition) -> u64 {
        self.answered.get(answered as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}

impl Tally {
    pub(crate) fn count(&mut self, answered: Disposition) {
        if let Some(count) = self.0.get_mut(answered as usize) {
            *count += 1;
        }
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }
}

/// Renders all counters and the current state of the clearinghouse in Prometheus' text format.
pub(crate) fn render(service: &Service) -> String {
    let families = service.metrics.families().into_iter();
    let families = families.chain(families::of(service)).chain(peers::of(&service.federation.peers()));
    prometheus::text(families.chain(process::families()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(metrics: &Metrics, name: &str) -> f64 {
        let text = prometheus::text(metrics.families());
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().parse().unwrap()
    }

    #[test]
    fn a_batch_is_observed_once_for_each_of_its_requests() {
        let metrics = Metrics::new();
        let mut tally = Tally::default();
        [Disposition::Spam, Disposition::Spam, Disposition::Limited]
            .into_iter()
            .for_each(|answered| tally.count(answered));
        metrics.of(Interface::Pyzor).add(&tally, Duration::from_millis(2));
        metrics.of(Interface::Pyzor).add(&Tally::default(), Duration::from_secs(9));
        metrics.of(Interface::Http).record(Disposition::Accepted, Duration::from_millis(30));
        assert_eq!(sample(&metrics, "bruit_requests_total{protocol=\"pyzor\",answered=\"spam\"}"), 2.0);
        assert_eq!(sample(&metrics, "bruit_request_duration_seconds_count{protocol=\"pyzor\"}"), 3.0);
        let sum = sample(&metrics, "bruit_request_duration_seconds_sum{protocol=\"pyzor\"}");
        assert!((sum - 0.006).abs() < 1e-9, "{sum}");
        assert_eq!(sample(&metrics, "bruit_request_duration_seconds_count{protocol=\"http\"}"), 1.0);
    }

    #[test]
    fn a_request_that_waited_on_purpose_is_counted_but_has_no_duration() {
        let metrics = Metrics::new();
        let http = metrics.of(Interface::Http);
        http.record_wait(Disposition::Other, Duration::from_secs(2));
        assert_eq!((http.total(Disposition::Other), http.durations()), (1, [0; BUCKETS]));
        http.record(Disposition::Other, Duration::from_secs(2));
        assert_eq!((http.total(Disposition::Other), http.durations().iter().sum::<u64>()), (2, 1));
    }

    #[test]
    fn a_refused_connection_is_no_request() {
        let metrics = Metrics::new();
        metrics.of(Interface::Razor).refuse_connection();
        assert_eq!(sample(&metrics, "bruit_connections_refused_total{protocol=\"razor\"}"), 1.0);
        assert_eq!(sample(&metrics, "bruit_request_duration_seconds_count{protocol=\"razor\"}"), 0.0);
    }
}
