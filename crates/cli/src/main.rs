//! `bruit`, the one program. Each verb is a module with an `Arguments` and a `run`.

mod accounts;
mod attribute;
mod captures;
mod check;
mod claim;
mod completions;
mod count;
mod date;
mod explain;
mod failure;
mod filter;
mod flows;
mod follow;
mod hex;
mod keys;
mod learn;
mod mailbox;
mod man;
mod map;
mod matching;
mod pages;
mod peers;
mod plan;
mod progress;
mod quantity;
mod recording;
mod remote;
mod replica;
mod serve;
mod sign;
mod simulate;
mod stats;
mod stop;
mod store;
mod terminal;
mod trace;
mod whitelist;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::claim::Claim;
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
    /// Is a message spam? Asks a server
    Check(check::Arguments),
    /// Count the recipients of messages at a server
    Count(count::Arguments),
    /// Tells a server that messages are spam
    Report(claim::Arguments),
    /// Tells a server that messages are not spam
    Revoke(claim::Arguments),
    /// Teach a server the text of good mail
    Learn(learn::Arguments),
    /// Why a server thinks what it thinks of a message
    Explain(explain::Arguments),
    /// How a server is doing
    Stats(stats::Arguments),
    /// What a server exchanges with which other servers
    Peers(peers::Arguments),
    /// By what servers know each other, and the realm that they share
    Keys(keys::Arguments),
    /// List, add, change and remove the accounts of a server
    Accounts(accounts::Arguments),
    /// Senders and signatures that a server never calls spam
    Whitelist(whitelist::Arguments),
    /// How large a filter must be: cells, hash functions, memory and rates, side by side
    Plan(plan::Arguments),
    /// Filter files: make, fill, ask, join, compare
    Filter(filter::Arguments),
    /// How many packets each flow of a capture has, or how many messages each sender
    Flows(flows::Arguments),
    /// Map files: a value for each key of a list, in hardly more than the bits of the value
    Map(map::Arguments),
    /// Which reports is a message a near replica of? Jobs in, answers out
    Match(matching::Arguments),
    /// The server: Razor, DCC, Pyzor, rspamd and HTTP clients ask it and report to it
    Serve(serve::Arguments),
    /// A copy of what a server has listed, kept current here, so that most checks need no network
    Replica(replica::Arguments),
    /// The signatures of messages, by every scheme
    Sign(sign::Arguments),
    /// The simulation study of Yan and Cho (2006), and filters of your own under traffic of your own
    Simulate(simulate::Arguments),
    /// The directory of a clearinghouse: verify, inspect, repair
    Store(store::Arguments),
    /// Who carried this excerpt, and when? Captures and mail
    Attribute(attribute::Arguments),
    /// Where did this packet come from, and where was this message seen?
    Trace(trace::Arguments),
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
        Verb::Check(arguments) => check::run(&arguments, output),
        Verb::Count(arguments) => count::run(&arguments, output),
        Verb::Report(arguments) => claim::run(&arguments, Claim::Report, output),
        Verb::Revoke(arguments) => claim::run(&arguments, Claim::Revoke, output),
        Verb::Learn(arguments) => learn::run(&arguments, output),
        Verb::Explain(arguments) => explain::run(&arguments, output),
        Verb::Stats(arguments) => stats::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Peers(arguments) => peers::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Keys(arguments) => keys::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Accounts(arguments) => accounts::run(&arguments, output),
        Verb::Whitelist(arguments) => whitelist::run(&arguments, output),
        Verb::Plan(arguments) => plan::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Filter(arguments) => filter::run(&arguments, output),
        Verb::Flows(arguments) => flows::run(&arguments, output),
        Verb::Map(arguments) => map::run(&arguments, output),
        Verb::Match(arguments) => matching::run(&arguments, output),
        Verb::Serve(arguments) => serve::run(&arguments, output),
        Verb::Replica(arguments) => replica::run(&arguments, output),
        Verb::Sign(arguments) => sign::run(&arguments, output),
        Verb::Simulate(arguments) => simulate::run(&arguments, output),
        Verb::Store(arguments) => store::run(&arguments, output),
        Verb::Attribute(arguments) => attribute::run(&arguments, output),
        Verb::Trace(arguments) => trace::run(&arguments, output),
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
        // One line, whatever the name of a file or the answer of a server has in it.
        terminal::complain(&line.replace('\n', " "));
    }
    failure.exit_code()
}
