//! Ctrl-C handling: the first Ctrl-C stops after the current rounds, the second exits at once.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use bruit_console::Failure;
use bruit_console::quantity::grouped;
use bruit_console::terminal::complain;

/// Conventional exit code after Ctrl-C: 128 plus the signal number.
const EXIT_CODE: u8 = 130;

static STOP: AtomicBool = AtomicBool::new(false);
static IGNORED: AtomicBool = AtomicBool::new(false);

/// Installs the handler. Returns the flag that the first Ctrl-C sets.
pub(super) fn watch() -> Result<&'static AtomicBool, Failure> {
    let stop_or_leave = || {
        if IGNORED.load(Ordering::Relaxed) {
            return;
        }
        if STOP.swap(true, Ordering::Relaxed) {
            process::exit(EXIT_CODE.into());
        }
        if io::stderr().is_terminal() {
            // Clear the line of the progress bar.
            let _ = write!(io::stderr().lock(), "\r\x1b[2K");
            complain("finishing the current rounds; press Ctrl-C again to exit at once");
        }
    };
    ctrlc::set_handler(stop_or_leave).context("failed to install the Ctrl-C handler").map_err(Failure::Other)?;
    Ok(&STOP)
}

/// Ignores Ctrl-C from now on. Little work remains, and a half-written result would be useless.
pub(super) fn ignore() {
    IGNORED.store(true, Ordering::Relaxed);
}

/// Prints the number of completed rounds to standard error, in the same format as the errors that `main` prints.
pub(super) fn report(done: u64, asked: u64, files: &str) -> ExitCode {
    let printed = if done == 0 { "" } else { "; the results cover these rounds" };
    complain(&format!("interrupted after {} of {} rounds{printed}{files}", grouped(done), grouped(asked)));
    ExitCode::from(EXIT_CODE)
}
