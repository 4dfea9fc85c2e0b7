//! Benchmarks of the owner table at a load of 0.95: bytes per owner, lookups relative to random line reads, and
//! inserts.

use std::io;

use bruit_filters::Fingerprint;
use bruit_filters::owners::{Feature, Owner, OwnerTable, Part, Votes};
use bruit_filters::sizing::{OWNER_LOAD, false_votes};

use crate::keys::{keys, mixed};
use crate::membership::figure;
use crate::memory::Buffer;
use crate::report::{Figure, Report, Target};
use crate::timing::{compare, time};

/// Size of the larger table, in bytes. It exceeds the last-level cache, but is small enough that live owners with 48
/// features each can fill it.
const TABLE_BYTES: usize = 144 << 20;
/// Size of the table for owners with 32 features.
const SMALL_TABLE_BYTES: usize = 96 << 20;
/// Number of features per owner in the larger table.
const FEATURES: usize = 48;
/// Number of lookups per timed round.
const OPERATIONS: usize = 600_000;
/// Number of features of a message, which are looked up together. This number is the mean for ham in the near-replica
/// study.
const MESSAGE_FEATURES: usize = 300;

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    space(report, SMALL_TABLE_BYTES, 32, 138.0)?;
    let (table, stored) = space(report, TABLE_BYTES, FEATURES, 200.0)?;
    look_ups(report, &table, stored)?;
    inserts(report, table, stored)
}

/// Fills a table to its capacity. Returns the table and the number of features.
fn space(report: &mut Report, bytes: usize, features: usize, target: f64) -> io::Result<(OwnerTable, u64)> {
    let mut table = OwnerTable::with_bytes(bytes).unwrap();
    let all = texts(0, table.capacity() as usize, features);
    let mut stored = 0;
    let ns = time(|| all.chunks(features).for_each(|owner| stored += table.add(owner, features).stored_total() as u64));
    let per_feature = table.bytes() as f64 / stored as f64;
    let note = format!(
        "{per_feature:.3} per feature at load {:.3}; {} features evicted, {} of {} not stored; \
         {:.0} ns and {:.3} moves per insert",
        table.load(),
        table.evictions(),
        all.len() as u64 - stored,
        all.len(),
        ns / stored as f64,
        table.kicks() as f64 / stored as f64,
    );
    let name = format!("owner table, bytes per owner with {features} features");
    report.add(Figure::new(name, per_feature * features as f64, Target::AtMost(target), note))?;
    Ok((table, stored))
}

/// Generates texts with `length` features each.
fn texts(start: u64, count: usize, length: usize) -> Vec<Feature> {
    let placed = keys(start, count).into_iter().enumerate();
    placed.map(|(i, fingerprint)| Feature { fingerprint, part: Part::of(i % length, length) }).collect()
}

fn look_ups(report: &mut Report, table: &OwnerTable, stored: u64) -> io::Result<()> {
    let buffer = Buffer::new(table.bytes() as usize);
    let owners = stored / FEATURES as u64;
    let present =
        (0..(OPERATIONS / FEATURES) as u64).flat_map(|i| keys(mixed(i) % owners * FEATURES as u64, FEATURES)).collect();
    for (which, asked) in [("absent", keys(1 << 60, OPERATIONS)), ("stored", present)] {
        let pair = compare(OPERATIONS, || buffer.read_lines(&asked), || vote(table, &asked));
        let name = format!("batched lookups of {which} features / random reads of one line");
        report.add(figure(&name, pair, Target::None))?;
        if which == "absent" {
            let rate = vote(table, &asked) as f64 / OPERATIONS as f64;
            let note = format!("predicted {:.4}", false_votes(OWNER_LOAD));
            report.add(Figure::new("false votes of an absent feature", rate, Target::None, note))?;
        }
    }
    Ok(())
}

/// Looks up `asked`, the features of one message at a time. Returns the total number of votes.
fn vote(table: &OwnerTable, asked: &[Fingerprint]) -> u64 {
    let mut votes = Votes::new();
    let messages = asked.chunks(MESSAGE_FEATURES);
    messages
        .map(|message| {
            table.votes(message, &mut votes);
            votes.iter().map(|(_, votes)| u64::from(votes.iter().sum::<u32>())).sum::<u64>()
        })
        .sum()
}

/// Measures inserts into a full table whose oldest tenth has expired, as in production. Then measures inserts into an
/// overfull table.
fn inserts(report: &mut Report, mut table: OwnerTable, stored: u64) -> io::Result<()> {
    let live = table.live();
    let expired = (live.end.number() - live.start.number()) / 10;
    table.expire_before(Owner::from_number(live.start.number() + expired));
    let new = texts(1 << 61, stored as usize / 10, FEATURES);
    report.add(insert(&mut table, &new, "ns per insert, over expired features"))?;
    let beyond = texts(1 << 62, stored as usize / 5, FEATURES);
    let (fill, measured) = beyond.split_at(beyond.len() / 2);
    insert(&mut table, fill, "");
    report.add(insert(&mut table, measured, "ns per insert, into an overfull table"))
}

fn insert(table: &mut OwnerTable, features: &[Feature], name: &str) -> Figure {
    let (kicks, evictions) = (table.kicks(), table.evictions());
    let ns = time(|| features.chunks(FEATURES).for_each(|owner| _ = table.add(owner, FEATURES)));
    let each = |total: u64| total as f64 / features.len() as f64;
    let (moves, lost) = (each(table.kicks() - kicks), each(table.evictions() - evictions));
    let note = format!("per insert {moves:.3} moves and {lost:.3} evictions; load {:.3} afterwards", table.load());
    Figure::new(name, ns / features.len() as f64, Target::None, note)
}
