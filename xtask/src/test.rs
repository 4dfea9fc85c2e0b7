//! `cargo xtask test`: set-up, then every stage in turn, cheap ones first.

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::command::{cargo, run as run_command};
use crate::{fuzz, layers, licences, packages};

/// What `cargo xtask test` accepts.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run this stage alone; may be given more than once.
    #[arg(long, value_name = "STAGE")]
    only: Vec<Stage>,
    /// How long to fuzz, all targets together.
    #[arg(long, value_name = "SECONDS", default_value_t = fuzz::SECONDS)]
    fuzz_seconds: u64,
}

/// One thing that must hold. The order is the order of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// The code is formatted.
    Fmt,
    /// No lint complains.
    Clippy,
    /// Crates depend only on those beneath them.
    Layers,
    /// Every dependency is permissively licensed.
    Licences,
    /// The tests pass.
    Nextest,
    /// The examples in the documentation pass.
    Doctest,
    /// The documentation builds.
    Doc,
    /// The fuzz targets find nothing.
    Fuzz,
}

impl Stage {
    /// Runs the stage.
    fn run(self, options: &Options) -> Result<()> {
        match self {
            Self::Fmt => fmt(),
            Self::Clippy => run_command(
                cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--"]).args(["-D", "warnings"]),
            ),
            Self::Layers => layers::run(),
            Self::Licences => licences::run(),
            Self::Nextest => run_command(&mut cargo(&["nextest", "run", "--workspace"])),
            Self::Doctest => run_command(&mut cargo(&["test", "--doc", "--workspace"])),
            Self::Doc => run_command(cargo(&["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings")),
            Self::Fuzz => fuzz::run(&fuzz::Options::all(options.fuzz_seconds)),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("no stage is hidden").get_name())
    }
}

/// Sets up, then runs every stage that is asked for.
pub(crate) fn run(options: &Options) -> Result<()> {
    let started = Instant::now();
    let stages = chosen(&options.only);
    timed("set-up", || packages::provide(&stages)).context("set-up failed; no stage was run")?;
    for stage in &stages {
        timed(&stage.to_string(), || stage.run(options))
            .with_context(|| format!("stage {stage} failed; to run it alone: cargo xtask test --only {stage}"))?;
    }
    println!("\nall passed in {}: {}", elapsed(started), listed(&stages));
    Ok(())
}

/// The stages in `only`, in their order; all of them if it names none.
fn chosen(only: &[Stage]) -> Vec<Stage> {
    Stage::value_variants().iter().copied().filter(|stage| only.is_empty() || only.contains(stage)).collect()
}

/// Runs `work` under a headline, and says how long it took.
fn timed(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n=== {name}");
    let started = Instant::now();
    let outcome = work();
    println!("=== {name} {} after {}", if outcome.is_ok() { "passed" } else { "FAILED" }, elapsed(started));
    outcome
}

/// The time since `started`, for people.
fn elapsed(started: Instant) -> String {
    format!("{:.1} s", started.elapsed().as_secs_f64())
}

/// `stages` for a sentence.
fn listed(stages: &[Stage]) -> String {
    stages.iter().map(Stage::to_string).collect::<Vec<_>>().join(", ")
}

/// Checks the format of the workspace and of the fuzz targets, which are no part of it.
fn fmt() -> Result<()> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    run_command(&mut cargo(&["fmt", "--manifest-path", fuzz::MANIFEST, "--check"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stages_run_unless_some_are_chosen() {
        assert_eq!(chosen(&[]), Stage::value_variants());
        assert_eq!(chosen(&[Stage::Fuzz, Stage::Fmt]), [Stage::Fmt, Stage::Fuzz]);
    }

    #[test]
    fn a_failure_is_passed_on() {
        assert!(timed("broken", || anyhow::bail!("no")).is_err());
        assert!(timed("sound", || Ok(())).is_ok());
    }
}
