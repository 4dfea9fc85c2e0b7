//! Measures traceback: how many hops are false, how large the pages are, and how fast a router records.
//!
//! ```sh
//! cargo run --release -p bruit-forensics --example traceback
//! ```
#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

use bruit_forensics::capture::{Capture, Frame, Link};
use bruit_forensics::generate::Traffic;
use bruit_forensics::packet::decode;
use bruit_forensics::pages::{Pages, Span};
use bruit_forensics::traceback::{Invariant, PageShape, Question, Recorder, Subject, Topology, trace};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

const SEED: u64 = 20;
const ROUTERS: usize = 20;
const PACKETS: usize = 20_000;
const TRACED: usize = 5_000;
const NOW: u64 = 1_700_000_070;
const CAPTURED: u64 = 1_000_000;
const ROUNDS: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{ROUTERS} routers, {PACKETS} packets, {TRACED} of them traced, seed {SEED}");
    println!("rate asked   bits a packet   false hops a packet: found   predicted   exact paths");
    for rate in [0.1, 0.01, 0.001, 0.0001] {
        false_hops(rate)?;
    }
    throughput()
}

/// Sends packets through a random network, and traces some of them.
fn false_hops(rate: f64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let random = &mut ChaCha8Rng::seed_from_u64(SEED);
    let links = links(random);
    let shape = PageShape { false_positive_rate: rate, ..PageShape::default() };
    let recorder = |router: usize| recorder(folder.path(), &name(router), shape, random.random());
    let mut recorders = (0..ROUTERS).map(recorder).collect::<Result<Vec<_>, _>>()?;
    let mut sent = Vec::new();
    for _ in 0..PACKETS {
        let invariant = packet(random);
        let path = path(&links, random.random_range(0..ROUTERS), random.random_range(0..ROUTERS));
        for &router in &path {
            recorders[router].record(NOW, &invariant)?;
        }
        sent.push((invariant, path));
    }
    let tallies = recorders.into_iter().map(Recorder::finish).collect::<Result<Vec<_>, _>>()?;
    let bytes: u64 = tallies.iter().map(|tally| tally.bytes).sum();
    let items: u64 = tallies.iter().map(|tally| tally.items).sum();
    let topology = Topology::parse(&topology(&links), folder.path())?;
    let (mut found, mut predicted, mut exact) = (0, 0.0, 0);
    for (invariant, path) in &sent[..TRACED] {
        let question =
            Question { invariant: *invariant, doubt: None, subject: Subject::Packets, window: Span::around(NOW, 5) };
        let trace = trace(&topology, path[path.len() - 1], &question)?;
        let others: Vec<_> = trace.hops.iter().filter(|hop| !path.contains(&hop.place)).collect();
        let false_hops = others.iter().filter(|hop| hop.is_seen()).count();
        found += false_hops;
        predicted += others.iter().map(|hop| hop.answer.false_positive).sum::<f64>();
        exact += u32::from(false_hops == 0);
    }
    let per_packet = |number: f64| number / TRACED as f64;
    println!(
        "{rate:>10}   {:>13.1}   {:>26.4}   {:>9.4}   {:>8.1} %",
        bytes as f64 * 8.0 / items as f64,
        per_packet(found as f64),
        per_packet(predicted),
        per_packet(f64::from(exact)) * 100.0
    );
    Ok(())
}

/// Measures how fast a capture is read, and how fast it is recorded.
fn throughput() -> Result<(), Box<dyn Error>> {
    let mut capture = Vec::new();
    Traffic { packets: CAPTURED, payload_bytes: 0..=200, gap: 100_000, ..Traffic::default() }.write(&mut capture)?;
    let mut best = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(seconds(|| read(&capture, |_, _| Ok(())))?);
        let folder = tempfile::tempdir()?;
        let mut recorder = recorder(folder.path(), "here", PageShape::default(), [1; 16])?;
        best[1] = best[1].min(seconds(|| {
            read(&capture, |second, invariant| Ok(recorder.record(second, invariant).map(drop)?))?;
            recorder.finish().map(drop).map_err(Into::into)
        })?);
    }
    let million = |seconds: f64| CAPTURED as f64 / seconds / 1e6;
    println!(
        "\n{CAPTURED} packets, 100 seconds, {} MB of capture in memory, best of {ROUNDS}:",
        capture.len() / 1_000_000
    );
    println!("  read and decoded: {:.2} million packets a second", million(best[0]));
    println!(
        "  also recorded, with pages written and synced: {:.2} million packets a second ({:.2} times the reading speed)",
        million(best[1]),
        best[0] / best[1]
    );
    Ok(())
}

fn seconds(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Calls `work` with the invariant of every packet in a capture.
fn read(
    capture: &[u8],
    mut work: impl FnMut(u64, &Invariant) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut capture = Capture::open(capture)?;
    while let Some(frame) = capture.next_frame()? {
        let Ok(packet) = decode(&frame) else { continue };
        if let Some(invariant) = Invariant::of_packet(&packet) {
            work(frame.time / 1_000_000_000, std::hint::black_box(&invariant))?;
        }
    }
    Ok(())
}

fn recorder(folder: &Path, name: &str, shape: PageShape, secret: [u8; 16]) -> Result<Recorder, Box<dyn Error>> {
    let pages = Pages::create_or_open(&folder.join(name), Subject::Packets.kind(), 1 << 30)?;
    Ok(Recorder::new(pages, name, shape, secret)?)
}

fn packet(random: &mut ChaCha8Rng) -> Invariant {
    let mut bytes: [u8; 28] = random.random();
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&28u16.to_be_bytes());
    bytes[9] = 17;
    let frame = Frame { time: 0, link: Link::Ip, bytes: &bytes, original_bytes: 28 };
    Invariant::of_packet(&decode(&frame).expect("a packet")).expect("a whole one")
}

/// Links every router to an earlier one, and some routers to a second one.
fn links(random: &mut ChaCha8Rng) -> Vec<BTreeSet<usize>> {
    let mut links = vec![BTreeSet::new(); ROUTERS];
    for router in 1..ROUTERS + ROUTERS / 3 {
        let from = if router < ROUTERS { router } else { random.random_range(1..ROUTERS) };
        let to = random.random_range(0..from);
        links[from].insert(to);
        links[to].insert(from);
    }
    links
}

fn name(router: usize) -> String {
    format!("router-{router}")
}

fn topology(links: &[BTreeSet<usize>]) -> String {
    let router = |(router, links): (usize, &BTreeSet<usize>)| {
        let links: Vec<_> = links.iter().map(|link| format!("'{}'", name(*link))).collect();
        let name = name(router);
        format!("[[router]]\nname = '{name}'\npages = '{name}'\nlinks = [{}]\n", links.join(","))
    };
    links.iter().enumerate().map(router).collect()
}

/// Returns one of the shortest paths.
fn path(links: &[BTreeSet<usize>], from: usize, to: usize) -> Vec<usize> {
    let mut before = vec![None; links.len()];
    let mut waiting = VecDeque::from([from]);
    while let Some(router) = waiting.pop_front() {
        for &next in &links[router] {
            if next != from && before[next].is_none() {
                before[next] = Some(router);
                waiting.push_back(next);
            }
        }
    }
    let mut path: Vec<_> = std::iter::successors(Some(to), |&router| before[router]).collect();
    path.reverse();
    path
}
