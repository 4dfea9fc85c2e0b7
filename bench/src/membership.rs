//! Benchmarks of the live filter: checks, inserts and space, compared with published crates.

use std::io;

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::sizing::{Goal, Layout, MembershipPlan};
use bruit_filters::{Fingerprint, KeyId};
use fastbloom::BloomFilter;
use sbbf_rs_safe::Filter as SplitBlockFilter;
use xorf::{BinaryFuse8, Filter as _};

use crate::keys::{key, keys};
use crate::memory::Buffer;
use crate::report::{Figure, Report, Target};
use crate::timing::{Pair, compare};

/// Size of the filter. It is larger than the last-level cache of common machines.
const FILTER_BYTES: usize = 192 << 20;
/// Number of operations per timed round.
const OPERATIONS: usize = 1_000_000;
/// Number of keys in the filters of published crates, with about ten bits each.
const PEER_KEYS: usize = FILTER_BYTES * 8 / 10;

pub(crate) fn speed(report: &mut Report) -> io::Result<()> {
    let mut filter = filled(FILTER_BYTES, PEER_KEYS);
    let mut buffer = Buffer::new(FILTER_BYTES);
    // Half of the keys are present. They are in random order, so that branches cannot be predicted.
    let asked: Vec<Fingerprint> = (0..OPERATIONS as u64).map(|i| mixed_key(i, PEER_KEYS as u64)).collect();
    let mut found = vec![false; OPERATIONS];

    let checks = compare(OPERATIONS, || buffer.read_lines(&asked), || filter.contains_batch(&asked, &mut found));
    report.add(figure("batched checks / random line reads", checks, Target::AtLeast(0.90)))?;
    let inserts = compare(OPERATIONS, || buffer.change_lines(&asked), || filter.insert_batch(&asked));
    report.add(figure("batched inserts / random line read-modify-writes", inserts, Target::AtLeast(0.92)))?;
    let one_by_one = || asked.iter().map(|key| u64::from(filter.contains(key))).sum::<u64>();
    let batched = compare(OPERATIONS, one_by_one, || filter.contains_batch(&asked, &mut found));
    report.add(figure("batched checks / checks one by one", batched, Target::None))?;
    let levels = compare(OPERATIONS, || buffer.read_lines_through_first_level(&asked), || buffer.read_lines(&asked));
    report.add(figure(
        "line reads through the second-level cache / through the first-level cache",
        levels,
        Target::None,
    ))?;
    peers(report, &mut buffer, &asked)
}

/// Returns a filter of `bytes` bytes with the first `stored` keys.
fn filled(bytes: usize, stored: usize) -> OneLineFilter {
    let plan = MembershipPlan::new(Layout::OneLine, stored as u64, Goal::Rate(0.01)).expect("a valid size");
    let mut filter = OneLineFilter::new(bytes / 64, plan.hashes, plan.fingerprint_bits, KeyId(0)).unwrap();
    for start in (0..stored).step_by(OPERATIONS) {
        filter.insert_batch(&keys(start as u64, OPERATIONS.min(stored - start)));
    }
    filter
}

fn mixed_key(i: u64, stored: u64) -> Fingerprint {
    let draw = crate::keys::mixed(i ^ 0x5eed << 32);
    if draw & 1 == 0 { key(draw % stored) } else { key(1 << 60 | i) }
}

pub(crate) fn figure(name: &str, pair: Pair, target: Target) -> Figure {
    let note = format!("{:.2} ns, reference {:.2} ns", pair.subject_ns, pair.reference_ns);
    Figure::new(name, pair.ratio, target, note)
}

/// Measures checks and inserts of published crates, one key at a time, because these crates have no batch functions.
fn peers(report: &mut Report, buffer: &mut Buffer, asked: &[Fingerprint]) -> io::Result<()> {
    let hashes: Vec<u64> = asked.iter().map(|key| key.high()).collect();
    let stored = || (0..PEER_KEYS as u64).map(|i| key(i).high());
    let mut blocks = SplitBlockFilter::new(10, PEER_KEYS);
    stored().for_each(|hash| _ = blocks.insert_hash(hash));
    let contains = |filter: &SplitBlockFilter, hash| filter.contains_hash(hash);
    peer(report, "sbbf-rs-safe", (buffer, asked), &hashes, blocks, contains, |filter, hash| filter.insert_hash(hash))?;

    let mut classical = BloomFilter::with_num_bits(FILTER_BYTES * 8).expected_items(PEER_KEYS);
    stored().for_each(|hash| _ = classical.insert_hash(hash));
    let contains = |filter: &BloomFilter, hash| filter.contains_hash(hash);
    peer(report, "fastbloom", (buffer, asked), &hashes, classical, contains, |filter, hash| filter.insert_hash(hash))?;

    // A fuse filter is static, so inserts are not measured. It has only a tenth of the keys, because building it is
    // slow.
    let fuse_keys: Vec<u64> = stored().take(PEER_KEYS / 10).collect();
    let filter = BinaryFuse8::try_from(fuse_keys.as_slice()).expect("distinct keys");
    let small = Buffer::new(filter.len().next_multiple_of(64));
    let checks =
        compare(OPERATIONS, || small.read_lines(asked), || hashes.iter().filter(|hash| filter.contains(hash)).count());
    report.add(figure("peer: xorf BinaryFuse8 checks / line reads (read-only filter)", checks, Target::None))
}

/// Measures checks and inserts of one crate, relative to line reads for the keys in `asked`.
fn peer<F>(
    report: &mut Report,
    name: &str,
    (buffer, asked): (&mut Buffer, &[Fingerprint]),
    hashes: &[u64],
    mut filter: F,
    contains: impl Fn(&F, u64) -> bool,
    insert: impl Fn(&mut F, u64) -> bool,
) -> io::Result<()> {
    let check = || hashes.iter().filter(|&&hash| contains(&filter, hash)).count();
    let checks = compare(OPERATIONS, || buffer.read_lines(asked), check);
    report.add(figure(&format!("peer: {name} checks / line reads"), checks, Target::None))?;
    let add = || hashes.iter().filter(|&&hash| insert(&mut filter, hash)).count();
    let inserts = compare(OPERATIONS, || buffer.change_lines(asked), add);
    report.add(figure(&format!("peer: {name} inserts / line read-modify-writes"), inserts, Target::None))
}

/// Measures single checks of our filter relative to published crates. All filters check the same 64-bit hashes, half of
/// which they contain.
pub(crate) fn single_checks(report: &mut Report) -> io::Result<()> {
    single_checks_in(report, FILTER_BYTES, "192 MiB")?;
    single_checks_in(report, 256 << 10, "256 KiB")
}

fn single_checks_in(report: &mut Report, bytes: usize, size: &str) -> io::Result<()> {
    let stored = bytes * 8 / 10;
    let asked: Vec<u64> = (0..OPERATIONS as u64).map(|i| mixed_key(i, stored as u64).high()).collect();
    let filter = filled(bytes, stored);
    let ours = || asked.iter().filter(|&&hash| filter.contains(&Fingerprint::narrow(hash))).count();
    let mut add = |peer: &str, pair: Pair, target| {
        report.add(figure(&format!("single checks by hash in {size} / those of {peer}"), pair, target))
    };

    let hashes = || (0..stored as u64).map(|i| key(i).high());
    let mut blocks = SplitBlockFilter::new(10, stored);
    hashes().for_each(|hash| _ = blocks.insert_hash(hash));
    let theirs = || asked.iter().filter(|&&hash| blocks.contains_hash(hash)).count();
    add("sbbf-rs-safe", compare(OPERATIONS, theirs, ours), Target::AtLeast(1.0))?;

    let mut classical = BloomFilter::with_num_bits(bytes * 8).expected_items(stored);
    hashes().for_each(|hash| _ = classical.insert_hash(hash));
    let theirs = || asked.iter().filter(|&&hash| classical.contains_hash(hash)).count();
    add("fastbloom", compare(OPERATIONS, theirs, ours), Target::None)?;

    // If the filter is large, the fuse filter gets only a tenth of the keys, because building it is slow.
    let keys: Vec<u64> = hashes().take(stored.min(PEER_KEYS / 10)).collect();
    let fuse = BinaryFuse8::try_from(keys.as_slice()).expect("distinct keys");
    let theirs = || asked.iter().filter(|hash| fuse.contains(hash)).count();
    add("xorf BinaryFuse8", compare(OPERATIONS, theirs, ours), Target::None)?;

    let keys: Vec<Fingerprint> = asked.iter().map(|&hash| Fingerprint::narrow(hash)).collect();
    let mut found = vec![false; OPERATIONS];
    let batched = compare(OPERATIONS, ours, || filter.contains_batch(&keys, &mut found));
    report.add(figure(&format!("batched checks in {size} / single checks by hash"), batched, Target::None))
}

/// Measures the bits per key of a filter sized for a rate, divided by log2(1/f), where f is the measured rate.
pub(crate) fn space(report: &mut Report) -> io::Result<()> {
    const KEYS: usize = 8_000_000;
    for (rate, target, absent) in [(1e-2, 1.49, 20_000_000), (1e-3, 1.55, 100_000_000)] {
        let plan = MembershipPlan::new(Layout::OneLine, KEYS as u64, Goal::Rate(rate)).expect("a valid size");
        let mut filter = OneLineFilter::from_plan(&plan, KeyId(0)).unwrap();
        filter.insert_batch(&keys(0, KEYS));
        let measured = false_positives(&filter, absent) as f64 / absent as f64;
        let note = format!("{:.2} bits per key, k = {}, measured rate {measured:.3e}", plan.bits_per_key, plan.hashes);
        let ratio = plan.bits_per_key / (1.0 / measured).log2();
        report.add(Figure::new(
            format!("bits per key / log2(1/f), f = {rate}"),
            ratio,
            Target::AtMost(target),
            note,
        ))?;
    }
    Ok(())
}

fn false_positives(filter: &OneLineFilter, absent: usize) -> usize {
    const BATCH: usize = 1_000_000;
    let mut found = vec![false; BATCH];
    let batches = (0..absent / BATCH).map(|i| keys((1 << 60) + (i * BATCH) as u64, BATCH));
    batches
        .map(|batch| {
            filter.contains_batch(&batch, &mut found);
            found.iter().filter(|&&found| found).count()
        })
        .sum()
}
