//! Runs many simulated networks on two threads, and prints a summary: `networks COUNT [FIRST_SEED] [--until-failure]`.

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
/// Ends the run after the first network that fails.
const UNTIL_FAILURE: &str = "--until-failure";

/// The results so far.
#[derive(Default)]
struct Results {
    passed: u64,
    all: Summary,
    failures: Vec<Failure>,
}

fn main() -> ExitCode {
    let (options, numbers): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|text| text == UNTIL_FAILURE);
    let mut numbers = numbers.iter().map(|text| text.parse::<u64>().expect("expected COUNT [FIRST_SEED]"));
    let (count, first) = (numbers.next().unwrap_or(1_000), numbers.next().unwrap_or(0));
    let (next, results, began) = (AtomicU64::new(0), Mutex::new(Results::default()), Instant::now());
    // A panic is a failure with a seed; its backtrace is of no use here.
    std::panic::set_hook(Box::new(|_| {}));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < count) {
                    let result = run(first + number);
                    let mut results = results.lock().expect("no thread panics while it holds the lock");
                    results.note(result);
                    if !results.failures.is_empty() && !options.is_empty() {
                        next.store(count, Ordering::Relaxed);
                    }
                    let done = results.passed + results.failures.len() as u64;
                    if done.is_multiple_of(PROGRESS) {
                        let seconds = began.elapsed().as_secs();
                        eprintln!("{done} of {count} networks, {} failed, {seconds} s", results.failures.len());
                    }
                }
            });
        }
    });
    let Results { passed, all, failures } = results.into_inner().expect("no thread panics while it holds the lock");
    let seconds = began.elapsed().as_secs();
    println!(
        "{} networks from seed {first} on, {seconds} s, {} failed",
        passed + failures.len() as u64,
        failures.len()
    );
    println!("{all:#?}");
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Results {
    fn note(&mut self, result: Result<Summary, Failure>) {
        match result {
            Ok(summary) => {
                self.passed += 1;
                self.all.add(&summary);
            }
            Err(failure) => {
                println!("{failure}");
                self.failures.push(failure);
            }
        }
    }
}
