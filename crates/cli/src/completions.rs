//! `bruit completions`: what a shell needs to complete our verbs and options.

use std::io::Write;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::failure::Failure;

/// What `bruit completions` accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell to write for
    shell: Shell,
}

/// Prints a script for the shell's own folder of completions.
pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<(), Failure> {
    // Made in memory first: the generator panics when its writer fails, as a closed pipe does.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "bruit", &mut script);
    Ok(output.write_all(&script)?)
}
