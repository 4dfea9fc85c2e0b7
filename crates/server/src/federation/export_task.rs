//! Writes the logs for other servers and replicas, and handles a folder that cannot be written.
//!
//! A server with peers, a broker or a folder to publish in queues all segments, and refuses reports when the queue is
//! full. Any other server has no readers, so it drops the queue and starts a new incarnation once the folder can be
//! written.

use std::time::Duration;

use bruit_engine::time::Time;
use bruit_federation::describe;
use bruit_federation::exporter::{ExportError, Exporter, begin, begin_incarnation, end};
use bruit_federation::library::Library;
use bruit_federation::link::Site;

use super::local_site::LocalSite;
use crate::health::State;
use crate::service::Service;

/// Time that the folder must fail before a server without readers drops the queue. The server also drops the queue when
/// its size reaches [`GIVE_UP_BYTES`].
const GIVE_UP: Duration = Duration::from_secs(10);
/// The queue size at which a server without readers drops the queue. See [`GIVE_UP`].
const GIVE_UP_BYTES: usize = 1 << 20;

/// Interval between attempts after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// The exporter and its state.
pub(super) struct ExportTask {
    exporter: Exporter,
    is_cluster: bool,
    /// True if there are peers, a broker, or a folder to publish in.
    is_wanted: bool,
    /// Set while the folder fails; times are uptimes.
    failing: Option<Failing>,
    /// The error, while the exporter fails for a reason other than the folder.
    stuck: Option<String>,
    /// The uptime of the last attempt.
    tried: Duration,
}

struct Failing {
    since: Duration,
    error: String,
}

/// Starts the exporter if there are readers or the folder can be written. Otherwise the server runs without it, and
/// each later step retries.
pub(super) fn start_export(
    service: &Service,
    library: &Library,
    is_cluster: bool,
    is_wanted: bool,
    now: Time,
) -> Result<ExportTask, ExportError> {
    let uptime = service.uptime();
    let failing = library.check_shelf().err().map(|error| Failing { since: uptime, error: error.to_string() });
    let begun = match is_wanted || failing.is_none() {
        true => begin(&service.store, library, is_cluster, now).map(drop),
        false => end(&service.store, now),
    };
    let exporter = Exporter::default();
    let mut export_task = ExportTask { exporter, is_cluster, is_wanted, failing, stuck: None, tried: uptime };
    match begun {
        Err(error) if is_wanted => return Err(error),
        Err(error) => export_task.note_failure(&error),
        Ok(()) => {}
    }
    Ok(export_task)
}

impl ExportTask {
    /// Writes pending segments, or checks whether the folder works again.
    pub(super) fn step(&mut self, site: &LocalSite, hold: bool) {
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
            self.note_failure(&error);
        }
        self.note(site, now);
    }

    fn try_step(&mut self, site: &LocalSite, hold: bool, uptime: Duration, now: Time) {
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
            Err(error) if error.is_lost_log() => self.start_incarnation(site, &error, now),
            Err(error) if error.is_shelf_error() => self.fail(describe(&error), since),
            Err(error) => self.note_failure(&error),
        }
    }

    /// Starts a new incarnation, because the log of the current one is gone from the folder.
    fn start_incarnation(&mut self, site: &LocalSite, lost: &ExportError, now: Time) {
        tracing::warn!(error = lost as &dyn std::error::Error, "a log in shelf/ is gone; starting a new incarnation");
        if let Err(error) = begin_incarnation(&site.service.store, now) {
            self.note_failure(&error);
        }
    }

    fn fail(&mut self, error: String, since: Duration) {
        self.failing = Some(Failing { since, error });
    }

    /// Logs an error once and keeps it for health.
    fn note_failure(&mut self, error: &ExportError) {
        if self.stuck.is_none() {
            tracing::error!(error = error as &dyn std::error::Error, "failed to write logs for other servers");
        }
        self.stuck = Some(describe(error));
    }

    /// Returns true if the logs have readers. A peer may have been added since the start.
    fn is_wanted(&self, site: &LocalSite) -> bool {
        self.is_wanted || !site.service.settings().peers.is_empty()
    }

    /// Returns true if the queue has no readers and should be dropped.
    fn should_give_up(&self, site: &LocalSite, uptime: Duration) -> bool {
        let Some(failing) = self.failing.as_ref().filter(|_| !self.is_wanted(site)) else { return false };
        let (is_begun, waiting) =
            site.service.store.check(|engine| (engine.exchange().own().is_some(), engine.exchange().pending_bytes()));
        is_begun && (uptime.saturating_sub(failing.since) >= GIVE_UP || waiting >= GIVE_UP_BYTES)
    }

    fn note(&self, site: &LocalSite, now: Time) {
        let (has_room, waiting) =
            site.service.store.check(|engine| (engine.exchange().has_room(), engine.exchange().pending_bytes()));
        let consequence = match self.is_wanted(site) {
            true => "other servers receive no updates, and reports are refused once 4 MiB are queued",
            false => "reports are kept, but replicas will miss those accepted in the meantime",
        };
        let fails = self.failing.as_ref().map(|failing| {
            format!(
                "failed to write to the folder shelf/ in the data directory ({}): {consequence}; check the disk",
                failing.error
            )
        });
        let is_stuck = |error: &String| format!("failed to write logs for other servers ({error}): {consequence}");
        let health = &site.service.health;
        health.set(State::ShelfFails, "", fails.or_else(|| self.stuck.as_ref().map(is_stuck)), now);
        let waits = (!has_room).then(|| {
            format!(
                "reports are refused: {waiting} bytes for other servers are queued and cannot be written; see shelf_fails or the log"
            )
        });
        health.set(State::ExportsWait, "", waits, now);
    }
}
