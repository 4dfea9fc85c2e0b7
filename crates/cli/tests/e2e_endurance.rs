//! A short run of `cargo xtask endurance`. Each network passes through more than nine generations of both books. The
//! faults are a kill, a clock weeks ahead, a looping reporter, and a node that is away for two generations. The full
//! run injects every fault.

#![expect(clippy::print_stdout, reason = "if a test fails, the output shows which faults were injected and when")]

use std::path::PathBuf;
use std::time::Duration;

use bruit_endurance::{Network, Options, run};

/// Length of an epoch of each book in seconds. Ten generations end in less than a minute.
const EPOCH: u64 = 5;

fn endure(network: Network) {
    let options = Options {
        bruit: PathBuf::from(env!("CARGO_BIN_EXE_bruit")),
        network,
        duration: Duration::from_secs(10 * EPOCH),
        spam_epoch: EPOCH,
        bulk_epoch: EPOCH,
        seed: 17,
        all_faults: false,
    };
    let report = run(&options, &mut |line| println!("{line}")).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(report.bulk_generations >= 9 && report.spam_generations >= 9, "{report:?}");
    assert!(report.acknowledged > 200 && report.comparisons >= 3, "{report:?}");
}

#[test]
fn a_server_alone_outlives_its_generations() {
    endure(Network::Alone);
}

#[test]
fn nodes_over_https_outlive_their_generations() {
    endure(Network::Https);
}

#[test]
fn nodes_over_a_broker_outlive_their_generations() {
    endure(Network::Nats);
}
