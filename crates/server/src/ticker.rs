//! The thread that tells the clearinghouse every second what time it is.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::event::Event;
use bruit_engine::{BEHIND_LINES, Outcome, TICK_LINES};

use crate::fatal::Vital;
use crate::service::{Service, now};
use crate::watch;

/// Between two ticks.
const SECOND: Duration = Duration::from_secs(1);

/// Between two ticks while the books are behind.
const HURRY: Duration = Duration::from_millis(20);

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
                wait = tick(&service, wait);
                watch::look(&service, now());
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

/// One tick; how long to wait for the next.
fn tick(service: &Service, last_wait: Duration) -> Duration {
    let lines = if last_wait == HURRY { BEHIND_LINES } else { TICK_LINES };
    let result = service.store.submit(vec![Event::Tick { now: now(), lines }]);
    service.note(&result);
    match result.as_deref() {
        Ok([Outcome::Ticked { arrived: false, .. }]) => HURRY,
        Ok([Outcome::Refused(refusal)]) => {
            tracing::error!(%refusal, "the clock is not right");
            SECOND
        }
        // What could not be kept is told, and comes again in a second.
        Ok(_) | Err(_) => SECOND,
    }
}
