//! Rounds on many threads, results in one order.
//!
//! Sums of fractions depend on the order of their terms. So rounds go in blocks of a fixed size, whatever the number of
//! threads, each block is one result, and results are taken in the order of the rounds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Rounds in a block: small enough to stop soon, large enough for joining results not to matter.
const BLOCK_ROUNDS: u64 = 4;

/// Runs `rounds` rounds on `threads` threads, at least one.
///
/// Each thread has a worker of its own, which makes a result of a range of rounds. `take` gets every result, with the
/// number of rounds behind it, in their order. Once `stop` is true no block is begun; those begun are finished, so that
/// what was taken is always a whole number of blocks from round 0 on.
pub(crate) fn run<T: Send, W: FnMut(Range<u64>) -> T>(
    rounds: u64,
    threads: usize,
    stop: &AtomicBool,
    worker: impl Fn() -> W + Sync,
    take: impl FnMut(u64, T),
) {
    let next = AtomicU64::new(0);
    let (results, received) = sync_channel(threads);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (results, next, worker) = (results.clone(), &next, &worker);
            scope.spawn(move || {
                let mut worker = worker();
                while !stop.load(Ordering::Relaxed) {
                    let block = next.fetch_add(1, Ordering::Relaxed);
                    let start = block.saturating_mul(BLOCK_ROUNDS);
                    if start >= rounds {
                        break;
                    }
                    let range = start..rounds.min(start + BLOCK_ROUNDS);
                    let length = range.end - range.start;
                    results.send((block, (length, worker(range)))).expect("the receiver outlives its senders");
                }
            });
        }
        drop(results);
        take_in_order(&received, take);
    });
}

/// Hands results on in the order of their blocks, keeping those that come early.
fn take_in_order<T>(received: &Receiver<(u64, (u64, T))>, mut take: impl FnMut(u64, T)) {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (block, result) in received {
        early.insert(block, result);
        while let Some((rounds, result)) = early.remove(&next) {
            take(rounds, result);
            next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(rounds: u64, threads: usize, stop: &AtomicBool) -> Vec<Range<u64>> {
        let worker = || {
            |range: Range<u64>| {
                // Some blocks take longer, so that results come out of order.
                (0..if range.start.is_multiple_of(3) { 10_000 } else { 0 }).for_each(|_| thread::yield_now());
                range
            }
        };
        let mut taken = Vec::new();
        run(rounds, threads, stop, worker, |length, range: Range<u64>| {
            assert_eq!(length, range.end - range.start);
            taken.push(range);
        });
        taken
    }

    #[test]
    fn results_come_in_the_order_of_the_rounds() {
        let alone = ranges(42, 1, &AtomicBool::new(false));
        assert_eq!((alone.len(), alone[0].clone(), alone[10].clone()), (11, 0..4, 40..42));
        assert!(alone.windows(2).all(|pair| pair[0].end == pair[1].start));
        for threads in [2, 5] {
            assert_eq!(ranges(42, threads, &AtomicBool::new(false)), alone);
        }
        assert!(ranges(0, 2, &AtomicBool::new(false)).is_empty());
    }

    #[test]
    fn a_stopped_run_has_done_the_first_blocks() {
        let stop = AtomicBool::new(false);
        let worker = || {
            |range: Range<u64>| {
                if range.start >= 20 {
                    stop.store(true, Ordering::Relaxed);
                }
                range
            }
        };
        let mut done = 0;
        run(u64::MAX, 3, &stop, worker, |_, range: Range<u64>| {
            assert_eq!(range.start, done);
            done = range.end;
        });
        assert!(done >= 24);
    }
}
