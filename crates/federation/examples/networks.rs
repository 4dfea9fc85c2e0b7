//! Runs many simulated networks on two threads, and prints a summary: `networks COUNT [FIRST_SEED]`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use bruit_federation::simulation::{Failure, Summary, run};

/// Number of threads.
const THREADS: usize = 2;
/// Number of networks between two lines of progress.
const PROGRESS: u64 = 500;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("expected COUNT [FIRST_SEED]"));
    let (count, first) = (arguments.next().unwrap_or(1_000), arguments.next().unwrap_or(0));
    let (next, began) = (AtomicU64::new(0), Instant::now());
    let results = Mutex::new((Summary::default(), Vec::<Failure>::new()));
    // A panic is a failure with a seed; its backtrace is of no use here.
    std::panic::set_hook(Box::new(|_| {}));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let result = run(first + number);
                    let mut results = results.lock().expect("no thread panics while it holds the lock");
                    match result {
                        Ok(summary) => results.0.add(&summary),
                        Err(failure) => {
                            println!("{failure}");
                            results.1.push(failure);
                        }
                    }
                    if (number + 1) % PROGRESS == 0 {
                        eprintln!(
                            "{} of {count} networks, {} failed, {:.0} s",
                            number + 1,
                            results.1.len(),
                            began.elapsed().as_secs_f64()
                        );
                    }
                }
            });
        }
    });
    let (all, failures) = results.into_inner().expect("no thread panics while it holds the lock");
    println!(
        "{count} networks from seed {first} on, {:.0} s, {} failed",
        began.elapsed().as_secs_f64(),
        failures.len()
    );
    println!("{all:#?}");
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
