//! Measured rates against predictions, for each layout at three sizes.
//!
//! The tolerance is 4 standard errors of the fraction of absent keys found, plus 1 % of the prediction. The rate of a
//! small filter varies with its random fill, so small sizes are measured on many filters. Keys are fingerprints of
//! consecutive numbers under a fixed key, so they are the same in every run.

#![expect(clippy::print_stdout, reason = "the figures help to explain a failing test")]

use bruit_filters::bloom::{ClassicalFilter, MembershipFilter, OneLineFilter};
use bruit_filters::counting::OneLineCounts;
use bruit_filters::hash::FingerprintHash;
use bruit_filters::ring::{CountsRing, Generations, MembershipRing, StagedRing, StagedScratch};
use bruit_filters::sizing::{
    Goal, Layout, MembershipPlan, RING_GENERATIONS, counting_line_rate, counts_ring_lines_for_rate, counts_ring_rate,
    fingerprint_bits, ring_lines_for_rate, ring_rate, staged_ring_lines_for_rate, staged_ring_rate,
};
use bruit_filters::{Fingerprint, FingerprintKey, KeyId};

/// The sizes of the measured filters, in keys.
const SIZES: [u64; 3] = [1_000, 30_000, 1_000_000];
const ABSENT: u64 = 1_000_000;
const STANDARD_ERRORS: f64 = 4.0;
const SLACK: f64 = 0.01;

/// Keys of both widths, by name. Rings use both words of a fingerprint, and their rates must not change if one word is
/// derived from the other.
const WIDTHS: [(&str, FingerprintKey); 2] =
    [("wide", FingerprintKey::new([99; 16])), ("narrow", FingerprintKey::narrow([99; 16]))];

fn keys_under(key: &FingerprintKey, start: u64, count: u64) -> Vec<Fingerprint> {
    (start..start + count).map(|i| key.fingerprint(&i.to_le_bytes())).collect()
}

fn keys(start: u64, count: u64) -> Vec<Fingerprint> {
    keys_under(&WIDTHS[0].1, start, count)
}

/// Returns the total of `hits` over all [`ABSENT`] absent keys, measured on as many filters as the size requires. The
/// first argument of `hits` is the number of the first key of each filter.
fn absent_found(size: u64, hits: impl FnMut(u64, &[Fingerprint]) -> usize) -> usize {
    absent_found_under(&WIDTHS[0].1, size, hits)
}

fn absent_found_under(key: &FingerprintKey, size: u64, mut hits: impl FnMut(u64, &[Fingerprint]) -> usize) -> usize {
    let filters = (300_000 / size).clamp(1, 250);
    (0..filters).map(|i| hits(i << 34, &keys_under(key, 1 << 44 | i << 34, ABSENT / filters))).sum()
}

fn assert_rate(what: &str, hits: usize, predicted: f64) {
    let measured = hits as f64 / ABSENT as f64;
    let standard_error = (predicted * (1.0 - predicted) / ABSENT as f64).sqrt();
    let off = (measured - predicted) / standard_error;
    println!("{what}: measured {measured:.4e}, predicted {predicted:.4e}, {off:.1} standard errors");
    let allowed = STANDARD_ERRORS * standard_error + SLACK * predicted;
    assert!((measured - predicted).abs() <= allowed, "{what}: measured {measured:e}, predicted {predicted:e}");
}

/// Returns the number of absent keys found in a filter of `size` keys, and checks the filter's own estimates.
fn fill_and_check<F>(mut filter: F, keys: &[Fingerprint], absent: &[Fingerprint]) -> usize
where
    F: MembershipFilter<Key = Fingerprint>,
{
    filter.insert_batch(keys);
    let estimated_keys = filter.estimated_keys() / keys.len() as f64;
    assert!((estimated_keys - 1.0).abs() < 0.1, "{estimated_keys} of the keys");
    let mut found = vec![false; absent.len()];
    filter.contains_batch(absent, &mut found);
    let hits = found.into_iter().filter(|&found| found).count();
    let expected = filter.estimated_false_positive_rate() * absent.len() as f64;
    assert!((hits as f64 - expected).abs() <= 5.5 * expected.sqrt() + 0.03 * expected + 1.0, "{hits} of {expected}");
    hits
}

#[test]
fn classical_filters_keep_the_rate_of_equation_1() {
    // Includes a filter of a hundred keys, because dependent positions, as in plain double hashing, have the largest
    // effect in small arrays.
    for size in [100].into_iter().chain(SIZES) {
        for rate in [1e-2, 1e-3, 1e-4, 1e-5] {
            let plan = MembershipPlan::new(Layout::Classical, size, Goal::Rate(rate)).unwrap();
            let hash = FingerprintHash::new(plan.cells, plan.hashes, plan.fingerprint_bits, KeyId(0)).unwrap();
            let found = absent_found(size, |start, absent| {
                fill_and_check(ClassicalFilter::new(hash.clone()).unwrap(), &keys(start, size), absent)
            });
            assert_rate(&format!("classical, {size} keys"), found, plan.false_positive_rate);
        }
    }
}

#[test]
fn one_line_filters_keep_their_planned_rate() {
    for size in SIZES {
        for rate in [1e-2, 1e-3, 1e-4] {
            let plan = MembershipPlan::new(Layout::OneLine, size, Goal::Rate(rate)).unwrap();
            let found = absent_found(size, |start, absent| {
                let filter = OneLineFilter::from_plan(&plan, KeyId(0)).unwrap();
                fill_and_check(filter, &keys(start, size), absent)
            });
            assert_rate(&format!("one line, {size} keys, k = {}", plan.hashes), found, plan.false_positive_rate);
        }
    }
}

#[test]
fn one_line_counts_have_the_planned_false_positive_rate() {
    for size in SIZES {
        for keys_per_line in [8, 16] {
            let lines = size / keys_per_line;
            let found = absent_found(size, |start, absent| {
                let mut counts = OneLineCounts::new(lines as usize, KeyId(0)).unwrap();
                counts.insert_batch(&keys(start, size));
                let mut found = vec![0; absent.len()];
                counts.count_batch(absent, &mut found);
                found.into_iter().filter(|&count| count > 0).count()
            });
            assert_rate(&format!("counts, {size} keys"), found, counting_line_rate(size, lines, 1));
        }
    }
}

#[test]
fn rings_keep_their_planned_rate_over_the_window() {
    for size in SIZES {
        let lines = ring_lines_for_rate(size, 1e-2).unwrap();
        let found = absent_found(size, |start, absent| {
            let mut ring = MembershipRing::new(lines as usize, fingerprint_bits(8 * size, 1e-2), KeyId(0), 0).unwrap();
            for epoch in 0..8 {
                if epoch > 0 {
                    ring.advance();
                }
                ring.insert_batch(&keys(start + (epoch << 24), size));
            }
            let mut found = vec![Generations::default(); absent.len()];
            ring.check_batch(absent, &mut found);
            found.into_iter().filter(|found| !found.is_empty()).count()
        });
        assert_rate(&format!("ring, {size} keys"), found, ring_rate(size, lines).window);
    }
}

#[test]
fn staged_rings_keep_their_planned_rate_over_the_window_under_either_width() {
    for (size, (width, key)) in SIZES.into_iter().flat_map(|size| WIDTHS.map(|width| (size, width))) {
        let lines = staged_ring_lines_for_rate(size, RING_GENERATIONS, 1e-4).unwrap();
        let found = absent_found_under(&key, size, |start, absent| {
            let mut ring = StagedRing::new(lines as usize, KeyId(0), 0).unwrap();
            for epoch in 0..8 {
                ring.advance();
                ring.insert_batch(&keys_under(&key, start + (epoch << 24), size));
            }
            let estimated = ring.estimated_rate();
            assert!((0.5e-4..2e-4).contains(&estimated), "{estimated:e}");
            let mut found = vec![Generations::default(); absent.len()];
            ring.check_batch(absent, &mut found, &mut StagedScratch::default());
            found.into_iter().filter(|found| !found.is_empty()).count()
        });
        assert_rate(&format!("staged ring, {size} {width} keys"), found, staged_ring_rate(size, lines, 8).window);
    }
}

#[test]
fn rings_of_counts_read_above_0_for_the_unseen_at_the_planned_rate_under_either_width() {
    for (size, (width, key)) in SIZES.into_iter().flat_map(|size| WIDTHS.map(|width| (size, width))) {
        for rate in [1e-2, 1e-3] {
            let lines = counts_ring_lines_for_rate(size, 7, rate).unwrap();
            let found = absent_found_under(&key, size, |start, absent| {
                let mut ring = CountsRing::new(lines as usize, KeyId(0), 0).unwrap();
                for epoch in 0..7 {
                    ring.advance();
                    ring.insert_batch(&keys_under(&key, start + (epoch << 24), size));
                }
                let (counted, estimated) = (ring.keys(3).unwrap() as f64 / size as f64, ring.estimated_rate() / rate);
                assert!((0.98..=1.0).contains(&counted) && (0.9..1.1).contains(&estimated), "{counted}, {estimated}");
                let mut found = vec![0; absent.len()];
                ring.count_batch(absent, &mut found);
                found.into_iter().filter(|&count| count > 0).count()
            });
            let what = format!("ring of counts, {size} {width} keys");
            assert_rate(&what, found, counts_ring_rate(size, lines, 7).window);
        }
    }
}

/// The number of wrong counts of present keys is below the bound, and about equal for keys of both widths.
#[test]
fn wrong_counts_of_a_ring_are_fewer_than_unseen_keys_that_read_above_0() {
    let size = 300_000;
    let lines = size * 40 / 64;
    let bound = counts_ring_rate(size, lines, 1).generation;
    let wrong = WIDTHS.map(|(_, key)| wrong_counts(&keys_under(&key, 0, size), lines) as f64);
    println!("{wrong:?} of {size} counts are wrong, at most {:.0}", bound * size as f64);
    assert!(wrong.iter().all(|&wrong| wrong > 0.0 && wrong <= bound * size as f64));
    let standard_error = (wrong[0] + wrong[1]).sqrt();
    assert!((wrong[0] - wrong[1]).abs() <= STANDARD_ERRORS * standard_error, "{wrong:?}");
}

/// Returns the number of `keys` with a wrong count in one generation. Each key arrives 1 to 8 times, in rounds.
fn wrong_counts(keys: &[Fingerprint], lines: u64) -> usize {
    let mut ring = CountsRing::new(lines as usize, KeyId(0), 0).unwrap();
    (0..8)
        .for_each(|round| ring.insert_batch(&keys.iter().copied().skip(round).step_by(round + 1).collect::<Vec<_>>()));
    let truth = |i: usize| (0..8).filter(|round| i >= *round && (i - round).is_multiple_of(*round + 1)).count() as u32;
    keys.iter().enumerate().filter(|(i, key)| ring.count(key) != truth(*i)).count()
}
