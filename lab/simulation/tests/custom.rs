//! Compares custom runs with known bounds and with the study.

use std::sync::atomic::AtomicBool;

use bruit_filters::counting::Extension;
use bruit_filters::sizing::{bulk_rate, classical_rate};
use bruit_simulation::{
    Counts, CustomLayout, CustomOptions, CustomResult, Experiment, Family, Moments, OptionsError, Order, SystemResult,
    paper, run_custom,
};

fn options() -> CustomOptions {
    CustomOptions {
        keys: 10_000,
        cells: 80_000,
        hashes: 4,
        cell_bits: 6,
        low_bits: 3,
        chunk_cells: 1024,
        counts: Counts::Constant(20),
        order: Order::Shuffled,
        servers: 1,
        layout: CustomLayout::Classical,
        family: Family::Universal,
        threshold: None,
        rounds: 20,
        seed: 7,
        threads: 2,
    }
}

fn run(options: &CustomOptions) -> CustomResult {
    run_custom(options, &|| (), &AtomicBool::new(false)).unwrap()
}

/// Runs both extensions on one server.
fn extensions(options: &CustomOptions) -> [SystemResult; 2] {
    run(options).systems.try_into().unwrap()
}

#[test]
fn the_papers_traffic_gives_the_papers_figures() {
    let traffic = [
        (1, Counts::Constant(20), Order::Rounds),
        (2, Counts::Constant(20), Order::Runs),
        (3, Counts::Constant(20), Order::Shuffled),
        (6, Counts::Poisson { mean: 10.0 }, Order::Shuffled),
    ];
    for (number, counts, order) in traffic {
        let [_, refined] = extensions(&CustomOptions { counts, order, ..options() });
        let figure = paper::find(Experiment::new(number).unwrap(), Extension::Refined, 80_000, 4).unwrap();
        let distance = figure.distance(&refined.rate);
        assert!(distance.abs() < 4.5, "experiment {number}: {distance}");
    }
}

#[test]
fn the_same_options_give_the_same_results_on_any_number_of_threads() {
    let options = CustomOptions { servers: 3, threshold: Some(5), ..options() };
    let once = run(&options);
    assert_eq!(run(&CustomOptions { threads: 1, ..options.clone() }), once);
    assert_ne!(run(&CustomOptions { seed: 8, ..options }), once);
}

#[test]
fn merging_costs_the_intuitive_extension_nothing_and_the_refined_one_something() {
    let traffic = CustomOptions { counts: Counts::Uniform { smallest: 0, largest: 20 }, servers: 4, ..options() };
    let [intuitive, intuitive_merged, refined, refined_merged] = run(&traffic).systems.try_into().unwrap();
    assert_eq!(intuitive.rate, intuitive_merged.rate);
    assert!(refined_merged.rate.mean() > 1.2 * refined.rate.mean());
    // A merged count is never higher than the count in an intuitive filter that received all insertions.
    assert!(refined_merged.rate.mean() <= intuitive.rate.mean());
    assert_eq!((refined.servers, refined_merged.servers), (1, 4));
}

#[test]
fn counts_past_the_top_of_a_narrow_cell_are_clipped_and_not_wrong() {
    let [_, refined] = extensions(&CustomOptions { cell_bits: 4, cells: 10_000_000, ..options() });
    assert_eq!((refined.clipped.mean(), refined.rate.mean()), (1.0, 0.0));
    assert_eq!(refined.bytes.mean(), 5e6);
    let [_, refined] = extensions(&CustomOptions { cell_bits: 5, cells: 10_000_000, ..options() });
    assert_eq!(refined.clipped.mean(), 0.0);
}

#[test]
fn one_line_counts_are_exact_past_15() {
    let layout =
        CustomOptions { layout: CustomLayout::OneLine, cells: 1_280_000, counts: Counts::Constant(100), ..options() };
    let [refined]: [SystemResult; 1] = run(&layout).systems.try_into().unwrap();
    assert!(refined.clipped.mean() == 0.0 && refined.rate.mean() < 1e-3);
    assert!(refined.bytes.mean() >= 640_000.0);
}

/// Splitting cells as in the paper changes only the memory.
#[test]
fn compact_cells_count_as_wide_ones_in_less_memory() {
    let zipf = Counts::Zipf { exponent: 1.1, mean: 10.0 };
    let wide = CustomOptions { cell_bits: 16, counts: zipf, servers: 3, threshold: Some(20), ..options() };
    let compact = CustomOptions { layout: CustomLayout::Compact, ..wide.clone() };
    let (wide, compact) = (run(&wide), run(&compact));
    for (wide, compact) in wide.systems.iter().zip(&compact.systems) {
        let in_wide_cells = SystemResult { bytes: wide.bytes, computed_bytes: wide.computed_bytes, ..compact.clone() };
        assert_eq!(&in_wide_cells, wide);
        assert_eq!(wide.bytes.mean(), 160_000.0);
        // The memory includes base cells of 4 bits and at least one large count.
        assert!((40_000.0..60_000.0).contains(&compact.computed_bytes.mean()), "{compact:?}");
        assert!(compact.computed_bytes.mean() < compact.bytes.mean(), "tables have spare capacity");
        assert!(compact.bytes.mean() < wide.bytes.mean());
    }
}

#[test]
fn strangers_are_seen_as_often_as_the_filter_has_false_positives() {
    let [intuitive, refined] = extensions(&options());
    let expected = classical_rate(10_000, 80_000, 4);
    assert!((intuitive.strangers_seen.mean() / expected - 1.0).abs() < 0.05);
    assert_eq!(intuitive.strangers_seen, refined.strangers_seen);
}

/// Equation (4) is accurate if every key is inserted only once, and far off if keys repeat.
#[test]
fn equation_4_fits_traffic_of_keys_that_come_once() {
    let within = |moments: &Moments, expected: f64| {
        (moments.mean() - expected).abs() < 4.0 * moments.standard_error() + 0.05 * expected
    };
    let once = CustomOptions { counts: Counts::Constant(1), threshold: Some(2), cells: 20_000, ..options() };
    let [intuitive, refined] = extensions(&once);
    assert!(within(&intuitive.strangers_bulk, bulk_rate(10_000, 20_000, 4, 2, None)));
    assert!(refined.strangers_bulk.mean() < intuitive.strangers_bulk.mean());

    let often = CustomOptions { counts: Counts::Constant(20), threshold: Some(20), ..options() };
    let [intuitive, _] = extensions(&often);
    assert!(bulk_rate(200_000, 80_000, 4, 20, None) < 1e-6 * intuitive.strangers_bulk.mean());
    assert!(within(&intuitive.strangers_bulk, classical_rate(10_000, 80_000, 4)));
}

#[test]
fn keys_below_the_threshold_that_reach_it_are_counted() {
    let traffic = CustomOptions {
        counts: Counts::Uniform { smallest: 1, largest: 20 },
        threshold: Some(20),
        cells: 30_000,
        ..options()
    };
    let result = run(&traffic);
    let [intuitive, refined] = result.systems.try_into().unwrap();
    assert!(0.0 < refined.false_bulk.mean() && refined.false_bulk.mean() < intuitive.false_bulk.mean());
    // One key in twenty has a count of 20.
    assert!((450.0..550.0).contains(&result.bulk_keys.mean()));
}

#[test]
fn invalid_options_are_rejected_before_the_run() {
    let refused = |options: CustomOptions| options.check().unwrap_err();
    let outside = |options| matches!(refused(options), OptionsError::Outside { .. });
    assert!(outside(CustomOptions { keys: 0, ..options() }));
    assert!(outside(CustomOptions { keys: 10_000_001, ..options() }));
    assert!(outside(CustomOptions { cells: 0, ..options() }));
    assert!(outside(CustomOptions { cells: (1 << 32) + 1, ..options() }));
    assert!(outside(CustomOptions { hashes: 0, ..options() }));
    assert!(outside(CustomOptions { hashes: 65, ..options() }));
    let partitions = CustomOptions { family: Family::RemappedDigest, hashes: 8, ..options() };
    assert!(outside(CustomOptions { cells: 7, ..partitions.clone() }), "a partition without a cell");
    assert_eq!(CustomOptions { cells: 8, ..partitions }.check(), Ok(()));
    assert!(outside(CustomOptions { cell_bits: 0, ..options() }));
    assert!(outside(CustomOptions { cell_bits: 17, ..options() }));
    let compact = CustomOptions { layout: CustomLayout::Compact, cell_bits: 16, ..options() };
    for (low_bits, cell_bits, chunk_cells) in
        [(0, 16, 1), (16, 17, 1), (3, 20, 1), (3, 3, 1), (3, 16, 0), (3, 16, 65_537)]
    {
        assert!(
            outside(CustomOptions { low_bits, cell_bits, chunk_cells, ..compact.clone() }),
            "{low_bits} {cell_bits}"
        );
    }
    assert_eq!(CustomOptions { low_bits: 15, cell_bits: 31, chunk_cells: 65_536, ..compact }.check(), Ok(()));
    assert!(outside(CustomOptions { servers: 1001, ..options() }));
    assert!(outside(CustomOptions { rounds: 100_000_001, ..options() }));
    assert!(outside(CustomOptions { threads: 1025, ..options() }));
    assert!(outside(CustomOptions { threshold: Some(0), ..options() }));
    let threshold = CustomOptions { threshold: Some(64), ..options() };
    assert_eq!(refused(threshold.clone()), OptionsError::Threshold { threshold: 64, cell_bits: 6, top: 63 });
    assert_eq!(CustomOptions { layout: CustomLayout::OneLine, ..threshold }.check(), Ok(()));
    let huge = [
        CustomOptions { cells: 1 << 32, servers: 100, ..options() },
        CustomOptions { cells: 1 << 32, layout: CustomLayout::OneLine, servers: 4, ..options() },
        CustomOptions { keys: 10_000_000, threads: 1024, ..options() },
    ];
    huge.into_iter().for_each(|options| assert!(matches!(refused(options), OptionsError::Memory { .. })));
    let insertions = CustomOptions { keys: 10_000_000, counts: Counts::Constant(21), order: Order::Runs, ..options() };
    assert!(outside(insertions));
    for counts in [
        Counts::Constant(0),
        Counts::Uniform { smallest: 5, largest: 2 },
        Counts::Poisson { mean: f64::NAN },
        Counts::Zipf { exponent: -1.0, mean: 1.0 },
    ] {
        assert!(matches!(refused(CustomOptions { counts, ..options() }), OptionsError::Counts(_)), "{counts}");
    }
    // Options at the limits are accepted.
    assert_eq!(CustomOptions { keys: 10_000_000, threads: 1, ..options() }.check(), Ok(()));
    assert_eq!(CustomOptions { cells: 1 << 32, threads: 1, ..options() }.check(), Ok(()));
}

/// If every key's count equals the threshold, no key is below the threshold.
#[test]
fn a_share_of_zero_keys_has_no_mean() {
    let [_, refined] = extensions(&CustomOptions { threshold: Some(20), ..options() });
    assert_eq!((refined.false_bulk.count(), refined.strangers_bulk.count()), (0, 20));
}

/// A round can take minutes, so a stopped run must not start another.
#[test]
fn a_run_stops_between_rounds() {
    let stop = AtomicBool::new(false);
    let stop_now = || stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let result = run_custom(&CustomOptions { threads: 1, ..options() }, &stop_now, &stop).unwrap();
    assert_eq!((result.rounds, result.insertions.count()), (1, 1));
}
