//! `bruit simulate`: the paper's simulation study, and filters of one's own under traffic of one's own.
//!
//! Everything is computed by [`bruit_simulation`]; this module asks, shows how far it is, and prints.

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

use crate::failure::Failure;
use crate::quantity::parse_count;

const EXAMPLES: &str = "\
Examples:
  bruit simulate --compare                          the whole study, beside the paper's figures
  bruit simulate --experiment 3 --rounds 100        one experiment, quickly
  bruit simulate --csv results.csv --plots plots    tables and pictures for later
  bruit simulate custom --counts zipf:1.1 --threshold 20
                                                    how often is bulk mail seen where there is none?
  bruit simulate custom --servers 10                what merging ten servers costs in accuracy

Ctrl-C ends a run after the rounds in hand, prints what they gave, writes no file and exits with code 130;
a second Ctrl-C leaves at once.";

/// What `bruit simulate` is asked.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,

    #[command(flatten)]
    study: study::Arguments,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// One filter of any shape under traffic of any kind
    Custom(custom::Arguments),
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        Some(Verb::Custom(arguments)) => custom::run(arguments, output),
        None => study::run(&arguments.study, output),
    }
}

/// What a run of either kind is asked.
#[derive(Debug, clap::Args)]
struct Common {
    /// What all random choices derive from: the same seed gives the same output
    #[arg(long, value_name = "S", value_parser = parse_seed, default_value = "2006", allow_negative_numbers = true)]
    seed: u64,

    /// How many threads work; the output does not depend on it [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = parse_threads, allow_negative_numbers = true)]
    threads: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Common {
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

/// The hash families, by the names that `--hash` takes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Hash {
    /// The paper's ((c·x + d) mod p) mod m
    Universal,
    /// Polynomials of eight coefficients, for the paper's footnote 3
    Polynomial,
    /// Keyed fingerprints, as production has them
    Fingerprint,
    /// MD5 of the key, mapped onto each of k partitions, as the paper's §3 proposes
    RemappedDigest,
    /// MD5 of the key and the function's number, as in the survey's slides
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
