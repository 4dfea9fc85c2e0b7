//! Writes the logs that others read, and handles a folder that cannot be written.
//!
//! A server with peers, a broker or a folder to publish in queues everything for them, and refuses reports when the queue is
//! full. A server with none of these drops the queue, because nobody would read it, and starts a new incarnation once the folder
//! can be written.

use std::time::Duration;

use bruit_engine::time::Time;
use bruit_federation::exporter::{ExportError, Exporter, begin, begin_again, end};
use bruit_federation::library::Library;
use bruit_federation::link::Site;

use super::links::Neighbour;
use crate::health::State;
use crate::service::{Service, describe};

/// A server without readers drops the queue after the folder has failed for this long, or at [`GIVE_UP_BYTES`].
const GIVE_UP: Duration = Duration::from_secs(10);
/// See [`GIVE_UP`].
const GIVE_UP_BYTES: usize = 1 << 20;

/// The interval between two attempts after one that failed.
const RETRY: Duration = Duration::from_secs(5);

/// The exporter's thread, and whether it works.
pub(super) struct Telling {
    exporter: Exporter,
    is_cluster: bool,
    /// True if there are peers, a broker, or a folder to publish in.
    is_wanted: bool,
    /// Set while the folder fails, with times by the clock that never jumps.
    failing: Option<Failing>,
    /// The error, while anything else fails.
    stuck: Option<String>,
    /// The time of the last attempt.
    tried: Duration,
}

struct Failing {
    since: Duration,
    error: String,
}

/// Begins to export, if there are readers or the folder can be written. A server without readers goes on if it cannot: each later
/// step tries again.
pub(super) fn begin_telling(
    service: &Service,
    library: &Library,
    is_cluster: bool,
    is_wanted: bool,
    now: Time,
) -> Result<Telling, ExportError> {
    let uptime = service.uptime();
    let failing = library.check_shelf().err().map(|error| Failing { since: uptime, error: error.to_string() });
    let begun = match is_wanted || failing.is_none() {
        true => begin(&service.store, library, is_cluster, now).map(drop),
        false => end(&service.store, now),
    };
    let exporter = Exporter::default();
    let mut telling = Telling { exporter, is_cluster, is_wanted, failing, stuck: None, tried: uptime };
    match begun {
        Err(error) if is_wanted => return Err(error),
        Err(error) => telling.get_stuck(&error),
        Ok(()) => {}
    }
    Ok(telling)
}

impl Telling {
    /// Writes what is due, or checks whether the folder works again.
    pub(super) fn step(&mut self, site: &Neighbour, hold: bool) {
        let (uptime, now) = (site.service.uptime(), site.now());
        let is_well = self.failing.is_none() && self.stuck.is_none();
        let is_due = is_well || uptime.saturating_sub(self.tried) >= RETRY;
        if is_due {
            self.tried = uptime;
            self.try_step(site, hold, uptime, now);
        }
        if (is_due || self.stuck.is_none())
            && self.should_give_up(site, uptime)
            && let Err(error) = end(&site.service.store, now)
        {
            self.get_stuck(&error);
        }
        self.note(site, now);
    }

    fn try_step(&mut self, site: &Neighbour, hold: bool, uptime: Duration, now: Time) {
        let store = &site.service.store;
        let since = self.failing.as_ref().map_or(uptime, |failing| failing.since);
        if self.failing.is_some() {
            if let Err(error) = site.library.check_shelf() {
                return self.fail(error.to_string(), since);
            }
            self.failing = None;
        }
        let begun = match store.check(|engine| engine.exchange().own()) {
            Some(_) => Ok(()),
            None => begin(store, &site.library, self.is_cluster, now).map(drop),
        };
        let stepped = begun.and_then(|()| self.exporter.step(store, &site.library, now, uptime, hold));
        match stepped {
            Ok(_) => self.stuck = None,
            Err(error) if error.is_lost_log() => self.begin_anew(site, &error, now),
            Err(error) if error.is_of_shelf() => self.fail(describe(&error), since),
            Err(error) => self.get_stuck(&error),
        }
    }

    /// Goes on in a new incarnation, because the log of this one is gone from the folder.
    fn begin_anew(&mut self, site: &Neighbour, lost: &ExportError, now: Time) {
        tracing::warn!(error = lost as &dyn std::error::Error, "a log in shelf/ is gone: a new incarnation begins");
        if let Err(error) = begin_again(&site.service.store, now) {
            self.get_stuck(&error);
        }
    }

    fn fail(&mut self, error: String, since: Duration) {
        self.failing = Some(Failing { since, error });
    }

    /// Logs an error once, and keeps it for health.
    fn get_stuck(&mut self, error: &ExportError) {
        if self.stuck.is_none() {
            tracing::error!(error = error as &dyn std::error::Error, "nothing new is written for other servers");
        }
        self.stuck = Some(describe(error));
    }

    /// Returns true if anybody reads the logs: a peer may have been added since the start.
    fn is_wanted(&self, site: &Neighbour) -> bool {
        self.is_wanted || !site.service.settings().peers.is_empty()
    }

    /// Returns true if the queue has no reader and should be dropped.
    fn should_give_up(&self, site: &Neighbour, uptime: Duration) -> bool {
        let Some(failing) = self.failing.as_ref().filter(|_| !self.is_wanted(site)) else { return false };
        let (is_begun, waiting) =
            site.service.store.check(|engine| (engine.exchange().own().is_some(), engine.exchange().pending_bytes()));
        is_begun && (uptime.saturating_sub(failing.since) >= GIVE_UP || waiting >= GIVE_UP_BYTES)
    }

    fn note(&self, site: &Neighbour, now: Time) {
        let (has_room, waiting) =
            site.service.store.check(|engine| (engine.exchange().has_room(), engine.exchange().pending_bytes()));
        let consequence = match self.is_wanted(site) {
            true => "other servers get nothing new, and reports are refused once 4 MiB wait",
            false => "reports are kept, but replicas will lack those made meanwhile",
        };
        let fails = self.failing.as_ref().map(|failing| {
            format!(
                "the folder shelf/ in the data directory cannot be written ({}): {consequence}; fix the disk",
                failing.error
            )
        });
        let is_stuck = |error: &String| format!("nothing new is written for other servers ({error}): {consequence}");
        let health = &site.service.health;
        health.set(State::ShelfFails, "", fails.or_else(|| self.stuck.as_ref().map(is_stuck)), now);
        let waits = (!has_room).then(|| {
            format!(
                "reports are refused: {waiting} bytes wait to be written for other servers; see shelf_fails or the log"
            )
        });
        health.set(State::ExportsWait, "", waits, now);
    }
}
