//! Counters, in the text format of Prometheus.

mod endpoint;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bruit_protocols::prometheus::{self, Family, Labels};
pub(crate) use endpoint::Endpoint;

use crate::filter::FAILED;
use crate::message::{Lost, Skip};
use crate::policy::{Action, Class};
use crate::server::Unavailable;

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

/// The reason why a connection was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CutOff {
    Malformed,
    Slow,
    Idle,
    /// There was no memory for a long command.
    Busy,
}

/// The result of reporting mail to a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TrapResult {
    Accepted,
    NothingListed,
    /// The server refused the report because of its contents.
    Refused,
    Spooled,
    Lost,
}

/// The counters of a milter.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: Counter,
    pub(crate) refused_connections: Counter,
    cut_off: [Counter; 4],
    messages: [Counter; 5],
    actions: [Counter; 5],
    unchecked: [Counter; 8],
    skipped: [Counter; 4],
    traps: [Counter; 5],
    pub(crate) greylisted: Counter,
    pub(crate) split: Counter,
    pub(crate) spool_sent: Counter,
    pub(crate) trap_refusals: Counter,
    pub(crate) rspamd_learned: Counter,
    pub(crate) rspamd_lost: Counter,
    pub(crate) recipients: Counter,
    pub(crate) uncounted: Counter,
    pub(crate) forged: Counter,
    checks: Counter,
    check_microseconds: Counter,
}

/// The current state, for gauges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(crate) connections_open: usize,
    pub(crate) message_bytes: u64,
    pub(crate) is_server_up: bool,
    pub(crate) is_spool_usable: bool,
    pub(crate) spooled_reports: u64,
}

/// The reasons for unchecked messages, besides those of [`Unavailable`].
const LOST: [(Lost, &str); 2] = [(Lost::TooLong, "too_long"), (Lost::Busy, "busy")];

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl CutOff {
    pub(crate) const ALL: [Self; 4] = [Self::Malformed, Self::Slow, Self::Idle, Self::Busy];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Slow => "slow",
            Self::Idle => "idle",
            Self::Busy => "busy",
        }
    }
}

impl TrapResult {
    const ALL: [Self; 5] = [Self::Accepted, Self::NothingListed, Self::Refused, Self::Spooled, Self::Lost];

    const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::NothingListed => "nothing_listed",
            Self::Refused => "refused",
            Self::Spooled => "spooled",
            Self::Lost => "lost",
        }
    }

    /// Returns true if the server has accepted or ignored the report, or will receive it later.
    pub(crate) const fn is_safe(self) -> bool {
        !matches!(self, Self::Refused | Self::Lost)
    }
}

/// Returns the counter of `value`.
fn of<'a, T: PartialEq>(counters: &'a [Counter], all: &[T], value: &T) -> Option<&'a Counter> {
    all.iter().position(|one| one == value).and_then(|index| counters.get(index))
}

/// Increments the counter of `value`.
fn add<T: PartialEq>(counters: &[Counter], all: &[T], value: &T) {
    if let Some(counter) = of(counters, all, value) {
        counter.add(1);
    }
}

impl Metrics {
    pub(crate) fn cut_off(&self, reason: CutOff) {
        add(&self.cut_off, &CutOff::ALL, &reason);
    }

    pub(crate) fn message(&self, class: Class, action: Action) {
        add(&self.messages, &Class::ALL, &class);
        add(&self.actions, &Action::ALL, &action);
    }

    /// Returns the number of messages that passed unchecked.
    pub(crate) fn unchecked_total(&self) -> u64 {
        self.unchecked.iter().map(Counter::get).sum()
    }

    pub(crate) fn unchecked(&self, reason: &str) {
        add(&self.unchecked, &unchecked_reasons(), &reason);
    }

    pub(crate) fn skipped(&self, skip: Skip) {
        add(&self.skipped, &Skip::ALL, &skip);
    }

    pub(crate) fn trap(&self, result: TrapResult) {
        add(&self.traps, &TrapResult::ALL, &result);
    }

    pub(crate) fn check(&self, time: Duration) {
        self.checks.add(1);
        self.check_microseconds.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns all metrics as text.
    pub(crate) fn text(&self, state: State) -> String {
        let mut families = Families::default();
        families.counter("connections_total", "Connections of MTAs.");
        families.value(self.connections.get());
        families.gauge("connections_open", "Open connections.");
        families.value(state.connections_open as u64);
        families.counter("refused_connections_total", "Connections beyond the limit.");
        families.value(self.refused_connections.get());
        families.counter("cut_off_total", "Connections closed because of errors, timeouts or a lack of memory.");
        families.labelled("reason", &CutOff::ALL.map(CutOff::name), &self.cut_off);
        families.counter("messages_total", "Checked messages by verdict.");
        families.labelled("verdict", &Class::ALL.map(Class::name), &self.messages);
        families.counter("actions_total", "Checked messages by action.");
        families.labelled("action", &Action::ALL.map(Action::name), &self.actions);
        families.counter("unchecked_total", "Messages that passed because they could not be checked.");
        families.labelled("reason", &unchecked_reasons(), &self.unchecked);
        families.counter("skipped_total", "Messages exempt from checks. For own networks, this counts SMTP sessions.");
        families.labelled("reason", &Skip::ALL.map(Skip::name), &self.skipped);
        families.counter("trap_reports_total", "Reports of mail to traps.");
        families.labelled("result", &TrapResult::ALL.map(TrapResult::name), &self.traps);
        for (name, help, counter) in [
            ("greylisted_total", "Deferrals of unknown bulk mail.", &self.greylisted),
            ("split_total", "Messages sent to the quarantine address in place of some recipients.", &self.split),
            (
                "trap_refusals_total",
                "Reports of traps that the server refused, repeated attempts included.",
                &self.trap_refusals,
            ),
            ("spool_sent_total", "Reports of traps sent from the spool.", &self.spool_sent),
            ("rspamd_learned_total", "Messages to traps that rspamd learned.", &self.rspamd_learned),
            ("rspamd_lost_total", "Messages to traps that could not be kept for rspamd.", &self.rspamd_lost),
            ("recipients_total", "Recipients of checked messages.", &self.recipients),
            ("uncounted_total", "Checks whose recipients the server did not count in full.", &self.uncounted),
            ("forged_fields_total", "X-Bruit fields that were removed.", &self.forged),
        ] {
            families.counter(name, help);
            families.value(counter.get());
        }
        families.gauge("message_bytes", "Memory held by messages that are being received.");
        families.value(state.message_bytes);
        families.gauge("server_up", "1 unless the last request to the server failed.");
        families.value(u64::from(state.is_server_up));
        families.gauge("spool_usable", "0 if the spool for reports of traps cannot be used.");
        families.value(u64::from(state.is_spool_usable));
        families.gauge("spool_reports", "Reports of traps waiting in the spool.");
        families.value(state.spooled_reports);
        families.summary("check_seconds", "Time of the requests that check a message.");
        families.part("_sum", self.check_microseconds.get() as f64 / 1e6);
        families.part("_count", self.checks.get() as f64);
        prometheus::text(families.0)
    }
}

/// Returns the reasons for unchecked messages.
fn unchecked_reasons() -> [&'static str; 8] {
    let [timed_out, unreachable, refused, malformed] = Unavailable::NAMES;
    let [(_, too_long), (_, busy)] = LOST;
    [timed_out, unreachable, refused, malformed, too_long, busy, "in_replica", FAILED]
}

impl Lost {
    /// Returns the name in metrics and header fields.
    pub(crate) fn name(self) -> &'static str {
        LOST.iter().find(|(lost, _)| *lost == self).map_or("", |(_, name)| name)
    }
}

/// The families of metrics. Samples are added to the last family.
#[derive(Default)]
struct Families(Vec<Family>);

impl Families {
    fn counter(&mut self, name: &str, help: &'static str) {
        self.0.push(Family::counter(full_name(name), help));
    }

    fn gauge(&mut self, name: &str, help: &'static str) {
        self.0.push(Family::gauge(full_name(name), help));
    }

    fn summary(&mut self, name: &str, help: &'static str) {
        self.0.push(Family::summary(full_name(name), help));
    }

    fn value(&mut self, value: u64) {
        self.part("", value as f64);
    }

    fn part(&mut self, suffix: &'static str, value: f64) {
        self.sample(suffix, Labels::default(), value);
    }

    fn labelled(&mut self, label: &'static str, values: &[&str], counters: &[Counter]) {
        for (value, counter) in values.iter().zip(counters) {
            self.sample("", Labels::one(label, value), counter.get() as f64);
        }
    }

    fn sample(&mut self, suffix: &'static str, labels: Labels, value: f64) {
        if let Some(family) = self.0.last_mut() {
            family.add_part(suffix, labels, value);
        }
    }
}

fn full_name(name: &str) -> String {
    format!("bruit_milter_{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_line() {
        let metrics = Metrics::default();
        CutOff::ALL.into_iter().for_each(|reason| metrics.cut_off(reason));
        Class::ALL.into_iter().zip(Action::ALL).for_each(|(class, action)| metrics.message(class, action));
        unchecked_reasons().into_iter().for_each(|reason| metrics.unchecked(reason));
        Skip::ALL.into_iter().for_each(|skip| metrics.skipped(skip));
        TrapResult::ALL.into_iter().for_each(|result| metrics.trap(result));
        for counter in [&metrics.connections, &metrics.refused_connections, &metrics.greylisted, &metrics.split] {
            counter.add(1);
        }
        [&metrics.recipients, &metrics.uncounted, &metrics.forged, &metrics.spool_sent, &metrics.trap_refusals]
            .iter()
            .for_each(|counter| counter.add(1));
        [&metrics.rspamd_learned, &metrics.rspamd_lost].iter().for_each(|counter| counter.add(1));
        metrics.check(Duration::from_micros(1_000_001));
        let text = metrics.text(State {
            connections_open: 1,
            message_bytes: 1,
            is_server_up: true,
            is_spool_usable: true,
            spooled_reports: 1,
        });
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(values.len(), 2 + 1 + 4 + 5 + 5 + 8 + 4 + 5 + 9 + 4 + 2, "{text}");
        let is_one = |line: &&&str| line.ends_with(" 1") || line.ends_with(" 1.000001");
        assert_eq!(values.iter().filter(is_one).count(), values.len(), "{text}");
    }

    #[test]
    fn pages_and_alerts_name_existing_metrics() {
        let text = Metrics::default().text(State::default());
        let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        let pages = ["postfix", "sendmail", "traps", "monitoring"].map(|page| format!("docs/operators/{page}.md"));
        for page in pages.into_iter().chain(["packaging/prometheus/bruit.rules.yml".to_owned()]) {
            let page = std::fs::read_to_string(format!("{}/../../{page}", env!("CARGO_MANIFEST_DIR"))).unwrap();
            let names = page.split(|letter| !is_part(letter)).filter(|word| word.starts_with("bruit_milter_"));
            names.for_each(|name| assert!(text.contains(&format!("# TYPE {name} ")), "there is no metric {name}"));
        }
    }
}
