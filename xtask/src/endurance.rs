//! `cargo xtask endurance`: simulates a year in the life of three networks, with all faults, in an hour. With
//! `--networks`, runs many simulated networks instead, each generated from a seed. With `--mutations`, shows that
//! simulated networks catch deliberate faults.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::test::Stage;
use crate::{command, mutations, packages};

/// The networks, which run at the same time.
const NETWORKS: [&str; 3] = ["alone", "https", "nats"];

/// The arguments of `cargo xtask endurance`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Duration of the run; with the default epochs, an hour has 450 bulk and 90 spam generations.
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    minutes: u64,
    /// Length of a spam epoch.
    #[arg(long, value_name = "SECONDS", default_value_t = 40)]
    spam_epoch: u64,
    /// Length of a bulk epoch.
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    bulk_epoch: u64,
    /// Seed of traffic and faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only this network; may be repeated.
    #[arg(long, value_name = "NETWORK", value_parser = NETWORKS)]
    only: Vec<String>,
    /// Run this number of simulated networks instead, with consecutive seeds that begin at `--seed`.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["minutes", "spam_epoch", "bulk_epoch", "only"])]
    networks: Option<u64>,
    /// Put deliberate faults into a copy of the coordinator, and show the seeds of the networks that catch them.
    #[arg(long, conflicts_with_all = ["minutes", "spam_epoch", "bulk_epoch", "only", "networks"])]
    mutations: bool,
}

/// Builds the programs in release mode, and runs all networks at the same time. Failures are reported after all runs
/// have ended.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.mutations {
        return mutations::run(options.seed);
    }
    if let Some(count) = options.networks {
        return run_networks(count, options.seed);
    }
    packages::provide(&[Stage::Nextest]).context("set-up failed")?;
    command::run(&mut command::cargo(&["build", "--release", "--package", "bruit", "--package", "bruit-endurance"]))?;
    let is_chosen = |network: &&str| options.only.is_empty() || options.only.iter().any(|only| only == network);
    let running: Vec<(&str, Child)> = NETWORKS
        .into_iter()
        .filter(is_chosen)
        .map(|network| Ok((network, start(options, network)?)))
        .collect::<Result<_>>()?;
    let mut failed = Vec::new();
    for (network, child) in running {
        let output = child.wait_with_output()?;
        println!("{}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            failed.push(network);
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed networks: {}", failed.join(", ")) }
}

/// Runs simulated networks in release mode.
fn run_networks(count: u64, seed: u64) -> Result<()> {
    let mut command =
        command::cargo(&["run", "--release", "--package", "bruit-federation", "--features", "simulation"]);
    command::run(command.args(["--example", "networks", "--", &count.to_string(), &seed.to_string()]))
}

fn start(options: &Options, network: &str) -> Result<Child> {
    let folder = command::target_directory()?.join("release");
    let mut command = Command::new(folder.join("bruit-endurance"));
    command.arg("--bruit").arg(folder.join("bruit")).args(["--network", network]);
    for (name, value) in [
        ("--minutes", options.minutes),
        ("--spam-epoch", options.spam_epoch),
        ("--bulk-epoch", options.bulk_epoch),
        ("--seed", options.seed),
    ] {
        command.arg(name).arg(value.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("failed to start bruit-endurance")
}
