//! `bruit store accept-clock`.

use std::io::Write;
use std::path::{Path, PathBuf};

use bruit_engine::Outcome;
use bruit_engine::generations::EndedGeneration;
use bruit_engine::time::Time;
use bruit_store::{Clearinghouse, Founding, LockError, OpenError, Options, RELEASED};
use serde_json::json;

use super::refused;
use crate::claim::CLAIM_TIMEOUT;
use crate::remote::Server;
use bruit_console::Failure;
use bruit_console::date::now;
use bruit_console::failure::bad_input;
use bruit_console::quantity::grouped;

/// Arguments of `bruit store accept-clock`.
#[derive(Debug, clap::Args)]
pub(super) struct StoreAcceptClockArgs {
    /// Data directory of a stopped server
    #[arg(required_unless_present = "server", conflicts_with = "server")]
    directory: Option<PathBuf>,

    /// Address of a running server, instead of a directory
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// File whose first line is the access token [default: $BRUIT_TOKEN, if set]
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Result of accepting the clock.
struct AcceptedClock {
    before: Time,
    now: Time,
    system: Time,
    /// Generations that ended because of the jump. Empty for a running server.
    ended: Vec<EndedGeneration>,
}

pub(super) fn run(arguments: &StoreAcceptClockArgs, output: &mut impl Write) -> Result<(), Failure> {
    let accepted = match (&arguments.directory, &arguments.server) {
        (Some(directory), _) => accept_in(directory)?,
        (None, Some(url)) => ask(url, arguments.token_file.as_deref())?,
        (None, None) => return Err(Failure::BadInput("expected a directory or --server".into())),
    };
    if arguments.json { print_json(&accepted, output) } else { print_text(&accepted, output) }
}

/// Asks a running server to accept its clock.
fn ask(url: &str, token_file: Option<&Path>) -> Result<AcceptedClock, Failure> {
    let answer = Server::at(url, token_file).admin_client(CLAIM_TIMEOUT)?.accept_clock().map_err(bad_input)?;
    let [before, now, system] = [answer.before, answer.now, answer.system].map(Time);
    Ok(AcceptedClock { before, now, system, ended: Vec::new() })
}

/// Advances the books in a directory to the system time, so that the server finds no jump at its next start.
fn accept_in(directory: &Path) -> Result<AcceptedClock, Failure> {
    let Some(founding) = Founding::read(directory).map_err(refused)? else {
        return Err(Failure::BadInput(format!("no clearinghouse in {}", directory.display())));
    };
    let store = Clearinghouse::open_or_found(directory, &Options::default(), || founding, &mut |_| {});
    let store = store.map_err(|error| match error {
        OpenError::Lock(LockError::Held { .. }) => Failure::BadInput(format!(
            "{} is in use by a server: run `bruit store accept-clock --server URL` (POST /v1/clock/accept)",
            directory.display()
        )),
        error => refused(error),
    })?;
    let (before, system) = (store.check(bruit_engine::Engine::now), now());
    ensure_possible(before, system)?;
    match store.catch_up(system).map_err(refused)? {
        Outcome::Ticked { ended, .. } => Ok(AcceptedClock { before, now: system, system, ended }),
        Outcome::Refused(refusal) => Err(refused(refusal)),
        outcome => Err(Failure::BadInput(format!("unexpected outcome of a tick: {outcome:?}"))),
    }
}

fn ensure_possible(before: Time, system: Time) -> Result<(), Failure> {
    if system < RELEASED {
        return Err(Failure::BadInput(format!(
            "the system clock is at {system} UTC, before this program was released: set the clock first"
        )));
    }
    if system < before {
        return Err(Failure::BadInput(format!(
            "the system clock is at {system} UTC, but the last event was at {before} UTC. Time must not go back, \
             so start the server: it continues from the last event. See docs/operators/clock.md"
        )));
    }
    Ok(())
}

fn print_text(accepted: &AcceptedClock, output: &mut impl Write) -> Result<(), Failure> {
    let AcceptedClock { before, now, system, ended } = accepted;
    writeln!(output, "time before:   {before} UTC")?;
    writeln!(output, "system clock:  {system} UTC")?;
    writeln!(output, "time now:      {now} UTC")?;
    if system < now {
        writeln!(output, "time must not go back: the server's time stands still until the system clock catches up")?;
    }
    for EndedGeneration { ring, signatures, .. } in ended {
        writeln!(output, "a generation ended: {ring}, about {}", grouped(*signatures))?;
    }
    Ok(())
}

fn print_json(accepted: &AcceptedClock, output: &mut impl Write) -> Result<(), Failure> {
    let ended =
        |ended: &EndedGeneration| json!({ "ring": ended.ring, "epoch": ended.epoch, "signatures": ended.signatures });
    let json = json!({
        "before": accepted.before.0,
        "now": accepted.now.0,
        "system": accepted.system.0,
        "ended": accepted.ended.iter().map(ended).collect::<Vec<_>>(),
    });
    writeln!(output, "{json:#}")?;
    Ok(())
}
