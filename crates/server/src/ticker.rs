//! The thread that advances the clearinghouse's time whenever that has an effect.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::event::Event;
use bruit_engine::generations::EndedGeneration;
use bruit_engine::time::Time;
use bruit_engine::{BEHIND_LINES, Engine, Outcome, TICK_LINES};

use crate::fatal::Vital;
use crate::health::State;
use crate::service::Service;

/// Interval between two readings of the clock.
const SECOND: Duration = Duration::from_secs(1);

/// Interval between two ticks while the books are behind the clock.
const HURRY: Duration = Duration::from_millis(20);

/// Interval between two ticks that have no effect. Time continues from the last event after a restart, and these ticks
/// keep that event recent.
const IDLE: Duration = Duration::from_secs(300);

/// Maximum number of ended generations that are logged one by one. If more have ended, for example after a long stop,
/// only their number is logged.
const LOGGED_MAX: usize = 16;

/// The running thread.
pub(crate) struct Ticker {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Ticker {
    pub(crate) fn start(service: Arc<Service>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let _vital = Vital::new(&service, "the ticker");
            let mut wait = SECOND;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                watch_clock(&service);
                wait = tick(&service, wait);
            }
        };
        Ok(Self { stop, thread: thread::Builder::new().name("bruit-ticker".into()).spawn(run)? })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the ticker panicked");
        }
    }
}

/// Reads the system clock and updates health.
pub(crate) fn watch_clock(service: &Service) {
    let text = service.clock.look(&service.settings().clock);
    service.health.set(State::ClockJump, "", text, service.now());
}

/// Sends a tick if it has an effect, and returns the time to wait before the next call.
fn tick(service: &Service, last_wait: Duration) -> Duration {
    let now = service.now();
    // The last event must be recent enough for the next start to accept the clock.
    let idle = IDLE.min(service.clock.jump(&service.settings().clock) / 2);
    // After a failure of the disk, retry every second, so that health soon reports that the disk works again.
    let is_failing = service.recent_failure().is_some();
    if !is_failing && !service.store.check(|engine| is_due(engine, now, idle)) {
        return SECOND;
    }
    let lines = if last_wait == HURRY { BEHIND_LINES } else { TICK_LINES };
    let result = service.store.submit(vec![Event::Tick { now, lines }]);
    service.note(&result);
    match result.as_deref() {
        Ok([outcome @ Outcome::Ticked { arrived, .. }]) => {
            log_ended(service, outcome);
            if *arrived { SECOND } else { HURRY }
        }
        Ok([Outcome::Refused(refusal)]) => {
            tracing::error!(%refusal, "the clock is implausible");
            SECOND
        }
        // `note` has reported the failure. Retry in a second.
        Ok(_) | Err(_) => SECOND,
    }
}

/// Returns true if the clearinghouse needs a tick at `now`.
fn is_due(engine: &Engine, now: Time, idle: Duration) -> bool {
    engine.needs_tick(now) || now.since(engine.now()) >= idle.as_secs().max(1)
}

/// Logs the generations that a tick ended. Signatures in them are no longer found.
pub(crate) fn log_ended(service: &Service, outcome: &Outcome) {
    let Outcome::Ticked { ended, .. } = outcome else { return };
    if ended.len() > LOGGED_MAX {
        let signatures: u64 = ended.iter().map(|ended| ended.signatures).sum();
        tracing::info!(generations = ended.len(), signatures, "generations ended");
        return;
    }
    let rings = if ended.is_empty() { Vec::new() } else { service.store.check(Engine::status).rings };
    for EndedGeneration { ring, epoch, signatures } in ended {
        let epoch_seconds = rings.iter().find(|status| status.name == *ring).map_or(1, |status| status.epoch_seconds);
        let began = Time(epoch.saturating_mul(epoch_seconds));
        tracing::info!(ring, %began, signatures, "generation ended");
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::trust::Policy;
    use bruit_store::Founding;

    use super::*;

    /// An idle server writes ticks that clear lines or begin generations. Otherwise, it writes one tick every five
    /// minutes.
    #[test]
    fn an_idle_server_writes_only_what_changes_something() {
        let start = Time(1_800_000_000);
        let mut engine = Founding::new([1; 16], 8 << 20, Policy::default(), start).unwrap().engine().unwrap();
        let mut ticks_by_hour = [0; 24];
        for second in 0..86_400 {
            let now = Time(start.0 + second);
            if is_due(&engine, now, IDLE) {
                engine.apply(&Event::Tick { now, lines: TICK_LINES });
                ticks_by_hour[usize::try_from(second / 3_600).unwrap()] += 1;
            }
        }
        let idle = ticks_by_hour.iter().filter(|ticks| **ticks == 12).count();
        assert!(idle >= 20, "one tick every five minutes in most hours: {ticks_by_hour:?}");
        assert!(ticks_by_hour.iter().sum::<u32>() < 600, "{ticks_by_hour:?}");
    }
}
