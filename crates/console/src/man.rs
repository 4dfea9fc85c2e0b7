//! The verb `man`: writes manual pages for the program and every verb, taken from their `--help` text.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Command;

use crate::Failure;

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Directory for the pages; created if missing
    directory: PathBuf,
}

/// Writes one page for `command` and one for each verb.
///
/// # Errors
/// Returns an error if the directory or a page cannot be written.
pub fn run(arguments: &ManArgs, command: Command) -> Result<(), Failure> {
    let directory = &arguments.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command, directory))
        .with_context(|| format!("failed to write manual pages to {}", directory.display()))
        .map_err(Failure::Other)
}
