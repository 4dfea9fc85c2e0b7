//! `bruit map`: map files, which give each key of a list its value, as a tool anyone can use.
//!
//! Everything about bytes is in [`bruit_filters::map`]; here are names, lines of text and what happens to the files. No verb
//! changes a file unless all went well.

mod build;
mod change;
mod get;
mod info;
mod lines;
mod storage;

use std::io::Write;
use std::process::ExitCode;

use crate::failure::Failure;

const AFTER_HELP: &str = "\
A map answers for the keys it was built with, and for no others, but for false positives: it
holds no keys, only what it takes to find their values. To have other keys, build another map.

A file made here holds the secret key under which its keys are hashed. Whoever has the file
can ask it, and can find keys that it takes for its own: treat it as a secret if that matters.

A line is a key, a tab and a whole number, or a key alone. Exit codes: 0 done, 1 no key has a
value (get, set), 2 something is wrong, told in one line.

Example:
  printf 'cheap pills\\t3\\nfree money\\t7\\n' > flags
  bruit map build flags -o flags.map --false-positives 1e-6
  bruit map get flags.map 'free money'
  bruit map build blocked.txt -o blocked.map && bruit map get blocked.map - < suspects.txt";

/// What `bruit map` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make a map of keys and their values, with a fresh random key
    Build(build::Arguments),
    /// Print the keys that the map knows, with their values
    Get(get::Arguments),
    /// Change the value of a key of a map that was made with --mutable
    ///
    /// A map holds no keys, so it cannot be sure that this is one of them: a key that it was not built with, such as a mistyped
    /// one, is refused but for the share that 'bruit map info' names as false positives. Then the value of some
    /// other key changes, or nothing, and that cannot be told.
    Set(change::Arguments),
    /// Tell what kind of map it is, its size and how often it is wrong
    Info(info::Arguments),
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    let outcome = match &arguments.verb {
        Verb::Build(arguments) => build::run(arguments, output).map(done),
        Verb::Get(arguments) => get::run(arguments, output),
        Verb::Set(arguments) => change::run(arguments, output),
        Verb::Info(arguments) => info::run(arguments, output).map(done),
    };
    let flushed = output.flush().map_err(Failure::from);
    // Code 1 means "no key has a value" here, so whatever goes wrong is 2.
    outcome.and_then(|code| flushed.map(|()| code)).map_err(Failure::with_code_2)
}
