//! Tests of space-code filters: the survey's statements, and estimates compared with known counts.

use bruit_filters::bloom::{ClassicalFilter, MembershipFilter, OneLineFilter};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::{Fingerprint, FingerprintKey, KeyId};
use bruit_structures::space_code::{
    Arrival, CONFIDENCE, Estimate, GROUPS_MAX, MultiResolutionFilter, RESOLUTIONS_MAX, Shape, SpaceCodeFilter,
    coupon_collector, expected_hits, expected_insertions, relative_incremental_inaccuracy,
};

/// Random numbers from SplitMix64. Its finaliser is part of [`Fingerprint::narrow`].
struct Draws(u64);

impl Iterator for Draws {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Some(Fingerprint::narrow(self.0).low())
    }
}

fn key(number: u64) -> Fingerprint {
    FingerprintKey::new([9; 16]).fingerprint(&number.to_le_bytes())
}

fn single(lines: usize, groups: u32) -> SpaceCodeFilter<OneLineFilter> {
    SpaceCodeFilter::new(OneLineFilter::new(lines, 6, 64, KeyId(0)).unwrap(), groups)
}

fn insert(filter: &mut MultiResolutionFilter<OneLineFilter>, key: Fingerprint, times: usize, draws: &mut Draws) {
    let arrivals: Vec<_> = draws.take(times).map(|draw| Arrival { key, draw }).collect();
    filter.insert_batch(&arrivals);
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

#[test]
fn the_survey_expects_all_32_groups_after_about_l_ln_l_insertions() {
    assert_eq!((32.0 * 32f64.ln()).round(), 111.0);
    assert_eq!(coupon_collector(32).round(), 130.0);
    let mut draws = Draws(1);
    let mut filter = single(20_000, 32);
    let needed = |number| {
        let key = key(number);
        let mut insertions = 0.0;
        while filter.hits(&key) < 32 {
            filter.insert_batch(&[Arrival { key, draw: draws.next().unwrap() }]);
            insertions += 1.0;
        }
        insertions
    };
    let (mean, error) = mean_and_error(&(0..1000).map(needed).collect::<Vec<f64>>());
    assert!((mean - coupon_collector(32)).abs() < 4.0 * error, "{mean} ± {error}");
}

#[test]
fn the_expected_number_of_insertions_is_the_survey_s_sum() {
    let by_hand = 32.0 / 32.0 + 32.0 / 31.0 + 32.0 / 30.0;
    assert!((expected_insertions(32, 3) - by_hand).abs() < 1e-12);
    assert!((relative_incremental_inaccuracy(32, 3) - 32.0 / 29.0 / by_hand).abs() < 1e-12);
    assert!(
        relative_incremental_inaccuracy(32, 0).is_infinite() && relative_incremental_inaccuracy(32, 32).is_infinite()
    );
    // The inaccuracy is lowest when 1 − 1/e of the groups are hit.
    let best = (1..32)
        .min_by(|&a, &b| relative_incremental_inaccuracy(32, a).total_cmp(&relative_incremental_inaccuracy(32, b)));
    assert_eq!(best, Some(20));
}

#[test]
fn the_number_of_hits_is_as_expected() {
    let mut draws = Draws(2);
    let mut filter = single(100_000, 32);
    for times in [1, 5, 32, 100] {
        let hits = |number: u64| {
            let key = key(times as u64 * 10_000 + number);
            let arrivals: Vec<_> = (&mut draws).take(times).map(|draw| Arrival { key, draw }).collect();
            filter.insert_batch(&arrivals);
            f64::from(filter.hits(&key))
        };
        let (mean, error) = mean_and_error(&(0..1000).map(hits).collect::<Vec<_>>());
        let expected = expected_hits(32, times as f64, 1.0, 0.0);
        assert!((mean - expected).abs() < 4.0 * error + 0.01, "{times}: {mean} ± {error}, expected {expected}");
    }
}

#[test]
fn several_resolutions_are_needed_to_distinguish_200_from_400() {
    let mut draws = Draws(3);
    let shape = |resolutions| Shape { resolutions, ..Shape::default() };
    let estimate = |resolutions, times, draws: &mut Draws| -> Vec<Estimate> {
        let mut filter = MultiResolutionFilter::with_bytes(1 << 20, shape(resolutions), KeyId(0));
        (0..50).for_each(|number| insert(&mut filter, key(number), times, draws));
        let estimator = filter.estimator();
        (0..50).map(|number| estimator.estimate(&key(number))).collect()
    };
    let mean = |estimates: &[Estimate]| estimates.iter().map(|e| e.likely).sum::<f64>() / estimates.len() as f64;
    let (few, many) = (estimate(1, 200, &mut draws), estimate(1, 400, &mut draws));
    assert!(many.iter().all(|estimate| estimate.hits == 32 && estimate.high.is_infinite()));
    assert!(few.iter().filter(|estimate| estimate.hits == 32).count() > 40);
    let (few, many) = (estimate(5, 200, &mut draws), estimate(5, 400, &mut draws));
    assert!((mean(&few) / 200.0 - 1.0).abs() < 0.15 && (mean(&many) / 400.0 - 1.0).abs() < 0.15);
}

#[test]
fn the_most_relevant_filter_for_1000_is_around_one_sixteenth() {
    let mut draws = Draws(4);
    let mut filter = MultiResolutionFilter::with_bytes(4 << 20, Shape::default(), KeyId(0));
    (0..100).for_each(|number| insert(&mut filter, key(number), 1000, &mut draws));
    let estimator = filter.estimator();
    let mut asked = [0; 9];
    (0..100).for_each(|number| asked[estimator.estimate(&key(number)).resolution] += 1);
    // At 1000 packets, the resolutions that receive 1/16 and 1/64 of the packets have about the same inaccuracy.
    assert_eq!(asked[2] + asked[3], 100, "{asked:?}");
    assert!(asked[2] > 20, "{asked:?}");
}

/// Returns counts from 1 to 100,000, and a filter's estimates of them. The filter has false positives.
fn estimates_of_all_sizes() -> Vec<(f64, Estimate)> {
    let mut draws = Draws(5);
    let mut filter = MultiResolutionFilter::with_bytes(20_000, Shape::default(), KeyId(0));
    let sizes: Vec<usize> = (0..600).map(|number| 10f64.powf(f64::from(number % 6) * 0.8).round() as usize).collect();
    for (number, &size) in sizes.iter().enumerate() {
        insert(&mut filter, key(number as u64), size, &mut draws);
    }
    let rate = filter.resolutions()[0].filter().estimated_false_positive_rate();
    assert!((0.005..0.1).contains(&rate), "the false positives must have an effect: {rate}");
    let estimator = filter.estimator();
    sizes.iter().enumerate().map(|(number, &size)| (size as f64, estimator.estimate(&key(number as u64)))).collect()
}

#[test]
fn the_truth_lies_in_the_interval_as_often_as_promised() {
    let estimates = estimates_of_all_sizes();
    let inside = estimates.iter().filter(|(size, estimate)| (estimate.low..=estimate.high).contains(size)).count();
    let share = inside as f64 / estimates.len() as f64;
    let error = (CONFIDENCE * (1.0 - CONFIDENCE) / estimates.len() as f64).sqrt();
    assert!(share > CONFIDENCE - 4.0 * error, "{share}");
    assert!(estimates.iter().all(|(_, estimate)| estimate.low <= estimate.likely && estimate.likely <= estimate.high));
}

#[test]
fn both_estimators_are_right_on_average() {
    let estimates = estimates_of_all_sizes();
    let mut sizes: Vec<f64> = estimates.iter().map(|(size, _)| *size).collect();
    sizes.dedup();
    sizes.truncate(6);
    for size in sizes {
        let of = |figure: fn(&Estimate) -> f64| {
            let figure: Vec<_> = estimates.iter().filter(|(s, _)| *s == size).map(|(_, e)| figure(e)).collect();
            mean_and_error(&figure)
        };
        // Sampling alone makes each of the 100 estimates of a size vary by a third, and their mean by a thirtieth.
        for (mean, error) in [of(|estimate| estimate.likely), of(|estimate| estimate.mean)] {
            assert!((mean - size).abs() < 4.0 * error + 0.05 * size, "{size}: {mean} ± {error}");
        }
    }
}

#[test]
fn a_key_that_never_arrived_has_a_low_estimate() {
    let mut draws = Draws(6);
    let mut filter = MultiResolutionFilter::with_bytes(100_000, Shape::default(), KeyId(0));
    (0..500).for_each(|number| insert(&mut filter, key(number), 100, &mut draws));
    let estimator = filter.estimator();
    let strangers = (10_000..11_000).map(|number| estimator.estimate(&key(number)));
    assert!(strangers.filter(|estimate| estimate.low > 0.0).count() <= 50);
}

#[test]
fn an_empty_filter_contains_nothing() {
    let filter = MultiResolutionFilter::with_bytes(1000, Shape::default(), KeyId(0));
    let estimate = filter.estimator().estimate(&key(1));
    assert_eq!((estimate.likely, estimate.mean, estimate.low, estimate.high), (0.0, 0.0, 0.0, 0.0));
}

#[test]
fn merged_filters_are_one_that_saw_everything() {
    let mut draws = Draws(7);
    let empty = MultiResolutionFilter::with_bytes(10_000, Shape::default(), KeyId(0));
    let (mut here, mut there, mut both) = (empty.clone(), empty.clone(), empty.clone());
    for number in 0..100 {
        let arrival = [Arrival { key: key(number % 10), draw: draws.next().unwrap() }];
        if number % 2 == 0 {
            here.insert_batch(&arrival)
        } else {
            there.insert_batch(&arrival)
        }
        both.insert_batch(&arrival);
    }
    here.merge(&there).unwrap();
    assert_eq!(here, both);
    let other = MultiResolutionFilter::with_bytes(10_000, Shape { groups: 31, ..Shape::default() }, KeyId(0));
    assert!(here.merge(&other).unwrap_err().to_string().contains("the number of groups is 31, expected 32"));
    let fewer = MultiResolutionFilter::with_bytes(10_000, Shape { resolutions: 8, ..Shape::default() }, KeyId(0));
    assert!(here.merge(&fewer).is_err());
    assert_eq!(here, both);
}

#[test]
fn batches_equal_single_insertions() {
    let arrivals: Vec<_> = Draws(8).take(200).map(|draw| Arrival { key: key(draw % 7), draw }).collect();
    let mut one_by_one = MultiResolutionFilter::with_bytes(10_000, Shape::default(), KeyId(0));
    let mut at_once = one_by_one.clone();
    arrivals.iter().for_each(|arrival| one_by_one.insert_batch(std::slice::from_ref(arrival)));
    at_once.insert_batch(&arrivals);
    assert_eq!(one_by_one, at_once);
}

#[test]
fn the_classical_layout_gives_the_same_estimates() {
    let hash = || FingerprintHash::new(50_000, 6, 64, KeyId(0)).unwrap();
    let mut filter = MultiResolutionFilter::new((0..4).map(|_| ClassicalFilter::new(hash()).unwrap()), 32);
    let arrivals: Vec<_> = Draws(9).take(500).map(|draw| Arrival { key: key(1), draw }).collect();
    filter.insert_batch(&arrivals);
    let estimate = filter.estimator().estimate(&key(1));
    assert!((estimate.low..=estimate.high).contains(&500.0) && estimate.high < 1500.0, "{estimate:?}");
}

#[test]
fn groups_and_resolutions_are_limited() {
    let shape = Shape { groups: GROUPS_MAX, resolutions: RESOLUTIONS_MAX, hashes: 4 };
    let filter = MultiResolutionFilter::with_bytes(10_000, shape, KeyId(0));
    assert_eq!((filter.resolutions().len(), filter.estimator().estimate(&key(1)).hits), (16, 0));
    for shape in [
        Shape { groups: GROUPS_MAX + 1, ..shape },
        Shape { groups: 0, ..shape },
        Shape { resolutions: RESOLUTIONS_MAX + 1, ..shape },
        Shape { resolutions: 0, ..shape },
    ] {
        assert!(std::panic::catch_unwind(|| MultiResolutionFilter::with_bytes(10_000, shape, KeyId(0))).is_err());
    }
}
