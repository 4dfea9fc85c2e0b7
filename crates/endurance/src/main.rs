//! `bruit-endurance`: runs one network of nodes and prints a report. `cargo xtask endurance` runs all three networks.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use bruit_endurance::{Network, Options, Report, run};
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(
    about = "Simulate a year of servers in an hour, with injected faults, and compare their answers with a plain model"
)]
struct Arguments {
    /// The bruit program to run
    #[arg(long, value_name = "FILE")]
    bruit: PathBuf,
    /// Kind of network
    #[arg(long)]
    network: NetworkArgument,
    /// Duration of the run
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    minutes: u64,
    /// Length of a spam epoch
    #[arg(long, value_name = "SECONDS", default_value_t = 40)]
    spam_epoch: u64,
    /// Length of a bulk epoch
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    bulk_epoch: u64,
    /// Seed of traffic and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum NetworkArgument {
    Alone,
    Https,
    Nats,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]
fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let options = Options {
        bruit: arguments.bruit,
        network: match arguments.network {
            NetworkArgument::Alone => Network::Alone,
            NetworkArgument::Https => Network::Https,
            NetworkArgument::Nats => Network::Nats,
        },
        duration: Duration::from_secs(60 * arguments.minutes),
        spam_epoch: arguments.spam_epoch,
        bulk_epoch: arguments.bulk_epoch,
        seed: arguments.seed,
        all_faults: true,
    };
    let report = run(&options, &mut |line| eprintln!("{line}"))?;
    if arguments.json {
        println!("{:#}", json(&report));
    } else {
        print!("{}", table(&report));
    }
    Ok(())
}

fn json(report: &Report) -> serde_json::Value {
    let faults: Vec<_> = report
        .faults
        .iter()
        .map(|(name, (count, visible, gone))| {
            serde_json::json!({ "fault": name, "count": count, "visible_seconds": visible, "gone_seconds": gone })
        })
        .collect();
    serde_json::json!({
        "network": report.network,
        "seed": report.seed,
        "seconds": report.seconds,
        "bulk_generations": report.bulk_generations,
        "spam_generations": report.spam_generations,
        "acknowledged": report.acknowledged,
        "refused": report.refused,
        "comparisons": report.comparisons,
        "compared": report.compared,
        "filter_errors": report.filter_errors,
        "faults": faults,
    })
}

/// Formats the report like the tables in docs/reliability.md.
fn table(report: &Report) -> String {
    let mut text = format!(
        "network {}, seed {}: {} s, in which {} bulk and {} spam generations ended. {} requests were acknowledged, and \
         {} were refused. In {} comparisons of {} answers, nothing was lost, counted twice, or early or late. Filter \
         errors made at most {} listings at a time appear as revoked.\n\n\
         | fault | times | shown within | gone within |\n|---|---|---|---|\n",
        report.network,
        report.seed,
        report.seconds,
        report.bulk_generations,
        report.spam_generations,
        report.acknowledged,
        report.refused,
        report.comparisons,
        report.compared,
        report.filter_errors,
    );
    for (name, (count, visible, gone)) in &report.faults {
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {name} | {count} | {visible:.1} s | {gone:.1} s |");
    }
    text
}
