//! Results as JSON.

use bruit_filters::counting::Extension;
use bruit_simulation::{
    ConfigurationResult, CustomLayout, CustomOptions, CustomResult, Experiment, ExtensionResult, Moments, Study,
    StudyOptions, SystemResult, paper,
};
use serde_json::{Value, json};

use super::custom::Predictions;

pub(super) fn study(study: &Study, options: &StudyOptions) -> Value {
    let experiments = study.experiments.iter().map(|result| {
        let experiment = result.experiment;
        let configurations = result.configurations.iter().map(|result| configuration(experiment, result));
        json!({
            "experiment": experiment.number(),
            "counts": experiment.counts().notation(),
            "order": experiment.order().name(),
            "configurations": configurations.collect::<Vec<_>>(),
        })
    });
    json!({
        "rounds": study.rounds,
        "rounds_asked": options.rounds,
        "seed": study.seed,
        "hash": options.family.to_string(),
        "count_draws": options.counts.to_string(),
        "experiments": experiments.collect::<Vec<_>>(),
    })
}

fn configuration(experiment: Experiment, result: &ConfigurationResult) -> Value {
    let paper = paper::find_reduction(experiment, result.m, result.k).map(|reduction| {
        json!({
            "rate": reduction.rate,
            "rate_from_means": reduction.from_means(),
            "std_err": reduction.rate.zip(reduction.error(result)).map(|(rate, error)| rate * error),
            "difference_in_standard_errors": reduction.distance(result),
        })
    });
    json!({
        "m": result.m,
        "k": result.k,
        "reduction_rate": result.reduction_rate(),
        "reduction_rate_std_err": result.reduction_rate().zip(result.reduction_error()).map(|(rate, error)| rate * error),
        "reduction_rate_paper": paper,
        "intuitive": extension(experiment, Extension::Intuitive, result),
        "refined": extension(experiment, Extension::Refined, result),
    })
}

fn extension(experiment: Experiment, extension: Extension, result: &ConfigurationResult) -> Value {
    let (m, k) = (result.m, result.k);
    let ExtensionResult { rate, distinct_rate, wrong_keys, cells, growth } = result.extension(extension);
    let paper = paper::find(experiment, extension, m, k).map(|figure| {
        json!({
            "mean": figure.mean,
            "std_dev": figure.standard_deviation,
            "difference_in_standard_errors": figure.distance(rate),
        })
    });
    json!({
        "mean": rate.mean(),
        "std_dev": rate.standard_deviation(),
        "distinct_mean": distinct_rate.mean(),
        "distinct_std_dev": distinct_rate.standard_deviation(),
        "rounds_by_wrong_keys": wrong_keys,
        "cells_by_value": cells,
        "growth_mean": growth.iter().map(Moments::mean).collect::<Vec<_>>(),
        "growth_std_dev": growth.iter().map(Moments::standard_deviation).collect::<Vec<_>>(),
        "paper": paper,
    })
}

pub(super) fn custom(result: &CustomResult, options: &CustomOptions, predictions: Option<&Predictions>) -> Value {
    let has_cells = options.layout != CustomLayout::OneLine;
    let is_compact = options.layout == CustomLayout::Compact;
    json!({
        "rounds": result.rounds,
        "rounds_asked": options.rounds,
        "seed": options.seed,
        "keys": options.keys,
        "m": options.cells,
        "k": has_cells.then_some(options.hashes),
        "cell_bits": has_cells.then_some(options.cell_bits),
        "low_bits": is_compact.then_some(options.low_bits),
        "chunk_cells": is_compact.then_some(options.chunk_cells),
        "hash": has_cells.then(|| options.family.to_string()),
        "layout": options.layout.to_string(),
        "servers": options.servers,
        "counts": options.counts.notation(),
        "order": options.order.name(),
        "threshold": options.threshold,
        "insertions": result.insertions.mean(),
        "ln_equation_4": predictions.map(|predictions| predictions.ln_equation_4),
        "bulk_keys": predictions.map(|predictions| predictions.bulk_keys),
        "bulk_keys_alone": predictions.map(|predictions| predictions.bulk_keys_alone),
        "systems": result.systems.iter().map(|result| system(result, options.threshold)).collect::<Vec<_>>(),
    })
}

fn system(result: &SystemResult, threshold: Option<u32>) -> Value {
    // The mean is undefined without samples.
    let moments = |moments: &Moments| {
        (moments.count() > 0).then(|| json!({ "mean": moments.mean(), "std_dev": moments.standard_deviation() }))
    };
    json!({
        "extension": result.extension.to_string(),
        "servers": result.servers,
        "wrong_insertions": moments(&result.rate),
        "wrong_keys": moments(&result.distinct_rate),
        "over_count": moments(&result.over_count),
        "clipped_keys": moments(&result.clipped),
        "strangers_seen": moments(&result.strangers_seen),
        "false_bulk_keys": threshold.and_then(|_| moments(&result.false_bulk)),
        "false_bulk_strangers": threshold.and_then(|_| moments(&result.strangers_bulk)),
        "bytes": result.bytes.mean(),
        "computed_bytes": result.computed_bytes.mean(),
    })
}
