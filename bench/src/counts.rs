//! Benchmarks of refined counts: updates and accuracy, compared with a published count-min sketch.

use std::collections::HashMap;
use std::io;

use bruit_filters::counting::OneLineCounts;
use bruit_filters::ring::CountsRing;
use bruit_filters::{Fingerprint, KeyId};
use count_min_sketch::CountMinSketch8;

use crate::keys::{key, keys, mixed, zipf};
use crate::membership::figure;
use crate::memory::Buffer;
use crate::report::{Figure, Report, Target};
use crate::timing::compare;

const FILTER_BYTES: usize = 192 << 20;
const LINES: usize = FILTER_BYTES / 64;
/// Number of keys. There are sixteen per line, so each has 32 bits.
const KEYS: usize = LINES * 16;
const OPERATIONS: usize = 500_000;
/// Number of batches. The timed rounds cycle through them, so that the stream continues from round to round.
const BATCHES: usize = 17;

pub(crate) fn speed(report: &mut Report) -> io::Result<()> {
    let mut buffer = Buffer::new(FILTER_BYTES);
    let mut counts = OneLineCounts::new(LINES, KeyId(0)).unwrap();
    for start in (0..KEYS).step_by(OPERATIONS) {
        counts.insert_batch(&keys(start as u64, OPERATIONS));
    }
    let uniform: Vec<_> = (0..(BATCHES * OPERATIONS) as u64).map(|i| key(mixed(i) % KEYS as u64)).collect();
    streams(report, "uniform keys", &mut counts, &mut buffer, &uniform, Target::AtLeast(0.75))?;

    let mut counts = OneLineCounts::new(LINES, KeyId(0)).unwrap();
    let history: Vec<_> = zipf(500_000_000, 60_000_000, 1).into_iter().map(key).collect();
    counts.insert_batch(&history);
    drop(history);
    let arrivals: Vec<_> = zipf(500_000_000, BATCHES * OPERATIONS, 2).into_iter().map(key).collect();
    streams(report, "Zipf(1)", &mut counts, &mut buffer, &arrivals, Target::AtLeast(0.50))?;
    peer(report, &mut buffer, &uniform)
}

fn streams(
    report: &mut Report,
    stream: &str,
    counts: &mut OneLineCounts,
    buffer: &mut Buffer,
    arrivals: &[Fingerprint],
    target: Target,
) -> io::Result<()> {
    let mut found = vec![0; OPERATIONS];
    // The reference always reads the lines of uniform keys, so that the figures of all streams are comparable.
    let reference: Vec<_> = keys(7 << 40, BATCHES * OPERATIONS);
    let (mut at, mut reference_at) = (Turns::new(arrivals), Turns::new(&reference));
    let updates = compare(OPERATIONS, || buffer.change_lines(reference_at.next()), || counts.insert_batch(at.next()));
    report.add(figure(&format!("refined updates, {stream} / line read-modify-writes"), updates, target))?;
    let checks =
        compare(OPERATIONS, || buffer.read_lines(reference_at.next()), || counts.count_batch(at.next(), &mut found));
    report.add(figure(&format!("count checks, {stream} / line reads"), checks, Target::None))
}

/// The batches of a stream, used one after another.
struct Turns<'a> {
    stream: &'a [Fingerprint],
    turn: usize,
}

impl<'a> Turns<'a> {
    const fn new(stream: &'a [Fingerprint]) -> Self {
        Self { stream, turn: 0 }
    }

    fn next(&mut self) -> &'a [Fingerprint] {
        self.turn = (self.turn + 1) % BATCHES;
        &self.stream[self.turn * OPERATIONS..(self.turn + 1) * OPERATIONS]
    }
}

fn peer(report: &mut Report, buffer: &mut Buffer, arrivals: &[Fingerprint]) -> io::Result<()> {
    let hashes: Vec<u64> = arrivals.iter().map(|key| key.high()).collect();
    let mut sketch = CountMinSketch8::<u64>::new(KEYS / 8, 0.95, 10.0).expect("valid parameters");
    let mut at = 0;
    let pair = compare(
        OPERATIONS,
        || buffer.change_lines(&arrivals[..OPERATIONS]),
        || {
            at = (at + 1) % BATCHES;
            hashes[at * OPERATIONS..(at + 1) * OPERATIONS].iter().for_each(|hash| sketch.increment(hash));
        },
    );
    report.add(figure("peer: count-min-sketch updates, uniform keys / line read-modify-writes", pair, Target::None))
}

pub(crate) fn accuracy(report: &mut Report) -> io::Result<()> {
    let events = zipf(10_000_000, 10_000_000, 3);
    let mut truth: HashMap<u64, u32> = HashMap::new();
    events.iter().for_each(|&event| *truth.entry(event).or_default() += 1);
    let lines = truth.len() * 32 / 512;

    let count_all = |servers: usize| {
        let mut filters = vec![OneLineCounts::new(lines, KeyId(0)).unwrap(); servers];
        for (i, &event) in events.iter().enumerate() {
            filters[mixed(i as u64) as usize % servers].insert(&key(event));
        }
        let (first, others) = filters.split_first_mut().expect("at least one server");
        others.iter().for_each(|other| first.merge(other).expect("equal parameters"));
        filters.swap_remove(0)
    };
    let single = count_all(1);
    let (over, under) = errors(|key| single.count(key), &truth);
    let largest = truth.values().max().copied().unwrap_or(0);
    let note = format!("{} keys, largest count {largest}, {} records spilled", truth.len(), single.spilled());
    report.add(Figure::new("mean over-count, 32 bits per key, Zipf(1)", over, Target::AtMost(0.010), note))?;
    report.add(Figure::new("keys under-counted", under as f64, Target::AtMost(0.0), "all keys checked"))?;
    let merged = count_all(8);
    let (over, under) = errors(|key| merged.count(key), &truth);
    let note = format!("{under} keys under-counted");
    report.add(Figure::new("mean over-count, eight servers merged", over, Target::None, note))?;
    ring_accuracy(report)
}

/// Measures the accuracy of a ring of counts. All insertions are in one generation.
fn ring_accuracy(report: &mut Report) -> io::Result<()> {
    let events = zipf(1_000_000, 1_000_000, 4);
    let mut truth: HashMap<u64, u32> = HashMap::new();
    events.iter().for_each(|&event| *truth.entry(event).or_default() += 1);
    // Give each key 32 bits in each of the eight generations, which share the lines.
    let mut ring = CountsRing::new(truth.len() * 32 * 8 / 512, KeyId(0), 0).unwrap();
    events.iter().for_each(|&event| ring.insert(&key(event)));
    let (over, under) = errors(|key| ring.count(key), &truth);
    let name = "mean over-count in a ring of counts, 32 bits per key and generation";
    report.add(Figure::new(name, over, Target::None, format!("{} keys, {under} under-counted", truth.len())))
}

/// Returns the mean over-count, and the number of keys whose count is too low.
fn errors(counted: impl Fn(&Fingerprint) -> u32, truth: &HashMap<u64, u32>) -> (f64, usize) {
    let (mut over, mut under) = (0u64, 0);
    for (&event, &count) in truth {
        let found = counted(&key(event));
        over += u64::from(found.saturating_sub(count));
        under += usize::from(found < count);
    }
    (over as f64 / truth.len() as f64, under)
}
