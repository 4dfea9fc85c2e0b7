//! From what waits in the engine to segments that others may read.
//!
//! The order is what makes it exact: a segment is in its log on disk, then the journal says that it is sealed, then others may
//! read it. A crash in between leaves a log that is too long, and the next segment is written over its end.

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

/// A chain that is busy gets a segment every so often; what is quiet is told at once.
const BUSY: Duration = Duration::from_secs(1);

/// The same for revocations: whoever waits for good mail should not wait long.
const BUSY_REVOKED: Duration = Duration::from_millis(100);

/// So much waiting is sealed at once, whenever the last segment was.
const FULL_BYTES: usize = 256 << 10;

/// So much is held back at most while no other node was heard. A server that runs on an old copy of its disk learns from them that
/// it is one; what it had sealed before would be a history written twice.
const HELD_BYTES_MAX: usize = 1 << 20;

/// And for so long: the last node of a cluster must not keep silent for ever.
const HELD_MAX: Duration = Duration::from_secs(300);

/// Between two looks for logs that are over.
const TIDY: Duration = Duration::from_secs(600);

/// Why nothing was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The shelf does not take it.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// The journal does not.
    #[error("failed to note what was sealed")]
    Submit(#[from] SubmitError),
    /// The engine does not.
    #[error("what was sealed is refused: {0}")]
    Refused(Refusal),
    /// What the disk says to tidying.
    #[error("failed to remove logs that are over")]
    Tidy(#[source] std::io::Error),
}

/// What the exporter remembers from one step to the next; all of it can be lost.
#[derive(Debug, Default)]
pub struct Exporter {
    sealed: BTreeMap<(Book, u64), Duration>,
    /// The journal's sequence when something was sealed that nobody may read yet.
    unreleased: Option<u64>,
    released: Option<Duration>,
    tidied: Option<Duration>,
}

/// Makes sure that this server has begun to tell others, as the owner of the library's key; with `cluster`, all it accepts.
///
/// # Errors
/// [`ExportError`] if it cannot.
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

/// Stops exporting and drops the queue, for a server without readers that cannot write its logs.
///
/// # Errors
/// [`ExportError`] if the event cannot be written.
pub fn end(store: &Clearinghouse, now: Time) -> Result<(), ExportError> {
    if store.check(|engine| engine.exchange().own().is_none()) {
        return Ok(());
    }
    all_done(&store.submit(vec![Event::Origin { now, change: OriginChange::End }])?)
}

/// Goes on as another incarnation: others know more of what we said than we do.
///
/// # Errors
/// [`ExportError`] if it cannot, as while a snapshot is written.
pub fn begin_again(store: &Clearinghouse, now: Time) -> Result<Origin, ExportError> {
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
    /// Returns true if the log of our own incarnation is gone from the folder, or part of it.
    #[must_use]
    pub const fn is_lost_log(&self) -> bool {
        matches!(self, Self::Shelf(ShelfError::Gap { .. }))
    }

    /// Returns true if the folder of logs is the cause.
    #[must_use]
    pub const fn is_of_shelf(&self) -> bool {
        matches!(self, Self::Shelf(_) | Self::Tidy(_))
    }
}

impl Exporter {
    /// Seals what is due, releases it, and tidies up now and then. `uptime` is a clock that never jumps. With `hold`, what waits is not
    /// sealed for a while, unless it becomes much. Whether anything was sealed.
    ///
    /// # Errors
    /// [`ExportError`]; what waits still waits.
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
        // An old copy of the disk must not speak over what others know of it.
        if !held {
            self.release(store, library, now, uptime);
        }
        if self.tidied.is_none_or(|tidied| uptime.saturating_sub(tidied) >= TIDY) {
            self.tidied = Some(uptime);
            self.sealed.retain(|_, sealed| uptime.saturating_sub(*sealed) < TIDY);
            let chains: std::collections::BTreeSet<_> =
                store.check(|engine| engine.exchange().chains().map(|(chain, _)| chain).collect());
            library.tidy(|chain| chains.contains(chain)).map_err(ExportError::Tidy)?;
        }
        Ok(is_sealed)
    }

    /// Lets others read what was sealed, once the journal is on disk as far: with relaxed durability that takes a while.
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
            let is_full = exchange.pending_bytes() >= FULL_BYTES;
            let due = exchange.pending().filter(|&chain| is_full || self.is_due(chain, uptime));
            due.filter_map(|chain| next_segment(exchange, chain, library.realm(), library.key(), now)).collect()
        })
    }

    fn is_due(&self, chain: (Book, u64), uptime: Duration) -> bool {
        let busy = if chain.0 == Book::Revoked { BUSY_REVOKED } else { BUSY };
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

/// Not under the engine's lock: whoever holds the library's may be waiting for that.
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
