//! `cargo xtask bench`: the benchmarks live in `bruit-bench`, so that the crates they compare with burden nobody else.

use anyhow::Result;

use crate::command;

/// What `cargo xtask bench` accepts.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Handed to `bruit-bench` as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds the program and the benchmarks optimised, and runs them. One of them starts the program that lies beside it.
pub(crate) fn run(options: &Options) -> Result<()> {
    command::run(&mut command::cargo(&["build", "--release", "--package", "bruit"]))?;
    command::run(command::cargo(&["run", "--release", "--package", "bruit-bench", "--"]).args(&options.arguments))
}
