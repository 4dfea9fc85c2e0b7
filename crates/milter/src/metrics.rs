//! Counters, in the text format of Prometheus.

mod endpoint;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use endpoint::Endpoint;

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
}

/// What happened to the report of a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TrapResult {
    Accepted,
    NothingListed,
    Spooled,
    Lost,
}

/// The counters of a milter.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: Counter,
    pub(crate) refused_connections: Counter,
    cut_off: [Counter; 3],
    messages: [Counter; 5],
    actions: [Counter; 5],
    unchecked: [Counter; 7],
    skipped: [Counter; 4],
    traps: [Counter; 4],
    pub(crate) greylisted: Counter,
    pub(crate) split: Counter,
    pub(crate) spool_sent: Counter,
    pub(crate) recipients: Counter,
    pub(crate) uncounted: Counter,
    pub(crate) forged: Counter,
    checks: Counter,
    check_microseconds: Counter,
}

/// The present state, for gauges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(crate) connections_open: usize,
    pub(crate) message_bytes: u64,
    pub(crate) is_server_up: bool,
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
    pub(crate) const ALL: [Self; 3] = [Self::Malformed, Self::Slow, Self::Idle];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Slow => "slow",
            Self::Idle => "idle",
        }
    }
}

impl TrapResult {
    const ALL: [Self; 4] = [Self::Accepted, Self::NothingListed, Self::Spooled, Self::Lost];

    const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::NothingListed => "nothing_listed",
            Self::Spooled => "spooled",
            Self::Lost => "lost",
        }
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
        let mut text = Text::default();
        text.family("connections_total", "counter", "Connections of MTAs.");
        text.value("connections_total", self.connections.get());
        text.family("connections_open", "gauge", "Open connections.");
        text.value("connections_open", state.connections_open as u64);
        text.family("refused_connections_total", "counter", "Connections beyond the limit.");
        text.value("refused_connections_total", self.refused_connections.get());
        text.family("cut_off_total", "counter", "Connections closed because of what the MTA sent or did not send.");
        text.labelled("cut_off_total", "reason", &CutOff::ALL.map(CutOff::name), &self.cut_off);
        text.family("messages_total", "counter", "Checked messages by verdict.");
        text.labelled("messages_total", "verdict", &Class::ALL.map(Class::name), &self.messages);
        text.family("actions_total", "counter", "Checked messages by action.");
        text.labelled("actions_total", "action", &Action::ALL.map(Action::name), &self.actions);
        text.family("unchecked_total", "counter", "Messages that passed because they could not be checked.");
        text.labelled("unchecked_total", "reason", &unchecked_reasons(), &self.unchecked);
        text.family(
            "skipped_total",
            "counter",
            "Messages that were not to be checked; for own networks, SMTP sessions.",
        );
        text.labelled("skipped_total", "reason", &Skip::ALL.map(Skip::name), &self.skipped);
        text.family("trap_reports_total", "counter", "Reports of mail to traps.");
        text.labelled("trap_reports_total", "result", &TrapResult::ALL.map(TrapResult::name), &self.traps);
        for (name, help, counter) in [
            ("greylisted_total", "Deferrals of unknown bulk mail.", &self.greylisted),
            ("split_total", "Messages of which some recipients got a quarantined copy.", &self.split),
            ("spool_sent_total", "Reports of traps sent from the spool.", &self.spool_sent),
            ("recipients_total", "Recipients of checked messages.", &self.recipients),
            ("uncounted_total", "Checks whose recipients the server did not count in full.", &self.uncounted),
            ("forged_fields_total", "X-Bruit fields that were removed.", &self.forged),
        ] {
            text.family(name, "counter", help);
            text.value(name, counter.get());
        }
        text.family("message_bytes", "gauge", "Memory held by messages that are being received.");
        text.value("message_bytes", state.message_bytes);
        text.family("server_up", "gauge", "1 unless the last request to the server failed.");
        text.value("server_up", u64::from(state.is_server_up));
        text.family("check_seconds", "summary", "Time of the requests that check a message.");
        text.seconds("check_seconds_sum", self.check_microseconds.get());
        text.value("check_seconds_count", self.checks.get());
        text.0
    }
}

/// Returns the reasons for unchecked messages.
fn unchecked_reasons() -> [&'static str; 7] {
    let [timed_out, unreachable, refused, malformed] = Unavailable::ALL.map(Unavailable::name);
    let [(_, too_long), (_, busy)] = LOST;
    [timed_out, unreachable, refused, malformed, too_long, busy, "in_replica"]
}

impl Lost {
    /// Returns the name in metrics and header fields.
    pub(crate) fn name(self) -> &'static str {
        LOST.iter().find(|(lost, _)| *lost == self).map_or("", |(_, name)| name)
    }
}

/// Metrics as text.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP bruit_milter_{name} {help}\n# TYPE bruit_milter_{name} {kind}"));
    }

    fn value(&mut self, name: &str, value: u64) {
        self.line(format_args!("bruit_milter_{name} {value}"));
    }

    fn seconds(&mut self, name: &str, microseconds: u64) {
        self.line(format_args!("bruit_milter_{name} {}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000));
    }

    fn labelled(&mut self, name: &str, label: &str, values: &[&str], counters: &[Counter]) {
        for (value, counter) in values.iter().zip(counters) {
            self.line(format_args!("bruit_milter_{name}{{{label}=\"{value}\"}} {}", counter.get()));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
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
        [&metrics.recipients, &metrics.uncounted, &metrics.forged, &metrics.spool_sent]
            .iter()
            .for_each(|counter| counter.add(1));
        metrics.check(Duration::from_micros(1_000_001));
        let text = metrics.text(State { connections_open: 1, message_bytes: 1, is_server_up: true });
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(values.len(), 2 + 1 + 3 + 5 + 5 + 7 + 4 + 4 + 6 + 2 + 2, "{text}");
        let is_one = |line: &&&str| line.ends_with(" 1") || line.ends_with(" 1.000001");
        assert_eq!(values.iter().filter(is_one).count(), values.len(), "{text}");
    }

    #[test]
    fn the_pages_name_existing_metrics() {
        let text = Metrics::default().text(State { connections_open: 0, message_bytes: 0, is_server_up: true });
        let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        for page in ["postfix", "sendmail", "traps"] {
            let path = format!("{}/../../docs/operators/{page}.md", env!("CARGO_MANIFEST_DIR"));
            let page = std::fs::read_to_string(path).unwrap();
            let names = page.split(|letter| !is_part(letter)).filter(|word| word.starts_with("bruit_milter_"));
            names.for_each(|name| assert!(text.contains(&format!("# TYPE {name} ")), "there is no metric {name}"));
        }
    }
}
