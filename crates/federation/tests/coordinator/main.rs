//! The decisions of the coordinator, one by one: a test plays the driver, and carries out requests or makes them fail.

#[path = "../common/mod.rs"]
mod common;
mod exporter;
mod publisher;
mod receiver;
mod rereader;

use std::time::Duration;

use bruit_federation::coordinator::Moment;
use bruit_federation::transport::TransportError;

use common::START;

/// Returns the moment this many milliseconds after the start of the process.
fn at(uptime_ms: u64) -> Moment {
    Moment { now: START, uptime: Duration::from_millis(uptime_ms) }
}

fn unreachable() -> TransportError {
    TransportError::Unreachable("no route".into())
}
