//! The verb `completions`: prints a shell completion script.

use std::io::Write;

use clap::Command;
use clap_complete::Shell;

use crate::Failure;

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell to generate the script for
    shell: Shell,
}

/// Prints the script for `command`.
///
/// # Errors
/// Returns an error if the output cannot be written.
pub fn run(arguments: &CompletionsArgs, mut command: Command, output: &mut impl Write) -> Result<(), Failure> {
    // Generate the script in memory, because the generator panics if it cannot write.
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    Ok(output.write_all(&script)?)
}
