//! Ratios of thread CPU time. The reference and the subject alternate in one run, so that a busy machine affects both.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::time::{ClockId, clock_gettime};

/// Number of rounds. The result is the median of the rounds.
pub(crate) const ROUNDS: usize = 15;

/// Returns the CPU nanoseconds of `work` on this thread. Time used by other processes is not included.
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> f64 {
    measure(ClockId::ThreadCPUTime, work)
}

/// Returns the CPU nanoseconds of `work` on all threads of the process.
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

/// Returns the user and system time of all child processes that have ended.
pub(crate) fn time_of_children() -> io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let duration = |time: TimeVal| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1_000);
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

/// A reference and a subject, timed alternately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The subject's speed relative to the reference: reference time ÷ subject time, median over the rounds.
    pub(crate) ratio: f64,
    /// Median nanoseconds per operation of the reference.
    pub(crate) reference_ns: f64,
    /// Median nanoseconds per operation of the subject.
    pub(crate) subject_ns: f64,
}

/// Times `operations` operations of the reference and of the subject, alternately.
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

/// Returns the median.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
