//! Checks once per second for conditions that no other code reports, such as full books and failures of the store.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bruit_engine::time::Time;
use bruit_engine::{Engine, RingStatus, Status, TableStatus};

use crate::fatal::Vital;
use crate::health::State;
use crate::service::Service;

/// Interval between two checks.
const SECOND: Duration = Duration::from_secs(1);

/// Maximum duration of a write. A longer write counts as hanging.
const WRITE_MAX: Duration = Duration::from_secs(8);

/// Maximum lag of a book behind the clock, in epochs, at which the book still accepts claims.
const BEHIND_EPOCHS_MAX: u64 = 1;

/// Tables that reject new entries when full. All other tables evict their oldest entries.
const REFUSING_TABLES: [&str; 3] = ["accounts", "good messages", "whitelisted signatures"];

/// The checking thread. It never touches the disk, so it continues while the disk hangs.
pub(crate) struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watcher {
    pub(crate) fn start(service: Arc<Service>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let _vital = Vital::new(&service, "the watcher");
            while stopped.recv_timeout(SECOND) == Err(RecvTimeoutError::Timeout) {
                look(&service, service.now());
            }
        };
        Ok(Self { stop, thread: thread::Builder::new().name("bruit-watcher".into()).spawn(run)? })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the watcher panicked");
        }
    }
}

/// Updates the conditions in health, and ends the process if the store has failed.
pub(crate) fn look(service: &Service, now: Time) {
    let store = service.store.status();
    let health = &service.health;
    if let Some(error) = store.poisoned {
        let text = format!(
            "the disk failed while writing the journal ({error}): the server is stopping; check the disk before you restart it"
        );
        health.set(State::StoreFailed, "", Some(text.clone()), now);
        service.fatal.declare(text);
    }
    let hangs = store.writing_since.map(|since: Instant| since.elapsed()).filter(|lasted| *lasted > WRITE_MAX).map(|lasted| {
        let seconds = lasted.as_secs();
        format!("a write to disk has been pending for {seconds} s: reports wait for it; check the disk or its file server")
    });
    health.set(State::DiskHangs, "", hangs, now);
    health.set(State::WritesFail, "", service.recent_failure(), now);
    let snapshot = store.snapshot_failure.map(|error| {
        format!("failed to write the last snapshot ({error}): the journal grows until one succeeds; check the disk and free some space")
    });
    health.set(State::SnapshotFails, "", snapshot, now);
    let certificate = service.settings().http.tls.as_ref().and_then(|certificate| certificate.warning(now));
    health.set(State::CertificateEnds, "", certificate, now);
    health.set_all(State::ReportsRefused, service.refusals.recent(service.uptime()), now);
    let Status { rings, tables, bytes, .. } = service.store.check(Engine::status);
    // Without an answer of the file system, the condition stays as it is.
    if let Some(space) = service.disk.latest() {
        let is_low = health.count(State::DiskFills) > 0;
        health.set(State::DiskFills, "", space.warning(bytes, is_low), now);
    }
    let is_behind = rings.iter().any(|ring| is_behind(ring, now));
    let text = || {
        "the books are catching up with the clock after a stop: reports are refused until then; no action is needed"
            .to_owned()
    };
    health.set(State::CatchingUp, "", is_behind.then(text), now);
    let full = rings.iter().filter(|ring| ring.is_full()).map(|ring| (ring.name.to_owned(), full_text(ring)));
    health.set_all(State::BookFull, full.collect(), now);
    let filling = tables.iter().filter(|table| REFUSING_TABLES.contains(&table.name) && table.is_nearly_full());
    let text = |table: &TableStatus| {
        format!(
            "{} of {} {} are used, and more will be refused: raise `memory` in the configuration and restart",
            table.used, table.capacity, table.name
        )
    };
    health.set_all(State::TableFills, filling.map(|table| (table.name.to_owned(), text(table))).collect(), now);
    let filling = rings.iter().filter_map(|ring| Some((ring.name.to_owned(), ring.warning()?)));
    health.set_all(State::BookFills, filling.collect(), now);
}

fn full_text(ring: &RingStatus) -> String {
    let signatures = ring.generations.first().map_or(0, |(_, signatures)| *signatures);
    let again = ring.generations.first().map_or(Time(0), |(epoch, _)| Time((epoch + 1) * ring.epoch_seconds));
    format!(
        "the current generation of {} is full ({signatures} signatures, capacity {}): new ones are refused until the next \
         generation begins at {again} UTC; look for a reporter with too many reports, or raise `memory` and restart",
        ring.name, ring.capacity
    )
}

fn is_behind(ring: &RingStatus, now: Time) -> bool {
    let epoch = ring.generations.first().map_or(0, |(epoch, _)| *epoch);
    now.epoch(ring.epoch_seconds) > epoch + BEHIND_EPOCHS_MAX
}
