//! `cargo xtask test`: installs missing tools, then runs the stages in order, cheap ones first.

use std::fmt;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::command::{cargo, incremental_cargo, run as run_command};
use crate::{dist, fuzz, layers, licences, packages};

/// The stages of `--quick`.
const QUICK: &[Stage] = &[Stage::Fmt, Stage::Clippy, Stage::Layers, Stage::Nextest];

/// The test programs of `--quick`: unit tests, and the property tests of crates that have a separate program for them.
/// Whole programs are chosen, instead of single tests, so that the other programs need not be built and linked.
const QUICK_PROGRAMS: &[&str] = &["--lib", "--bins", "--test", "properties", "--test", "model"];

/// The arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only this stage; can be given several times.
    #[arg(long, value_name = "STAGE")]
    only: Vec<Stage>,
    /// Run only format, layers, lints, unit tests and property tests; install nothing.
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Total fuzzing time, divided among the targets.
    #[arg(long, value_name = "SECONDS", default_value_t = fuzz::SECONDS)]
    fuzz_seconds: u64,
}

/// A check that must pass. Stages run in the order of this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// Check formatting.
    Fmt,
    /// Run clippy; warnings are errors.
    Clippy,
    /// Check the layering of crates.
    Layers,
    /// Check the licences and sources of dependencies.
    Licences,
    /// Run the tests.
    Nextest,
    /// Run the examples in doc comments.
    Doctest,
    /// Build the documentation; warnings are errors.
    Doc,
    /// Package `bruit-filters` as for publication, and build it from the archive.
    Crate,
    /// Run the fuzz targets.
    Fuzz,
    /// Build the packages, install them in a minimal system, and use them.
    Packages,
}

impl Stage {
    /// Runs the stage.
    fn run(self, options: &Options) -> Result<()> {
        match self {
            Self::Fmt => fmt(),
            Self::Clippy => run_command(
                options
                    .cargo(&["clippy", "--workspace", "--all-targets", "--all-features"])
                    .args(["--", "-D", "warnings"]),
            ),
            Self::Layers => layers::run(),
            Self::Licences => licences::run(),
            Self::Nextest => run_command(options.cargo(&["nextest", "run", "--workspace"]).args(options.programs())),
            Self::Doctest => run_command(&mut cargo(&["test", "--doc", "--workspace"])),
            Self::Doc => run_command(cargo(&["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings")),
            Self::Crate => run_command(&mut cargo(&["package", "--package", "bruit-filters", "--allow-dirty"])),
            Self::Fuzz => fuzz::run(&fuzz::Options::all(options.fuzz_seconds)),
            Self::Packages => dist::check(),
        }
    }
}

impl Options {
    /// Returns the stages to run, in order.
    fn stages(&self) -> Vec<Stage> {
        let is_chosen = |stage: &Stage| match self.quick {
            true => QUICK.contains(stage),
            false => self.only.is_empty() || self.only.contains(stage),
        };
        Stage::value_variants().iter().copied().filter(is_chosen).collect()
    }

    /// Returns the arguments that choose test programs. No arguments means all programs.
    fn programs(&self) -> &'static [&'static str] {
        if self.quick { QUICK_PROGRAMS } else { &[] }
    }

    /// Returns a cargo command. With `--quick`, it compiles incrementally.
    fn cargo(&self, arguments: &[&str]) -> Command {
        if self.quick { incremental_cargo(arguments) } else { cargo(arguments) }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("every stage has a name").get_name())
    }
}

/// Installs missing tools, then runs the chosen stages.
pub(crate) fn run(options: &Options) -> Result<()> {
    let started = Instant::now();
    let stages = options.stages();
    if !options.quick {
        timed("set-up", || packages::provide(&stages)).context("set-up failed; no stage was run")?;
    }
    for stage in &stages {
        timed(&stage.to_string(), || stage.run(options))
            .with_context(|| format!("stage {stage} failed; to run it alone: cargo xtask test --only {stage}"))?;
    }
    println!("\nall passed in {}: {}", elapsed(started), listed(&stages));
    Ok(())
}

/// Prints a headline, runs `work`, and prints how long it took.
fn timed(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n=== {name}");
    let started = Instant::now();
    let outcome = work();
    println!("=== {name} {} after {}", if outcome.is_ok() { "passed" } else { "FAILED" }, elapsed(started));
    outcome
}

/// Formats the time since `started`.
fn elapsed(started: Instant) -> String {
    format!("{:.1} s", started.elapsed().as_secs_f64())
}

/// Formats `stages` as a list.
fn listed(stages: &[Stage]) -> String {
    stages.iter().map(Stage::to_string).collect::<Vec<_>>().join(", ")
}

/// Checks the formatting of the workspace, and of the fuzz targets, which are a separate workspace.
fn fmt() -> Result<()> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    run_command(&mut cargo(&["fmt", "--manifest-path", fuzz::MANIFEST, "--check"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(only: &[Stage], quick: bool) -> Vec<Stage> {
        Options { only: only.to_vec(), quick, fuzz_seconds: 1 }.stages()
    }

    #[test]
    fn all_stages_run_unless_some_are_chosen() {
        assert_eq!(stages(&[], false), Stage::value_variants());
        assert_eq!(stages(&[Stage::Fuzz, Stage::Fmt], false), [Stage::Fmt, Stage::Fuzz]);
    }

    #[test]
    fn a_quick_run_has_no_stage_that_installs_or_fuzzes() {
        assert_eq!(stages(&[], true), [Stage::Fmt, Stage::Clippy, Stage::Layers, Stage::Nextest]);
    }

    #[test]
    fn a_failure_is_returned() {
        assert!(timed("broken", || anyhow::bail!("no")).is_err());
        assert!(timed("sound", || Ok(())).is_ok());
    }
}
