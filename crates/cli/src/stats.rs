//! `bruit stats`: shows the state of a server.

use std::io::{self, BufWriter, Write};

use bruit_client::http::{Condition, Recovery, Ring, Stats, Store};
use bruit_engine::time::Time;
use serde_json::json;

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::Server;
use bruit_console::Failure;
use bruit_console::date::moment;
use bruit_console::failure::bad_input;
use bruit_console::quantity::{grouped, human_bytes, scientific};
use bruit_console::terminal::printable;

/// Arguments of `bruit stats`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  bruit stats\n  bruit stats --json --server http://127.0.0.1:8625 | jq .health")]
pub(crate) struct StatsArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(arguments: &StatsArgs, output: &mut impl Write) -> Result<(), Failure> {
    let stats = arguments.server.admin_client(CLAIM_TIMEOUT)?.stats().map_err(bad_input)?;
    let mut output = BufWriter::new(output);
    if arguments.json {
        writeln!(output, "{:#}", json!(stats))?;
    } else {
        print(&stats, &mut output)?;
    }
    Ok(output.flush()?)
}

fn print(stats: &Stats, output: &mut impl Write) -> io::Result<()> {
    let Stats { version, uptime_seconds, memory_bytes, memory_budget_bytes, .. } = stats;
    writeln!(output, "bruit {}, up {}", printable(version), shown_time(*uptime_seconds))?;
    writeln!(output, "memory {} of {}", human_bytes(*memory_bytes), human_bytes(*memory_budget_bytes))?;
    stats.health.iter().try_for_each(|condition| print_condition(condition, output))?;
    print_rings(&stats.rings, output)?;
    writeln!(output, "\n{:24}  {:>14}  {:>14}  {:>10}", "table", "used", "room", "memory")?;
    for table in &stats.tables {
        let (used, capacity) = (grouped(table.used), grouped(table.capacity));
        writeln!(
            output,
            "{:24}  {used:>14}  {capacity:>14}  {:>10}",
            printable(&table.name),
            human_bytes(table.bytes)
        )?;
    }
    print_policy(stats, output)?;
    print_requests(stats, output)?;
    print_store(&stats.store, &stats.recovery, output)
}

/// Prints a condition of a server's health on one line, such as
/// `severe: book_full (listed signatures) since 2024-10-09 17:05:00: …`.
pub(crate) fn print_condition(condition: &Condition, output: &mut impl Write) -> io::Result<()> {
    let [severity, state, subject, text] =
        [&condition.severity, &condition.state, &condition.subject, &condition.text].map(|text| printable(text));
    let subject = if subject.is_empty() { String::new() } else { format!(" ({subject})") };
    writeln!(output, "{severity}: {state}{subject} since {}: {text}", moment(Time(condition.since)))
}

fn print_rings(rings: &[Ring], output: &mut impl Write) -> io::Result<()> {
    let head = ["signatures", "per epoch", "full", "error", "planned", "memory"];
    let [signatures, capacity, full, error, planned, memory] = head;
    writeln!(
        output,
        "\n{:24}  {signatures:>14}  {capacity:>14}  {full:>6}  {error:>8}  {planned:>8}  {memory:>10}",
        "ring"
    )?;
    for ring in rings {
        let held: u64 = ring.generations.iter().map(|generation| generation.signatures).sum();
        writeln!(
            output,
            "{:24}  {:>14}  {:>14}  {:>4.0} %  {:>8}  {:>8}  {:>10}",
            printable(&ring.name),
            grouped(held),
            grouped(ring.capacity),
            ring.fill * 100.0,
            scientific(ring.error_rate),
            scientific(ring.planned_rate),
            human_bytes(ring.bytes),
        )?;
    }
    Ok(())
}

/// Prints the current trust policy. Each line is named like its key in `[trust]`.
fn print_policy(stats: &Stats, output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "\n{:24}  {:>14}", "trust", "in force")?;
    stats.trust.fields().iter().try_for_each(|(key, value)| writeln!(output, "{key:24}  {value:>14}"))
}

fn print_requests(stats: &Stats, output: &mut impl Write) -> io::Result<()> {
    if stats.requests.is_empty() {
        return writeln!(output, "\nno requests yet");
    }
    writeln!(output, "\n{:10}  {:12}  {:>14}", "protocol", "answered", "requests")?;
    for count in &stats.requests {
        let [protocol, answered] = [&count.protocol, &count.answered].map(|text| printable(text));
        writeln!(output, "{protocol:10}  {answered:12}  {:>14}", grouped(count.count))?;
    }
    Ok(())
}

fn print_store(store: &Store, recovery: &Recovery, output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "\nstore: event {}, on disk up to {}", grouped(store.sequence), grouped(store.durable))?;
    let written = human_bytes(store.journal_bytes);
    writeln!(
        output,
        "journal: {} records ({written}) written since the server started, in {} files now",
        grouped(store.records),
        store.segments
    )?;
    writeln!(output, "waiting for the disk: {} events", grouped(store.waiting_events))?;
    let replayed = grouped(recovery.replayed_events);
    let snapshot = recovery
        .snapshot
        .map_or_else(|| "without a snapshot".to_owned(), |at| format!("from the snapshot at event {}", grouped(at)));
    writeln!(output, "started {snapshot}, and replayed {replayed} events")?;
    for (what, failure) in [("the disk", &store.failure), ("the last snapshot", &store.snapshot_failure)] {
        if let Some(failure) = failure {
            writeln!(output, "{what} failed: {}", printable(failure))?;
        }
    }
    Ok(())
}

/// Formats a duration: `3 d 04:05:06`.
fn shown_time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days == 0 { clock } else { format!("{days} d {clock}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_days_and_clock() {
        assert_eq!(shown_time(59), "00:00:59");
        assert_eq!(shown_time(3 * 86_400 + 4 * 3600 + 5 * 60 + 6), "3 d 04:05:06");
    }

    #[test]
    fn nothing_a_server_says_acts_on_a_terminal() {
        let nasty = "\x1b[2J".to_owned();
        let stats = Stats {
            version: nasty.clone(),
            health: vec![Condition { text: nasty.clone(), ..Condition::default() }],
            rings: vec![Ring { name: nasty.clone(), ..Ring::default() }],
            store: Store { failure: Some(nasty), ..Store::default() },
            ..Stats::default()
        };
        let mut output = Vec::new();
        print(&stats, &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(text.contains("u{1b}") && !text.contains('\x1b'), "{text:?}");
    }
}
