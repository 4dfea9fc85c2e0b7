//! `bruit simulate`: the eight experiments.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_simulation::{CountDraws, Experiment, ROUNDS_MAX, Study, StudyOptions};

use super::files::Destinations;
use super::{Common, Hash, interrupt, json, tables};
use crate::failure::Failure;
use crate::progress;
use crate::quantity::{grouped, parse_count};

/// What the study is asked.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// Which experiments of the paper: a number from 1 to 8, several as 1,4,8, or all
    #[arg(long, value_name = "N", value_parser = parse_experiments, default_value = "all")]
    experiment: Experiments,

    /// How often each is repeated, with new hash functions; at most 100M
    #[arg(long, value_name = "N", value_parser = parse_rounds, default_value = "1000", allow_negative_numbers = true)]
    rounds: u64,

    #[command(flatten)]
    common: Common,

    /// Write the results to FILE, as comma-separated values; replaces a file that is there
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Draw the results into files in DIR, as SVG and as PNG; replaces those that are there
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Print the paper's means and reduction rates beside ours, and the differences in standard errors (JSON always has them)
    #[arg(long)]
    compare: bool,

    /// Draw counts freely, instead of like the paper's, of which the sum and the number of zeros are known
    #[arg(long)]
    free_counts: bool,

    /// Draw counts freely but only once, as the paper did, instead of for each round
    #[arg(long, conflicts_with = "free_counts")]
    one_draw: bool,

    /// Where the positions of a key come from
    #[arg(long, value_enum, default_value_t = Hash::Universal)]
    hash: Hash,
}

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let options = arguments.options();
    if arguments.compare && options.rounds < 2 {
        return Err(Failure::BadInput("--compare needs two rounds or more: one has no standard error".into()));
    }
    let destinations = Destinations::prepare(arguments.csv.as_deref(), arguments.plots.as_deref())?;
    let stop = interrupt::watch()?;
    let bar = progress::of_rounds(options.rounds);
    let study = bruit_simulation::run(&options, &|| bar.inc(1), stop);
    let study = study.map_err(|error| Failure::BadInput(error.to_string()))?;
    bar.finish_and_clear();

    if study.rounds < options.rounds {
        // Whether or not somebody reads it to the end, the run was interrupted.
        let _ = arguments.print(&study, &options, output);
        let files = if destinations.is_empty() { "" } else { ", and no file was written" };
        return Ok(interrupt::report(study.rounds, options.rounds, files));
    }
    interrupt::ignore();
    // Files come first, as whoever reads the tables may leave before their end; but the tables come in any case.
    let (written, printed) = (destinations.write(&study), arguments.print(&study, &options, output));
    let written = written?;
    printed?;
    for path in written.iter().filter(|_| !arguments.common.json) {
        writeln!(output, "Written: {}", path.display())?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
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

/// In the order of their numbers, each once.
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
        .ok_or("there are experiments 1 to 8: write 3, 1,4,8 or all")?;
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
