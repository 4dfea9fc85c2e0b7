//! `bruit ready`: asks a server whether it accepts reports.

use std::io::Write;
use std::process::ExitCode;

use bruit_client::ClientError;
use serde_json::json;

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::Server;
use crate::stats::print_condition;
use bruit_console::Failure;
use bruit_console::failure::bad_input;
use bruit_console::terminal::printable;

const AFTER_HELP: &str = "\
The exit code is 0 if the server accepts reports, 1 if it is in a severe state, and 2 if it does not answer. No token \
is needed. docs/operators/health.md explains the conditions.

Example:
  bruit ready --server http://127.0.0.1:8625 && echo ready";

/// HTTP status of a server in a severe state.
const UNAVAILABLE: u16 = 503;

/// Arguments of `bruit ready`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReadyArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(arguments: &ReadyArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let answer = match arguments.server.client(CLAIM_TIMEOUT)?.ready() {
        Ok(answer) => answer,
        Err(ClientError::Refused { problem, .. }) if problem.status == UNAVAILABLE => {
            let reason = problem.to_string();
            match arguments.json {
                true => writeln!(output, "{:#}", json!({"ready": false, "reason": reason}))?,
                false => writeln!(output, "not ready: {}", printable(&reason))?,
            }
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(bad_input(error)),
    };
    if arguments.json {
        writeln!(output, "{:#}", json!({"ready": true, "conditions": answer.conditions}))?;
    } else {
        writeln!(output, "ready")?;
        answer.conditions.iter().try_for_each(|condition| print_condition(condition, output))?;
    }
    Ok(ExitCode::SUCCESS)
}
