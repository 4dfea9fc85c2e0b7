//! The exporter: seals the engine's queued entries into segments and makes them readable for peers.
//!
//! The order of writes ensures that every entry is exported exactly once. First the segment is written to its log and
//! synced, then the journal records that it is sealed, and only then may peers read it. A crash in between leaves a log
//! that is too long, and the next segment overwrites its end.

use std::collections::BTreeMap;
use std::time::Duration;

use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Origin, OriginChange};
use bruit_engine::time::Time;
use bruit_engine::{Engine, Outcome, Refusal};
use bruit_store::{Clearinghouse, SubmitError};

use crate::export::{Export, next_segment};
use crate::library::{HEARTBEAT, Library};
use crate::shelf::ShelfError;

/// Minimum interval between two segments of a chain. The first entries after a longer pause are sealed at once.
const SEAL_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum interval between two segments of revocations, which release good mail.
const SEAL_INTERVAL_REVOKED: Duration = Duration::from_millis(100);

/// Number of queued bytes that are sealed at once, regardless of the interval.
const SEAL_BYTES: usize = 256 << 10;

/// Number of queued bytes that are held back while no other node has been reached. A server that runs on an old copy of
/// its disk finds this out from the other nodes; anything that it sealed before then would fork its history.
const HELD_BYTES_MAX: usize = 1 << 20;

/// Maximum time for which entries are held back: the last remaining node of a cluster must still export.
const HELD_MAX: Duration = Duration::from_secs(300);

/// Interval between two searches for expired logs.
const TIDY_INTERVAL: Duration = Duration::from_secs(600);

/// The reason why exporting failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The shelf could not store a segment.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// The journal could not store an event.
    #[error("failed to record the sealed segment")]
    Submit(#[from] SubmitError),
    /// The engine refused an event.
    #[error("the engine refused the sealed segment: {0}")]
    Refused(Refusal),
    /// Expired logs could not be removed.
    #[error("failed to remove expired logs")]
    Tidy(#[source] std::io::Error),
}

/// The exporter's state between two steps, which need not survive a restart.
#[derive(Debug, Default)]
pub struct Exporter {
    sealed: BTreeMap<(Book, u64), Duration>,
    /// The journal's sequence at the last sealed segment that is not yet readable.
    unreleased: Option<u64>,
    released: Option<Duration>,
    tidied: Option<Duration>,
}

/// Starts exporting under the library's key, unless already started. With `cluster`, all accepted entries are exported.
///
/// # Errors
/// [`ExportError`] if exporting cannot start.
pub fn begin(store: &Clearinghouse, library: &Library, cluster: bool, now: Time) -> Result<Origin, ExportError> {
    let key = *library.key().public().as_bytes();
    let (own, was_cluster) = store.check(|engine| (engine.exchange().own(), engine.exchange().is_cluster()));
    match own {
        Some(own) if own.key == key && was_cluster == cluster => Ok(own),
        Some(own) if own.key == key => begin_as(store, own, cluster, now),
        _ => begin_as(store, Origin { key, incarnation: next_incarnation(store, &key, now) }, cluster, now),
    }
}

/// Returns a number greater than those of all earlier incarnations, even if the clock is wrong.
fn next_incarnation(store: &Clearinghouse, key: &[u8; 32], now: Time) -> u64 {
    let lives = |engine: &Engine| {
        let own = engine.exchange().chains().map(|(chain, _)| chain.origin).filter(|origin| origin.key == *key);
        own.map(|origin| origin.incarnation).max()
    };
    store.check(lives).map_or(now.0, |last| now.0.max(last + 1))
}

/// Stops exporting and drops the queue, for a server that has no readers and cannot write its logs.
///
/// # Errors
/// [`ExportError`] if the event cannot be written.
pub fn end(store: &Clearinghouse, now: Time) -> Result<(), ExportError> {
    if store.check(|engine| engine.exchange().own().is_none()) {
        return Ok(());
    }
    all_done(&store.submit(vec![Event::Origin { now, change: OriginChange::End }])?)
}

/// Starts a new incarnation, because peers hold segments of the present one that this server has lost.
///
/// # Errors
/// [`ExportError`] if it cannot start, for example while a snapshot is being written.
pub fn begin_incarnation(store: &Clearinghouse, now: Time) -> Result<Origin, ExportError> {
    let (own, cluster) = store.check(|engine| (engine.exchange().own(), engine.exchange().is_cluster()));
    let Some(own) = own else { return Err(ExportError::Refused(Refusal::ExportsWait)) };
    let incarnation = now.0.max(own.incarnation + 1);
    begin_as(store, Origin { incarnation, ..own }, cluster, now)
}

fn begin_as(store: &Clearinghouse, origin: Origin, cluster: bool, now: Time) -> Result<Origin, ExportError> {
    let change = OriginChange::Begin { origin, cluster };
    all_done(&store.submit(vec![Event::Origin { now, change }])?)?;
    Ok(origin)
}

impl ExportError {
    /// Returns true if the log of our own incarnation, or part of it, is missing from the folder.
    #[must_use]
    pub const fn is_lost_log(&self) -> bool {
        matches!(self, Self::Shelf(ShelfError::Gap { .. }))
    }

    /// Returns true if the folder of logs caused the error.
    #[must_use]
    pub const fn is_shelf_error(&self) -> bool {
        matches!(self, Self::Shelf(_) | Self::Tidy(_))
    }
}

impl Exporter {
    /// Seals the entries that are due, makes them readable, and removes expired logs from time to time. `uptime` is a
    /// monotonic clock. With `hold`, entries are held back for a while, up to a limit. Returns true if anything was
    /// sealed.
    ///
    /// # Errors
    /// [`ExportError`]; the entries stay queued.
    pub fn step(
        &mut self,
        store: &Clearinghouse,
        library: &Library,
        now: Time,
        uptime: Duration,
        hold: bool,
    ) -> Result<bool, ExportError> {
        let has_room = || store.check(|engine| engine.exchange().pending_bytes() < HELD_BYTES_MAX);
        let held = hold && uptime < HELD_MAX && has_room();
        let exports = if held { Vec::new() } else { self.due(store, library, now, uptime) };
        let is_sealed = !exports.is_empty();
        self.seal(store, library, exports, uptime)?;
        // A server on an old copy of its disk must not contradict segments that peers already have.
        if !held {
            self.release(store, library, now, uptime);
        }
        if self.tidied.is_none_or(|tidied| uptime.saturating_sub(tidied) >= TIDY_INTERVAL) {
            self.tidied = Some(uptime);
            self.sealed.retain(|_, sealed| uptime.saturating_sub(*sealed) < TIDY_INTERVAL);
            let chains: std::collections::BTreeSet<_> =
                store.check(|engine| engine.exchange().chains().map(|(chain, _)| chain).collect());
            library.tidy(|chain| chains.contains(chain)).map_err(ExportError::Tidy)?;
        }
        Ok(is_sealed)
    }

    /// Makes sealed segments readable once the journal is on disk up to them; under relaxed durability this takes a
    /// while.
    fn release(&mut self, store: &Clearinghouse, library: &Library, now: Time, uptime: Duration) {
        let is_silent = self.released.is_none_or(|released| uptime.saturating_sub(released) >= HEARTBEAT);
        let is_durable = self.unreleased.is_none_or(|sequence| store.status().durable >= sequence);
        if is_durable && (is_silent || self.unreleased.is_some()) {
            release(store, library, now);
            (self.released, self.unreleased) = (Some(uptime), None);
        }
    }

    fn due(&self, store: &Clearinghouse, library: &Library, now: Time, uptime: Duration) -> Vec<Export> {
        store.check(|engine| {
            let exchange = engine.exchange();
            let is_full = exchange.pending_bytes() >= SEAL_BYTES;
            let due = exchange.pending().filter(|&chain| is_full || self.is_due(chain, uptime));
            due.filter_map(|chain| next_segment(exchange, chain, library.realm(), library.key(), now)).collect()
        })
    }

    fn is_due(&self, chain: (Book, u64), uptime: Duration) -> bool {
        let busy = if chain.0 == Book::Revoked { SEAL_INTERVAL_REVOKED } else { SEAL_INTERVAL };
        self.sealed.get(&chain).is_none_or(|sealed| uptime.saturating_sub(*sealed) >= busy)
    }

    fn seal(
        &mut self,
        store: &Clearinghouse,
        library: &Library,
        exports: Vec<Export>,
        uptime: Duration,
    ) -> Result<(), ExportError> {
        let mut events = Vec::with_capacity(exports.len());
        for export in exports {
            library.put_own(&export.chain, export.offset, &export.bytes)?;
            self.sealed.insert((export.chain.book, export.chain.generation), uptime);
            events.push(export.sealed);
        }
        if events.is_empty() {
            return Ok(());
        }
        let outcomes = store.submit(events)?;
        self.unreleased = Some(store.status().sequence);
        all_done(&outcomes)
    }
}

/// Makes sealed segments readable. Releases the engine's lock before it takes the library's, because a thread that
/// holds the library's lock may be waiting for the engine's.
fn release(store: &Clearinghouse, library: &Library, now: Time) {
    let told = store.check(|engine| {
        let own = engine.exchange().own()?;
        let chains: Vec<_> = engine.exchange().chains().filter(|(chain, _)| chain.origin == own).collect();
        Some((own, chains))
    });
    if let Some((own, chains)) = told {
        library.release(own, &chains, now);
    }
}

fn all_done(outcomes: &[Outcome]) -> Result<(), ExportError> {
    let refusal = outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Refused(refusal) => Some(*refusal),
        _ => None,
    });
    refusal.map_or(Ok(()), |refusal| Err(ExportError::Refused(refusal)))
}
