//! `bruit-lab simulate`: the eight experiments.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_simulation::{CountDraws, Experiment, ROUNDS_MAX, Study, StudyOptions};

use super::files::Destinations;
use super::{CommonArgs, Hash, interrupt, json, tables};
use bruit_console::Failure;
use bruit_console::progress;
use bruit_console::quantity::{grouped, parse_count};

/// Arguments of the study.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct StudyArgs {
    /// Experiments of the paper to run: numbers from 1 to 8 separated by commas, or all
    #[arg(long, value_name = "N", value_parser = parse_experiments, default_value = "all")]
    experiment: Experiments,

    /// Number of rounds per experiment, at most 100M; each round has new hash functions
    #[arg(long, value_name = "N", value_parser = parse_rounds, default_value = "1000", allow_negative_numbers = true)]
    rounds: u64,

    #[command(flatten)]
    common: CommonArgs,

    /// Write the results to FILE as comma-separated values, replacing an existing file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Draw the results into SVG and PNG files in DIR, replacing existing files
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Print the paper's means and reduction rates beside ours, with the differences measured in standard errors (JSON
    /// always contains them)
    #[arg(long)]
    compare: bool,

    /// Draw all counts at random; by default, their sum and the number of zeros match those of the paper
    #[arg(long)]
    free_counts: bool,

    /// Draw all counts at random, but only once for all rounds, as in the paper
    #[arg(long, conflicts_with = "free_counts")]
    one_draw: bool,

    /// Hash family
    #[arg(long, value_enum, default_value_t = Hash::Universal)]
    hash: Hash,
}

pub(super) fn run(arguments: &StudyArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let options = arguments.options();
    if arguments.compare && options.rounds < 2 {
        return Err(Failure::BadInput(
            "--compare needs two rounds or more: a single round has no standard error".into(),
        ));
    }
    let destinations = Destinations::prepare(arguments.csv.as_deref(), arguments.plots.as_deref())?;
    let stop = interrupt::watch()?;
    let bar = progress::of_rounds(options.rounds);
    let study = bruit_simulation::run(&options, &|| bar.inc(1), stop);
    let study = study.map_err(|error| Failure::BadInput(error.to_string()))?;
    bar.finish_and_clear();

    if study.rounds < options.rounds {
        // Report the interruption even if printing fails because the output was closed.
        let _ = arguments.print(&study, &options, output);
        let files = if destinations.is_empty() { "" } else { ", and no file was written" };
        return Ok(interrupt::report(study.rounds, options.rounds, files));
    }
    interrupt::ignore();
    // Write the files first, because a pager may close the output. Print the tables even if writing fails.
    let (written, printed) = (destinations.write(&study), arguments.print(&study, &options, output));
    let written = written?;
    printed?;
    for path in written.iter().filter(|_| !arguments.common.json) {
        writeln!(output, "Written: {}", path.display())?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

impl StudyArgs {
    fn options(&self) -> StudyOptions {
        let counts = match (self.free_counts, self.one_draw) {
            (true, _) => CountDraws::Free,
            (_, true) => CountDraws::Once,
            _ => CountDraws::AsPaper,
        };
        StudyOptions {
            experiments: self.experiment.0.clone(),
            rounds: self.rounds,
            seed: self.common.seed,
            counts,
            family: self.hash.into(),
            threads: self.common.threads(),
        }
    }

    fn print(&self, study: &Study, options: &StudyOptions, output: &mut impl Write) -> Result<(), Failure> {
        match (self.common.json, study.rounds) {
            (true, _) => writeln!(output, "{:#}", json::study(study, options))?,
            (false, 0) => {}
            (false, 2..) if self.compare => tables::print_comparison(study, options, output)?,
            (false, _) => tables::print(study, options, output)?,
        }
        output.flush()?;
        Ok(())
    }
}

/// Experiments in order of their numbers, without duplicates.
#[derive(Clone, Debug)]
struct Experiments(Vec<Experiment>);

fn parse_experiments(text: &str) -> Result<Experiments, String> {
    if text == "all" {
        return Ok(Experiments(Experiment::ALL.to_vec()));
    }
    let parse = |number: &str| number.trim().parse().ok().and_then(Experiment::new);
    let mut experiments = text
        .split(',')
        .map(parse)
        .collect::<Option<Vec<_>>>()
        .ok_or("expected numbers from 1 to 8, separated by commas, or all")?;
    experiments.sort_unstable();
    experiments.dedup();
    Ok(Experiments(experiments))
}

pub(super) fn parse_rounds(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        rounds if rounds <= ROUNDS_MAX => Ok(rounds),
        _ => Err(format!("it must be at most {}", grouped(ROUNDS_MAX))),
    }
}
