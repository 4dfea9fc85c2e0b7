//! `bruit man`: a manual page for the program and for every verb, made of the same text as `--help`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::failure::Failure;

/// What `bruit man` accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to write the pages; made if it is not there
    directory: PathBuf,
}

/// Writes `bruit.1`, `bruit-plan.1` and so on.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let directory = &arguments.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(crate::Arguments::command(), directory))
        .with_context(|| format!("failed to write manual pages to {}", directory.display()))
        .map_err(Failure::Other)
}
