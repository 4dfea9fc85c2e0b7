//! Benchmarks of flow counters: the speed of counting, and the accuracy of estimates compared with a refined counting
//! filter.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use bruit_filters::bloom::OneLineFilter;
use bruit_filters::counting::{CountingFilter, Extension, OneLineCounts};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::{Fingerprint, KeyId};
use bruit_forensics::capture::Capture;
use bruit_forensics::flows::{Comparison, FlowCounter, Identity, Key, Settings, bands};
use bruit_forensics::generate::Traffic;
use bruit_forensics::packet::decode;
use bruit_structures::space_code::{Arrival, Estimate, MultiResolutionFilter, Shape};

use crate::keys::{key, mixed};
use crate::report::{Figure, Report, Target};
use crate::timing::compare;

const LINE_BYTES: u64 = 64;
const BATCH: usize = 1024;

/// Number of flows in the traffic. The number of packets per flow follows Zipf's law with exponent 1.
const FLOWS: u32 = 100_000;
const PACKETS: u64 = 10_000_000;
/// Memory sizes in bytes.
const MEMORIES: [u64; 4] = [512 << 10, 1 << 20, 4 << 20, 16 << 20];
/// Width of the cells in the textbook counting filter: the maximum, for counts up to 65,535.
const CELL_BITS: u32 = 16;
const CELL_HASHES: u32 = 4;

/// Number of packets in the timed capture.
const CAPTURE_PACKETS: u64 = 500_000;

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    speed(report)?;
    let traffic = Traffic { flows: FLOWS, packets: PACKETS, seed: 8, ..Traffic::default() };
    let ranks: Vec<u32> = traffic.ranks().collect();
    let mut truth = vec![0; FLOWS as usize];
    ranks.iter().for_each(|&rank| truth[rank as usize] += 1);
    MEMORIES.iter().try_for_each(|&bytes| accuracy(report, &ranks, &truth, bytes))
}

/// Compares the time of `bruit-lab flows` with the time to read the same file without decoding frames.
fn speed(report: &mut Report) -> io::Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let traffic =
        Traffic { hosts: 2000, flows: FLOWS, packets: CAPTURE_PACKETS, payload_bytes: 0..=1400, ..Traffic::default() };
    traffic.write(BufWriter::new(file.reopen()?))?;
    for (name, choice) in [("pairs", Key::PAIR), ("five-tuples", Key::FIVE_TUPLE)] {
        let pair = compare(CAPTURE_PACKETS as usize, || read(file.path()), || count(file.path(), choice));
        let megabytes =
            |ns: f64| file.as_file().metadata().map(|file| file.len() as f64 / ns / CAPTURE_PACKETS as f64 * 1e3);
        let note = format!(
            "{:.0} ns per packet, {:.0} MB/s; reading alone {:.0} ns, {:.0} MB/s",
            pair.subject_ns,
            megabytes(pair.subject_ns)?,
            pair.reference_ns,
            megabytes(pair.reference_ns)?
        );
        report.add(Figure::new(
            format!("flows: speed of counting {name} / speed of reading the capture"),
            pair.ratio,
            Target::AtLeast(0.3),
            note,
        ))?;
    }
    Ok(())
}

fn read(path: &Path) -> u64 {
    let mut capture = Capture::open(File::open(path).expect("the file exists")).expect("a capture");
    let mut bytes = 0;
    while let Some(frame) = capture.next_frame().expect("a whole capture") {
        bytes += frame.bytes.len() as u64;
    }
    bytes
}

fn count(path: &Path, key: Key) -> u64 {
    let identity_bytes_max = key.identity_bytes_max();
    let settings = Settings { memory_bytes: 64 << 20, identity_bytes_max, shape: Shape::default(), exact_flows: 0 };
    let mut counter = FlowCounter::new(&settings, [7; 16], 1);
    let mut capture = Capture::open(File::open(path).expect("the file exists")).expect("a capture");
    let mut identity = Identity::default();
    while let Some(frame) = capture.next_frame().expect("a whole capture") {
        if let Ok(packet) = decode(&frame) {
            identity.set_packet(key, &packet);
            counter.count(identity.as_bytes());
        }
    }
    counter.counted().packets()
}

/// Measures the errors of estimates for each range of flow sizes, and the errors of counting filters with the same
/// number of bytes.
fn accuracy(report: &mut Report, ranks: &[u32], truth: &[u64], bytes: u64) -> io::Result<()> {
    let filter = filled(ranks, bytes);
    let estimator = filter.estimator();
    let estimates: Vec<Estimate> = (0..truth.len() as u64).map(|rank| estimator.estimate(&key(rank))).collect();
    let (counts, cells) = (counted(ranks, bytes), counted_in_cells(ranks, bytes));
    let compared = |estimate: &dyn Fn(usize) -> f64| {
        let seen = (0..truth.len()).filter(|&rank| truth[rank] > 0);
        bands(seen.map(|rank| {
            let within = estimates[rank].low.max(1.0)..=estimates[rank].high;
            let is_covered = within.contains(&(truth[rank] as f64));
            Comparison { truth: truth[rank], estimate: estimate(rank), is_covered }
        }))
    };
    let likely = compared(&|rank| estimates[rank].likely.max(1.0));
    let mean = compared(&|rank| estimates[rank].mean.max(1.0));
    let one_line = compared(&|rank| f64::from(counts.count(&key(rank as u64))));
    let classical = compared(&|rank| f64::from(cells.count(&key(rank as u64))));
    for (index, band) in likely.iter().enumerate() {
        let note = format!(
            "{} flows; bias {:+.3}; error of the mean estimate {:.3}; {:.1} % within the interval; \
             error of refined counts: {:.5} in lines ({} KiB), {:.5} in 16-bit cells",
            band.flows,
            band.bias,
            mean[index].mean_error,
            band.covered * 100.0,
            one_line[index].mean_error,
            counts.bytes() >> 10,
            classical[index].mean_error,
        );
        let name = format!("flows: mean relative error in {} KiB, {} to {} packets", bytes >> 10, band.from, band.to);
        report.add(Figure::new(name, band.mean_error, Target::None, note))?;
    }
    let rates: Vec<_> = estimator.false_positive_rates().map(|rate| format!("{rate:.3}")).collect();
    let first = estimator.false_positive_rates().next().unwrap_or(0.0);
    let name = format!("flows: share of groups hit by chance, first resolution of {} KiB", bytes >> 10);
    report.add(Figure::new(name, first, Target::None, format!("all resolutions: {}", rates.join(" "))))
}

fn filled(ranks: &[u32], bytes: u64) -> MultiResolutionFilter<OneLineFilter> {
    let mut filter = MultiResolutionFilter::with_bytes(bytes, Shape::default(), KeyId(0));
    let mut arrivals = Vec::with_capacity(BATCH);
    let mut number = 0;
    for batch in ranks.chunks(BATCH) {
        arrivals.clear();
        for &rank in batch {
            number += 1;
            arrivals.push(Arrival { key: key(rank.into()), draw: mixed(number << 1 | 1 << 62) });
        }
        filter.insert_batch(&arrivals);
    }
    filter
}

fn counted(ranks: &[u32], bytes: u64) -> OneLineCounts {
    let mut counts = OneLineCounts::new((bytes / LINE_BYTES) as usize, KeyId(0)).unwrap();
    in_batches(ranks, |keys| counts.insert_batch(keys));
    counts
}

fn counted_in_cells(ranks: &[u32], bytes: u64) -> CountingFilter<FingerprintHash> {
    let hash = FingerprintHash::new(bytes * 8 / u64::from(CELL_BITS), CELL_HASHES, 64, KeyId(0)).unwrap();
    let mut counts = CountingFilter::new(hash, Extension::Refined, CELL_BITS).expect("a valid shape");
    in_batches(ranks, |keys| counts.insert_batch(keys));
    counts
}

fn in_batches(ranks: &[u32], mut insert: impl FnMut(&[Fingerprint])) {
    let mut keys = Vec::with_capacity(BATCH);
    for batch in ranks.chunks(BATCH) {
        keys.clear();
        keys.extend(batch.iter().map(|&rank| key(rank.into())));
        insert(&keys);
    }
}
