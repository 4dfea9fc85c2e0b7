//! The thread that advances the clearinghouse's time, as often as that changes anything.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::event::Event;
use bruit_engine::generations::Ended;
use bruit_engine::time::Time;
use bruit_engine::{BEHIND_LINES, Engine, Outcome, TICK_LINES};

use crate::fatal::Vital;
use crate::health::State;
use crate::service::Service;

/// The interval between two looks at the clock.
const SECOND: Duration = Duration::from_secs(1);

/// The interval between two ticks while the books are behind.
const HURRY: Duration = Duration::from_millis(20);

/// The interval between two ticks that change nothing. The last event has to be recent: after a start, time continues from it.
const IDLE: Duration = Duration::from_secs(300);

/// The most ended generations that are logged one by one. If there are more, as after a long stop, only their total is logged.
const LOGGED_MAX: usize = 16;

/// The thread.
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

/// Sends a tick if it changes anything, and returns how long to wait for the next.
fn tick(service: &Service, last_wait: Duration) -> Duration {
    let now = service.now();
    // The last event has to be recent enough that the clock is believed at the next start.
    let idle = IDLE.min(service.clock.jump(&service.settings().clock) / 2);
    // A disk that failed is tried every second, so that health says when it works again.
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
            tracing::error!(%refusal, "the clock is not right");
            SECOND
        }
        // `note` has reported the failure; the next attempt is in a second.
        Ok(_) | Err(_) => SECOND,
    }
}

/// Returns true if the clearinghouse needs a tick at `now`.
fn is_due(engine: &Engine, now: Time, idle: Duration) -> bool {
    engine.needs_tick(now) || now.since(engine.now()) >= idle.as_secs().max(1)
}

/// Logs the generations that a tick ended. Their signatures are no longer found.
pub(crate) fn log_ended(service: &Service, outcome: &Outcome) {
    let Outcome::Ticked { ended, .. } = outcome else { return };
    if ended.len() > LOGGED_MAX {
        let signatures: u64 = ended.iter().map(|ended| ended.signatures).sum();
        tracing::info!(generations = ended.len(), signatures, "generations ended");
        return;
    }
    let rings = if ended.is_empty() { Vec::new() } else { service.store.check(Engine::status).rings };
    for Ended { ring, epoch, signatures } in ended {
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

    /// In a day, an idle server writes ticks that clear lines and begin generations, and otherwise one every five minutes.
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
        assert!(idle >= 20, "a tick in five minutes, in most hours: {ticks_by_hour:?}");
        assert!(ticks_by_hour.iter().sum::<u32>() < 600, "{ticks_by_hour:?}");
    }
}
