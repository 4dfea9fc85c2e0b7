//! Tests of flow counts: from the bytes of generated captures to estimates.

use bruit_forensics::capture::Capture;
use bruit_forensics::flows::{
    EXACT_FLOWS_MAX, FlowCounter, IDENTITY_BYTES_MAX, Identity, Key, MEMORY_BYTES_MIN, Settings,
};
use bruit_forensics::generate::{Flow, Traffic};
use bruit_forensics::packet::decode;
use bruit_structures::space_code::Shape;

fn settings(memory_bytes: u64) -> Settings {
    let identity_bytes_max = IDENTITY_BYTES_MAX;
    Settings { memory_bytes, identity_bytes_max, shape: Shape::default(), exact_flows: EXACT_FLOWS_MAX }
}

/// Zipf traffic with a hundredth of the packets used in the benchmark.
fn traffic() -> Traffic {
    Traffic { hosts: 200, flows: 1000, packets: 100_000, payload_bytes: 0..=20, ..Traffic::default() }
}

fn counter(traffic: &Traffic, memory_bytes: u64) -> FlowCounter {
    let mut file = Vec::new();
    traffic.write(&mut file).unwrap();
    let mut counter = FlowCounter::new(&settings(memory_bytes), [3; 16], 5);
    let (mut capture, mut identity) = (Capture::open(&file[..]).unwrap(), Identity::default());
    while let Some(frame) = capture.next_frame().unwrap() {
        identity.set_packet(Key::FIVE_TUPLE, &decode(&frame).unwrap());
        counter.count(identity.as_bytes());
    }
    counter
}

fn describe(flow: &Flow) -> String {
    let protocol = if flow.protocol == 6 { "tcp" } else { "udp" };
    format!("{}:{} > {}:{} {protocol}", flow.source, flow.ports.0, flow.destination, flow.ports.1)
}

#[test]
fn zipf_traffic_is_estimated_within_a_quarter_at_every_size_and_within_the_interval() {
    let traffic = traffic();
    let mut counter = counter(&traffic, 4 << 20);
    let counted = counter.counted();
    assert_eq!(counted.packets(), 100_000);
    for band in counted.errors() {
        // A single estimate is typically off by a fifth. Allow four standard errors of the mean over the flows of a
        // band.
        let luck = 4.0 * 0.2 / (band.flows as f64).sqrt();
        assert!(band.mean_error < 0.25 + luck && band.bias.abs() < 0.06 + luck, "{band:?}");
        assert!(band.covered > 0.95 - 4.0 * (0.05 * 0.95 / band.flows as f64).sqrt(), "{band:?}");
    }
}

#[test]
fn the_largest_flows_are_found_by_name() {
    let traffic = traffic();
    let mut counter = counter(&traffic, 4 << 20);
    let top = counter.counted().top(3);
    // The first flow has twice the packets of the second, so no estimation error can swap them.
    assert_eq!(Key::FIVE_TUPLE.describe(&top[0].identity), describe(&traffic.flow(0)));
    assert!(top.iter().all(|flow| flow.exact.unwrap() > 2000));
}

#[test]
fn memory_stays_within_the_limit() {
    for memory_bytes in [0, MEMORY_BYTES_MIN, 1 << 20] {
        let mut counter = FlowCounter::new(&Settings { exact_flows: 0, ..settings(memory_bytes) }, [3; 16], 5);
        for flow in 0..200_000u32 {
            // Identities of the maximum length.
            counter.count(&flow.to_le_bytes().repeat(IDENTITY_BYTES_MAX / 4));
        }
        let memory = counter.counted().memory();
        // Every resolution has at least one line, and sizes are rounded to lines.
        let allowed = memory_bytes.max(MEMORY_BYTES_MIN) + 16 * 64;
        assert!(memory.filter + memory.leaders <= allowed && memory.exact == 0, "{memory:?}");
    }
}

#[test]
fn an_overfull_filter_says_so_and_its_intervals_stay_true() {
    let mut counter = counter(&Traffic { flows: 20_000, packets: 200_000, ..traffic() }, MEMORY_BYTES_MIN);
    let counted = counter.counted();
    assert!(counted.fill() > 0.5, "{}", counted.fill());
    let (mut covered, mut flows) = (0.0, 0.0);
    for band in counted.errors() {
        covered += band.covered * band.flows as f64;
        flows += band.flows as f64;
    }
    assert!(covered / flows > 0.9, "{}", covered / flows);
}
