//! The eight experiments, over any number of rounds.
//!
//! A round draws keys once. Experiments that differ only in the order of the insertions share their counts and hash
//! functions, which are also drawn once per round. The paper does the same: its figures for experiments 1 and 2 at m =
//! 320K agree to the last digit.
//!
//! The same [`StudyOptions`] yield the same results on any number of threads. The results of an experiment do not
//! depend on which other experiments are in the run. Every choice uses its own random stream, derived from the seed,
//! the round and the purpose. The study uses neither a clock nor any other source of randomness.

use std::fmt;
use std::sync::atomic::AtomicBool;

use rand::SeedableRng as _;
use rand::rngs::ChaCha8Rng;

use crate::contested::ContestedCells;
use crate::experiment::{Experiment, HASHES, PaperDraw};
use crate::options::{OptionsError, check_rounds_and_threads};
use crate::positions::{Family, PositionTable, draw_keys};
use crate::results::{ConfigurationResult, ExperimentResult, ExtensionResult, Study};
use crate::sequence::Sequence;
use crate::{Counts, Moments, blocks};

/// Number of keys in each of the paper's rounds.
pub const KEYS: usize = 10_000;

/// Number of times that errors are counted during the insertions, in experiments 1 and 3.
const CHECKPOINTS: usize = 20;

/// Number of rounds per block. Merging 156 histograms takes time, so results are merged only once per block.
const BLOCK_ROUNDS: u64 = 4;

/// Options of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyOptions {
    /// Experiments to run, without repetition.
    pub experiments: Vec<Experiment>,
    /// Number of rounds, each with its own keys, counts and hash functions.
    pub rounds: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Distribution of the counts of the keys.
    pub counts: CountDraws,
    /// Hash family that computes positions.
    pub family: Family,
    /// Number of worker threads, at least one.
    pub threads: usize,
}

/// The way a round draws the counts of its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountDraws {
    /// New counts in every round. Their sum and their number of zeros match those of the paper's counts, where known.
    #[default]
    AsPaper,
    /// New random counts in every round.
    Free,
    /// Random counts drawn once for all rounds, as in the paper.
    Once,
}

impl StudyOptions {
    /// Validates the options.
    ///
    /// # Errors
    /// [`OptionsError`] for the first problem that is found.
    pub fn check(&self) -> Result<(), OptionsError> {
        check_rounds_and_threads(self.rounds, self.threads)?;
        let repeated = |(place, experiment)| self.experiments[..place].contains(experiment);
        match self.experiments.iter().enumerate().find(|&member| repeated(member)) {
            Some((_, experiment)) => Err(OptionsError::Repeated { number: experiment.number() }),
            None => Ok(()),
        }
    }
}

impl fmt::Display for CountDraws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AsPaper => "as-paper",
            Self::Free => "free",
            Self::Once => "once",
        })
    }
}

/// Runs the study.
///
/// `progress` is called after every round, on any thread. Once `stop` is true, no further round is started, and the
/// results cover the rounds finished so far.
///
/// # Errors
/// [`OptionsError`] if the options are invalid. In that case, no round is run.
pub fn run(options: &StudyOptions, progress: &(dyn Fn() + Sync), stop: &AtomicBool) -> Result<Study, OptionsError> {
    options.check()?;
    let groups = groups(options);
    let worker = || {
        let (mut contested, groups) = (ContestedCells::default(), &groups);
        move |round, results: &mut Vec<ExperimentResult>| {
            run_round(options, groups, round, &mut contested, results);
            progress();
        }
    };
    let empty = || empty_results(&options.experiments);
    let mut study = Study { rounds: 0, seed: options.seed, experiments: empty() };
    let take = |rounds, results: Vec<ExperimentResult>| {
        study.rounds += rounds;
        study.experiments.iter_mut().zip(&results).for_each(|(total, part)| total.merge(part));
    };
    blocks::run(options.rounds, BLOCK_ROUNDS, options.threads, stop, worker, empty, take);
    Ok(study)
}

/// Iterates over all combinations of sizes and numbers of hash functions.
fn configurations(sizes: &[u64]) -> impl Iterator<Item = (u64, u32)> {
    sizes.iter().flat_map(|&cells| HASHES.map(|hashes| (cells, hashes)))
}

fn empty_results(experiments: &[Experiment]) -> Vec<ExperimentResult> {
    let empty = |experiment: &Experiment| {
        let checkpoints = if experiment.has_growth() { CHECKPOINTS } else { 0 };
        let extension = || ExtensionResult::empty(checkpoints);
        let configurations = configurations(experiment.sizes());
        let empty = |(m, k)| ConfigurationResult {
            m,
            k,
            intuitive: extension(),
            refined: extension(),
            rate_sum: Moments::default(),
        };
        ExperimentResult { experiment: *experiment, configurations: configurations.map(empty).collect() }
    };
    experiments.iter().map(empty).collect()
}

/// Experiments that have the same counts and differ only in the order of the insertions.
struct Group {
    counts: Counts,
    paper_draw: PaperDraw,
    sizes: &'static [u64],
    /// The experiments, with their indices in the results.
    experiments: Vec<(usize, Experiment)>,
}

impl Group {
    fn draw_counts(&self, options: &StudyOptions, round: u64) -> Vec<u32> {
        let round = if options.counts == CountDraws::Once { 0 } else { round };
        let random = &mut random(options.seed, round, Purpose::Counts(self.counts));
        match options.counts {
            CountDraws::AsPaper => self.counts.draw_like(KEYS, self.paper_draw, random),
            CountDraws::Free | CountDraws::Once => self.counts.draw(KEYS, random),
        }
    }

    /// Draws one sequence for each experiment.
    fn draw_sequences(&self, seed: u64, round: u64, counts: &[u32]) -> Vec<Sequence> {
        let draw = |&(_, experiment): &(usize, Experiment)| {
            let random = &mut random(seed, round, Purpose::Order(experiment));
            Sequence::draw(experiment.order(), counts, random)
        };
        self.experiments.iter().map(draw).collect()
    }
}

fn groups(options: &StudyOptions) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for member @ (_, experiment) in options.experiments.iter().copied().enumerate() {
        let counts = experiment.counts();
        if let Some(group) = groups.iter_mut().find(|group| group.counts == counts) {
            group.experiments.push(member);
        } else {
            let paper_draw = experiment.paper_draw();
            groups.push(Group { counts, paper_draw, sizes: experiment.sizes(), experiments: vec![member] });
        }
    }
    groups
}

/// The purpose of a random choice. Each purpose has its own random stream.
#[derive(Clone, Copy)]
enum Purpose {
    Keys,
    Counts(Counts),
    Functions(Counts),
    Order(Experiment),
}

fn random(seed: u64, round: u64, purpose: Purpose) -> ChaCha8Rng {
    // Use the number of the first experiment with these counts, even if it is not in the run: experiment 5 shares the
    // counts of experiment 4.
    let first = |counts| {
        let first = Experiment::ALL.into_iter().find(|experiment| experiment.counts() == counts);
        first.expect("only the paper's counts are drawn here").number()
    };
    let purpose = match purpose {
        Purpose::Keys => 0,
        Purpose::Counts(counts) => first(counts),
        Purpose::Functions(counts) => 8 + first(counts),
        Purpose::Order(experiment) => 16 + experiment.number(),
    };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(round << 5 | u64::from(purpose));
    random
}

fn run_round(
    options: &StudyOptions,
    groups: &[Group],
    round: u64,
    contested: &mut ContestedCells,
    results: &mut [ExperimentResult],
) {
    let keys = draw_keys(KEYS, &mut random(options.seed, round, Purpose::Keys));
    for group in groups {
        let counts = group.draw_counts(options, round);
        let sequences = group.draw_sequences(options.seed, round, &counts);
        let random = &mut random(options.seed, round, Purpose::Functions(group.counts));
        for (place, (cells, hashes)) in configurations(group.sizes).enumerate() {
            let positions = PositionTable::draw(options.family, hashes, cells, &keys, random);
            contested.rebuild(&positions, &counts);
            for ((experiment, _), sequence) in group.experiments.iter().zip(&sequences) {
                let result = &mut results[*experiment].configurations[place];
                insert_all(contested, sequence, &counts, result);
                record(contested, &counts, result);
            }
        }
    }
}

/// Runs all insertions. Counts errors at each checkpoint if `result` has entries for them.
fn insert_all(contested: &mut ContestedCells, sequence: &Sequence, counts: &[u32], result: &mut ConfigurationResult) {
    contested.clear();
    match sequence {
        Sequence::Rounds => {
            for round in 1..=counts.iter().copied().max().unwrap_or(0) {
                contested.insert_all(|key| u32::from(counts[key] >= round));
                record_growth(contested, round as usize - 1, result);
            }
        }
        Sequence::Runs => contested.insert_all(|key| counts[key]),
        Sequence::Shuffled(keys) => {
            for (chunk, keys) in keys.chunks(keys.len().div_ceil(CHECKPOINTS).max(1)).enumerate() {
                contested.insert_sequence(keys);
                record_growth(contested, chunk, result);
            }
        }
    }
}

fn record_growth(contested: &ContestedCells, checkpoint: usize, result: &mut ConfigurationResult) {
    for (extension, result) in [&mut result.intuitive, &mut result.refined].into_iter().enumerate() {
        if let Some(growth) = result.growth.get_mut(checkpoint) {
            growth.push(contested.wrong(extension).count() as f64 / KEYS as f64);
        }
    }
}

fn record(contested: &ContestedCells, counts: &[u32], result: &mut ConfigurationResult) {
    let insertions: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let keys = counts.iter().filter(|&&count| count > 0).count();
    let mut rate_sum = 0.0;
    for (extension, result) in [&mut result.intuitive, &mut result.refined].into_iter().enumerate() {
        let (mut wrong_keys, mut wrong_insertions) = (0, 0);
        for (_, inserted) in contested.wrong(extension) {
            wrong_keys += 1;
            wrong_insertions += u64::from(inserted);
        }
        let rate = wrong_insertions as f64 / insertions as f64;
        result.rate.push(rate);
        rate_sum += rate;
        result.distinct_rate.push(wrong_keys as f64 / keys as f64);
        result.push_wrong_keys(wrong_keys);
        contested.add_histogram(extension, &mut result.cells);
    }
    result.rate_sum.push(rate_sum);
}
