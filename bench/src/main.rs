//! Prints the project's figures, each with its target and whether it is met.
//!
//! Speeds are relative to a memory operation, or to another crate or program, measured in the same run. So they are
//! comparable between machines.

mod attribution;
mod counts;
mod deltas;
mod engine;
mod federation;
mod flows;
mod keys;
mod mail;
mod maps;
mod membership;
mod memory;
mod merge;
mod milter;
mod owners;
mod replicas;
mod report;
mod ring;
mod server;
mod signatures;
mod simulation;
mod store;
mod timing;

use std::io;

use clap::{Parser, ValueEnum};
use report::Report;

/// Prints the project's figures, each with its target and whether it is met.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// Run only these groups of figures.
    #[arg(long, value_enum)]
    only: Vec<Group>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Run the echo server that serves as a reference, with replies of this many bytes.
    #[arg(long, hide = true, exclusive = true)]
    echo: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    Membership,
    Single,
    Space,
    Counts,
    Accuracy,
    Ring,
    Owners,
    Maps,
    Replicas,
    Engine,
    Store,
    Server,
    Dashboard,
    Static,
    Milter,
    Signatures,
    Merge,
    Delta,
    Simulation,
    Federation,
    Attribution,
    Flows,
}

type Bench = fn(&mut Report) -> io::Result<()>;

const GROUPS: [(Group, Bench); 22] = [
    (Group::Membership, membership::speed),
    (Group::Single, membership::single_checks),
    (Group::Counts, counts::speed),
    (Group::Ring, ring::check),
    (Group::Owners, owners::figures),
    (Group::Maps, maps::figures),
    (Group::Signatures, signatures::speed),
    (Group::Replicas, replicas::figures),
    (Group::Engine, engine::figures),
    (Group::Store, store::figures),
    (Group::Server, server::figures),
    (Group::Dashboard, server::dashboard::figures),
    (Group::Static, server::linking::figures),
    (Group::Milter, milter::figures),
    (Group::Merge, merge::speed),
    (Group::Space, membership::space),
    (Group::Delta, deltas::size),
    (Group::Accuracy, counts::accuracy),
    (Group::Simulation, simulation::speed),
    (Group::Federation, federation::figures),
    (Group::Attribution, attribution::figures),
    (Group::Flows, flows::figures),
];

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    if let Some(reply_bytes) = arguments.echo {
        return server::echo::run(reply_bytes);
    }
    let mut report = Report::new(arguments.json)?;
    for (group, bench) in GROUPS {
        if arguments.only.is_empty() || arguments.only.contains(&group) {
            bench(&mut report)?;
        }
    }
    report.finish()
}
