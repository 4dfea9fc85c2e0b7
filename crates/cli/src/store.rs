//! `bruit store`: verifies, inspects and repairs a data directory.
//!
//! The formats are in [`bruit_store`]. This module handles arguments, output and exit codes.

mod accept_clock;
mod clearinghouse;
mod repair;
mod resize;
mod survey;

use std::io::Write;
use std::process::ExitCode;

use bruit_console::Failure;

const AFTER_HELP: &str = "\
verify, inspect and resize --dry-run change nothing and take no lock, so they work while a server is running. \
repair, resize and accept-clock refuse to run while a server is running; accept-clock --server sends a request \
to the server instead. A server also resizes at startup, if the memory budget in its configuration has changed.

A copy of the directory is a backup, even if it is made while the server is running. Finish the copy \
before the server has written two more snapshots. Check it with verify.

realm.bruit contains the secret key of the realm; without this key, the journal and snapshots are useless. No command \
prints the key.

Exit codes:
  0  done
  1  damaged (verify)
  2  error; inspect still shows the contents of the files

Examples:
  bruit store verify /var/lib/bruit
  bruit store repair /var/lib/bruit --cut-after 123456
  bruit store accept-clock --server http://127.0.0.1:8625
  bruit store resize /var/lib/bruit --memory 1GiB --dry-run";

/// Arguments of `bruit store`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    verb: StoreVerb,
}

#[derive(Debug, clap::Subcommand)]
enum StoreVerb {
    /// Verify that all checksums match, and that every event is present and readable
    #[command(after_help = "Example:\n  bruit store verify /var/lib/bruit")]
    Verify(survey::StoreSurveyArgs),
    /// Show the files, events and contents of a data directory
    #[command(after_help = "Example:\n  bruit store inspect /var/lib/bruit")]
    Inspect(survey::StoreSurveyArgs),
    /// Cut the journal at a damaged place, and keep the removed data in files
    #[command(after_help = "Example:\n  bruit store repair /var/lib/bruit --cut-after 123456")]
    Repair(repair::StoreRepairArgs),
    /// Accept the system clock after a jump, for a directory or a running server
    #[command(after_help = "Example:\n  bruit store accept-clock --server http://127.0.0.1:8625")]
    AcceptClock(accept_clock::StoreAcceptClockArgs),
    /// Change the memory budget, or show the effect of a change
    #[command(after_help = "Example:\n  bruit store resize /var/lib/bruit --memory 1GiB --dry-run")]
    Resize(resize::StoreResizeArgs),
}

pub(crate) fn run(arguments: &StoreArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let outcome = match &arguments.verb {
        StoreVerb::Verify(arguments) => survey::verify(arguments, output),
        StoreVerb::Inspect(arguments) => survey::inspect(arguments, output).map(|()| ExitCode::SUCCESS),
        StoreVerb::AcceptClock(arguments) => accept_clock::run(arguments, output).map(|()| ExitCode::SUCCESS),
        StoreVerb::Repair(arguments) => repair::run(arguments, output).map(|()| ExitCode::SUCCESS),
        StoreVerb::Resize(arguments) => resize::run(arguments, output).map(|()| ExitCode::SUCCESS),
    };
    let flushed = output.flush().map_err(Failure::from);
    outcome.and_then(|code| flushed.map(|()| code)).map_err(never_one)
}

/// Returns the failure with exit code 2 in place of 1. Exit code 1 is reserved for a damaged store, and this failure
/// has another cause, such as a full disk.
fn never_one(failure: Failure) -> Failure {
    match failure {
        Failure::Other(error) => Failure::BadInput(format!("{error:#}")),
        other => other,
    }
}

/// Turns an error and its causes into a one-line failure with exit code 2. Exit code 1 is reserved for a damaged store.
fn refused(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::BadInput(format!("{:#}", anyhow::Error::new(error)))
}
