//! The state of the clearinghouse, as metrics.

use std::time::SystemTime;

use bruit_engine::{RingStatus, TableStatus};

use super::exposition::{Family, Labels, snake_case};
use crate::health::{Health, State};
use crate::learning::LearningCounts;
use crate::service::Service;

/// Everything about the clearinghouse as it is now.
pub(super) fn of(service: &Service) -> Vec<Family> {
    let status = service.store.check(|engine| engine.status());
    let mut families = vec![build_info(), health(&service.health), refusals(service)];
    families.extend(journal(service));
    families.extend(rings(&status.rings));
    families.extend(tables(&status.tables));
    families.extend(learning(&service.learning.counts()));
    families.extend([
        Family::gauge("bruit_memory_bytes", "Memory of the books and tables.").with(status.bytes as f64),
        Family::gauge("bruit_memory_budget_bytes", "Memory budget of the books and tables.")
            .with(status.budget_bytes as f64),
        Family::gauge("bruit_uptime_seconds", "Time since the start.").with(service.uptime().as_secs_f64()),
        Family::gauge("bruit_clock_offset_seconds", "How far the system clock is ahead of the time that events get.")
            .with(service.clock.ahead_seconds()),
        Family::gauge("bruit_exports_waiting_bytes", "Accepted claims that wait to be written for other servers.")
            .with(service.store.check(|engine| engine.exchange().pending_bytes()) as f64),
    ]);
    families
}

fn build_info() -> Family {
    let labels = Labels::one("version", env!("CARGO_PKG_VERSION"))
        .and("os", std::env::consts::OS)
        .and("arch", std::env::consts::ARCH);
    Family::gauge("bruit_build_info", "The version that runs; always 1.").with_all([(labels, 1.0)])
}

/// Every degraded state there is, and how many conditions of it last.
fn health(health: &Health) -> Family {
    let sample = |state: &State| {
        let labels = Labels::one("state", state.name()).and("severity", state.severity().name());
        (labels, health.count(*state) as f64)
    };
    Family::gauge("bruit_health", "Conditions of each degraded state; 0 if all is well.")
        .with_all(State::ALL.iter().map(sample))
}

fn refusals(service: &Service) -> Family {
    let sample = |(reason, count): (&str, u64)| (Labels::one("reason", reason), count as f64);
    Family::counter("bruit_refused_events_total", "Reports and other changes of which something was refused.")
        .with_all(service.refusals.counts().into_iter().map(sample))
}

fn journal(service: &Service) -> Vec<Family> {
    let store = service.store.status();
    let age = store.snapshot_written.map(|written| age_seconds(written, SystemTime::now()));
    vec![
        Family::gauge("bruit_journal_sequence", "Number of the last event applied.").with(store.sequence as f64),
        Family::counter("bruit_journal_written_bytes_total", "Bytes written to the journal.")
            .with(store.journal_bytes as f64),
        Family::counter("bruit_journal_records_total", "Group commits.").with(store.records as f64),
        Family::gauge("bruit_journal_segments", "Files of the journal.").with(store.segments as f64),
        Family::gauge("bruit_journal_waiting_events", "Events that wait for the disk.")
            .with(store.waiting_events as f64),
        Family::gauge("bruit_journal_poisoned", "1 if the disk failed under the journal and nothing is accepted.")
            .with(f64::from(store.poisoned.is_some())),
        Family::gauge("bruit_snapshots", "Snapshots that are kept.").with(store.snapshots.len() as f64),
        Family::gauge("bruit_snapshot_failed", "1 if the last snapshot could not be written.")
            .with(f64::from(store.snapshot_failure.is_some())),
        Family::gauge("bruit_snapshot_age_seconds", "Time since the newest snapshot was written.")
            .with_all(age.map(|age| (Labels::default(), age))),
    ]
}

/// How old something is; 0 if the clock was set back since.
fn age_seconds(written: SystemTime, now: SystemTime) -> f64 {
    now.duration_since(written).unwrap_or_default().as_secs_f64()
}

fn rings(rings: &[RingStatus]) -> Vec<Family> {
    let label = |ring: &RingStatus| Labels::one("ring", &snake_case(ring.name));
    let of = |family: Family, value: fn(&RingStatus) -> f64| {
        family.with_all(rings.iter().map(|ring| (label(ring), value(ring))))
    };
    let generations = rings.iter().flat_map(|ring| {
        let generations = ring.generations.iter().enumerate();
        generations.map(move |(age, &(_, held))| (label(ring).and("age", &age.to_string()), held as f64))
    });
    vec![
        of(
            Family::gauge("bruit_ring_fill_ratio", "Fullest generation, as a share of what it was planned for."),
            RingStatus::fill,
        ),
        of(Family::gauge("bruit_ring_error_ratio", "Estimated share of false positives or wrong counts."), |ring| {
            ring.error_rate
        }),
        Family::gauge("bruit_ring_signatures", "Signatures of each generation, about; age 0 is the current one.")
            .with_all(generations),
    ]
}

fn tables(tables: &[TableStatus]) -> Vec<Family> {
    let of = |family: Family, value: fn(&TableStatus) -> u64| {
        let sample = |table: &TableStatus| (Labels::one("table", &snake_case(table.name)), value(table) as f64);
        family.with_all(tables.iter().map(sample))
    };
    vec![
        of(Family::gauge("bruit_table_entries", "Entries of a table."), |table| table.used),
        of(Family::gauge("bruit_table_capacity_entries", "Entries a table has room for."), |table| table.capacity),
    ]
}

fn learning(counts: &LearningCounts) -> [Family; 2] {
    let messages = [("noted", counts.noted), ("dropped", counts.dropped)];
    let sample = |(became, count): (&str, u64)| (Labels::one("became", became), count as f64);
    [
        Family::counter("bruit_learning_messages_total", "Checked messages to learn from, and what became of them.")
            .with_all(messages.map(sample)),
        Family::counter("bruit_learnt_features_total", "Features of text that were learnt from checks.")
            .with(counts.features as f64),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_snapshot_of_the_future_is_new() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        assert_eq!(age_seconds(now - Duration::from_secs(60), now), 60.0);
        assert_eq!(age_seconds(now + Duration::from_secs(60), now), 0.0);
    }
}
