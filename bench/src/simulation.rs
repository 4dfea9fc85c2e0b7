//! Benchmarks of the simulation study of Yan and Cho's paper: its speed, compared with a plain loop over the library's
//! filters, and its agreement with the paper.

use std::io;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use bruit_filters::counting::{CountingFilter, Extension};
use bruit_simulation::{CountDraws, Experiment, Family, HASHES, KEYS, Order, Study, StudyOptions, paper, run};
use bruit_structures::hash::{Prime, UniversalHash};
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::report::{Figure, Report, Target};
use crate::timing::process_time;

const SEED: u64 = 2006;

/// Width of a cell in the paper, in bits.
const CELL_BITS: u32 = 6;

/// Number of rounds of the study that are timed, to be compared with one round of the plain loop.
const ROUNDS: u64 = 20;

/// Number of rounds of the full study.
const FULL_ROUNDS: u64 = 1000;

pub(crate) fn speed(report: &mut Report) -> io::Result<()> {
    let plain_ms = process_time(plain_round) / 1e6;
    let study_ms = process_time(|| study(ROUNDS, 1)) / 1e6 / ROUNDS as f64;
    let note = format!("{study_ms:.1} ms of CPU per round, plain loop {plain_ms:.0} ms");
    let name = "simulation study, times faster than a plain loop over classical filters";
    report.add(Figure::new(name, plain_ms / study_ms, Target::AtLeast(10.0), note))?;

    let threads = thread::available_parallelism().map_or(1, usize::from).min(2);
    let start = Instant::now();
    let full = study(FULL_ROUNDS, threads);
    let note = format!("8 experiments, {FULL_ROUNDS} rounds, {threads} threads");
    let seconds = start.elapsed().as_secs_f64();
    report.add(Figure::new("seconds for the full simulation study", seconds, Target::AtMost(60.0), note))?;
    agreement(&full, report)
}

/// Measures how far our means are from the paper's means, in standard errors of the difference.
fn agreement(study: &Study, report: &mut Report) -> io::Result<()> {
    let distance = |figure: &paper::Figure| {
        let result = study.experiments.iter().find(|result| result.experiment == figure.experiment);
        let mut configurations = result.expect("all experiments were run").configurations.iter();
        let configuration = configurations.find(|found| (found.m, found.k) == (figure.m, figure.k));
        figure.distance(&configuration.expect("the paper's sizes were run").extension(figure.extension).rate).abs()
    };
    let distances: Vec<f64> = paper::figures().iter().map(distance).collect();
    let near = distances.iter().filter(|&&distance| distance <= 2.0).count();
    let largest = distances.iter().copied().fold(0.0, f64::max);
    let share = near as f64 / distances.len() as f64;
    let note = format!("{near} of {}, seed {SEED}", distances.len());
    report.add(Figure::new("means within 2 standard errors of the paper's", share, Target::AtLeast(0.9), note))?;
    report.add(Figure::new("largest difference, in standard errors", largest, Target::AtMost(4.5), ""))
}

fn study(rounds: u64, threads: usize) -> Study {
    let experiments = Experiment::ALL.to_vec();
    let (counts, family) = (CountDraws::AsPaper, Family::Universal);
    let options = StudyOptions { experiments, rounds, seed: SEED, counts, family, threads };
    run(&options, &|| (), &AtomicBool::new(false)).expect("valid options")
}

/// Runs one round of all experiments, insertion by insertion. Returns the number of wrong counts.
fn plain_round() -> usize {
    let random = &mut ChaCha8Rng::seed_from_u64(SEED);
    let keys: Vec<u64> = (0..KEYS).map(|_| random.next_u64() % Prime::Paper.value()).collect();
    let mut wrong = 0;
    for experiment in Experiment::ALL {
        let counts = experiment.counts().draw(KEYS, random);
        let sequence = sequence(experiment.order(), &keys, &counts, random);
        for &cells in experiment.sizes() {
            for hashes in HASHES {
                let hash = UniversalHash::draw(cells, Prime::Paper, hashes, || random.next_u64());
                let hash = hash.expect("there is at least one cell and one function");
                for extension in [Extension::Intuitive, Extension::Refined] {
                    let filter = CountingFilter::new(hash.clone(), extension, CELL_BITS);
                    let mut filter = filter.expect("6 bits are valid");
                    sequence.iter().for_each(|key| filter.insert(key));
                    wrong += keys.iter().zip(&counts).filter(|&(key, &count)| filter.count(key) != count).count();
                }
            }
        }
    }
    wrong
}

/// Returns all insertions of a round, in order.
fn sequence(order: Order, keys: &[u64], counts: &[u32], random: &mut ChaCha8Rng) -> Vec<u64> {
    let pairs = || keys.iter().zip(counts);
    if order == Order::Rounds {
        let most = counts.iter().copied().max().unwrap_or(0);
        return (1..=most).flat_map(|round| pairs().filter(move |pair| *pair.1 >= round)).map(|pair| *pair.0).collect();
    }
    let mut sequence: Vec<u64> = pairs().flat_map(|(&key, &count)| std::iter::repeat_n(key, count as usize)).collect();
    if order == Order::Shuffled {
        sequence.shuffle(random);
    }
    sequence
}
