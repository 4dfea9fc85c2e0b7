//! Servers under loss, partitions, crashes, lost disks, brokers that forget and lying peers agree in the end, and count
//! everything once.
//!
//! Runs three kinds of networks: some fixed ones, those that once failed, and new ones for some seconds. With
//! `BRUIT_SEEDS=1000..1200`, the networks of these seeds run instead; with `BRUIT_SEEDS=77`, only that one.

#![expect(clippy::print_stderr, reason = "a failing network must be reproducible")]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use bruit_federation::simulation::{Summary, run};

/// The networks of every run.
const FIXED: Range<u64> = 0..40;

/// Networks that once failed. In the first four, a server on an old disk sealed segments before it knew that it had
/// lost some. In the next three, reported signatures were not listed if a forgotten node had revoked them. In the
/// eighth, a server on an old disk lost segments that only this disk had. The ninth took minutes, because all heads in
/// every offer were verified.
const ONCE_FAILED: [u64; 9] = [
    8_469_388_475_170,
    8_469_388_475_359,
    8_469_388_475_395,
    2_560,
    2_260,
    2_400,
    97_642_676_304_750,
    8_469_388_475_555,
    8_469_388_475_479,
];

/// Time for new networks, and their maximum number.
const FRESH_TIME: Duration = Duration::from_secs(20);
/// See [`FRESH_TIME`].
const FRESH_MAX: u64 = 2_000;

/// The command that repeats a network. Its seed must be in `BRUIT_SEEDS`.
const COMMAND: &str = "cargo nextest run -p bruit-federation --test network";

fn chosen() -> Option<Range<u64>> {
    let text = std::env::var("BRUIT_SEEDS").ok()?;
    let number = |text: &str| text.parse::<u64>().expect("BRUIT_SEEDS must be a seed, or a range such as 1000..1200");
    Some(match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    })
}

fn run_all(seeds: impl Iterator<Item = u64>) -> Summary {
    let (mut all, mut failures) = (Summary::default(), Vec::new());
    for seed in seeds {
        match run(seed) {
            Ok(summary) => all.add(&summary),
            Err(failure) => failures.push(format!("{failure}\nrepeat it: BRUIT_SEEDS={seed} {COMMAND}")),
        }
    }
    assert!(failures.is_empty(), "{} networks fail:\n{}", failures.len(), failures.join("\n"));
    all
}

#[test]
fn healed_networks_agree_and_count_everything_once() {
    if let Some(seeds) = chosen() {
        eprintln!("{:?}", run_all(seeds));
        return;
    }
    let all = run_all(FIXED);
    let faults = [all.crashes, all.forgotten, all.disks_lost, all.disks_replaced, all.jumps, all.grown];
    assert!(faults.iter().all(|count| *count > 0), "{all:?}");
    assert!(
        all.repairs > 0 && all.forks > 0 && all.damaged > 0 && all.nodes_forgotten > 0 && all.forgotten_by_broker > 0,
        "{all:?}"
    );
    for reason in ["already_taken", "not_next", "forged", "malformed", "wrong_chain", "foreign_realm", "expired"] {
        assert!(all.rejected.contains_key(reason), "no segment was {reason}: {all:?}");
    }
}

#[test]
fn networks_that_once_failed_agree_and_count_everything_once() {
    if chosen().is_none() {
        run_all(ONCE_FAILED.into_iter());
    }
}

#[test]
fn new_networks_agree_and_count_everything_once() {
    if chosen().is_some() {
        return;
    }
    let (first, began) = (RandomState::new().hash_one("seed") >> 16, Instant::now());
    eprintln!("running at most {FRESH_MAX} networks, with seeds from {first} on");
    let seeds = (first..first + FRESH_MAX).take_while(|_| began.elapsed() < FRESH_TIME);
    let mut count = 0;
    run_all(seeds.inspect(|_| count += 1));
    eprintln!("{count} networks");
}
