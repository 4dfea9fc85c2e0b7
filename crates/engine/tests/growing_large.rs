//! Measures the time and memory that growing needs. `docs/operators/sizing.md` quotes the results.
//!
//! `cargo test --release -p bruit-engine --test growing_large -- --ignored --nocapture`

#![expect(clippy::print_stdout, reason = "it prints the figures of docs/operators/sizing.md")]

mod common;

use std::fs;
use std::time::Instant;

use bruit_engine::budget::{BUDGET_DEFAULT, Plan};
use bruit_engine::event::Event;
use bruit_engine::realm::Realm;
use bruit_engine::trust::{Claim, Policy, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{Engine, Outcome};

use common::{BULK_EPOCH, KEY, SPAM_EPOCH, START, by, fingerprint};

const SIGNATURES: u32 = 3_000_000;

/// Returns a line of `/proc/self/status`, in MiB.
fn mebibytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap() >> 10
}

#[test]
#[ignore = "needs 1 GiB; prints figures"]
fn growing_from_256_mib_to_1_gib_with_millions_of_signatures() {
    let plan = Plan::for_budget(BUDGET_DEFAULT).unwrap();
    let realm = Realm::new(KEY, SPAM_EPOCH, BULK_EPOCH, plan.sizes).unwrap();
    let mut engine = Engine::new(realm, plan, Policy::default(), START);
    let mut listed = Vec::new();
    for first in (0..SIGNATURES).step_by(60) {
        let fingerprints: Vec<_> = (first..first + 60).map(fingerprint).collect();
        // Use a new group for each batch, so that no group exceeds its share of the nursery.
        let own = by(START, Standing::Own, 1 + u64::from(first));
        engine.apply(&Event::Claim { by: own, claim: Claim::Report, flag: 0, fingerprints: fingerprints.clone() });
        let targets = if first.is_multiple_of(6_000) { 1_000 } else { 1 };
        engine.apply(&Event::Bulk { by: own, targets, fingerprints });
    }
    let state = |engine: &Engine| -> Vec<_> {
        (0..SIGNATURES)
            .map(|at| {
                let fingerprint = fingerprint(at);
                (engine.check(&fingerprint, 0).kind == Kind::Spam, engine.bulk().total(&fingerprint))
            })
            .collect()
    };
    listed.extend(state(&engine));
    let known = listed.iter().filter(|(is_listed, total)| *is_listed && *total > 0).count();
    let (before, began) = (mebibytes("VmRSS:"), Instant::now());
    assert_eq!(engine.apply(&Event::Resize { now: START, budget_bytes: 4 * BUDGET_DEFAULT }), Outcome::Done);
    let took = began.elapsed();
    assert!(state(&engine) == listed);
    println!(
        "{known} of {SIGNATURES} listed and counted; growth took {:.2} s; \
         {before} MiB before, {} MiB after, peak {} MiB",
        took.as_secs_f64(),
        mebibytes("VmRSS:"),
        mebibytes("VmHWM:")
    );
}
