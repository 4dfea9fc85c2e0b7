//! Computes the figures of `docs/survey/summary-cache.md`: how much traffic a mail site saves with a summary of the
//! server's list.
//!
//! ```sh
//! cargo run --release -p bruit-structures --example summary_cache
//! ```

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::collections::VecDeque;
use std::error::Error;

use bruit_filters::hash::FingerprintHash;
use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_structures::summary::{CELL_BITS, Published, Summary, overflow_bound};

/// Number of signatures on the server's list. A new signature replaces the oldest.
const LISTED: u64 = 100_000;
const CHECKS: u64 = 1_000_000;
/// Number of checks between two new listings.
const CHECKS_PER_LISTING: u64 = 20;
/// Percentage of checks whose signature is listed.
const KNOWN_PERCENT: u64 = 40;
/// Length of a query: 28 bytes of IP and UDP headers, 20 bytes of the protocol, and a signature of 20 bytes. (A query
/// of the original protocol, ICP, has a URL instead of a signature.)
const QUESTION_BYTES: u64 = 28 + 20 + 20;
const ANSWER_BYTES: u64 = 28 + 20;
/// Maximum number of bytes of an update that fit into one packet.
const PACKET_BYTES: u64 = 1400;
const PACKET_HEADER_BYTES: u64 = 28;
/// Number of hash functions, as used by the authors.
const HASHES: u32 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{CHECKS} checks, {KNOWN_PERCENT} % of them of listed signatures; \
         {LISTED} listed, a new one every {CHECKS_PER_LISTING} checks"
    );
    let always = Cost { packets: 2 * CHECKS, bytes: CHECKS * (QUESTION_BYTES + ANSWER_BYTES), ..Cost::default() };
    println!("one query for every check: {} packets, {:.1} MB\n", always.packets, always.megabytes());
    println!("cells   update                       ÷ bytes of               update bytes       needless   missed");
    println!("/ key       at     packets    bytes  all checks   updates      per listing        queries     hits");
    for cells in [8, 16, 32] {
        for percent in [0.1, 1.0, 10.0] {
            print(cells, percent, &run(cells, percent)?, &always);
        }
    }
    println!("\ncells   overflow of any cell of {CELL_BITS} bits, with {LISTED} keys and {HASHES} functions: at most");
    for cells in [6, 8, 16, 32] {
        println!("{cells:>5}   {:.2e}", overflow_bound(LISTED, cells * LISTED, HASHES, CELL_BITS));
    }
    Ok(())
}

/// Traffic and errors of a site.
#[derive(Clone, Copy, Default)]
struct Cost {
    packets: u64,
    bytes: u64,
    updates: u64,
    update_bytes: u64,
    /// Number of checks of unlisted signatures that were sent to the server.
    in_vain: u64,
    /// Number of checks of listed signatures that were not sent to the server.
    missed: u64,
}

impl Cost {
    fn megabytes(&self) -> f64 {
        self.bytes as f64 / 1e6
    }

    fn take_question(&mut self) {
        self.packets += 2;
        self.bytes += QUESTION_BYTES + ANSWER_BYTES;
    }

    fn take_update(&mut self, bytes: u64) {
        let packets = bytes.div_ceil(PACKET_BYTES);
        self.updates += 1;
        self.packets += packets;
        self.update_bytes += bytes + packets * PACKET_HEADER_BYTES;
        self.bytes += bytes + packets * PACKET_HEADER_BYTES;
    }
}

fn print(cells: u64, percent: f64, cost: &Cost, always: &Cost) {
    let known = (CHECKS * KNOWN_PERCENT / 100) as f64;
    println!(
        "{cells:>5}  {percent:>5.1} %  {:>10}  {:>4.1} MB  {:>8.1} %  {:>8}  {:>15.1}  {:>11.3} %  {:>5.2} %",
        cost.packets,
        cost.megabytes(),
        cost.bytes as f64 / always.bytes as f64 * 100.0,
        cost.updates,
        cost.update_bytes as f64 / (CHECKS / CHECKS_PER_LISTING) as f64,
        cost.in_vain as f64 / (CHECKS as f64 - known) * 100.0,
        cost.missed as f64 / known * 100.0,
    );
}

/// Runs the simulation with a summary of `cells` cells per listed key, which is updated whenever `percent` percent of
/// the keys have changed.
fn run(cells: u64, percent: f64) -> Result<Cost, Box<dyn Error>> {
    let key = FingerprintKey::new([1; 16]);
    let hash = FingerprintHash::new(cells * LISTED, HASHES, 48, key.id()).unwrap();
    let (mut here, mut there) = (Summary::new(hash.clone())?, Published::new(hash)?);
    let fingerprint = |number: u64| key.fingerprint(&number.to_le_bytes());
    let mut listed: VecDeque<Fingerprint> = (0..LISTED).map(fingerprint).collect();
    listed.iter().for_each(|fingerprint| here.insert(fingerprint));
    there.apply(&here.publish())?;
    let changes_max = (LISTED as f64 * percent / 100.0) as u64;
    let (mut cost, mut random, mut changes) = (Cost::default(), 7u64, 0);
    for check in 0..CHECKS {
        if check % CHECKS_PER_LISTING == 0 {
            let new = fingerprint(LISTED + check);
            here.insert(&new);
            listed.push_back(new);
            here.remove(&listed.pop_front().ok_or("the list is never empty")?)?;
            changes += 1;
            if changes >= changes_max {
                let update = here.publish();
                cost.take_update(update.encode().len() as u64);
                there.apply(&update)?;
                changes = 0;
            }
        }
        let is_known = next(&mut random) % 100 < KNOWN_PERCENT;
        let asked = if is_known { listed[recent(&mut random)] } else { fingerprint(u64::MAX - check) };
        match (there.contains(&asked), is_known) {
            (true, _) => {
                cost.take_question();
                cost.in_vain += u64::from(!is_known);
            }
            (false, true) => cost.missed += 1,
            (false, false) => {}
        }
    }
    Ok(cost)
}

/// Returns a random index in the list. Spam comes in waves, so half of the checks are for the newest tenth of the list,
/// a quarter for the tenth before it, and so on.
fn recent(random: &mut u64) -> usize {
    let tenth = LISTED / 10;
    let back = u64::from((next(random) >> 40).trailing_zeros()).min(9);
    (LISTED - 1 - back * tenth - next(random) % tenth) as usize
}

/// Returns the next number of a fixed sequence (Steele, Lea and Flood's SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    Fingerprint::narrow(*state).low()
}
