//! The engine as a [`Machine`], and its store.

use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bruit_engine::codec::Malformed;
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::{BEHIND_LINES, Engine, Outcome, Refusal, RestoreError as EngineError};

use crate::directory::Listing;
use crate::founding::{FOUNDING_FILE, Founding, UnfitFounding};
use crate::machine::{Machine, RestoreError};
use crate::queue::SubmitError;
use crate::recover::{OpenError, Recovery, peek};
use crate::store::{Options, Store};

/// Bytes that the engine keeps for each overwritten line: its 64 bytes and its position.
const LOGGED_LINE_BYTES: usize = 72;

/// Interval between two attempts to resize while a snapshot is running.
const SNAPSHOT_WAIT: Duration = Duration::from_millis(50);

/// Maximum number of ticks submitted together while catching up.
const CATCH_UP_TICKS: usize = 64;

/// A clearinghouse whose events are persisted in a directory.
pub type Clearinghouse = Store<Engine>;

impl Clearinghouse {
    /// Opens the clearinghouse in `directory`, or founds one if there is none. During the replay, `progress` is called
    /// with the number of journal bytes read since the last call.
    ///
    /// # Errors
    /// [`OpenError`]; see [`Store::open`].
    pub fn open_or_found(
        directory: &Path,
        options: &Options,
        found: impl FnOnce() -> Founding,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, OpenError> {
        ensure_can_be_founded(directory)?;
        let make = || {
            if let Some(founding) = Founding::read(directory)? {
                return begin(&founding);
            }
            let founding = found();
            // A clearinghouse that does not fit into memory is not founded, so that a smaller one can be founded
            // instead.
            let engine = founding.engine().map_err(|error| match error {
                UnfitFounding::Memory(missing) => OpenError::TooLarge { missing },
                error => founding_error(error.to_string()),
            })?;
            write_founding(directory, options, &founding)?;
            Ok(engine)
        };
        Self::open(directory, options, make, progress)
    }

    /// Reads the founding and the current state of the clearinghouse in `directory`. Takes no lock and changes nothing.
    /// Returns `None` if no clearinghouse was founded there. See [`peek`].
    ///
    /// # Errors
    /// [`OpenError`] for any reason why opening would fail, except that the store is in use.
    pub fn peek(
        directory: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<(Founding, Engine, Recovery)>, OpenError> {
        let Some(founding) = Founding::read(directory)? else { return Ok(None) };
        let (engine, recovery) = peek(directory, || begin(&founding), progress)?;
        Ok(Some((founding, engine, recovery)))
    }

    /// Changes the memory budget of the clearinghouse: see [`Event::Resize`]. Waits for a running snapshot. Returns the
    /// outcome of the event, which is success or the reason for the refusal.
    ///
    /// # Errors
    /// [`SubmitError`] if the event cannot be written; nothing is changed in that case.
    pub fn resize(&self, budget_bytes: u64) -> Result<Outcome, SubmitError> {
        loop {
            // Use the engine's own time for the event. Later ticks set the time of the clock.
            let now = self.check(Engine::now);
            let outcomes = self.submit(vec![Event::Resize { now, budget_bytes }])?;
            match outcomes.into_iter().next() {
                Some(Outcome::Refused(Refusal::SnapshotRuns)) => thread::sleep(SNAPSHOT_WAIT),
                Some(outcome) => return Ok(outcome),
                None => return Err(SubmitError::Closed),
            }
        }
    }

    /// Advances the books to `now`, in as many ticks as necessary. After a long stop, claims are refused until this is
    /// done. Returns [`Outcome::Ticked`] with all generations that ended on the way or, if `now` is not a valid time,
    /// the reason for the refusal.
    ///
    /// # Errors
    /// [`SubmitError`] if the ticks cannot be written.
    pub fn catch_up(&self, now: Time) -> Result<Outcome, SubmitError> {
        let (mut ticks, mut all_ended) = (1, Vec::new());
        loop {
            let outcomes = self.submit(vec![Event::Tick { now, lines: BEHIND_LINES }; ticks])?;
            let mut has_arrived = false;
            for outcome in outcomes {
                let Outcome::Ticked { arrived, ended } = outcome else { return Ok(outcome) };
                all_ended.extend(ended);
                has_arrived = arrived;
            }
            if has_arrived {
                return Ok(Outcome::Ticked { arrived: true, ended: all_ended });
            }
            ticks = CATCH_UP_TICKS;
        }
    }
}

/// Fails if the directory contains files that do not belong to a store, because a mistyped path must not become a
/// store. Also fails if the directory contains a store without its founding file, because a store must not be founded
/// twice. Call this before taking the lock, which would create a file in the directory.
fn ensure_can_be_founded(directory: &Path) -> Result<(), OpenError> {
    if !directory.is_dir() || directory.join(FOUNDING_FILE).exists() {
        return Ok(());
    }
    let listing = Listing::read(directory).map_err(|source| OpenError::io("list", directory, source))?;
    if listing.has_data() {
        return Err(OpenError::FoundingMissing { directory: directory.to_owned() });
    }
    match listing.others.into_iter().next() {
        Some(file) => Err(OpenError::NotEmpty { directory: directory.to_owned(), file }),
        None => Ok(()),
    }
}

/// Returns the engine in its initial state.
fn begin(founding: &Founding) -> Result<Engine, OpenError> {
    founding.engine().map_err(|error| match error {
        UnfitFounding::Memory(missing) => OpenError::Memory { missing: missing.to_string() },
        error => founding_error(error.to_string()),
    })
}

/// Writes the founding file, unless the directory already has files of a clearinghouse.
fn write_founding(directory: &Path, options: &Options, founding: &Founding) -> Result<(), OpenError> {
    let listing = Listing::read(directory).map_err(|source| OpenError::io("list", directory, source))?;
    if listing.has_data() {
        return Err(OpenError::FoundingMissing { directory: directory.to_owned() });
    }
    founding.write(directory, &*options.disk)
}

const fn founding_error(reason: String) -> OpenError {
    OpenError::Founding { file: FOUNDING_FILE, reason }
}

impl Machine for Engine {
    type Event = Event;
    type Outcome = Outcome;

    fn encode(event: &Event, out: &mut Vec<u8>) {
        event.encode(out);
    }

    fn decode(bytes: &[u8]) -> Result<Event, Malformed> {
        Event::decode(bytes)
    }

    /// Checks an event by decoding it. Claims and counts are frequent, so only their bounds are checked; decoding would
    /// check nothing else.
    fn check_encoded(event: &Event, encoded: &[u8]) -> Result<(), Malformed> {
        if event.is_frequent() && event.is_within_bounds() { Ok(()) } else { Event::decode(encoded).map(drop) }
    }

    /// Allows no snapshot while a server is being forgotten, because a snapshot would not contain the rings that are
    /// being rebuilt. They exist only in memory and in the journal.
    fn may_snapshot(&self) -> bool {
        !self.is_forgetting()
    }

    fn admit(&self, event: &Event) -> Result<(), Outcome> {
        Self::admit(self, event).map_err(Outcome::Refused)
    }

    fn prefetch(&self, event: &Event) {
        Self::prefetch(self, event);
    }

    fn apply(&mut self, event: &Event) -> Outcome {
        Self::apply(self, event)
    }

    fn snapshot_start(&self, out: &mut Vec<u8>) {
        Self::snapshot_start(self, out);
    }

    fn begin_snapshot(&mut self, _out: &mut Vec<u8>) {
        self.begin_lines();
    }

    fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        Self::continue_snapshot(self, bytes, out)
    }

    fn logged_bytes(&self) -> usize {
        self.logged_lines() * LOGGED_LINE_BYTES
    }

    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError> {
        let restored = Self::restore(self.realm().clone(), *self.plan(), input);
        restored.map(|engine| engine.with_founded(self.founded())).map_err(|error| match error {
            EngineError::Io(error) => RestoreError::Read(error),
            EngineError::Memory(error) => RestoreError::Memory(Box::new(error)),
            EngineError::UnknownVersion { .. } | EngineError::OtherRealm | EngineError::OtherBudget { .. } => {
                RestoreError::Unlike(Box::new(error))
            }
            error => RestoreError::State(Box::new(error)),
        })
    }

    fn realm(&self) -> [u8; 16] {
        Self::realm(self).id().0
    }
}
