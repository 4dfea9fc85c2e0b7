//! Follows the engine's progress in forgetting servers, and reports it in the log and in health.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bruit_federation::coordinator::rereader::Rereader;
use bruit_federation::describe;
use bruit_federation::rereading::{Progress, reread};
use bruit_signatures::hex;

use super::local::LocalServer;
use crate::health::State;

/// Interval at which an idle thread checks for work.
const PAUSE: Duration = Duration::from_millis(100);
/// Time after which a failed step is repeated.
const RETRY: Duration = Duration::from_secs(5);

/// The state of the thread.
#[derive(Default)]
struct Forgetter {
    /// Keys of the forgotten servers at the last check.
    forgotten: Vec<[u8; 32]>,
    /// The server's uptime when the removal of data began, if data is being removed now.
    since: Option<Duration>,
    rereader: Rereader,
}

/// Runs the thread until its channel closes.
pub(super) fn run(local: &Arc<LocalServer>, stopped: &Receiver<()>) {
    let (mut forgetter, mut pause) = (Forgetter::default(), Duration::ZERO);
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = forgetter.step(local);
    }
}

impl Forgetter {
    /// Takes one step, and returns the time until the next one.
    fn step(&mut self, local: &LocalServer) -> Duration {
        let (is_running, forgotten) = local.service.store.check(|engine| {
            let exchange = engine.exchange();
            let keys = exchange.forgotten().filter(|(_, record)| record.is_forgotten).map(|(key, _)| key);
            (engine.is_forgetting(), keys.collect::<Vec<_>>())
        });
        if forgotten != self.forgotten {
            self.forgotten = forgotten;
            local.refresh();
        }
        self.note(local, is_running);
        if !is_running {
            return PAUSE;
        }
        match reread(&mut self.rereader, &local.service.store, &local.shelf, local.now()) {
            Ok(Progress::Done) => Duration::ZERO,
            Ok(Progress::Idle | Progress::Waits) => PAUSE,
            Err(error) => {
                tracing::warn!(error = describe(&error), "failed to continue forgetting a server; trying again");
                RETRY
            }
        }
    }

    /// Notes that forgetting begins, continues or ends.
    fn note(&mut self, local: &LocalServer, is_running: bool) {
        let uptime = local.service.uptime();
        match (self.since, is_running) {
            (None, true) => {
                tracing::warn!(servers = self.names(local), "forgetting begins");
                self.since = Some(uptime);
            }
            (Some(since), false) => {
                let milliseconds = uptime.saturating_sub(since).as_millis() as u64;
                tracing::warn!(servers = self.names(local), milliseconds, "forgetting ends");
                self.since = None;
            }
            _ => {}
        }
        let text = is_running.then(|| {
            format!("the data of {} is being removed; checks still use it until this ends", self.names(local))
        });
        local.service.health.set(State::PeerForgetting, "", text, local.now());
    }

    /// Returns the names of the forgotten servers.
    fn names(&self, local: &LocalServer) -> String {
        let settings = local.service.settings();
        let name = |key: &[u8; 32]| {
            let peer = settings.peers.iter().find(|peer| peer.key.as_bytes() == key);
            let digits = || hex::text(key.first_chunk::<4>().map_or(&[], |start| start));
            peer.map_or_else(|| format!("{}…", digits()), |peer| peer.name.clone())
        };
        self.forgotten.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}
