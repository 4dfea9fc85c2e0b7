//! Benchmark of a check over eight generations, relative to one random line read.

use std::io;

use bruit_filters::KeyId;
use bruit_filters::ring::{Generations, MembershipRing};
use bruit_filters::sizing::ring_lines_for_rate;

use crate::keys::keys;
use crate::memory::Buffer;
use crate::report::{Figure, Report, Target};
use crate::timing::{compare, time};

const GENERATIONS: u64 = 8;
const KEYS_PER_GENERATION: usize = 12_000_000;
const OPERATIONS: usize = 500_000;

pub(crate) fn check(report: &mut Report) -> io::Result<()> {
    let lines = ring_lines_for_rate(KEYS_PER_GENERATION as u64, 0.01).expect("a valid size") as usize;
    let mut ring = MembershipRing::new(lines, 48, KeyId(0), 0).unwrap();
    for generation in 0..GENERATIONS {
        if generation > 0 {
            ring.advance();
        }
        ring.insert_batch(&keys(generation << 40, KEYS_PER_GENERATION));
    }
    let buffer = Buffer::new(lines * 64);
    let absent = keys(1 << 60, OPERATIONS);
    let mut found = vec![Generations::default(); OPERATIONS];
    let pair = compare(OPERATIONS, || buffer.read_lines(&absent), || ring.check_batch(&absent, &mut found));
    let rate = found.iter().filter(|found| !found.is_empty()).count() as f64 / OPERATIONS as f64;
    let bits = (lines * 512) as f64 / (GENERATIONS as usize * KEYS_PER_GENERATION) as f64;
    let note = format!(
        "{:.2} ns, {bits:.2} bits per key, {:.2} % false positives over the window",
        pair.subject_ns,
        rate * 100.0
    );
    report.add(Figure::new(
        "time of a check over 8 generations / time of a line read",
        1.0 / pair.ratio,
        Target::AtMost(2.4),
        note,
    ))?;
    report.add(Figure::new("bits per key of that ring", bits, Target::AtMost(16.0), ""))?;
    let ms = time(|| ring.expire(usize::MAX)) / 1e6;
    let mib = lines as f64 * 64.0 / f64::from(1 << 20);
    report.add(Figure::new("expiry of one generation, in µs per MiB of the ring", ms * 1000.0 / mib, Target::None, ""))
}
