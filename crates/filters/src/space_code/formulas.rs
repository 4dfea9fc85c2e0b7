//! The survey's formulas, as functions of numbers.

/// How many insertions it takes on average until all l groups are hit: l · H_l, which is about l ln l.
///
/// ```
/// use bruit_filters::space_code::coupon_collector;
///
/// assert_eq!(coupon_collector(32).round(), 130.0);
/// ```
#[must_use]
pub fn coupon_collector(groups: u32) -> f64 {
    expected_insertions(groups, groups)
}

/// How many insertions it takes on average until `hits` of l groups are hit: l/l + l/(l−1) + … + l/(l−hits+1).
#[must_use]
pub fn expected_insertions(groups: u32, hits: u32) -> f64 {
    (0..hits.min(groups)).map(|hit| f64::from(groups) / f64::from(groups - hit)).sum()
}

/// By which share of itself the expectation grows with one more hit. The filter with the least is the most relevant.
///
/// Infinite where there is nothing to tell from: no hit, or every group.
#[must_use]
pub fn relative_incremental_inaccuracy(groups: u32, hits: u32) -> f64 {
    if hits == 0 || hits >= groups {
        return f64::INFINITY;
    }
    f64::from(groups) / f64::from(groups - hits) / expected_insertions(groups, hits)
}

/// How many groups of l are hit on average after `packets`, each of which was inserted with probability `share`, if a group
/// that was not is found nevertheless with probability `false_positive_rate`.
#[must_use]
pub fn expected_hits(groups: u32, packets: f64, share: f64, false_positive_rate: f64) -> f64 {
    let groups = f64::from(groups);
    let missed = (packets * (-share / groups).ln_1p()).exp();
    groups * (1.0 - missed * (1.0 - false_positive_rate))
}
