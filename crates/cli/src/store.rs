//! `bruit store`: the directory of a clearinghouse, looked at and mended.
//!
//! Everything about bytes is in [`bruit_store`]; here are words, numbers and exit codes.

mod accept_clock;
mod clearinghouse;
mod repair;
mod resize;
mod survey;

use std::io::Write;
use std::process::ExitCode;

use crate::failure::Failure;

const AFTER_HELP: &str = "\
verify, inspect and resize --dry-run change nothing and take no lock: a server may run
meanwhile. repair, resize and accept-clock refuse while one does; accept-clock --server asks
it instead, and a server does what resize does when it starts with another memory in its
configuration.

A copy of the directory, made by any means while the server runs, is a backup, provided
that the copy takes less time than two snapshots; verify tells whether it is whole.

realm.bruit holds the secret key of the realm; without it journal and snapshots are of no
use. No verb prints the key.

Exit codes: 0 done, 1 verify found something wrong, 2 it could not be done, told in one line;
inspect then still tells what is in the files.

Example:
  bruit store verify /var/lib/bruit
  bruit store repair /var/lib/bruit --cut-after 123456
  bruit store accept-clock --server http://127.0.0.1:8625
  bruit store resize /var/lib/bruit --memory 1GiB --dry-run";

/// What `bruit store` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Check every checksum, that every event can be read, and that none is missing
    Verify(survey::Arguments),
    /// Tell what is in the directory: files, events, and what the clearinghouse knows
    Inspect(survey::Arguments),
    /// Cut the journal behind a damaged place, keeping what is cut in files beside
    Repair(repair::Arguments),
    /// Accept the system clock after a jump, for a directory or a running server
    AcceptClock(accept_clock::Arguments),
    /// Change the memory budget of a clearinghouse, or show what that would change
    Resize(resize::Arguments),
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let outcome = match &arguments.verb {
        Verb::Verify(arguments) => survey::verify(arguments, output),
        Verb::Inspect(arguments) => survey::inspect(arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::AcceptClock(arguments) => accept_clock::run(arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Repair(arguments) => repair::run(arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Resize(arguments) => resize::run(arguments, output).map(|()| ExitCode::SUCCESS),
    };
    let flushed = output.flush().map_err(Failure::from);
    outcome.and_then(|code| flushed.map(|()| code)).map_err(never_one)
}

/// Code 1 is taken: a full disk under our output must not look like a fault in the store.
fn never_one(failure: Failure) -> Failure {
    match failure {
        Failure::Other(error) => Failure::BadInput(format!("{error:#}")),
        told => told,
    }
}

/// One line of an error and its causes; code 1 means "something is wrong with the store", so this is 2.
fn refused(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::BadInput(format!("{:#}", anyhow::Error::new(error)))
}
