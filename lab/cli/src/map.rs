//! `bruit-lab map`: builds and queries map files, which store a value for each key of a list.
//!
//! The file format is in [`bruit_structures::map`]. This module handles arguments and output, and replaces files. A
//! command that fails leaves its files unchanged.

mod build;
mod change;
mod get;
mod info;
mod lines;
mod storage;

use std::io::Write;
use std::process::ExitCode;

use bruit_console::Failure;

const AFTER_HELP: &str = "\
A map returns the value of each key it was built with. For any other key it returns nothing, except for false \
positives at the given rate. It does not contain the keys themselves. To change the set of keys, build another map.

A map file contains the secret key that its keys are hashed with. Anyone who has the file can query it and \
test whether it was built with a given key: keep it secret if that matters.

Each line of input is a key, a tab and a whole number, or a key alone.

Exit codes:
  0  done
  1  no key has a value (get, set)
  2  error

Examples:
  printf 'cheap pills\\t3\\nfree money\\t7\\n' > flags
  bruit-lab map build flags -o flags.map --false-positive-rate 1e-6
  bruit-lab map get flags.map 'free money'
  bruit-lab map build blocked.txt -o blocked.map && bruit-lab map get blocked.map - < suspects.txt";

/// Arguments of `bruit-lab map`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MapArgs {
    #[command(subcommand)]
    verb: MapVerb,
}

#[derive(Debug, clap::Subcommand)]
enum MapVerb {
    /// Build a map from keys and values, with a new random key
    #[command(after_help = "Example:\n  bruit-lab map build flags -o flags.map")]
    Build(build::MapBuildArgs),
    /// Print the keys that are in the map, with their values
    #[command(after_help = "Example:\n  bruit-lab map get flags.map 'free money'")]
    Get(get::MapGetArgs),
    /// Change the value of a key in a map created with --mutable
    ///
    /// A map contains no keys, so it cannot verify that a key is one of its own. A key that it was not built with, such
    /// as a mistyped one, is rejected, unless it is a false positive ('bruit-lab map info' prints the rate). In that
    /// case there is no error, and the value of another key may change.
    #[command(after_help = "Example:\n  bruit-lab map set flags.map 'free money' 3")]
    Set(change::MapSetArgs),
    /// Show the kind, size and error rate of a map
    #[command(after_help = "Example:\n  bruit-lab map info flags.map")]
    Info(info::MapInfoArgs),
}

pub(crate) fn run(arguments: &MapArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    let outcome = match &arguments.verb {
        MapVerb::Build(arguments) => build::run(arguments, output).map(done),
        MapVerb::Get(arguments) => get::run(arguments, output),
        MapVerb::Set(arguments) => change::run(arguments, output),
        MapVerb::Info(arguments) => info::run(arguments, output).map(done),
    };
    let flushed = output.flush().map_err(Failure::from);
    // Every error exits with 2, because 1 means "no key has a value".
    outcome.and_then(|code| flushed.map(|()| code)).map_err(Failure::as_usage_error)
}
