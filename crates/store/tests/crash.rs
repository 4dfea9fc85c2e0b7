//! Kills a process under load repeatedly. Every confirmed event is present exactly once.
//!
//! The test program starts itself as the child, with the directory in an environment variable. The child submits
//! numbers from several threads and prints each number *after* it was confirmed. The parent reads some lines, kills the
//! child, opens the store and compares.

mod common;

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bruit_store::Options;
use common::*;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt as _, SeedableRng};
use tempfile::tempdir;

const DIRECTORY: &str = "BRUIT_CRASH_TEST_DIRECTORY";
const SEED: u64 = 0xB_0175;
const DIRECTORIES: usize = 7;
const KILLS_EACH: usize = 30;
const THREADS: u64 = 3;

/// Small journal files and many snapshots, so that a kill can hit any step.
fn frequent_snapshots() -> Options {
    Options { journal_file_bytes: 600, snapshot_after_bytes: 2500, ..options() }
}

#[test]
fn after_every_kill_each_confirmed_event_is_there_exactly_once() {
    if let Some(directory) = env::var_os(DIRECTORY) {
        return child(Path::new(&directory));
    }
    let mut random = ChaCha12Rng::seed_from_u64(SEED);
    let mut torn = 0;
    let mut snapshots = 0;
    for _ in 0..DIRECTORIES {
        let folder = tempdir().unwrap();
        let mut confirmed = BTreeSet::new();
        for kill in 0..KILLS_EACH {
            confirmed.extend(run_and_kill(folder.path(), random.random_range(1..150)));
            let store = try_open(folder.path(), &frequent_snapshots()).unwrap();
            torn += u64::from(store.recovery().torn_bytes > 0);
            snapshots += u64::from(store.recovery().snapshot.is_some());
            let held = store.check(Ledger::settled);
            let lost: Vec<_> = confirmed.iter().filter(|number| !held.counts.contains_key(number)).collect();
            assert!(lost.is_empty(), "kill {kill} lost {lost:?} of {} (seed {SEED:#x})", confirmed.len());
            let twice: Vec<_> = held.counts.iter().filter(|(_, count)| **count != 1).collect();
            assert!(twice.is_empty(), "kill {kill} duplicated {twice:?} (seed {SEED:#x})");
        }
    }
    assert!(snapshots > 0, "some kills came after snapshots ({torn} torn tails)");
}

/// Kills a child after this many confirmations. Returns everything that the child confirmed.
fn run_and_kill(directory: &Path, confirmations: usize) -> Vec<u64> {
    let mut child = start(directory);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let parse = |line: std::io::Result<String>| line.ok()?.strip_prefix("confirmed ")?.strip_suffix('.')?.parse().ok();
    let mut confirmed: Vec<u64> = lines.by_ref().filter_map(parse).take(confirmations).collect();
    assert_eq!(confirmed.len(), confirmations, "the child works until it is killed");
    child.kill().unwrap();
    // Lines that are still in the pipe when the child dies were confirmed as well.
    confirmed.extend(lines.filter_map(parse));
    child.wait().unwrap();
    confirmed
}

fn start(directory: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "after_every_kill_each_confirmed_event_is_there_exactly_once", "--nocapture"]);
    command.env(DIRECTORY, directory).stdout(Stdio::piped()).spawn().unwrap()
}

/// Submits new numbers until killed.
fn child(directory: &Path) {
    let store = try_open(directory, &frequent_snapshots()).unwrap();
    let next = AtomicU64::new(store.check(|ledger| ledger.counts.keys().next_back().map_or(0, |last| last + 1)));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, next) = (&store, &next);
            scope.spawn(move || {
                loop {
                    let first = next.fetch_add(thread + 1, Ordering::SeqCst);
                    let numbers = first..=first + thread;
                    store.submit(numbers.clone().map(numbered).collect()).unwrap();
                    let lines: String = numbers.map(|number| format!("confirmed {number}.\n")).collect();
                    // A single write is used, so that a kill can truncate only the last line.
                    stdout().lock().write_all(lines.as_bytes()).unwrap();
                    stdout().lock().flush().unwrap();
                }
            });
        }
    });
}
