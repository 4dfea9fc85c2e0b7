//! Writes the logs that others read, and handles a folder that cannot be written.
//!
//! A server with peers, a broker or a folder to publish in queues everything for them, and refuses reports when the queue is
//! full. A server with none of these drops the queue, because nobody would read it, and starts a new incarnation once the folder
//! can be written.

use std::time::Duration;

use bruit_engine::time::Time;
use bruit_federation::exporter::{ExportError, Exporter, begin, end};
use bruit_federation::library::Library;
use bruit_federation::link::Site;

use super::links::Neighbour;
use crate::health::State;
use crate::service::{Service, describe};

/// A server without readers drops the queue after the folder has failed for this long, or at [`GIVE_UP_BYTES`].
const GIVE_UP: Duration = Duration::from_secs(10);
/// See [`GIVE_UP`].
const GIVE_UP_BYTES: usize = 1 << 20;

/// The interval between two checks of a folder that failed.
const RETRY: Duration = Duration::from_secs(5);

/// The exporter's thread, and whether it works.
pub(super) struct Telling {
    exporter: Exporter,
    is_cluster: bool,
    /// True if there are peers, a broker, or a folder to publish in.
    is_wanted: bool,
    /// Set while the folder fails, with times by the clock that never jumps.
    failing: Option<Failing>,
    /// True if anything else failed the last time.
    is_stuck: bool,
}

struct Failing {
    since: Duration,
    looked: Duration,
    error: String,
}

/// Begins to export, if there are readers or the folder can be written.
pub(super) fn begin_telling(
    service: &Service,
    library: &Library,
    is_cluster: bool,
    is_wanted: bool,
    now: Time,
) -> Result<Telling, ExportError> {
    let uptime = service.uptime();
    let failing =
        library.check_shelf().err().map(|error| Failing { since: uptime, looked: uptime, error: error.to_string() });
    if is_wanted || failing.is_none() {
        begin(&service.store, library, is_cluster, now)?;
    } else {
        end(&service.store, now)?;
    }
    Ok(Telling { exporter: Exporter::default(), is_cluster, is_wanted, failing, is_stuck: false })
}

impl Telling {
    /// Writes what is due, or checks whether the folder works again.
    pub(super) fn step(&mut self, site: &Neighbour, hold: bool) {
        let (uptime, now) = (site.service.uptime(), site.now());
        if self.failing.as_ref().is_none_or(|failing| uptime.saturating_sub(failing.looked) >= RETRY) {
            self.try_step(site, hold, uptime, now);
        }
        if self.should_give_up(site, uptime)
            && let Err(error) = end(&site.service.store, now)
        {
            tracing::warn!(%error, "failed to stop keeping what nobody reads");
        }
        self.note(site, now);
    }

    fn try_step(&mut self, site: &Neighbour, hold: bool, uptime: Duration, now: Time) {
        let store = &site.service.store;
        let checked = match &self.failing {
            Some(_) => site.library.check_shelf().map_err(|error| error.to_string()),
            None => Ok(()),
        };
        if let Err(error) = checked {
            return self.fail(error, uptime);
        }
        let begun = match store.check(|engine| engine.exchange().own()) {
            Some(_) => Ok(()),
            None => begin(store, &site.library, self.is_cluster, now).map(drop),
        };
        let stepped = begun.and_then(|()| self.exporter.step(store, &site.library, now, uptime, hold));
        match stepped {
            Ok(_) => (self.failing, self.is_stuck) = (None, false),
            Err(error) if error.is_of_shelf() => self.fail(describe(&error), uptime),
            Err(error) => {
                if !self.is_stuck {
                    tracing::error!(error = &error as &dyn std::error::Error, "other servers cannot be told anything");
                }
                self.is_stuck = true;
            }
        }
    }

    fn fail(&mut self, error: String, uptime: Duration) {
        let since = self.failing.as_ref().map_or(uptime, |failing| failing.since);
        self.failing = Some(Failing { since, looked: uptime, error });
    }

    /// Returns true if the queue has no reader and should be dropped.
    fn should_give_up(&self, site: &Neighbour, uptime: Duration) -> bool {
        let Some(failing) = self.failing.as_ref().filter(|_| !self.is_wanted) else { return false };
        let (is_begun, waiting) =
            site.service.store.check(|engine| (engine.exchange().own().is_some(), engine.exchange().pending_bytes()));
        is_begun && (uptime.saturating_sub(failing.since) >= GIVE_UP || waiting >= GIVE_UP_BYTES)
    }

    fn note(&self, site: &Neighbour, now: Time) {
        let (has_room, waiting) =
            site.service.store.check(|engine| (engine.exchange().has_room(), engine.exchange().pending_bytes()));
        let consequence = match self.is_wanted {
            true => "other servers get nothing new, and reports are refused once 4 MiB wait",
            false => "reports are kept, but replicas will lack those made meanwhile",
        };
        let fails = self.failing.as_ref().map(|failing| {
            format!(
                "the folder shelf/ in the data directory cannot be written ({}): {consequence}; fix the disk",
                failing.error
            )
        });
        let health = &site.service.health;
        health.set(State::ShelfFails, "", fails, now);
        let waits = (!has_room).then(|| {
            format!(
                "reports are refused: {waiting} bytes wait to be written for other servers; see shelf_fails or the log"
            )
        });
        health.set(State::ExportsWait, "", waits, now);
    }
}
