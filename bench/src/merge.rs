//! Benchmarks of merging, relative to the speed of memcpy.

use std::io;

use bruit_filters::KeyId;
use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::counting::{Cells, OneLineCounts, PackedCells};

use crate::keys::{key, keys, zipf};
use crate::membership::figure;
use crate::memory::Buffer;
use crate::report::{Report, Target};
use crate::timing::{Pair, ROUNDS, compare};

const BYTES: usize = 256 << 20;
const LINES: usize = BYTES / 64;

pub(crate) fn speed(report: &mut Report) -> io::Result<()> {
    let (source, mut copy) = (Buffer::new(BYTES), Buffer::new(BYTES));
    let mut memcpy = || copy.bytes_mut().copy_from_slice(source.bytes());
    {
        let filter = || {
            let mut filter = OneLineFilter::new(LINES, 6, 48, KeyId(0)).unwrap();
            filter.insert_batch(&keys(0, 10_000_000));
            filter
        };
        let (mut ours, theirs) = (filter(), filter());
        let or = compare(BYTES, &mut memcpy, || ours.merge(&theirs));
        report.add(speed_figure("merge by OR / memcpy", or, Target::AtLeast(0.80)))?;
        drop(theirs);
        // Each of the eight sources has an eighth of the size, so that the merge reads as many bytes as memcpy does.
        let small = |i: u64| {
            let mut filter = OneLineFilter::new(LINES / 8, 6, 48, KeyId(0)).unwrap();
            filter.insert_batch(&keys(i << 40, 1_000_000));
            filter
        };
        let sources: Vec<_> = (1..=8).map(small).collect();
        let sources: Vec<_> = sources.iter().collect();
        let mut target = small(0);
        let eight = compare(BYTES, &mut memcpy, || target.merge_all(&sources));
        report.add(speed_figure("merge of eight by OR in one pass / memcpy", eight, Target::None))?;
    }
    for (bits, target) in [(8, 0.80), (4, 0.75)] {
        // Write every page. Untouched pages would all map to the same page of zeros, which is in the cache.
        let cells = || {
            let mut cells = PackedCells::new((BYTES * 8 / bits) as u64, bits as u32).expect("a valid size");
            (0..cells.len()).step_by(1021).for_each(|i| cells.set(i, (i % 16) as u32));
            cells
        };
        let (mut ours, theirs) = (cells(), cells());
        let add = compare(BYTES, &mut memcpy, || ours.merge(&theirs));
        report.add(speed_figure(
            &format!("merge by adding {bits}-bit cells / memcpy"),
            add,
            Target::AtLeast(target),
        ))?;
    }
    one_line_counts(report, &mut memcpy)
}

/// Measures merging. Each merge has a new copy as its target, because repeated merging would leave only large counts.
fn one_line_counts(report: &mut Report, memcpy: &mut impl FnMut()) -> io::Result<()> {
    const SHARE: usize = 8;
    let lines = LINES / SHARE;
    let mut counts = OneLineCounts::new(lines, KeyId(0)).unwrap();
    let events: Vec<_> = zipf(1 << 26, lines * 40, 5).into_iter().map(key).collect();
    counts.insert_batch(&events);
    let mut copies = vec![counts.clone(); ROUNDS + 1];
    let merge = || copies.pop().map(|mut copy| copy.merge(&counts));
    let mut pair = compare(BYTES, memcpy, merge);
    pair.ratio /= SHARE as f64;
    pair.subject_ns *= SHARE as f64;
    report.add(speed_figure("merge of one-line counts, Zipf(1) / memcpy", pair, Target::None))
}

fn speed_figure(name: &str, pair: Pair, target: Target) -> crate::report::Figure {
    let mut line = figure(name, pair, target);
    line.note = format!("{:.1} GB/s, memcpy {:.1} GB/s", 1.0 / pair.subject_ns, 1.0 / pair.reference_ns);
    line
}
