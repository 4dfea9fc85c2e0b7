//! The server's statistics.

use bruit_engine::{Engine, RingStatus, TableStatus};
use bruit_protocols::http::{Generation, Recovery, RequestCount, Ring, Stats, Store, Table};

use crate::metrics::{Disposition, Interface};
use crate::policy;
use crate::service::Service;

/// Returns all statistics.
pub(super) fn stats(service: &Service) -> Stats {
    let (status, trust) =
        service.store.check(|engine| (Engine::status(engine), policy::shown(engine.trust().policy())));
    let store = service.store.status();
    let recovery = service.store.recovery();
    Stats {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: service.uptime().as_secs(),
        memory_bytes: status.bytes,
        memory_budget_bytes: status.budget_bytes,
        rings: status.rings.iter().map(ring).collect(),
        tables: status.tables.iter().map(table).collect(),
        health: service.health.conditions(),
        trust,
        store: Store {
            sequence: store.sequence,
            durable: store.durable,
            records: store.records,
            journal_bytes: store.journal_bytes,
            segments: store.journal_files as u64,
            snapshots: store.snapshots,
            waiting_events: store.waiting_events as u64,
            failure: store.poisoned.map(|error| error.to_string()),
            snapshot_failure: store.snapshot_failure.map(|error| error.to_string()),
        },
        recovery: Recovery {
            snapshot: recovery.snapshot,
            damaged_snapshots: recovery.damaged.len() as u64,
            replayed_events: recovery.replayed_events,
            torn_bytes: recovery.torn_bytes,
            sequence: recovery.sequence,
        },
        requests: requests(service),
    }
}

fn ring(ring: &RingStatus) -> Ring {
    let generation = |&(epoch, signatures): &(u64, u64)| Generation { since: epoch * ring.epoch_seconds, signatures };
    Ring {
        name: ring.name.to_owned(),
        bytes: ring.bytes,
        epoch_seconds: ring.epoch_seconds,
        capacity: ring.capacity,
        fill: ring.fill(),
        generations: ring.generations.iter().map(generation).collect(),
        error_rate: ring.error_rate,
        planned_rate: ring.planned_rate,
    }
}

fn table(table: &TableStatus) -> Table {
    let TableStatus { name, bytes, used, capacity } = *table;
    Table { name: name.to_owned(), bytes, used, capacity }
}

/// Returns the number of requests of each kind.
fn requests(service: &Service) -> Vec<RequestCount> {
    let of = |protocol: Interface| {
        let counters = service.metrics.of(protocol);
        Disposition::ALL.into_iter().map(move |answered| RequestCount {
            protocol: protocol.name().to_owned(),
            answered: answered.name().to_owned(),
            count: counters.total(answered),
        })
    };
    Interface::ALL.into_iter().flat_map(of).filter(|count| count.count > 0).collect()
}
