//! Kills a clearinghouse under load repeatedly. Every confirmed event is counted exactly once.
//!
//! As in `crash.rs`, the test program starts itself as the child. Each child counts recipients of its own signatures on
//! several threads, and prints a signature's number *after* its count was confirmed.

mod common;

use std::env;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bruit_engine::Engine;
use bruit_store::Options;
use common::clearinghouse::*;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt as _, SeedableRng};
use tempfile::tempdir;

const DIRECTORY: &str = "BRUIT_CLEARINGHOUSE_CRASH_TEST_DIRECTORY";
const FIRST: &str = "BRUIT_CLEARINGHOUSE_CRASH_TEST_FIRST";
const SEED: u64 = 0xB_0175;
const KILLS: u64 = 40;
const THREADS: usize = 3;

/// The first signature of each child is this far after that of the previous child. No child counts this many.
const SIGNATURES_PER_CHILD: u64 = 1 << 20;

/// Small journal files and many snapshots, so that a kill can hit any step.
fn frequent_snapshots() -> Options {
    Options { journal_file_bytes: 4_000, snapshot_after_bytes: 15_000, ..common::options() }
}

/// Returns the count for a signature. Adjacent signatures have different counts.
fn targets(signature: u64) -> u32 {
    1 + (signature % 7) as u32
}

#[test]
fn after_every_kill_each_confirmed_count_is_there_exactly_once() {
    if let (Some(directory), Ok(first)) = (env::var_os(DIRECTORY), env::var(FIRST)) {
        return child(Path::new(&directory), first.parse().unwrap());
    }
    let mut random = ChaCha12Rng::seed_from_u64(SEED);
    let folder = tempdir().unwrap();
    let (mut confirmed, mut snapshots) = (Vec::new(), 0);
    for kill in 0..KILLS {
        let by_child = run_and_kill(folder.path(), kill * SIGNATURES_PER_CHILD, random.random_range(1..250));
        confirmed.push(by_child);
        let store = open(folder.path(), &frequent_snapshots());
        snapshots += u64::from(store.recovery().snapshot.is_some());
        store.check(|engine| confirmed.iter().for_each(|by_child| assert_counted_once(engine, by_child, kill)));
    }
    assert!(snapshots > 0, "some kills came after snapshots");
}

/// Asserts that every confirmed signature has its count. Signatures close to the last confirmed one may have been in
/// flight. They have either their count or no count.
fn assert_counted_once(engine: &Engine, confirmed: &[u64], kill: u64) {
    for &signature in confirmed {
        assert_eq!(recipients(engine, signature), targets(signature), "{signature} after kill {kill} (seed {SEED:#x})");
    }
    let last = confirmed.iter().max().unwrap();
    for signature in last - last % SIGNATURES_PER_CHILD..last + 2 * THREADS as u64 {
        let total = recipients(engine, signature);
        assert!(total == 0 || total == targets(signature), "{signature} has {total} after kill {kill}");
    }
}

/// Kills a child after this many confirmations. Returns everything that the child confirmed.
fn run_and_kill(directory: &Path, first: u64, confirmations: usize) -> Vec<u64> {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "after_every_kill_each_confirmed_count_is_there_exactly_once", "--nocapture"]);
    command.env(DIRECTORY, directory).env(FIRST, first.to_string());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
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

/// Counts recipients of new signatures until killed.
fn child(directory: &Path, first: u64) {
    let store = open(directory, &frequent_snapshots());
    let next = AtomicU64::new(first);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let signature = next.fetch_add(1, Ordering::SeqCst);
                    store.submit(vec![bulk(targets(signature), signature)]).unwrap();
                    // A single write is used, so that a kill can truncate only the last line.
                    stdout().lock().write_all(format!("confirmed {signature}.\n").as_bytes()).unwrap();
                    stdout().lock().flush().unwrap();
                }
            });
        }
    });
}
