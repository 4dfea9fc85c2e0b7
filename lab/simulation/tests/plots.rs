//! Tests of the plots of synthetic studies: file names, content, and robustness against unusual studies.

use std::collections::BTreeMap;

use bruit_simulation::plots::draw;
use bruit_simulation::{
    CELL_TOP, ConfigurationResult, Counts, Experiment, ExperimentResult, ExtensionResult, HASHES, Moments, Study,
};
use proptest::prelude::*;

const KEYS: f64 = 10_000.0;

/// Builds a study whose results are similar to those of the paper.
fn study(numbers: &[u64], rounds: u64) -> Study {
    let experiments = numbers.iter().map(|&number| experiment(Experiment::new(number).unwrap(), rounds));
    Study { rounds, seed: 1, experiments: experiments.collect() }
}

fn experiment(experiment: Experiment, rounds: u64) -> ExperimentResult {
    let configurations = experiment.sizes().iter().flat_map(|&m| {
        HASHES.map(|k| {
            let load = KEYS * f64::from(k) / m as f64;
            let rate = (1.0 - (-load).exp()).powf(f64::from(k));
            let intuitive = extension(experiment, m, load, rate, rounds);
            let refined = extension(experiment, m, load, rate / f64::from(k), rounds);
            ConfigurationResult { m, k, intuitive, refined, rate_sum: Moments::default() }
        })
    });
    ExperimentResult { experiment, configurations: configurations.collect() }
}

fn extension(experiment: Experiment, m: u64, load: f64, rate: f64, rounds: u64) -> ExtensionResult {
    let mut result = ExtensionResult::default();
    for round in 0..rounds {
        // Round the value, so that the mean over all rounds is exact.
        let wrong = (rate * KEYS * (round + 1) as f64).floor() - (rate * KEYS * round as f64).floor();
        result.rate.push(wrong / KEYS);
        result.distinct_rate.push(wrong / KEYS);
        result.wrong_keys.resize(result.wrong_keys.len().max(wrong as usize + 1), 0);
        result.wrong_keys[wrong as usize] += 1;
    }
    let step = if matches!(experiment.counts(), Counts::Constant(_)) { 20 } else { 1 };
    result.cells = vec![0; usize::from(CELL_TOP) + 1];
    for (value, cells) in result.cells.iter_mut().enumerate().step_by(step) {
        *cells = (m as f64 * rounds as f64 * (-load - value as f64 / 5.0).exp()) as u64;
    }
    if [1, 3].contains(&experiment.number()) {
        result.growth = (1..=20).map(|part| moments(&[rate * (1.0 - (-f64::from(part) / 4.0).exp())])).collect();
    }
    result
}

/// Draws the plots and returns them by file name.
fn drawn(study: &Study) -> BTreeMap<String, Vec<u8>> {
    draw(study).into_iter().map(|plot| (plot.name, plot.bytes)).collect()
}

fn svg<'a>(files: &'a BTreeMap<String, Vec<u8>>, stem: &str) -> &'a str {
    std::str::from_utf8(&files[&format!("{stem}.svg")]).unwrap()
}

fn stems(files: &BTreeMap<String, Vec<u8>>, format: &str) -> Vec<String> {
    files.keys().filter_map(|name| Some(name.strip_suffix(format)?.to_owned())).collect()
}

#[test]
fn every_plot_is_written_in_both_formats() {
    let files = drawn(&study(&[1, 3, 8], 40));
    let expected = [
        "cells-experiment-1",
        "cells-experiment-3",
        "cells-experiment-8",
        "growth-experiment-1",
        "growth-experiment-3",
        "rate-experiment-1",
        "rate-experiment-3",
        "rate-experiment-8",
        "reduction-rates",
        "wrong-keys",
    ];
    assert_eq!(stems(&files, ".svg"), expected);
    assert_eq!(stems(&files, ".png"), expected);
    for stem in expected {
        let (svg, png) = (svg(&files, stem), &files[&format!("{stem}.png")]);
        check_svg(svg, stem);
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n", "{stem}");
        assert_eq!(svg_size(svg)[0], 960, "{stem}");
        assert_eq!(png_size(png), svg_size(svg).map(|length| 2 * length), "{stem}");
    }
}

fn check_svg(svg: &str, stem: &str) {
    let title = match stem.strip_suffix("experiment-8") {
        Some(_) => "Experiment 8: counts uniform on 0..40, shuffled",
        None if stem == "reduction-rates" => "How many times fewer errors the refined extension makes",
        None => "each key 20 times",
    };
    assert!(svg.contains(title), "{stem}");
    assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{stem}");
    assert!(svg.trim_end().ends_with("</svg>"), "{stem}");
}

fn png_size(png: &[u8]) -> [u32; 2] {
    [16, 20].map(|at| u32::from_be_bytes(png[at..at + 4].try_into().unwrap()))
}

fn svg_size(svg: &str) -> [u32; 2] {
    ["width", "height"].map(|name| {
        let (_, rest) = svg.split_once(&format!("{name}=\"")).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    })
}

#[test]
fn equal_studies_give_equal_bytes() {
    let study = study(&[4], 10);
    assert!(draw(&study) == draw(&study.clone()));
}

#[test]
fn rates_of_zero_are_named_in_a_note() {
    let mut study = study(&[2], 10);
    study.experiments[0].configurations[8].refined.rate = moments(&[0.0; 10]);
    let files = drawn(&study);
    let svg = svg(&files, "rate-experiment-2");
    assert!(svg.contains("No errors at all"));
    assert!(svg.contains("refined with k = 8, m = 320K"));
}

#[test]
fn plots_without_data_are_left_out() {
    let nothing = ExperimentResult { experiment: Experiment::ALL[0], configurations: Vec::new() };
    let empty = |experiments| Study { rounds: 0, seed: 0, experiments };
    assert!(drawn(&empty(Vec::new())).is_empty());
    assert!(drawn(&empty(vec![nothing])).is_empty());

    let mut study = study(&[1], 1);
    for configuration in &mut study.experiments[0].configurations {
        for result in [&mut configuration.intuitive, &mut configuration.refined] {
            *result = ExtensionResult { rate: moments(&[0.0]), ..ExtensionResult::default() };
        }
    }
    assert!(drawn(&study).is_empty(), "all rates are zero, and nothing else was counted");
}

#[test]
fn one_round_has_no_standard_errors() {
    for (rounds, claimed) in [(1, false), (2, true)] {
        let files = drawn(&study(&[1], rounds));
        for stem in ["rate-experiment-1", "reduction-rates"] {
            let svg = svg(&files, stem);
            assert_eq!(svg.contains("± 2 standard errors"), claimed, "{stem} of {rounds} rounds");
        }
    }
}

fn moments(numbers: &[f64]) -> Moments {
    let mut moments = Moments::default();
    numbers.iter().for_each(|&number| moments.push(number));
    moments
}

/// Generates any value that a rate may have, and many invalid values.
fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    prop_oneof![0.0..1.0, Just(0.0), POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO]
}

fn any_extension() -> impl Strategy<Value = ExtensionResult> {
    let counts = |length| prop::collection::vec(prop_oneof![Just(0), 0..5u64, any::<u64>()], 0..length);
    let numbers = |length| prop::collection::vec(number(), 0..length);
    (numbers(4), counts(70), counts(70), numbers(30)).prop_map(|(rates, wrong_keys, cells, growth)| {
        let (rate, growth) = (moments(&rates), growth.iter().map(|&share| moments(&[share])).collect());
        ExtensionResult { rate, distinct_rate: rate, wrong_keys, cells, growth }
    })
}

fn any_experiment() -> impl Strategy<Value = ExperimentResult> {
    let size = prop_oneof![Just(80_000), Just(0), any::<u64>()];
    let hashes = prop_oneof![4..=8u32, any::<u32>()];
    let configuration = (size, hashes, any_extension(), any_extension()).prop_map(|(m, k, intuitive, refined)| {
        ConfigurationResult { m, k, intuitive, refined, rate_sum: Moments::default() }
    });
    (0..8usize, prop::collection::vec(configuration, 0..5))
        .prop_map(|(index, configurations)| ExperimentResult { experiment: Experiment::ALL[index], configurations })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_study_is_too_odd(
        rounds: u64,
        experiments in prop::collection::vec(any_experiment(), 0..3),
    ) {
        let files = drawn(&Study { rounds, seed: 0, experiments });
        for stem in stems(&files, ".svg") {
            let svg = svg(&files, &stem);
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf\""));
        }
    }
}
