//! `cargo xtask bench`: runs the benchmarks. They are in `bruit-bench`, so that only that crate depends on the
//! published crates with which ours are compared.

use anyhow::Result;

use crate::command;

/// The arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Arguments for `bruit-bench`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds the program and the benchmarks in release mode, and runs the benchmarks. Some of them start the program.
pub(crate) fn run(options: &Options) -> Result<()> {
    command::run(&mut command::cargo(&["build", "--release", "--package", "bruit"]))?;
    command::run(command::cargo(&["run", "--release", "--package", "bruit-bench", "--"]).args(&options.arguments))
}
