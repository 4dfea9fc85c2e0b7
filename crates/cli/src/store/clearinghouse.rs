//! The section of `bruit store inspect` about the clearinghouse: its parameters and contents.
//!
//! The section has the realm's name, but never its key.

use bruit_engine::time::Time;
use bruit_engine::{Engine, RingStatus, TableStatus};
use bruit_store::{DamagedSnapshot, Founding, Recovery};
use serde_json::{Value, json};

use bruit_console::date::date;
use bruit_console::quantity::{counted, grouped, human_bytes, scientific};

/// A label and its value.
pub(super) type StoreRow = (&'static str, String);

/// Contents of a data directory.
type Contents = (Founding, Engine, Recovery);

pub(super) fn rows((founding, engine, recovery): &Contents) -> Vec<StoreRow> {
    let status = engine.status();
    let realm = &founding.realm;
    let mut rows = vec![
        ("founded", date(founding.founded)),
        ("budget", budget(founding, status.budget_bytes)),
        ("memory allocated", human_bytes(status.bytes)),
        ("epochs", format!("spam {}, bulk {}", length(realm.spam_epoch_seconds()), length(realm.bulk_epoch_seconds()))),
        ("recovery", recovery.to_string().replace('\n', "; ")),
        ("latest time", date(engine.now())),
    ];
    rows.extend(status.rings.iter().flat_map(ring_rows));
    rows.extend(status.tables.iter().map(|table| ("table", table_text(table))));
    rows.push(("whitelisted senders", grouped(engine.whitelist().senders.len() as u64)));
    rows.extend(status.warnings().into_iter().map(|warning| ("warning", warning)));
    rows
}

/// Formats the memory budget, and the original budget if it was changed.
fn budget(founding: &Founding, now: u64) -> String {
    let founded = if now == founding.budget_bytes {
        String::new()
    } else {
        format!(", founded with {}", human_bytes(founding.budget_bytes))
    };
    format!("{}{founded}", human_bytes(now))
}

/// Returns a row for the ring, and a row for each of its generations that is not empty.
fn ring_rows(ring: &RingStatus) -> Vec<StoreRow> {
    let RingStatus { name, bytes, error_rate, planned_rate, .. } = ring;
    let (fill, now, planned) = (ring.fill() * 100.0, scientific(*error_rate), scientific(*planned_rate));
    let bytes = human_bytes(*bytes);
    let mut rows = vec![("ring", format!("{name}, {bytes}, {fill:.1} % full, error rate {now} (planned: {planned})"))];
    let held = ring.generations.iter().filter(|(_, signatures)| *signatures > 0);
    rows.extend(held.map(|&(epoch, signatures)| {
        ("  generation", format!("since {}, about {}", start(ring, epoch), counted(signatures, "signature")))
    }));
    rows
}

fn table_text(table: &TableStatus) -> String {
    let TableStatus { name, bytes, used, capacity } = table;
    format!("{name}, {} of {}, {}", grouped(*used), grouped(*capacity), human_bytes(*bytes))
}

/// Returns the day on which a generation began.
fn start(ring: &RingStatus, epoch: u64) -> String {
    date(Time(epoch.saturating_mul(ring.epoch_seconds)))
}

/// Formats a duration in days, or in seconds if it is not a whole number of days.
fn length(seconds: u64) -> String {
    if seconds.is_multiple_of(Time::DAY) { counted(seconds / Time::DAY, "day") } else { counted(seconds, "second") }
}

pub(super) fn json((founding, engine, recovery): &Contents) -> Value {
    let status = engine.status();
    json!({
        "realm": founding.realm.id().to_string(),
        "founded": date(founding.founded),
        "budget_bytes": status.budget_bytes,
        "founding_budget_bytes": founding.budget_bytes,
        "memory_bytes": status.bytes,
        "spam_epoch_seconds": founding.realm.spam_epoch_seconds(),
        "bulk_epoch_seconds": founding.realm.bulk_epoch_seconds(),
        "latest_time": engine.now().0,
        "recovery": recovery_json(recovery),
        "rings": status.rings.iter().map(ring_json).collect::<Vec<_>>(),
        "tables": status.tables.iter().map(table_json).collect::<Vec<_>>(),
        "accounts": engine.accounts().len(),
        "whitelisted_signatures": engine.whitelist().len(),
        "whitelisted_senders": engine.whitelist().senders.len(),
        "warnings": status.warnings(),
    })
}

fn recovery_json(recovery: &Recovery) -> Value {
    let damaged = recovery.damaged.iter();
    json!({
        "snapshot": recovery.snapshot,
        "damaged": damaged.map(|DamagedSnapshot { file, reason }| json!({ "file": file, "reason": reason })).collect::<Vec<_>>(),
        "replayed_events": recovery.replayed_events,
        "replayed_bytes": recovery.replayed_bytes,
        "torn_bytes": recovery.torn_bytes,
        "last_event": recovery.sequence,
        "journal_ends": recovery.journal_ends,
    })
}

fn ring_json(ring: &RingStatus) -> Value {
    let generations = ring
        .generations
        .iter()
        .map(|&(epoch, signatures)| json!({ "epoch": epoch, "start": start(ring, epoch), "signatures": signatures }));
    json!({
        "name": ring.name,
        "bytes": ring.bytes,
        "epoch_seconds": ring.epoch_seconds,
        "capacity_per_generation": ring.capacity,
        "fill": ring.fill(),
        "error_rate": ring.error_rate,
        "planned_error_rate": ring.planned_rate,
        "generations": generations.collect::<Vec<_>>(),
    })
}

fn table_json(table: &TableStatus) -> Value {
    json!({ "name": table.name, "bytes": table.bytes, "used": table.used, "capacity": table.capacity })
}
