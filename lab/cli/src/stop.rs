//! Handles Ctrl-C and termination signals for verbs that record.
//!
//! After the first signal, reading continues for [`GRACE`], so that the last buffer of a pipe arrives: the same Ctrl-C
//! also interrupts the program that writes to the pipe. Then the recorded data is written. If a second signal arrives
//! before that, the program exits at once.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use bruit_console::failure::{Failure, INTERRUPTED};

/// Time for which reading continues after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// Time after a signal during which existing files are still read. Service managers wait longer than this before they
/// kill a program.
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

/// Installs the signal handler; from now on the verb must check for signals.
pub(crate) fn watch() -> Result<(), Failure> {
    if IS_WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    ctrlc::set_handler(ask).context("failed to install the Ctrl-C handler").map_err(Failure::Other)
}

/// Ignores signals from now on, while the recorded data is written.
pub(crate) fn make_final() {
    STOP.is_final.store(true, Ordering::Relaxed);
}

/// Returns true after a signal, once the grace period is over.
pub(crate) fn is_over() -> bool {
    STOP.is_asked.load(Ordering::Relaxed) && asked_at().is_some_and(|at| at.elapsed() >= GRACE)
}

/// Returns true if more than [`LATE`] has passed since a signal. The remaining files must then wait for the next run.
pub(crate) fn is_late() -> bool {
    STOP.is_asked.load(Ordering::Relaxed) && asked_at().is_some_and(|at| at.elapsed() >= LATE)
}

/// Waits up to `time` for a signal. Returns true if one was received.
pub(crate) fn wait(time: Duration) -> bool {
    let at = STOP.at.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = STOP.asked.wait_timeout_while(at, time, |at| at.is_none());
    waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
}

fn asked_at() -> Option<Instant> {
    *STOP.at.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs in the thread of the signal handler.
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
