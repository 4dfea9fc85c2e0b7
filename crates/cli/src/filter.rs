//! `bruit filter`: filter files as a tool anyone can use.
//!
//! Everything about bytes is in [`bruit_filters::file`] and [`bruit_filters::delta`]; here are names, lines of text and
//! what happens to the files. No verb changes a file unless all went well.

mod ask;
pub(crate) mod create;
mod fill;
mod info;
mod join;
pub(crate) mod keys;
mod pair;
mod remove;
pub(crate) mod storage;

use std::io::Write;
use std::process::ExitCode;

use crate::failure::Failure;

const AFTER_HELP: &str = "\
A file made here holds the secret key under which its keys are hashed; a copy shares it.
Whoever has the file can find keys that it takes for known: treat it as a secret.
Deltas hold no key.

Keys are lines of bytes, without their line ending. Exit codes: 0 done, 1 nothing found
(contains), 2 something is wrong, told in one line. Files are replaced in one step, when
all is written: a run that is cut off leaves the old file, and perhaps a hidden .bruit-*
file beside it that can be removed.

A file of counts records whose counts it holds. Merging or applying the same counts
again is refused. See docs/federation.md for two sites that exchange counts.

Example:
  bruit filter create known --signatures 400000 --false-positive-rate 0.001
  bruit filter add known keys.txt
  bruit filter contains known < suspects.txt
  bruit filter diff known newer -o changes && bruit filter apply changes known

A spam filter with revocations:
  bruit filter create spam --signatures 400000 --pair
  bruit filter add spam reported.txt && bruit filter revoke spam mistakes.txt
  bruit filter contains spam --pair < suspects.txt";

/// What `bruit filter` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make an empty filter, with a fresh random key
    Create(create::Arguments),
    /// Add keys, one per line
    Add(fill::Arguments),
    /// Add keys to the revocation filter of a pair, FILE.revoked
    Revoke(fill::Arguments),
    /// Undo additions of keys: intuitive counts only
    Remove(remove::Arguments),
    /// Print the keys that the filter knows, like grep
    Contains(ask::ContainsArguments),
    /// Print each key with its count
    Count(ask::CountArguments),
    /// Join filters that were made alike: union, or sum of counts
    Merge(join::MergeArguments),
    /// Write the difference between an earlier and a later state of a filter
    Diff(join::DiffArguments),
    /// Apply a difference to a filter, once
    Apply(join::ApplyArguments),
    /// Tell parameters, fill and estimates of a filter, or what a delta leads to
    Info(info::Arguments),
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    let outcome = match &arguments.verb {
        Verb::Create(arguments) => create::run(arguments, output).map(done),
        Verb::Add(arguments) => fill::run(arguments, output).map(done),
        Verb::Revoke(arguments) => fill::revoke(arguments, output).map(done),
        Verb::Remove(arguments) => remove::run(arguments, output).map(done),
        Verb::Contains(arguments) => ask::contains(arguments, output),
        Verb::Count(arguments) => ask::count(arguments, output).map(done),
        Verb::Merge(arguments) => join::merge(arguments).map(done),
        Verb::Diff(arguments) => join::diff(arguments).map(done),
        Verb::Apply(arguments) => join::apply(arguments).map(done),
        Verb::Info(arguments) => info::run(arguments, output).map(done),
    };
    let flushed = output.flush().map_err(Failure::from);
    // Code 1 means "nothing found" here, so whatever goes wrong is 2.
    outcome.and_then(|code| flushed.map(|()| code)).map_err(Failure::with_code_2)
}
