//! Servers under loss, partitions, crashes, lost disks and lying peers agree in the end, and count everything once.
//!
//! Runs fifty networks by default. `BRUIT_SEEDS=1000..1200` runs others, `BRUIT_SEEDS=77` one.

use std::ops::Range;

use bruit_federation::simulation::{Summary, run};

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("BRUIT_SEEDS") else { return 0..50 };
    let number = |text: &str| text.parse::<u64>().expect("BRUIT_SEEDS must be a seed, or a range such as 1000..1200");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}

#[test]
fn healed_networks_agree_and_count_everything_once() {
    let (seeds, mut all) = (seeds(), Summary::default());
    let mut failures = Vec::new();
    for seed in seeds.clone() {
        match run(seed) {
            Ok(summary) => all.add(&summary),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{} of {seeds:?} fail:\n{}", failures.len(), failures.join("\n"));
    if seeds.end - seeds.start >= 50 {
        assert!(all.crashes > 0 && all.forgotten > 0 && all.disks_lost > 0 && all.repairs > 0, "{all:?}");
        for reason in ["already_taken", "not_next", "forged", "malformed", "wrong_chain", "foreign_realm"] {
            assert!(all.rejected.contains_key(reason), "no segment was {reason}: {all:?}");
        }
    }
}
