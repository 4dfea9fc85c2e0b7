//! Ctrl-C, and what else asks a program to end, for verbs that record what comes.
//!
//! Once asked, reading goes on for [`GRACE`]: the program that writes a pipe was asked to end too, and its last buffer is on the
//! way. Then what is gathered is written. Asked twice before that, the program leaves at once.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::failure::{Failure, INTERRUPTED};

/// How long reading goes on.
const GRACE: Duration = Duration::from_secs(1);

/// How long files that are there already are read: less than service managers wait before they kill.
const LATE: Duration = Duration::from_secs(30);

static STOP: Stop = Stop {
    is_asked: AtomicBool::new(false),
    at: Mutex::new(None),
    asked: Condvar::new(),
    is_final: AtomicBool::new(false),
};
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

struct Stop {
    is_asked: AtomicBool,
    at: Mutex<Option<Instant>>,
    asked: Condvar,
    is_final: AtomicBool,
}

/// From here on, being asked to end is for the verb to see.
pub(crate) fn watch() -> Result<(), Failure> {
    if IS_WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    ctrlc::set_handler(ask).context("failed to watch for Ctrl-C").map_err(Failure::Other)
}

/// From here on nothing ends the program: what is gathered is being written.
pub(crate) fn make_final() {
    STOP.is_final.store(true, Ordering::Relaxed);
}

/// Whether it was asked to end, and the time for what is on the way has passed.
pub(crate) fn is_over() -> bool {
    STOP.is_asked.load(Ordering::Relaxed) && asked_at().is_some_and(|at| at.elapsed() >= GRACE)
}

/// Whether it was asked to end so long ago that even what is there already has to wait for the next run.
pub(crate) fn is_late() -> bool {
    STOP.is_asked.load(Ordering::Relaxed) && asked_at().is_some_and(|at| at.elapsed() >= LATE)
}

/// Waits until it is asked to end, but no longer than `time`; tells whether it was.
pub(crate) fn wait(time: Duration) -> bool {
    let at = STOP.at.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = STOP.asked.wait_timeout_while(at, time, |at| at.is_none());
    waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
}

fn asked_at() -> Option<Instant> {
    *STOP.at.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the handler does, in a thread of its own.
fn ask() {
    if STOP.is_asked.swap(true, Ordering::Relaxed) {
        if !STOP.is_final.load(Ordering::Relaxed) {
            process::exit(INTERRUPTED.into());
        }
        return;
    }
    *STOP.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    STOP.asked.notify_all();
}
