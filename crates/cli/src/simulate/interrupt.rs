//! Ctrl-C: once to end after the rounds in hand, twice to end at once.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;

use crate::failure::Failure;
use crate::quantity::grouped;

/// What shells expect of a program ended by Ctrl-C: 128 and the number of the signal.
const EXIT_CODE: u8 = 130;

static STOP: AtomicBool = AtomicBool::new(false);
static IGNORED: AtomicBool = AtomicBool::new(false);

/// True from the first Ctrl-C on.
pub(super) fn watch() -> Result<&'static AtomicBool, Failure> {
    let stop_or_leave = || {
        if IGNORED.load(Ordering::Relaxed) {
            return;
        }
        if STOP.swap(true, Ordering::Relaxed) {
            process::exit(EXIT_CODE.into());
        }
        if io::stderr().is_terminal() {
            // In place of the progress bar.
            let _ = write!(io::stderr().lock(), "\r\x1b[2K");
            say("finishing the rounds in hand; Ctrl-C again leaves at once");
        }
    };
    ctrlc::set_handler(stop_or_leave).context("failed to watch for Ctrl-C").map_err(Failure::Other)?;
    Ok(&STOP)
}

/// From here on Ctrl-C does nothing: what is left is short, and half of it would be of no use.
pub(super) fn ignore() {
    IGNORED.store(true, Ordering::Relaxed);
}

/// Says on standard error what was done, as `main` says what went wrong.
pub(super) fn report(done: u64, asked: u64, files: &str) -> ExitCode {
    let printed = if done == 0 { "" } else { "; what is printed is of those" };
    say(&format!("interrupted after {} of {} rounds{printed}{files}", grouped(done), grouped(asked)));
    ExitCode::from(EXIT_CODE)
}

fn say(what: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr().lock(), "bruit: {what}");
}
