//! `bruit-lab`, the program for research and analysis. Each verb is a module with an argument struct and a
//! `run`.

mod attribute;
mod captures;
mod flows;
mod follow;
mod hex;
mod map;
mod matching;
mod pages;
mod recording;
mod simulate;
mod stop;
mod trace;

use std::process::ExitCode;

use bruit_console::{Failure, completions, man, program};
use clap::{CommandFactory as _, Parser, Subcommand};

/// Run the simulation study, and analyse captures and mail
#[derive(Debug, Parser)]
#[command(name = "bruit-lab", version = bruit_console::version(), arg_required_else_help = true)]
struct LabArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the simulation study of Yan and Cho (2006), or a custom simulation
    Simulate(simulate::SimulateArgs),
    /// Find the sender and receiver of an excerpt in captures and mail
    Attribute(attribute::AttributeArgs),
    /// Trace a packet or message through a topology
    Trace(trace::TraceArgs),
    /// Count the packets of each flow in a capture, or the messages of each sender
    Flows(flows::FlowsArgs),
    /// Build and query map files, which store a value for each key
    Map(map::MapArgs),
    /// Find reported messages that are similar to a message
    Match(matching::MatchArgs),
    /// Write manual pages
    #[command(after_help = "Example:\n  bruit-lab man /usr/local/share/man/man1")]
    Man(man::ManArgs),
    /// Print a shell completion script
    #[command(
        after_help = "Example:\n  bruit-lab completions bash > ~/.local/share/bash-completion/completions/bruit-lab"
    )]
    Completions(completions::CompletionsArgs),
}

fn main() -> ExitCode {
    program::run(&[], run)
}

fn run(arguments: LabArgs) -> Result<ExitCode, Failure> {
    let output = &mut std::io::stdout().lock();
    match arguments.verb {
        Verb::Simulate(arguments) => simulate::run(&arguments, output),
        Verb::Attribute(arguments) => attribute::run(&arguments, output),
        Verb::Trace(arguments) => trace::run(&arguments, output),
        Verb::Flows(arguments) => flows::run(&arguments, output),
        Verb::Map(arguments) => map::run(&arguments, output),
        Verb::Match(arguments) => matching::run(&arguments, output),
        Verb::Man(arguments) => man::run(&arguments, LabArgs::command()).map(|()| ExitCode::SUCCESS),
        Verb::Completions(arguments) => {
            completions::run(&arguments, LabArgs::command(), output).map(|()| ExitCode::SUCCESS)
        }
    }
}
