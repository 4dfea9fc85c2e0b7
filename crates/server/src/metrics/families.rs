//! Metrics of the clearinghouse's state.

use std::time::SystemTime;

use bruit_engine::time::Time;
use bruit_engine::{RingStatus, TableStatus};
use bruit_protocols::http::{Site, SiteProgram, Sites};
use bruit_protocols::prometheus::{Family, Labels};

use crate::health::{Health, State};
use crate::learning::LearningCounts;
use crate::service::Service;
use crate::sites::SILENT_SECONDS;

/// Returns all metrics of the clearinghouse's current state.
pub(super) fn of(service: &Service) -> Vec<Family> {
    let status = service.store.check(|engine| engine.status());
    let disk = service.disk.latest();
    let mut families = vec![build_info(), health(&service.health), refusals(service)];
    families.extend(journal(service));
    families.extend(rings(&status.rings));
    families.extend(tables(&status.tables));
    families.extend(learning(&service.learning.counts()));
    families.extend(sites(&service.sites.list(), service.now()));
    families.extend([
        Family::gauge("bruit_memory_bytes", "Memory of the books and tables.").with(status.bytes as f64),
        Family::gauge("bruit_memory_budget_bytes", "Memory budget of the books and tables.")
            .with(status.budget_bytes as f64),
        Family::gauge("bruit_disk_free_bytes", "Free space on the disk of the data directory.")
            .with_all(disk.map(|space| (Labels::default(), space.free_bytes as f64))),
        Family::gauge(
            "bruit_disk_needed_bytes",
            "Free space below which disk_fills begins: for snapshots, the journal and a reserve.",
        )
        .with_all(disk.map(|space| (Labels::default(), space.needed_bytes(status.bytes) as f64))),
        Family::gauge("bruit_uptime_seconds", "Time since the server started.").with(service.uptime().as_secs_f64()),
        Family::gauge(
            "bruit_clock_offset_seconds",
            "Seconds by which the system clock is ahead of the time of events.",
        )
        .with(service.clock.ahead_seconds()),
        Family::gauge(
            "bruit_exports_waiting_bytes",
            "Bytes of accepted claims that are not yet written for other servers.",
        )
        .with(service.store.check(|engine| engine.exchange().pending_bytes()) as f64),
    ]);
    families
}

fn build_info() -> Family {
    let labels = Labels::one("version", env!("CARGO_PKG_VERSION"))
        .and("os", std::env::consts::OS)
        .and("arch", std::env::consts::ARCH);
    Family::gauge("bruit_build_info", "Version of the server, in the labels. The value is always 1.")
        .with_all([(labels, 1.0)])
}

/// Returns the number of active conditions for every state.
fn health(health: &Health) -> Family {
    let sample = |state: &State| {
        let labels = Labels::one("state", state.name()).and("severity", state.severity().name());
        (labels, health.count(*state) as f64)
    };
    Family::gauge("bruit_health", "Number of active conditions by state. 0 means no problem.")
        .with_all(State::ALL.iter().map(sample))
}

fn refusals(service: &Service) -> Family {
    let sample = |(reason, count): (&str, u64)| (Labels::one("reason", reason), count as f64);
    Family::counter("bruit_refused_events_total", "Reports and other changes that were refused in whole or in part.")
        .with_all(service.refusals.counts().into_iter().map(sample))
}

fn journal(service: &Service) -> Vec<Family> {
    let store = service.store.status();
    let age = store.snapshot_written.map(|written| age_seconds(written, SystemTime::now()));
    vec![
        Family::gauge("bruit_journal_sequence", "Sequence number of the last applied event.")
            .with(store.sequence as f64),
        Family::counter("bruit_journal_written_bytes_total", "Bytes written to the journal.")
            .with(store.journal_bytes as f64),
        Family::counter("bruit_journal_records_total", "Group commits.").with(store.records as f64),
        Family::gauge("bruit_journal_segments", "Number of journal files.").with(store.journal_files as f64),
        Family::gauge("bruit_journal_waiting_events", "Events waiting for the disk.").with(store.waiting_events as f64),
        Family::gauge("bruit_journal_poisoned", "1 if writing to the journal failed, so nothing is accepted.")
            .with(f64::from(store.poisoned.is_some())),
        Family::gauge("bruit_snapshots", "Snapshots on disk.").with(store.snapshots.len() as f64),
        Family::gauge("bruit_snapshot_failed", "1 if the last snapshot could not be written.")
            .with(f64::from(store.snapshot_failure.is_some())),
        Family::gauge("bruit_snapshot_age_seconds", "Time since the newest snapshot was written.")
            .with_all(age.map(|age| (Labels::default(), age))),
    ]
}

/// Returns the age in seconds, or 0 if the clock has been set back since then.
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
            Family::gauge("bruit_ring_fill_ratio", "Signatures in the fullest generation divided by its capacity."),
            RingStatus::fill,
        ),
        of(Family::gauge("bruit_ring_error_ratio", "Estimated rate of false positives or wrong counts."), |ring| {
            ring.error_rate
        }),
        Family::gauge(
            "bruit_ring_signatures",
            "Estimated number of signatures by generation. Age 0 is the current generation.",
        )
        .with_all(generations),
    ]
}

fn tables(tables: &[TableStatus]) -> Vec<Family> {
    let of = |family: Family, value: fn(&TableStatus) -> u64| {
        let sample = |table: &TableStatus| (Labels::one("table", &snake_case(table.name)), value(table) as f64);
        family.with_all(tables.iter().map(sample))
    };
    vec![
        of(Family::gauge("bruit_table_entries", "Entries in a table."), |table| table.used),
        of(Family::gauge("bruit_table_capacity_entries", "Maximum number of entries in a table."), |table| {
            table.capacity
        }),
    ]
}

fn learning(counts: &LearningCounts) -> [Family; 2] {
    let messages = [("noted", counts.noted), ("dropped", counts.dropped)];
    let sample = |(became, count): (&str, u64)| (Labels::one("became", became), count as f64);
    [
        Family::counter("bruit_learning_messages_total", "Checked messages offered for learning, by result.")
            .with_all(messages.map(sample)),
        Family::counter("bruit_learnt_features_total", "Features of text learned from checks.")
            .with(counts.features as f64),
    ]
}

/// Returns the metrics of the programs of mail sites.
fn sites(list: &Sites, now: Time) -> [Family; 3] {
    let of = |program: SiteProgram| list.sites.iter().filter(move |site| site.program == program);
    let is_active = |site: &&Site| now.0.saturating_sub(site.last_seen) < SILENT_SECONDS;
    let label = |program: SiteProgram| Labels::one("program", program.name());
    let active = SiteProgram::ALL.map(|program| (label(program), of(program).filter(is_active).count() as f64));
    // Add the numbers as `f64`: the programs choose them, and a sum of integers could overflow.
    let claims = |program| of(program).filter_map(|site| site.spooled).map(|count| count as f64).sum();
    let spooled = SiteProgram::ALL.map(|program| (label(program), claims(program)));
    [
        Family::gauge("bruit_mail_sites", "Programs of mail sites seen in the last 10 minutes.").with_all(active),
        Family::gauge(
            "bruit_mail_sites_spooled_claims",
            "Claims that wait in the spools of mail sites, as last reported.",
        )
        .with_all(spooled),
        Family::counter("bruit_mail_sites_dropped_total", "Programs dropped from the full list of mail sites.")
            .with(list.dropped as f64),
    ]
}

/// Converts a readable name to a label value without blanks.
fn snake_case(name: &str) -> String {
    name.replace(' ', "_")
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
