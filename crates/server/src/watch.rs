//! Looks every second at what nobody reports by itself: how full the books are, and whether the store can go on.

use bruit_engine::time::Time;
use bruit_engine::{Engine, RingStatus};

use crate::health::State;
use crate::service::Service;

/// Epochs that a book may be behind the clock and still take claims.
const BEHIND_EPOCHS_MAX: u64 = 1;

/// Brings the table of conditions up to date, and ends the process if the store cannot go on.
pub(crate) fn look(service: &Service, now: Time) {
    let store = service.store.status();
    let health = &service.health;
    if let Some(error) = store.poisoned {
        let text = format!(
            "the disk failed under the journal ({error}): check the disk; the server ends and can be restarted"
        );
        health.set(State::StoreFailed, "", Some(text.clone()), now);
        service.fatal.declare(text);
    }
    health.set(State::WritesFail, "", service.recent_failure(), now);
    let snapshot = store.snapshot_failure.map(|error| {
        format!("the last snapshot failed ({error}): the journal grows until one succeeds; free disk space")
    });
    health.set(State::SnapshotFails, "", snapshot, now);
    let rings = service.store.check(Engine::status).rings;
    let is_behind = rings.iter().any(|ring| is_behind(ring, now));
    let text = || "the books are catching up with the clock after a stop: reports are refused until then".to_owned();
    health.set(State::CatchingUp, "", is_behind.then(text), now);
    let filling = rings.iter().filter_map(|ring| Some((ring.name.to_owned(), ring.warning()?)));
    health.set_all(State::BookFills, filling.collect(), now);
}

fn is_behind(ring: &RingStatus, now: Time) -> bool {
    let epoch = ring.generations.first().map_or(0, |(epoch, _)| *epoch);
    now.epoch(ring.epoch_seconds) > epoch + BEHIND_EPOCHS_MAX
}
