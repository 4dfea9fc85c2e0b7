//! `bruit filter`: creates and uses filter files, without a server.
//!
//! The file formats are in [`bruit_filters::file`] and [`bruit_filters::delta`]. This module handles
//! arguments, output and file replacement. A command that fails leaves its files unchanged.

mod ask;
mod create;
mod fill;
mod info;
mod join;
mod pair;
mod remove;
mod storage;

use std::io::Write;
use std::process::ExitCode;

use bruit_console::Failure;

const AFTER_HELP: &str = "\
A filter file contains a secret key, with which all entries are hashed; copies of the file have the same key. \
Anyone who has the file can test which entries it contains, so keep it secret. Deltas contain no secret key.

Each line of input is a key, without its line ending. Files are replaced atomically: an interrupted command leaves \
the old file unchanged. It may also leave a hidden temporary file .bruit-* in the same folder, which you can remove.

A counting filter records the origins of its counts. Merging or applying the same counts twice is refused. See \
docs/federation.md for two sites that exchange counts.

Exit codes:
  0  done
  1  nothing found (contains)
  2  error

Examples:
  bruit filter create known --signatures 400000 --false-positive-rate 0.001
  bruit filter add known keys.txt
  bruit filter contains known < suspects.txt
  bruit filter diff known newer -o changes && bruit filter apply changes known

A spam filter with revocations:
  bruit filter create spam --signatures 400000 --pair
  bruit filter add spam reported.txt && bruit filter revoke spam mistakes.txt
  bruit filter contains spam --pair < suspects.txt";

/// Arguments of `bruit filter`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FilterArgs {
    #[command(subcommand)]
    verb: FilterVerb,
}

#[derive(Debug, clap::Subcommand)]
enum FilterVerb {
    /// Create an empty filter with a new random key
    #[command(after_help = "Example:\n  bruit filter create known --signatures 400000")]
    Create(create::FilterCreateArgs),
    /// Add keys, one per line
    #[command(after_help = "Example:\n  bruit filter add known keys.txt")]
    Add(fill::FilterFillArgs),
    /// Add keys to the revocation filter of a pair, FILE.revoked
    #[command(after_help = "Example:\n  bruit filter revoke spam mistakes.txt")]
    Revoke(fill::FilterFillArgs),
    /// Remove keys from a filter with intuitive counts
    #[command(after_help = "Example:\n  bruit filter remove counts keys.txt")]
    Remove(remove::FilterRemoveArgs),
    /// Print the input keys that are in the filter, like grep
    #[command(after_help = "Example:\n  bruit filter contains known < suspects.txt")]
    Contains(ask::FilterContainsArgs),
    /// Print each key with its count
    #[command(after_help = "Example:\n  bruit filter count counts < keys.txt")]
    Count(ask::FilterCountArgs),
    /// Merge filters with the same parameters: union, or sum of counts
    #[command(after_help = "Example:\n  bruit filter merge monday tuesday -o both")]
    Merge(join::FilterMergeArgs),
    /// Write the delta between an earlier and a later state of a filter
    #[command(after_help = "Example:\n  bruit filter diff known newer -o changes")]
    Diff(join::FilterDiffArgs),
    /// Apply a delta to a filter
    #[command(after_help = "Example:\n  bruit filter apply changes known")]
    Apply(join::FilterApplyArgs),
    /// Show parameters, fill and estimates of a filter, or the target of a delta
    #[command(after_help = "Example:\n  bruit filter info known --json")]
    Info(info::FilterInfoArgs),
}

pub(crate) fn run(arguments: &FilterArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    let outcome = match &arguments.verb {
        FilterVerb::Create(arguments) => create::run(arguments, output).map(done),
        FilterVerb::Add(arguments) => fill::run(arguments, output).map(done),
        FilterVerb::Revoke(arguments) => fill::revoke(arguments, output).map(done),
        FilterVerb::Remove(arguments) => remove::run(arguments, output).map(done),
        FilterVerb::Contains(arguments) => ask::contains(arguments, output),
        FilterVerb::Count(arguments) => ask::count(arguments, output).map(done),
        FilterVerb::Merge(arguments) => join::merge(arguments).map(done),
        FilterVerb::Diff(arguments) => join::diff(arguments).map(done),
        FilterVerb::Apply(arguments) => join::apply(arguments).map(done),
        FilterVerb::Info(arguments) => info::run(arguments, output).map(done),
    };
    let flushed = output.flush().map_err(Failure::from);
    // Exit code 1 means "nothing found", so every error exits with 2.
    outcome.and_then(|code| flushed.map(|()| code)).map_err(Failure::as_usage_error)
}
