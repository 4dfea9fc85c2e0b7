//! The survey's formulas, as plain functions.

/// Returns the mean number of insertions until all l groups are hit: l · H_l, which is about l ln l.
///
/// ```
/// use bruit_structures::space_code::coupon_collector;
///
/// assert_eq!(coupon_collector(32).round(), 130.0);
/// ```
#[must_use]
pub fn coupon_collector(groups: u32) -> f64 {
    expected_insertions(groups, groups)
}

/// Returns the mean number of insertions until `hits` of l groups are hit: l/l + l/(l−1) + … + l/(l−hits+1).
#[must_use]
pub fn expected_insertions(groups: u32, hits: u32) -> f64 {
    (0..hits.min(groups)).map(|hit| f64::from(groups) / f64::from(groups - hit)).sum()
}

/// Returns how much one more hit increases the expected number of insertions, as a fraction of that number. The filter
/// with the lowest value is the most relevant.
///
/// The result is infinite if `hits` is 0 or all groups are hit.
#[must_use]
pub fn relative_incremental_inaccuracy(groups: u32, hits: u32) -> f64 {
    if hits == 0 || hits >= groups {
        return f64::INFINITY;
    }
    f64::from(groups) / f64::from(groups - hits) / expected_insertions(groups, hits)
}

/// Returns how many of the l groups are found, on average, after `packets` packets, if each packet is inserted with
/// probability `share`. A group that was not hit is found with probability `false_positive_rate`.
#[must_use]
pub fn expected_hits(groups: u32, packets: f64, share: f64, false_positive_rate: f64) -> f64 {
    let groups = f64::from(groups);
    let missed = (packets * (-share / groups).ln_1p()).exp();
    groups * (1.0 - missed * (1.0 - false_positive_rate))
}
