//! Compares sizing functions with published tables, simulations and each other.

use bruit_filters::Fingerprint;
use bruit_filters::sizing::{
    BYTES_MAX, CountingPlan, Counts, Goal, Layout, MembershipPlan, Order, SizingError, best_hashes, bulk_rate,
    classical_cells_for_rate, classical_rate, classical_rate_exponential, compression_rate, counting_line_rate,
    counting_lines_for_rate, half_line_rate, intuitive_error, ln_bulk_rate, ln_cell_probability, lowest_rate,
    one_line_best_hashes, one_line_for_rate, one_line_rate, optimal_hashes, refined_error, ring_lines_for_rate,
    ring_rate, table_1,
};

fn assert_close(found: f64, expected: f64, relative: f64) {
    assert!((found / expected - 1.0).abs() <= relative, "{found:e} is not within {relative} of {expected:e}");
}

#[test]
fn table_1_is_the_papers() {
    let printed: Vec<_> = table_1()
        .iter()
        .map(|row| {
            let rate = format!("{:.3e}", row.false_positive_rate);
            (row.bits_per_key, row.hashes, row.compression_rate, rate)
        })
        .collect();
    let paper = [
        (16, 4, 10.0, "2.394e-3"),
        (10, 8, 16.0, "8.455e-3"),
        (16, 8, 10.0, "5.745e-4"),
        (40, 8, 4.0, "1.166e-6"),
        (40, 16, 4.0, "1.948e-8"),
    ];
    assert_eq!(printed, paper.map(|(m, k, compression, rate)| (m, k, compression, rate.to_owned())));
}

/// The slides' table of rates by m/n and k, with the digits printed in the slides.
const SLIDES: [(u64, f64, &[&str]); 7] = [
    (2, 1.39, &["0.393", "0.400"]),
    (3, 2.08, &["0.283", "0.237", "0.253"]),
    (4, 2.77, &["0.221", "0.155", "0.147", "0.160"]),
    (5, 3.46, &["0.181", "0.109", "0.092", "0.092", "0.101"]),
    (6, 4.16, &["0.154", "0.0804", "0.0609", "0.0561", "0.0578"]),
    (7, 4.85, &["0.133", "0.0618", "0.0423", "0.0359", "0.0347"]),
    (8, 5.55, &["0.118", "0.0489", "0.0306", "0.024", "0.0217"]),
];

#[test]
fn the_slides_table_is_reproduced_to_its_last_digit() {
    for (bits_per_key, optimal, rates) in SLIDES {
        assert!((optimal_hashes(1, bits_per_key) - optimal).abs() < 0.0101, "m/n {bits_per_key}");
        for (hashes, printed) in (1..).zip(rates) {
            let decimals = printed.len() - 2;
            let rate = classical_rate_exponential(1, bits_per_key, hashes);
            assert_eq!(format!("{rate:.decimals$}"), *printed, "m/n {bits_per_key}, k {hashes}");
        }
    }
}

#[test]
fn both_forms_of_equation_1_agree_for_large_filters() {
    for (keys, cells) in [(1_000_000, 16_000_000), (100_000_000, 1_000_000_000), (100_000_000_000, 1_000_000_000_000)] {
        for hashes in [1, 4, 7, 16] {
            let exponential = classical_rate_exponential(keys, cells, hashes);
            assert_close(classical_rate(keys, cells, hashes), exponential, 1e-5);
        }
    }
    // In a filter of a few cells the two forms differ. The first form, a power, is exact for balls thrown into bins.
    assert_eq!(classical_rate(1, 1, 1), 1.0);
    assert_close(classical_rate(1, 2, 1), 0.5, 1e-15);
}

#[test]
fn the_best_whole_k_is_next_to_the_optimal_one() {
    for (bits_per_key, best) in [(1, 1), (2, 1), (4, 3), (8, 6), (10, 7), (16, 11), (1000, 64)] {
        assert_eq!(best_hashes(1_000_000, bits_per_key * 1_000_000), best, "m/n {bits_per_key}");
    }
    assert_close(lowest_rate(1, 1), 0.6185, 1e-4);
    assert_close(lowest_rate(1, 16), 0.6185f64.powi(16), 1e-3);
}

#[test]
fn rates_in_edge_cases_are_0_or_1() {
    let rates: [fn(u64, u64, u32) -> f64; 4] =
        [classical_rate, classical_rate_exponential, one_line_rate, intuitive_error];
    for rate in rates {
        assert_eq!(rate(0, 100, 4), 0.0);
        assert_eq!(rate(0, 0, 4), 1.0);
        assert_eq!(rate(9, 0, 4), 1.0);
        assert_eq!(rate(9, 100, 0), 1.0);
        assert_close(rate(u64::MAX, 100, 4), 1.0, 1e-12);
        assert!((0.0..=1.0).contains(&rate(u64::MAX, u64::MAX, u32::MAX)));
        assert!((0.0..=1.0).contains(&rate(1, u64::MAX, 1)));
    }
    assert_eq!((compression_rate(0, 5), compression_rate(5, 0)), (0.0, f64::INFINITY));
    assert_eq!(
        (counting_line_rate(0, 5, 1), counting_line_rate(5, 0, 1), counting_line_rate(5, 5, 0)),
        (0.0, 1.0, 1.0)
    );
    assert_eq!((ring_rate(0, 5).window, ring_rate(5, 0).window), (0.0, 1.0));
    assert_close(ring_rate(u64::MAX, 1).window, 1.0, 1e-12);
    assert_eq!(
        (bulk_rate(0, 10, 4, 1, None), bulk_rate(9, 0, 4, 1, None), bulk_rate(9, 9, 4, 0, None)),
        (0.0, 1.0, 1.0)
    );
    assert!((0.0..=1.0).contains(&bulk_rate(u64::MAX, 1, u32::MAX, u32::MAX, Some(0))));
    assert_eq!(ln_cell_probability(9, 0, 4, 0), 0.0);
    assert_eq!(refined_error(0, 5, 4, Order::Runs).high, 0.0);
}

#[test]
fn equation_3_is_a_distribution() {
    let total: f64 = (0..=400).map(|touched| ln_cell_probability(100, 50, 4, touched).exp()).sum();
    assert_close(total, 1.0, 1e-12);
    // Two increments over four cells: 9/16, 6/16, 1/16.
    for (touched, expected) in [(0, 9.0), (1, 6.0), (2, 1.0)] {
        assert_close(ln_cell_probability(1, 4, 2, touched).exp(), expected / 16.0, 1e-14);
    }
}

#[test]
fn equation_4_at_threshold_1_is_equation_1() {
    for (insertions, cells, hashes) in [(1000, 16_000, 4), (100_000_000, 1_600_000_000, 8)] {
        let rate = classical_rate(insertions, cells, hashes);
        assert_close(bulk_rate(insertions, cells, hashes, 1, None), rate, 1e-10);
    }
}

#[test]
fn equation_4_keeps_its_tail_at_a_hundred_million_insertions() {
    // The counts of cells follow Poisson(1/4) to eight digits, and the tail that begins at 20 consists almost only of
    // its first terms.
    let first_term: f64 = -0.25 + 20.0 * 0.25f64.ln() - (1..=20).map(|i| f64::from(i).ln()).sum::<f64>();
    let tail = first_term + (1.0f64 + 0.25 / 21.0 + 0.0625 / (21.0 * 22.0) + 0.015_625 / (21.0 * 22.0 * 23.0)).ln();
    let found = ln_bulk_rate(100_000_000, 1_600_000_000, 4, 20, None);
    assert_close(found, 4.0 * tail, 1e-8);
    assert!(bulk_rate(100_000_000, 1_600_000_000, 4, 20, None) > 1e-130);
    // The rate is too small for an f64, but its logarithm is not.
    assert_eq!(bulk_rate(100_000_000, 1_600_000_000, 8, 60, None), 0.0);
    assert!(ln_bulk_rate(100_000_000, 1_600_000_000, 8, 60, None) < -1500.0);
    // If the maximum equals the threshold, only the first term remains.
    assert_close(ln_bulk_rate(100_000_000, 1_600_000_000, 4, 20, Some(20)), 4.0 * first_term, 1e-8);
    // In an overfull filter, every check finds its key.
    assert_close(bulk_rate(100_000_000, 1_000_000, 4, 20, None), 1.0, 1e-12);
}

/// The generator SplitMix64, whose finaliser makes the second half of a narrow fingerprint.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Fingerprint::narrow(self.0).low()
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// Asserts that the fraction of `hits` is within some standard errors of `expected`.
fn assert_simulated(what: &str, hits: u64, trials: u64, expected: f64) {
    let (share, trials) = (hits as f64 / trials as f64, trials as f64);
    let standard_error = (expected * (1.0 - expected) / trials).sqrt();
    let off = (share - expected) / standard_error;
    assert!(off.abs() < 4.0, "{what}: simulated {share:e}, computed {expected:e}, {off:.1} standard errors apart");
}

#[test]
fn one_line_rates_are_dearer_than_the_classical_formula_says() {
    let rate = |bits_per_key: f64, hashes| {
        let lines = 1_000_000;
        one_line_rate((512.0 * lines as f64 / bits_per_key) as u64, lines, hashes)
    };
    // These sizes for 1 % and 0.1 % were computed by inclusion and exclusion over both halves with 40 digits.
    assert_close(rate(9.901, 6), 1e-2, 1e-3);
    assert_close(rate(15.541, 10), 1e-3, 1e-3);
    assert!(rate(15.4, 9) > 1.5 * classical_rate(1_000_000, 15_400_000, 9));
}

/// Returns the rate of k distinct positions anywhere in a line of 512 bits, by inclusion and exclusion over the checked
/// positions. This is the rate of a layout without halves.
fn anywhere_rate(bits_per_key: f64, hashes: u32) -> f64 {
    let load = 512.0 / bits_per_key;
    let (mut sum, mut choose) = (0.0, 1.0);
    for missed in 0..=hashes {
        let spares = (0..hashes).map(|i| f64::from(512 - missed - i) / f64::from(512 - i)).product::<f64>();
        let sign = if missed % 2 == 0 { 1.0 } else { -1.0 };
        sum += sign * choose * (-load * (1.0 - spares)).exp();
        choose *= f64::from(hashes - missed) / f64::from(missed + 1);
    }
    sum
}

#[test]
fn positions_anywhere_in_a_line_would_save_less_than_half_a_per_cent() {
    for (rate, ratio, saving) in [(1e-2, 1.4886, 0.0012), (1e-3, 1.5534, 0.0039)] {
        let fewest = (1..=16).map(|hashes| {
            let (mut low, mut high) = (4.0, 60.0);
            for _ in 0..50 {
                let middle = (low + high) / 2.0;
                if anywhere_rate(middle, hashes) > rate { low = middle } else { high = middle }
            }
            high
        });
        let fewest = fewest.fold(f64::INFINITY, f64::min);
        assert_close(fewest / -f64::log2(rate), ratio, 1e-4);
        let ours = MembershipPlan::new(Layout::OneLine, 100_000_000, Goal::Rate(rate)).unwrap().bits_per_key;
        assert!((1.0 - fewest / ours - saving).abs() < 2e-4, "{}", 1.0 - fewest / ours);
    }
}

#[test]
fn half_a_line_with_t_ones_passes_a_check_as_a_draw_without_replacement() {
    assert_eq!(half_line_rate(256, 8), 1.0);
    assert_eq!(half_line_rate(7, 8), 0.0);
    assert_close(half_line_rate(128, 1), 0.5, 1e-15);
    assert_close(half_line_rate(128, 2), 0.5 * 127.0 / 255.0, 1e-15);
    assert_eq!(half_line_rate(9999, 3), 1.0);
    assert_eq!(half_line_rate(100, 0), 1.0);
}

#[test]
fn a_ring_of_15_7_bits_per_key_answers_the_window_at_one_per_cent() {
    let lines = 1_000_000u64;
    let keys_per_generation = (512.0 * lines as f64 / 15.7 / 8.0) as u64;
    let rate = ring_rate(keys_per_generation, lines);
    assert_close(rate.window, 1.0e-2, 0.02);
    assert!(rate.window < 8.0 * rate.generation && rate.window > 7.5 * rate.generation);
}

#[test]
fn the_ring_rate_is_what_a_simulation_shows() {
    const LINES: u64 = 4096;
    const CHECKS: u64 = 400_000;
    let mut random = SplitMix(42);
    let keys_per_generation = 6 * LINES;
    let mut lines = vec![[0u64; 8]; LINES as usize];
    let half =
        |random: &mut SplitMix| (random.below(LINES) as usize, (0..4).fold(0, |m, _| m | 1u64 << random.below(64)));
    for throw in 0..8 * 2 * keys_per_generation {
        let (line, mask) = half(&mut random);
        lines[line][throw as usize % 8] |= mask;
    }
    let (mut one, mut any) = (0, 0);
    for _ in 0..CHECKS {
        let (a, b) = (half(&mut random), half(&mut random));
        let holds = |generation: usize| [a, b].iter().all(|(line, mask)| lines[*line][generation] & mask == *mask);
        one += u64::from(holds(0));
        any += u64::from((0..8).any(holds));
    }
    let rate = ring_rate(keys_per_generation, LINES);
    assert_simulated("generation", one, CHECKS, rate.generation);
    assert_simulated("window", any, CHECKS, rate.window);
}

#[test]
fn plans_for_a_rate_keep_it_and_nothing_smaller_would() {
    for keys in [1, 1000, 10_000_000, 20_000_000_000] {
        for wanted in [0.5, 1e-2, 1e-3, 1e-6] {
            let (cells, hashes) = classical_cells_for_rate(keys, wanted).unwrap();
            assert!(classical_rate(keys, cells, hashes) <= wanted);
            assert!(keys < 1000 || classical_rate(keys, cells - cells / 1000, hashes) > wanted);

            let size = one_line_for_rate(keys, wanted).unwrap();
            assert!(one_line_rate(keys, size.lines, size.hashes) <= wanted);
            assert!(size.lines == 1 || one_line_best_hashes(keys, size.lines - 1).1 > wanted);

            let lines = counting_lines_for_rate(keys, wanted).unwrap();
            assert!(counting_line_rate(keys, lines, 1) <= wanted);
            assert!(lines == 1 || counting_line_rate(keys, lines - 1, 1) > wanted);

            let lines = ring_lines_for_rate(keys, wanted).unwrap();
            assert!(ring_rate(keys, lines).window <= wanted);
            assert!(lines == 1 || ring_rate(keys, lines - 1).window > wanted);
        }
    }
}

#[test]
fn a_plan_for_the_memory_of_a_plan_is_that_plan() {
    for layout in [Layout::Classical, Layout::OneLine] {
        for wanted in [1e-2, 1e-3, 1e-4] {
            let plan = MembershipPlan::new(layout, 10_000_000, Goal::Rate(wanted)).unwrap();
            assert_eq!(MembershipPlan::new(layout, 10_000_000, Goal::Memory(plan.bytes)), Ok(plan));
            assert!(plan.false_positive_rate <= wanted && plan.false_positive_rate > 0.99 * wanted);
            let counting = CountingPlan::new(layout, 10_000_000, Goal::Rate(wanted)).unwrap();
            assert_eq!(CountingPlan::new(layout, 10_000_000, Goal::Memory(counting.bytes)), Ok(counting));
        }
    }
}

#[test]
fn one_line_plans_cost_a_few_per_cent_more_bits_than_classical_ones() {
    // Bits per key divided by log2(1/f), which is 1.443 for the classical filter.
    for (rate, ratio, hashes) in [(1e-2, 1.491, 6), (1e-3, 1.560, 10)] {
        let plan = MembershipPlan::new(Layout::OneLine, 10_000_000, Goal::Rate(rate)).unwrap();
        assert_eq!(plan.hashes, hashes);
        assert!(plan.bits_per_key / -rate.log2() <= ratio, "{} bits", plan.bits_per_key);
        assert_eq!(plan.cells, plan.bytes * 8);
        assert_close(plan.compression_rate, 160.0 / plan.bits_per_key, 1e-12);
    }
}

#[test]
fn the_usual_counting_plan_has_32_bits_per_key() {
    let plan = CountingPlan::usual(16_000_000).unwrap();
    assert_eq!((plan.bits_per_key, plan.hashes, plan.cell_bits, plan.lines()), (32.0, 6, 4, Some(1_000_000)));
    assert_eq!(plan.cells, 128_000_000);
}

#[test]
fn invalid_arguments_are_errors() {
    for layout in [Layout::Classical, Layout::OneLine] {
        for rate in [0.0, 1.0, 1.5, -0.1, f64::INFINITY] {
            let expected = Err(SizingError::RateOutOfRange { rate });
            assert_eq!(MembershipPlan::new(layout, 10, Goal::Rate(rate)), expected);
        }
        assert!(MembershipPlan::new(layout, 10, Goal::Rate(f64::NAN)).is_err());
        assert_eq!(MembershipPlan::new(layout, 0, Goal::Rate(0.1)), Err(SizingError::NoKeys));
        assert_eq!(CountingPlan::new(layout, 0, Goal::Memory(1024)), Err(SizingError::NoKeys));
        assert!(matches!(MembershipPlan::new(layout, 1, Goal::Memory(7)), Err(SizingError::TooSmall { .. })));
        for goal in [Goal::Memory(BYTES_MAX + 1), Goal::Memory(u64::MAX)] {
            assert_eq!(CountingPlan::new(layout, 10, goal), Err(SizingError::TooLarge));
        }
        for keys in [1 << 51, 1 << 52] {
            assert_eq!(MembershipPlan::new(layout, keys, Goal::Rate(1e-3)), Err(SizingError::TooLarge));
            assert_eq!(CountingPlan::new(layout, keys, Goal::Rate(1e-3)), Err(SizingError::TooLarge));
        }
    }
    let out_of_reach = MembershipPlan::new(Layout::Classical, 1_000_000, Goal::Rate(1e-20));
    assert!(matches!(out_of_reach, Err(SizingError::RateOutOfReach { .. })));
    assert_eq!(ring_lines_for_rate(0, 0.1), Err(SizingError::NoKeys));
    assert_eq!(CountingPlan::usual(u64::MAX), Err(SizingError::TooLarge));
}

#[test]
fn extreme_rates_and_budgets_still_get_plans() {
    for layout in [Layout::Classical, Layout::OneLine] {
        for rate in [f64::MIN_POSITIVE, 1e-30, 1.0 - 1e-9, 1.0 - f64::EPSILON / 2.0] {
            if let Ok(plan) = MembershipPlan::new(layout, 1000, Goal::Rate(rate)) {
                assert!(plan.false_positive_rate <= rate * (1.0 + 1e-12), "{layout:?} {rate:e}");
            }
        }
        for (keys, bytes) in [(1, BYTES_MAX), (u64::MAX, 64), (1 << 40, 1 << 40)] {
            let plan = MembershipPlan::new(layout, keys, Goal::Memory(bytes)).unwrap();
            assert!((0.0..=1.0).contains(&plan.false_positive_rate) && plan.bytes <= bytes);
        }
    }
}

/// Number of rounds for each mean in the paper's tables.
const ROUNDS: f64 = 1000.0;

/// m, k, mean and standard deviation of the refined error in the paper's experiments with shuffled insertions. Each
/// experiment also has the number of distinct keys, as implied by the paper's figures, and the number of insertions per
/// key.
#[rustfmt::skip]
fn shuffled_experiments() -> Vec<(u32, u64, Counts, Vec<[f64; 4]>)> {
    vec![
        (3, 10_000, Counts::equal(20), vec![
            [80e3, 4., 1.875e-2, 1.392e-3], [80e3, 6., 1.538e-2, 1.266e-3], [80e3, 8., 1.707e-2, 1.292e-3],
            [160e3, 4., 1.789e-3, 4.265e-4], [160e3, 6., 6.278e-4, 2.378e-4], [160e3, 8., 3.482e-4, 1.871e-4],
            [320e3, 4., 1.350e-4, 1.160e-4], [320e3, 6., 1.630e-5, 4.080e-5], [320e3, 8., 2.700e-6, 1.621e-5]]),
        (4, 9_463, Counts::uniform(20), vec![
            [80e3, 4., 5.381e-3, 7.781e-4], [80e3, 6., 3.231e-3, 5.685e-4], [80e3, 8., 2.929e-3, 5.193e-4],
            [160e3, 4., 4.491e-4, 2.140e-4], [160e3, 6., 1.096e-4, 9.725e-5], [160e3, 8., 4.738e-5, 6.371e-5],
            [320e3, 4., 3.179e-5, 5.712e-5], [320e3, 6., 1.611e-6, 1.268e-5], [320e3, 8., 1.501e-7, 3.049e-6]]),
        (6, 10_000, Counts::poisson(10.0), vec![
            [80e3, 4., 1.086e-2, 1.036e-3], [80e3, 6., 7.966e-3, 8.512e-4], [80e3, 8., 8.282e-3, 8.500e-4],
            [160e3, 4., 9.937e-4, 3.134e-4], [160e3, 6., 2.917e-4, 1.565e-4], [160e3, 8., 1.536e-4, 1.151e-4],
            [320e3, 4., 7.208e-5, 8.158e-5], [320e3, 6., 7.613e-6, 2.494e-5], [320e3, 8., 9.843e-7, 8.584e-6]]),
        (7, 10_000, Counts::poisson(20.0), vec![
            [80e3, 4., 1.365e-2, 1.174e-3], [80e3, 6., 1.038e-2, 1.007e-3], [80e3, 8., 1.109e-2, 1.045e-3],
            [160e3, 4., 1.254e-3, 3.553e-4], [160e3, 6., 4.058e-4, 1.913e-4], [160e3, 8., 2.067e-4, 1.361e-4],
            [320e3, 4., 9.578e-5, 9.939e-5], [320e3, 6., 1.007e-5, 3.038e-5], [320e3, 8., 1.720e-6, 1.285e-5]]),
        (8, 9_744, Counts::uniform(40), vec![
            [80e3, 4., 5.866e-3, 8.001e-4], [80e3, 6., 3.586e-3, 5.756e-4], [80e3, 8., 3.353e-3, 5.255e-4],
            [160e3, 4., 5.153e-4, 2.283e-4], [160e3, 6., 1.207e-4, 1.050e-4], [160e3, 8., 5.434e-5, 6.651e-5],
            [240e3, 4., 1.094e-4, 1.038e-4], [240e3, 6., 1.439e-5, 3.496e-5], [240e3, 8., 2.302e-6, 1.283e-5],
            [320e3, 4., 3.975e-5, 6.504e-5], [320e3, 6., 3.332e-6, 1.639e-5], [320e3, 8., 3.635e-7, 4.467e-6]]),
    ]
}

/// The same data for experiments 1, 2 (equal counts) and 5 (uniform counts, in runs).
#[rustfmt::skip]
fn run_experiments() -> Vec<(u32, u64, Vec<[f64; 4]>)> {
    vec![
        (1, 10_000, vec![
            [80e3, 4., 5.840e-3, 7.786e-4], [80e3, 6., 4.167e-3, 6.633e-4], [80e3, 8., 4.316e-3, 6.430e-4],
            [160e3, 4., 5.107e-4, 2.323e-4], [160e3, 6., 1.591e-4, 1.250e-4], [160e3, 8., 7.720e-5, 8.637e-5],
            [320e3, 4., 3.450e-5, 5.692e-5], [320e3, 6., 3.100e-6, 1.733e-5], [320e3, 8., 3.000e-7, 5.469e-6]]),
        (2, 10_000, vec![
            [80e3, 4., 5.612e-3, 7.312e-4], [80e3, 6., 4.069e-3, 6.433e-4], [80e3, 8., 4.213e-3, 6.214e-4],
            [160e3, 4., 5.068e-4, 2.295e-4], [160e3, 6., 1.587e-4, 1.243e-4], [160e3, 8., 7.710e-5, 8.629e-5],
            [320e3, 4., 3.450e-5, 5.692e-5], [320e3, 6., 3.100e-6, 1.733e-5], [320e3, 8., 3.000e-7, 5.469e-6]]),
        (5, 9_463, vec![
            [80e3, 4., 5.982e-3, 8.812e-4], [80e3, 6., 3.952e-3, 7.073e-4], [80e3, 8., 3.810e-3, 6.532e-4],
            [160e3, 4., 5.211e-4, 2.511e-4], [160e3, 6., 1.446e-4, 1.266e-4], [160e3, 8., 6.395e-5, 8.661e-5],
            [320e3, 4., 3.622e-5, 6.495e-5], [320e3, 6., 2.853e-6, 1.851e-5], [320e3, 8., 2.402e-7, 4.379e-6]]),
    ]
}

/// Asserts that the paper's mean lies in the band, within the sampling error of its 1,000 rounds.
fn assert_in_band(experiment: u32, keys: u64, row: [f64; 4], order: Order) {
    let [cells, hashes, mean, deviation] = row;
    let estimate = refined_error(keys, cells as u64, hashes as u32, order);
    let slack = 3.0 * deviation / ROUNDS.sqrt();
    let inside = estimate.low - slack <= mean && mean <= estimate.high + slack;
    assert!(inside, "experiment {experiment}, m {cells}, k {hashes}: {mean:e} is outside {estimate:?}");
    assert!(estimate.low <= estimate.rate && estimate.rate <= estimate.high);
    assert!(estimate.high <= intuitive_error(keys, cells as u64, hashes as u32));
}

#[test]
fn refined_estimates_for_shuffled_streams_hold_the_papers_tables_in_their_band() {
    for (experiment, keys, counts, rows) in shuffled_experiments() {
        for row in rows {
            assert_in_band(experiment, keys, row, Order::Shuffled(counts));
        }
    }
}

#[test]
fn refined_estimates_for_runs_hold_the_papers_tables_in_their_band() {
    for (experiment, keys, rows) in run_experiments() {
        for row in rows {
            assert_in_band(experiment, keys, row, Order::Runs);
            assert_in_band(experiment, keys, row, Order::Unknown);
        }
    }
}

#[test]
fn the_refined_estimate_for_equal_runs_is_within_five_per_cent() {
    let (_, keys, rows) = run_experiments().swap_remove(1);
    for [cells, hashes, mean, deviation] in rows {
        let rate = refined_error(keys, cells as u64, hashes as u32, Order::Runs).rate;
        assert!((rate - mean).abs() <= 0.05 * mean + 3.0 * deviation / ROUNDS.sqrt(), "{cells} {hashes}");
    }
}

#[test]
fn refined_errors_between_the_ends_depend_on_the_stream_as_they_should() {
    let error = |order| refined_error(10_000, 80_000, 6, order).rate;
    let shuffled = |counts| error(Order::Shuffled(counts));
    let intuitive = intuitive_error(10_000, 80_000, 6);
    // With one insertion per key, every order consists of runs. With more insertions, a key is late only for a short
    // time.
    assert_close(shuffled(Counts::equal(1)), error(Order::Runs), 1e-9);
    assert!(shuffled(Counts::equal(5)) < shuffled(Counts::equal(20)) && shuffled(Counts::equal(100)) < intuitive);
    // The more unequal the counts, the smaller the weighted error.
    assert!(shuffled(Counts::uniform(20)) < shuffled(Counts::poisson(10.0)));
    // Outside the checked range, only the bound holds.
    let unchecked = refined_error(10_000, 20_000, 3, Order::Shuffled(Counts::equal(20)));
    assert_eq!((unchecked.low, unchecked.high), (0.0, intuitive_error(10_000, 20_000, 3)));
}
