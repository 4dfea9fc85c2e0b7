//! Compares the time and memory of the paper's split cells with those of cells of a fixed width.
//!
//! ```sh
//! cargo run --release -p bruit-structures --example compact_speed
//! ```
//!
//! Insertions choose keys by Zipf's law. Every layout counts the same insertions, with the refined extension and the
//! same four positions for each key. Then every key is queried once. Times are the thread's CPU time, averaged over
//! five rounds.

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::fs;
use std::hint::black_box;

use bruit_filters::counting::{Cells, CountingFilter, Extension, PackedCells};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::{Fingerprint, KeyId};
use bruit_structures::compact::CompactCounters;

const HASHES: u32 = 4;
const CELLS_PER_KEY: u64 = 8;
const ARRIVALS_PER_KEY: usize = 10;
const CHUNK_CELLS: u64 = 1024;
const ROUNDS: usize = 5;

fn main() {
    println!("keys      layout               bytes per cell  large counts per cell  ns per insertion  ns per count");
    for keys in [100_000, 4_000_000] {
        let arrivals = zipf(keys, ARRIVALS_PER_KEY * keys as usize);
        let cells = CELLS_PER_KEY * keys;
        for bits in [4, 8, 16] {
            let cells = PackedCells::new(cells, bits).expect("the width is within its bounds");
            measure(keys, &arrivals, &format!("fixed, {bits} bits"), &cells, |cells| (cells.allocated_bytes(), 0));
        }
        for low in [2, 3, 4, 5] {
            let cells = CompactCounters::new(cells, low, 16 - low, cells.div_ceil(CHUNK_CELLS));
            let cells = cells.expect("the shape is within its bounds");
            let name = format!("compact, {low} + {} bits", 16 - low);
            measure(keys, &arrivals, &name, &cells, |cells| (cells.allocated_bytes(), cells.large_counts()));
        }
    }
}

fn measure<C: Cells>(keys: u64, arrivals: &[Fingerprint], name: &str, empty: &C, memory: impl Fn(&C) -> (u64, u64)) {
    let hash = FingerprintHash::new(empty.len(), HASHES, 64, KeyId(0)).unwrap();
    let all: Vec<_> = (0..keys).map(key).collect();
    let mut found = vec![0; all.len()];
    let (mut insertion, mut count) = (0.0, 0.0);
    let mut filter = None;
    for _ in 0..ROUNDS {
        let empty = CountingFilter::with_cells(hash.clone(), Extension::Refined, empty.clone());
        let mut filled = empty.expect("the cells match the hash family");
        insertion += nanoseconds(arrivals.len() * ROUNDS, || filled.insert_batch(arrivals));
        count += nanoseconds(all.len() * ARRIVALS_PER_KEY * ROUNDS, || {
            (0..ARRIVALS_PER_KEY).for_each(|_| filled.count_batch(&all, &mut found));
        });
        filter = Some(filled);
    }
    let filter = filter.expect("there is at least one round");
    let (bytes, large) = memory(filter.cells());
    let (bytes, large) = (bytes as f64 / filter.cells().len() as f64, large as f64 / filter.cells().len() as f64);
    println!("{keys:<9} {name:<20} {bytes:>14.3}  {large:>21.4}  {insertion:>16.1}  {count:>12.1}");
}

fn nanoseconds<T>(operations: usize, work: impl FnOnce() -> T) -> f64 {
    let start = cpu_time_ns();
    black_box(work());
    (cpu_time_ns() - start) as f64 / operations as f64
}

/// Returns the CPU time of this thread according to Linux. It excludes other processes.
fn cpu_time_ns() -> u64 {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has scheduler statistics");
    let time = statistics.split_whitespace().next().and_then(|time| time.parse().ok());
    time.expect("the first number is the CPU time")
}

/// Draws keys by Zipf's law with exponent 1, by inversion of the continuous distribution.
fn zipf(keys: u64, arrivals: usize) -> Vec<Fingerprint> {
    let top = ((keys + 1) as f64).ln();
    let uniform = |i: u64| (mixed(i) >> 11) as f64 / (1_u64 << 53) as f64;
    (0..arrivals as u64).map(|i| key(((uniform(i) * top).exp() as u64).clamp(1, keys) - 1)).collect()
}

fn key(i: u64) -> Fingerprint {
    Fingerprint::narrow(mixed(i ^ 1 << 60))
}

/// Returns the output of SplitMix64 for `x`.
const fn mixed(x: u64) -> u64 {
    Fingerprint::narrow(x.wrapping_add(0x9e37_79b9_7f4a_7c15)).low()
}
