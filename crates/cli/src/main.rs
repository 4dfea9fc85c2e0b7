//! `bruit`, the one program. Each verb is a module with an `Arguments` and a `run`.

mod completions;
mod date;
mod failure;
mod filter;
mod mailbox;
mod man;
mod matching;
mod plan;
mod progress;
mod quantity;
mod serve;
mod sign;
mod simulate;
mod store;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// A self-hosted clearinghouse for collaborative spam detection on Bloom filters.
#[derive(Debug, Parser)]
#[command(name = "bruit", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// How large a filter must be: cells, hash functions, memory and rates, side by side
    Plan(plan::Arguments),
    /// Filter files: make, fill, ask, join, compare
    Filter(filter::Arguments),
    /// Which reports is a message a near replica of? Jobs in, answers out
    Match(matching::Arguments),
    /// The server: Razor, DCC, Pyzor, rspamd and HTTP clients ask it and report to it
    Serve(serve::Arguments),
    /// The signatures of messages, by every scheme
    Sign(sign::Arguments),
    /// The simulation study of Yan and Cho (2006), and filters of your own under traffic of your own
    Simulate(simulate::Arguments),
    /// The directory of a clearinghouse: verify, inspect, repair
    Store(store::Arguments),
    /// Manual pages, one for every verb
    Man(man::Arguments),
    /// A script that completes our verbs and options in a shell
    Completions(completions::Arguments),
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

fn run() -> Result<ExitCode, Failure> {
    let output = &mut std::io::stdout().lock();
    match parse()?.verb {
        Verb::Plan(arguments) => plan::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Filter(arguments) => filter::run(&arguments, output),
        Verb::Match(arguments) => matching::run(&arguments, output),
        Verb::Serve(arguments) => serve::run(&arguments, output),
        Verb::Sign(arguments) => sign::run(&arguments, output),
        Verb::Simulate(arguments) => simulate::run(&arguments, output),
        Verb::Store(arguments) => store::run(&arguments, output),
        Verb::Man(arguments) => man::run(&arguments).map(|()| ExitCode::SUCCESS),
        Verb::Completions(arguments) => completions::run(&arguments, output).map(|()| ExitCode::SUCCESS),
    }
}

fn parse() -> Result<Arguments, Failure> {
    Arguments::try_parse().map_err(|error| {
        if error.use_stderr() && error.kind() != clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            Failure::from_clap(&error)
        } else {
            error.exit()
        }
    })
}

fn report(failure: &Failure) -> ExitCode {
    if let Some(line) = failure.line() {
        // One line, whatever the name of a file has in it. Nobody is left to tell if this fails too.
        let _ = writeln!(std::io::stderr().lock(), "bruit: {}", line.replace('\n', " "));
    }
    failure.exit_code()
}
