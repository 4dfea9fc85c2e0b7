//! `bruit-lab simulate`: runs the paper's simulation study, and custom simulations.
//!
//! [`bruit_simulation`] computes the results; this module handles arguments, progress bars and output.

mod csv;
mod custom;
mod files;
mod interrupt;
mod json;
mod study;
mod tables;

use std::io::Write;
use std::process::ExitCode;
use std::thread;

use bruit_simulation::{Family, THREADS_MAX};
use clap::ValueEnum;

use bruit_console::Failure;
use bruit_console::quantity::parse_count;

const AFTER_HELP: &str = "\
Examples:
  bruit-lab simulate --compare                          the whole study, beside the paper's figures
  bruit-lab simulate --experiment 3 --rounds 100        one experiment, quickly
  bruit-lab simulate --csv results.csv --plots plots    save tables and plots
  bruit-lab simulate custom --counts zipf:1.1 --threshold 20
                                                        how often a count of 20 is false
  bruit-lab simulate custom --servers 10                accuracy after merging ten servers

Ctrl-C stops a run after the current rounds, prints their results, writes no file and exits with code 130; a \
second Ctrl-C exits at once.";

/// Arguments of `bruit-lab simulate`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    verb: Option<SimulateVerb>,

    #[command(flatten)]
    study: study::StudyArgs,
}

#[derive(Debug, clap::Subcommand)]
enum SimulateVerb {
    /// Simulate a filter of any shape with any traffic
    Custom(custom::SimulateCustomArgs),
}

pub(crate) fn run(arguments: &SimulateArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        Some(SimulateVerb::Custom(arguments)) => custom::run(arguments, output),
        None => study::run(&arguments.study, output),
    }
}

/// Arguments common to the study and to custom simulations.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Seed of all random choices; the same seed gives the same output
    #[arg(long, value_name = "S", value_parser = parse_seed, default_value = "2006", allow_negative_numbers = true)]
    seed: u64,

    /// Number of threads; does not affect the output [default: one per processor]
    #[arg(long, value_name = "N", value_parser = parse_threads, allow_negative_numbers = true)]
    threads: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl CommonArgs {
    fn threads(&self) -> usize {
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(|| processors().min(THREADS_MAX as usize))
    }
}

fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "it must be a whole number from 0 to 18446744073709551615".into())
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match parse_count(text)? {
        threads if threads <= THREADS_MAX => Ok(threads as usize),
        _ => Err(format!("it must be at most {THREADS_MAX}")),
    }
}

/// Hash families, named as in `--hash`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Hash {
    /// The paper's ((c·x + d) mod p) mod m
    Universal,
    /// Polynomials with eight coefficients, for the paper's footnote 3
    Polynomial,
    /// Keyed fingerprints, as used in production
    Fingerprint,
    /// One MD5 of the key, with a position in each of k partitions, as proposed in §3 of the paper
    RemappedDigest,
    /// One MD5 per hash function, of the key and the function's number, as in the survey's slides
    IndexedDigest,
}

impl From<Hash> for Family {
    fn from(hash: Hash) -> Self {
        match hash {
            Hash::Universal => Self::Universal,
            Hash::Polynomial => Self::Polynomial,
            Hash::Fingerprint => Self::Fingerprint,
            Hash::RemappedDigest => Self::RemappedDigest,
            Hash::IndexedDigest => Self::IndexedDigest,
        }
    }
}
