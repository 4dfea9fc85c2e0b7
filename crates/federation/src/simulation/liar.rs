//! A lying peer: the false answers it sends.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use crate::segment::split;

/// Distorts an offer or a log: forges, replays, cuts or doubles it, or mixes it with older data in `kept`.
pub(super) fn mangle(random: &mut ChaCha8Rng, bytes: &[u8], kept: &[Vec<u8>]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    match random.random_range(0..8) {
        0 => flip(random, &mut out),
        1 => out.truncate(random.random_range(0..=bytes.len())),
        2 => out.extend(bytes),
        3 => out = without_first(bytes),
        4 => out = any(random, kept),
        5 => out = [any(random, kept), out].concat(),
        6 => out = (0..random.random_range(0..2_000)).map(|_| random.random()).collect(),
        _ => {}
    }
    out
}

fn flip(random: &mut ChaCha8Rng, bytes: &mut [u8]) {
    if !bytes.is_empty() {
        let at = random.random_range(0..bytes.len());
        bytes[at] ^= 1 << random.random_range(0..8);
    }
}

/// Returns a log with a gap at its start.
fn without_first(log: &[u8]) -> Vec<u8> {
    split(log).ok().flatten().map_or_else(Vec::new, |(_, rest)| rest.to_vec())
}

fn any(random: &mut ChaCha8Rng, kept: &[Vec<u8>]) -> Vec<u8> {
    if kept.is_empty() { Vec::new() } else { kept[random.random_range(0..kept.len())].clone() }
}
