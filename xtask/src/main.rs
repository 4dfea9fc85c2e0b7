//! The project's chores, as `cargo xtask …`.
//!
//! `test` installs the required tools and runs every check that a change must pass, both locally and in continuous
//! integration. The other chores are the benchmarks, the endurance run, the packages, and those stages of `test`
//! that are often run alone.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod bench;
mod command;
mod dist;
mod endurance;
mod fuzz;
mod layers;
mod licences;
mod mutations;
mod packages;
mod registries;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Run a chore of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Install missing tools, then run all checks and tests; stop at the first failure.
    Test(test::Options),
    /// Run the benchmarks (comparisons with memory operations, other crates and other servers).
    Bench(bench::Options),
    /// Simulate a year of faults on real servers in an hour, and compare their state with that of a simple model.
    Endurance(endurance::Options),
    /// Check that crates depend only on lower layers.
    Layers,
    /// Check the licences and sources of all dependencies, and the list of duplicates.
    Licences,
    /// Build and run the fuzz targets.
    Fuzz(fuzz::Options),
    /// Build the release files: static programs, archive, Debian packages, container image, lists of crates, checksums.
    Dist(dist::Options),
}

fn main() -> ExitCode {
    match run(Chore::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    match chore {
        Chore::Test(options) => test::run(&options),
        Chore::Bench(options) => bench::run(&options),
        Chore::Endurance(options) => endurance::run(&options),
        Chore::Layers => layers::run(),
        Chore::Licences => licences::run(),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Dist(options) => dist::run(&options),
    }
}

/// Prints an error and its causes, without a backtrace.
fn report(error: &anyhow::Error) {
    eprintln!("\nerror: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("caused by: {cause}");
    }
}
