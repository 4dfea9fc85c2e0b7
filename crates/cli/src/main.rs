//! `bruit`, the program for operators and mail systems. Each verb is a module with an argument struct and a `run`
//! function.

mod accounts;
mod check;
mod claim;
mod count;
mod dashboard;
mod explain;
mod filter;
mod keys;
mod learn;
mod milter;
mod peers;
mod plan;
mod ready;
mod remote;
mod replica;
mod rspamd;
mod serve;
mod sign;
mod spool;
mod stats;
mod store;
#[cfg(target_os = "linux")]
mod watch;
mod whitelist;

use std::process::ExitCode;

use bruit_console::program::{self, Group, MovedVerb, help_template};
use bruit_console::{Failure, completions, man};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::claim::Claim;

/// A self-hosted clearinghouse for collaborative spam detection, built on Bloom filters
#[derive(Debug, Parser)]
#[command(
    name = "bruit",
    version = bruit_console::version(),
    arg_required_else_help = true,
    help_template = help_template::<Verb>(&GROUPS)
)]
struct BruitArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check messages against a server
    Check(check::CheckArgs),
    /// Count the recipients of messages
    Count(count::CountArgs),
    /// Report messages as spam
    Report(claim::ClaimArgs),
    /// Revoke reports: the messages are not spam
    Revoke(claim::ClaimArgs),
    /// List and send the reports in a spool, which wait for a server
    Spool(spool::SpoolArgs),
    /// Report mail that users move to the Junk folders of their Maildirs
    #[cfg(target_os = "linux")]
    Watch(watch::WatchArgs),
    /// Teach a server text that occurs in good mail
    Learn(learn::LearnArgs),
    /// Explain a verdict: the evidence for each signature
    Explain(explain::ExplainArgs),
    /// Show the state of a server: memory, filters, requests, disk
    Stats(stats::StatsArgs),
    /// Ask a server whether it is healthy and accepts reports
    Ready(ready::ReadyArgs),
    /// Sign in to the dashboard of a server
    Dashboard(dashboard::DashboardArgs),
    /// Show the state of a server's exchange with its peers
    Peers(peers::PeersArgs),
    /// Manage a server's identity key and realm
    Keys(keys::KeysArgs),
    /// List, add, change and remove accounts
    Accounts(accounts::AccountsArgs),
    /// Manage senders and signatures that are never spam
    Whitelist(whitelist::WhitelistArgs),
    /// Calculate the size of a filter: memory and error rates, side by side
    Plan(plan::PlanArgs),
    /// Create, fill, query, merge and compare filter files
    Filter(filter::FilterArgs),
    /// Run the server for Razor, DCC, Pyzor, rspamd and HTTP clients
    Serve(serve::ServeArgs),
    /// Run the mail filter for Postfix and Sendmail
    Milter(milter::MilterArgs),
    /// Keep a local copy of a server's listings, for checks without network access
    Replica(replica::ReplicaArgs),
    /// Print the signatures of messages
    Sign(sign::SignArgs),
    /// Verify, inspect, repair and resize a data directory
    Store(store::StoreArgs),
    /// Write manual pages
    #[command(after_help = "Example:\n  bruit man /usr/local/share/man/man1")]
    Man(man::ManArgs),
    /// Print a shell completion script
    #[command(after_help = "Example:\n  bruit completions bash > ~/.local/share/bash-completion/completions/bruit")]
    Completions(completions::CompletionsArgs),
}

/// Verbs about mail. `watch` needs inotify, which only Linux has.
const MAIL: &[&str] = if cfg!(target_os = "linux") {
    &["check", "report", "revoke", "spool", "watch", "learn", "count", "explain", "sign"]
} else {
    &["check", "report", "revoke", "spool", "learn", "count", "explain", "sign"]
};

/// Verbs, grouped by purpose, in the order in which the help lists them.
const GROUPS: [Group; 5] = [
    ("Server", &["serve", "milter", "replica", "store"]),
    ("Mail", MAIL),
    ("Administration", &["stats", "ready", "dashboard", "peers", "accounts", "whitelist", "keys"]),
    ("Filters", &["filter", "plan"]),
    ("Shell", &["completions", "man", "help"]),
];

/// Verbs that moved from `bruit` to `bruit-lab`.
const MOVED: [MovedVerb; 6] = [
    in_laboratory("attribute"),
    in_laboratory("flows"),
    in_laboratory("map"),
    in_laboratory("match"),
    in_laboratory("simulate"),
    in_laboratory("trace"),
];

const fn in_laboratory(verb: &'static str) -> MovedVerb {
    MovedVerb { verb, program: "bruit-lab" }
}

fn main() -> ExitCode {
    program::run(&MOVED, run)
}

fn run(arguments: BruitArgs) -> Result<ExitCode, Failure> {
    let output = &mut std::io::stdout().lock();
    match arguments.verb {
        Verb::Check(arguments) => check::run(&arguments, output),
        Verb::Count(arguments) => count::run(&arguments, output),
        Verb::Report(arguments) => claim::run(&arguments, Claim::Report, output),
        Verb::Revoke(arguments) => claim::run(&arguments, Claim::Revoke, output),
        Verb::Spool(arguments) => spool::run(&arguments, output),
        #[cfg(target_os = "linux")]
        Verb::Watch(arguments) => watch::run(&arguments, output),
        Verb::Learn(arguments) => learn::run(&arguments, output),
        Verb::Explain(arguments) => explain::run(&arguments, output),
        Verb::Stats(arguments) => stats::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Ready(arguments) => ready::run(&arguments, output),
        Verb::Dashboard(arguments) => dashboard::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Peers(arguments) => peers::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Keys(arguments) => keys::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Accounts(arguments) => accounts::run(&arguments, output),
        Verb::Whitelist(arguments) => whitelist::run(&arguments, output),
        Verb::Plan(arguments) => plan::run(&arguments, output).map(|()| ExitCode::SUCCESS),
        Verb::Filter(arguments) => filter::run(&arguments, output),
        Verb::Serve(arguments) => serve::run(&arguments, output),
        Verb::Milter(arguments) => milter::run(&arguments, output),
        Verb::Replica(arguments) => replica::run(&arguments, output),
        Verb::Sign(arguments) => sign::run(&arguments, output),
        Verb::Store(arguments) => store::run(&arguments, output),
        Verb::Man(arguments) => man::run(&arguments, BruitArgs::command()).map(|()| ExitCode::SUCCESS),
        Verb::Completions(arguments) => {
            completions::run(&arguments, BruitArgs::command(), output).map(|()| ExitCode::SUCCESS)
        }
    }
}
