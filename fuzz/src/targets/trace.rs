//! Decoded recorder pages can be queried. In a parsed topology, every link is known to the routers at both of its ends.
//! The invariant of a packet (the part that stays the same from hop to hop) has a bounded length. Computing the
//! invariant of a message never panics.

use std::path::Path;

use bruit_forensics::capture::{Frame, Link};
use bruit_forensics::packet::decode;
use bruit_forensics::traceback::{INVARIANT_BYTES_MAX, Invariant, Topology, TracePage, received_at};

pub(crate) fn fuzz(input: &[u8]) {
    let Some((&choice, input)) = input.split_first() else { return };
    match choice % 4 {
        0 => page(input),
        1 => topology(input),
        2 => packet(input),
        _ => drop((Invariant::of_message(input), received_at(input))),
    }
}

fn page(input: &[u8]) {
    if let Ok(page) = TracePage::decode(input) {
        std::hint::black_box(page.contains(&Invariant::of_message(b"")));
        assert!((0.0..=1.0).contains(&page.false_positive_rate()));
    }
}

fn topology(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(topology) = Topology::parse(text, Path::new("")) else { return };
    for (place, router) in topology.routers().iter().enumerate() {
        assert_eq!(topology.place(&router.name), Some(place));
        assert!(router.links.iter().all(|&link| topology.routers()[link].links.contains(&place)));
    }
}

fn packet(input: &[u8]) {
    let frame = Frame { time: 0, link: Link::Ip, bytes: input, original_bytes: input.len() as u32 };
    let Ok(packet) = decode(&frame) else { return };
    if let Some(invariant) = Invariant::of_packet(&packet) {
        assert!(invariant.as_bytes().len() <= INVARIANT_BYTES_MAX);
    }
}
