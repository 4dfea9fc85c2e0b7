//! Simulations of a single filter of any shape under any traffic, for questions that the paper left open.
//!
//! A custom run uses the library's own filters, insertion by insertion. A round draws keys, counts, an order and hash
//! functions. One filter receives all insertions. If there are several servers, each insertion also goes to the filter
//! of one of them, and these filters are then merged. Finally, the round looks up every key, and an equal number of
//! strangers: keys that were never inserted.
//!
//! The same [`CustomOptions`] yield the same results on any number of threads.

mod counter;
mod options;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bruit_filters::FingerprintKey;
use bruit_filters::counting::{CountingFilter, Extension, OneLineCounts, PackedCells};
use bruit_structures::compact::CompactCounters;
use rand::rngs::ChaCha8Rng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use self::counter::{CellMemory, Counter, OneLine};
pub use self::options::{
    CELLS_MAX, CustomLayout, CustomOptions, INSERTIONS_MAX, KEYS_MAX, MEMORY_BYTES_MAX, SERVERS_MAX,
};
use crate::positions::{PositionTable, draw_keys};
use crate::sequence::Sequence;
use crate::{Moments, OptionsError, blocks};

/// Number of rounds per block. If a run is stopped, all rounds after the first incomplete block are lost. A round may
/// take minutes, so each round is a block.
const BLOCK_ROUNDS: u64 = 1;

/// Results of a custom run.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomResult {
    /// Number of rounds run.
    pub rounds: u64,
    /// Number of insertions per round.
    pub insertions: Moments,
    /// Number of keys per round that were inserted `threshold` times or more, if there is a threshold.
    pub bulk_keys: Moments,
    /// Results of each way of counting.
    pub systems: Vec<SystemResult>,
}

/// Results of one way of counting, over all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemResult {
    /// The rule that decides which cells of an inserted key are raised.
    pub extension: Extension,
    /// Number of servers that shared the insertions before their filters were merged; 1 if one filter received all
    /// insertions.
    pub servers: u32,
    /// The paper's rate: insertions of keys with a wrong count, divided by all insertions. A count at the maximum of a
    /// cell is correct if the true count is equal or higher.
    pub rate: Moments,
    /// Keys with a wrong count, divided by the keys that were inserted.
    pub distinct_rate: Moments,
    /// Mean difference between the count and the true count, over the keys that were inserted.
    pub over_count: Moments,
    /// Keys that were inserted more often than a cell can count, divided by the keys that were inserted.
    pub clipped: Moments,
    /// Strangers with a count above 0, divided by the strangers.
    pub strangers_seen: Moments,
    /// f_dcc of inserted keys. Of the keys that were inserted at least once but less often than the threshold, this is
    /// the fraction whose count reaches the threshold. Only rounds with such keys contribute.
    pub false_bulk: Moments,
    /// f_dcc of keys that were never inserted, as in equation (4): strangers whose count reaches the threshold, divided
    /// by the strangers.
    pub strangers_bulk: Moments,
    /// The memory of one filter.
    pub bytes: Moments,
    /// The memory of one filter according to the paper's formula, which does not include spare capacity.
    pub computed_bytes: Moments,
}

/// Runs `options`.
///
/// `progress` is called after every round, on any thread. Once `stop` is true, no further round is started, and the
/// results cover the rounds finished so far.
///
/// # Errors
/// [`OptionsError`] if the options are invalid. In that case, no round is run.
pub fn run_custom(
    options: &CustomOptions,
    progress: &(dyn Fn() + Sync),
    stop: &AtomicBool,
) -> Result<CustomResult, OptionsError> {
    options.check()?;
    let worker = || {
        |round, result: &mut CustomResult| {
            Round::draw(options, round).run(result);
            progress();
        }
    };
    let empty = || CustomResult::empty(options);
    let mut total = empty();
    let take = |rounds, result: CustomResult| {
        total.rounds += rounds;
        total.merge(&result);
    };
    blocks::run(options.rounds, BLOCK_ROUNDS, options.threads, stop, worker, empty, take);
    Ok(total)
}

/// The purpose of a random choice. Each purpose has its own random stream.
#[derive(Clone, Copy)]
enum Purpose {
    Keys,
    Functions,
    Counts,
    Order,
    Servers,
}

fn random(seed: u64, round: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(round << 3 | purpose as u64);
    random
}

/// All random choices of a round: keys, counts, order and hash functions.
struct Round<'a> {
    options: &'a CustomOptions,
    number: u64,
    /// The keys to insert, followed by an equal number of strangers.
    keys: Vec<u64>,
    counts: Vec<u32>,
    sequence: Sequence,
}

impl<'a> Round<'a> {
    fn draw(options: &'a CustomOptions, number: u64) -> Self {
        let random = |purpose| random(options.seed, number, purpose);
        let counts = options.counts.draw(options.keys as usize, &mut random(Purpose::Counts));
        let sequence = Sequence::draw(options.order, &counts, &mut random(Purpose::Order));
        let keys = draw_keys(2 * options.keys as usize, &mut random(Purpose::Keys));
        Self { options, number, keys, counts, sequence }
    }

    fn run(&self, result: &mut CustomResult) {
        result.insertions.push(self.counts.iter().map(|&count| f64::from(count)).sum());
        if let Some(threshold) = self.options.threshold {
            result.bulk_keys.push(self.counts.iter().filter(|&&count| count >= threshold).count() as f64);
        }
        match self.options.layout {
            CustomLayout::Classical => {
                let cells = PackedCells::new(self.options.cells, self.options.cell_bits);
                self.run_classical(&cells.expect("the options were checked"), &mut result.systems);
            }
            CustomLayout::Compact => {
                let CustomOptions { cells, low_bits, cell_bits, .. } = *self.options;
                let cells = CompactCounters::new(cells, low_bits, cell_bits - low_bits, self.options.chunks());
                self.run_classical(&cells.expect("the options were checked"), &mut result.systems);
            }
            CustomLayout::OneLine => self.run_one_line(&mut result.systems),
        }
    }

    /// Runs filters whose keys have k positions anywhere in the filter. Their cells are copies of `empty`.
    fn run_classical<C: CellMemory>(&self, empty: &C, systems: &mut [SystemResult]) {
        let random = &mut random(self.options.seed, self.number, Purpose::Functions);
        let table =
            PositionTable::draw(self.options.family, self.options.hashes, self.options.cells, &self.keys, random);
        // Each extension has one result for the filter that receives all insertions and, if there are several servers,
        // one for the merged filters.
        for systems in systems.chunk_by_mut(|one, next| one.extension == next.extension) {
            let filter = CountingFilter::with_cells(table.clone(), systems[0].extension, empty.clone());
            self.count(&filter.expect("the options were checked"), systems);
        }
    }

    fn run_one_line(&self, systems: &mut [SystemResult]) {
        let mut key = [0; 16];
        random(self.options.seed, self.number, Purpose::Functions).fill_bytes(&mut key);
        let key = FingerprintKey::new(key);
        let fingerprints: Arc<[_]> = self.keys.iter().map(|x| key.fingerprint(&x.to_le_bytes())).collect();
        let counts =
            OneLineCounts::new(self.options.lines() as usize, key.id()).unwrap_or_else(|error| panic!("{error}"));
        self.count(&OneLine { counts, fingerprints }, systems);
    }

    /// Runs the round on copies of `empty`: one filter that receives all insertions and, if there is a second result,
    /// the servers' filters.
    fn count<C: Counter>(&self, empty: &C, systems: &mut [SystemResult]) {
        self.record(&self.filled(empty), &mut systems[0]);
        if let Some(result) = systems.get_mut(1) {
            self.record(&self.merged(empty), result);
        }
    }

    /// Returns the filter that receives all insertions.
    fn filled<C: Counter>(&self, empty: &C) -> C {
        let mut filter = empty.clone();
        self.for_each_insertion(|key, times| filter.insert(key, times));
        filter
    }

    /// Returns the merged filters of servers that share the insertions.
    fn merged<C: Counter>(&self, empty: &C) -> C {
        let mut servers = vec![empty.clone(); self.options.servers as usize];
        let random = &mut random(self.options.seed, self.number, Purpose::Servers);
        self.for_each_insertion(|key, times| {
            for _ in 0..times {
                let server = random.random_range(0..servers.len());
                servers[server].insert(key, 1);
            }
        });
        let mut merged = servers.pop().expect("there is at least one server");
        servers.iter().for_each(|other| merged.merge(other));
        merged
    }

    /// Calls `insert` with keys in the order of the round, each with its number of insertions in a row.
    fn for_each_insertion(&self, mut insert: impl FnMut(u32, u32)) {
        let keys = || (0u32..).zip(&self.counts);
        match &self.sequence {
            Sequence::Rounds => {
                for round in 1..=self.counts.iter().copied().max().unwrap_or(0) {
                    keys().filter(|&(_, &count)| count >= round).for_each(|(key, _)| insert(key, 1));
                }
            }
            Sequence::Runs => keys().filter(|&(_, &count)| count > 0).for_each(|(key, &count)| insert(key, count)),
            Sequence::Shuffled(sequence) => sequence.iter().for_each(|&key| insert(key, 1)),
        }
    }

    fn record<C: Counter>(&self, filter: &C, result: &mut SystemResult) {
        let mut inserted = InsertedTally::default();
        for (key, &truth) in (0u32..).zip(&self.counts).filter(|&(_, &truth)| truth > 0) {
            inserted.add(truth, filter.count(key), filter.top(), self.options.threshold);
        }
        let strangers = self.counts.len() as u32..self.keys.len() as u32;
        let (mut seen, mut bulk) = (0, 0);
        for count in strangers.map(|key| filter.count(key)) {
            seen += u64::from(count > 0);
            bulk += u64::from(self.options.threshold.is_some_and(|threshold| count >= threshold));
        }
        inserted.record(result);
        let strangers = self.counts.len() as u64;
        push_share(&mut result.strangers_seen, seen, strangers);
        push_share(&mut result.strangers_bulk, bulk, strangers);
        result.bytes.push(filter.bytes() as f64);
        result.computed_bytes.push(filter.computed_bytes() as f64);
    }
}

/// Tally over the keys that were inserted in one round.
#[derive(Default)]
struct InsertedTally {
    keys: u64,
    insertions: u64,
    wrong_keys: u64,
    wrong_insertions: u64,
    over_count: u64,
    clipped: u64,
    below_threshold: u64,
    false_bulk: u64,
}

impl InsertedTally {
    fn add(&mut self, truth: u32, count: u32, top: u32, threshold: Option<u32>) {
        let right = truth.min(top);
        self.keys += 1;
        self.insertions += u64::from(truth);
        if count != right {
            self.wrong_keys += 1;
            self.wrong_insertions += u64::from(truth);
        }
        self.over_count += u64::from(count - right);
        self.clipped += u64::from(truth > top);
        if let Some(threshold) = threshold.filter(|&threshold| truth < threshold) {
            self.below_threshold += 1;
            self.false_bulk += u64::from(count >= threshold);
        }
    }

    fn record(&self, result: &mut SystemResult) {
        push_share(&mut result.rate, self.wrong_insertions, self.insertions);
        push_share(&mut result.distinct_rate, self.wrong_keys, self.keys);
        push_share(&mut result.over_count, self.over_count, self.keys);
        push_share(&mut result.clipped, self.clipped, self.keys);
        push_share(&mut result.false_bulk, self.false_bulk, self.below_threshold);
    }
}

/// Adds the ratio of `part` to `whole`, unless `whole` is 0.
fn push_share(moments: &mut Moments, part: u64, whole: u64) {
    if whole > 0 {
        moments.push(part as f64 / whole as f64);
    }
}

impl CustomResult {
    fn empty(options: &CustomOptions) -> Self {
        let extensions: &[Extension] = match options.layout {
            CustomLayout::Classical | CustomLayout::Compact => &[Extension::Intuitive, Extension::Refined],
            CustomLayout::OneLine => &[Extension::Refined],
        };
        let mut systems = Vec::new();
        for &extension in extensions {
            systems.push(SystemResult::empty(extension, 1));
            if options.servers > 1 {
                systems.push(SystemResult::empty(extension, options.servers));
            }
        }
        Self { rounds: 0, insertions: Moments::default(), bulk_keys: Moments::default(), systems }
    }

    fn merge(&mut self, other: &Self) {
        self.insertions.merge(&other.insertions);
        self.bulk_keys.merge(&other.bulk_keys);
        self.systems.iter_mut().zip(&other.systems).for_each(|(total, part)| total.merge(part));
    }
}

impl SystemResult {
    fn empty(extension: Extension, servers: u32) -> Self {
        let none = Moments::default();
        Self {
            extension,
            servers,
            rate: none,
            distinct_rate: none,
            over_count: none,
            clipped: none,
            strangers_seen: none,
            false_bulk: none,
            strangers_bulk: none,
            bytes: none,
            computed_bytes: none,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.rate.merge(&other.rate);
        self.distinct_rate.merge(&other.distinct_rate);
        self.over_count.merge(&other.over_count);
        self.clipped.merge(&other.clipped);
        self.strangers_seen.merge(&other.strangers_seen);
        self.false_bulk.merge(&other.false_bulk);
        self.strangers_bulk.merge(&other.strangers_bulk);
        self.bytes.merge(&other.bytes);
        self.computed_bytes.merge(&other.computed_bytes);
    }
}
