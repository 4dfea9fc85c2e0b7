//! The project's chores, as `cargo xtask …`.
//!
//! `test` is the whole of what the project asks of a change, the same on a laptop and in continuous integration; it
//! does its own set-up. The other chores are its stages that deserve a name, and the benchmarks.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "chores speak to whoever runs them")]

mod bench;
mod command;
mod endurance;
mod fuzz;
mod layers;
mod licences;
mod packages;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// The project's chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Install what the tests need, then run every stage; the first failure stops it.
    Test(test::Options),
    /// Measure the filters against memory and against other crates.
    Bench(bench::Options),
    /// Run servers under faults, a year in an hour, and compare them with a plain model.
    Endurance(endurance::Options),
    /// Check that crates depend only on those the architecture puts beneath them.
    Layers,
    /// Check that every dependency may be used under a permissive licence.
    Licences,
    /// Build the fuzz targets and run them.
    Fuzz(fuzz::Options),
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
    }
}

/// Shows what failed and why. Never a backtrace of the chore itself, which would hide both.
fn report(error: &anyhow::Error) {
    eprintln!("\nerror: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("because: {cause}");
    }
}
