//! Runs the rounds of a simulation on many threads, and returns the results in a fixed order.
//!
//! A floating-point sum depends on the order of its terms. Rounds are therefore grouped into blocks of a fixed size,
//! independent of the number of threads. Each block produces one result, and results are consumed in the order of the
//! rounds: a thread that has finished its block waits for its turn. A waiting thread starts no other block, so results
//! do not accumulate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Runs `rounds` rounds in blocks of `block_rounds` on up to `threads` threads. Uses fewer threads if there is not
/// enough work for all, or if the system refuses to start them.
///
/// Each thread has its own worker, which adds rounds to a result that starts as `empty()`. `take` receives the results
/// in order, each with its number of rounds. Once `stop` is true, no round is started, and running rounds are finished.
/// The results passed to `take` cover the rounds from 0 up to some number, without gaps.
pub(crate) fn run<T, W: FnMut(u64, &mut T)>(
    rounds: u64,
    block_rounds: u64,
    threads: usize,
    stop: &AtomicBool,
    worker: impl Fn() -> W + Sync,
    empty: impl Fn() -> T + Sync,
    take: impl FnMut(u64, T) + Send,
) {
    let queue = Queue { turn: Mutex::new(Turn { block: 0, is_over: false, take }), turned: Condvar::new() };
    let next = AtomicU64::new(0);
    let work = || {
        let _end_on_panic = EndOnPanic(&queue);
        let mut worker = worker();
        while !stop.load(Ordering::Relaxed) {
            // A thread that has taken a block number must also take its turn, even if it ran no rounds: the other
            // threads wait for it.
            let block = next.fetch_add(1, Ordering::Relaxed);
            let start = block.saturating_mul(block_rounds);
            if start >= rounds {
                break;
            }
            let mut result = empty();
            let wanted = start..rounds.min(start.saturating_add(block_rounds));
            let begun = wanted.clone().take_while(|_| !stop.load(Ordering::Relaxed));
            let done = begun.map(|round| worker(round, &mut result)).count() as u64;
            if !queue.take(block, done, done < wanted.end - wanted.start, result) {
                break;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..useful_threads(rounds, block_rounds, threads) {
            // If a thread cannot be started, the other threads do its work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

/// Returns the number of threads that have a block to work on, at least one.
pub(crate) fn useful_threads(rounds: u64, block_rounds: u64, threads: usize) -> usize {
    let blocks = usize::try_from(rounds.div_ceil(block_rounds)).unwrap_or(usize::MAX);
    threads.min(blocks).max(1)
}

/// A queue in which results wait for their turn.
struct Queue<F> {
    turn: Mutex<Turn<F>>,
    turned: Condvar,
}

struct Turn<F> {
    /// Number of the block whose turn it is.
    block: u64,
    /// True once a block was left unfinished. Later blocks are then dropped.
    is_over: bool,
    take: F,
}

impl<F> Queue<F> {
    fn lock(&self) -> MutexGuard<'_, Turn<F>> {
        // If another thread panics, the panic is propagated after all threads have returned, so a poisoned lock can be
        // ignored.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of `block` and passes on its result. If `is_short`, this result is the last one. Returns true
    /// if more blocks may follow.
    fn take<T>(&self, block: u64, rounds: u64, is_short: bool, result: T) -> bool
    where
        F: FnMut(u64, T),
    {
        let waiting = self.turned.wait_while(self.lock(), |turn| turn.block < block && !turn.is_over);
        let mut turn = waiting.unwrap_or_else(PoisonError::into_inner);
        if !turn.is_over {
            // If `take` panics, later blocks are dropped.
            turn.is_over = true;
            (turn.take)(rounds, result);
            turn.is_over = is_short;
            turn.block += 1;
        }
        self.turned.notify_all();
        !turn.is_over
    }
}

/// Ends the queue if a thread panics. Otherwise, the other threads would wait for its turn forever.
struct EndOnPanic<'a, F>(&'a Queue<F>);

impl<F> Drop for EndOnPanic<'_, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().is_over = true;
            self.0.turned.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rounds in each result, in the order in which the results were received.
    fn taken(rounds: u64, threads: usize, stop: &AtomicBool, work: impl Fn(u64) + Sync) -> Vec<Vec<u64>> {
        let worker = || {
            |round, seen: &mut Vec<u64>| {
                work(round);
                seen.push(round);
            }
        };
        let mut taken = Vec::new();
        run(rounds, 4, threads, stop, worker, Vec::new, |length, seen: Vec<u64>| {
            assert_eq!(length, seen.len() as u64);
            taken.push(seen);
        });
        taken
    }

    #[test]
    fn results_come_in_the_order_of_the_rounds() {
        let never = AtomicBool::new(false);
        // Some rounds are slower, so blocks finish out of order.
        let uneven = |round: u64| {
            (0..if round.is_multiple_of(3) { 10_000 } else { 0 }).for_each(|_| thread::yield_now());
        };
        let alone = taken(42, 1, &never, uneven);
        assert_eq!((alone.len(), alone[0].as_slice(), alone[10].as_slice()), (11, &[0, 1, 2, 3][..], &[40, 41][..]));
        assert!(alone.concat().into_iter().eq(0..42));
        for threads in [2, 5] {
            assert_eq!(taken(42, threads, &never, uneven), alone);
        }
        assert!(taken(0, 2, &never, uneven).is_empty());
    }

    #[test]
    fn a_stopped_run_begins_no_round_and_has_all_rounds_up_to_one() {
        // Threads see the stop flag at different times, so many runs are necessary to cover every case.
        for threads in [1, 3].into_iter().cycle().take(200) {
            let stop = AtomicBool::new(false);
            let stop_at_21 = |round| {
                stop.fetch_or(round == 21, Ordering::Relaxed);
            };
            let rounds = taken(u64::MAX, threads, &stop, stop_at_21).concat();
            assert!(rounds.iter().copied().eq(0..rounds.len() as u64), "{rounds:?}");
            assert!(threads > 1 || rounds.len() == 22, "{rounds:?}");
        }
    }

    #[test]
    fn no_more_threads_start_than_have_work() {
        assert_eq!([0, 1, 4, 5, 400].map(|rounds| useful_threads(rounds, 4, 8)), [1, 1, 1, 2, 8]);
        assert_eq!((useful_threads(u64::MAX, 1, 8), useful_threads(9, 1, 0)), (8, 1));
    }

    #[test]
    fn nothing_is_run_if_it_is_stopped_before() {
        assert!(taken(10, 2, &AtomicBool::new(true), |_| ()).is_empty());
    }

    #[test]
    #[should_panic]
    fn a_panic_on_one_thread_ends_all() {
        taken(u64::MAX, 3, &AtomicBool::new(false), |round| assert_ne!(round, 50));
    }
}
