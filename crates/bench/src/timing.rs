//! Ratios of thread CPU time, reference and subject alternating in one run, so that a busy machine disturbs both.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// Rounds of which the median counts.
pub(crate) const ROUNDS: usize = 15;

/// CPU nanoseconds that `work` takes on this thread: time that other processes took is left out.
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> f64 {
    measure(ClockId::ThreadCPUTime, work)
}

/// CPU nanoseconds that `work` takes on all the threads it starts.
pub(crate) fn process_time<T>(work: impl FnOnce() -> T) -> f64 {
    measure(ClockId::ProcessCPUTime, work)
}

fn measure<T>(clock: ClockId, work: impl FnOnce() -> T) -> f64 {
    let now = || {
        let time = clock_gettime(clock);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let start = now();
    black_box(work());
    now() - start
}

/// A reference and a subject, timed in turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// Median over the rounds of reference time ÷ subject time: the subject's speed in units of the reference's.
    pub(crate) ratio: f64,
    /// Median nanoseconds per operation of the reference.
    pub(crate) reference_ns: f64,
    /// Median nanoseconds per operation of the subject.
    pub(crate) subject_ns: f64,
}

/// Times `operations` operations of each, in turns.
pub(crate) fn compare<R, S>(
    operations: usize,
    mut reference: impl FnMut() -> R,
    mut subject: impl FnMut() -> S,
) -> Pair {
    black_box(reference());
    black_box(subject());
    let times: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (time(&mut reference), time(&mut subject))).collect();
    let per_operation = |ns: f64| ns / operations as f64;
    Pair {
        ratio: median(times.iter().map(|(reference, subject)| reference / subject)),
        reference_ns: per_operation(median(times.iter().map(|pair| pair.0))),
        subject_ns: per_operation(median(times.iter().map(|pair| pair.1))),
    }
}

/// The middle value.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
