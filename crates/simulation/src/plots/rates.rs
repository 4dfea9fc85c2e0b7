//! The false-positive rate of an experiment against the size of the filter.

use super::axis::Axis;
use super::data::{experiment_title, find, has_logarithm, hashes, mean_label, size_label, sizes};
use super::figure::{Figure, legend_of_hashes_and_extensions};
use super::lines::{self, Estimate, LinePanel, Series, zeros_note};
use super::look::{EXTENSIONS, Look};
use crate::ExperimentResult;

/// At most so many zeros are named one by one.
const ZEROS_NAMED_MAX: usize = 3;

/// The plot, unless all rates are 0.
pub(super) fn svg(result: &ExperimentResult, rounds: u64) -> Option<String> {
    let across = Axis::sizes(&sizes(result), false)?;
    let panels = [LinePanel { title: Vec::new(), series: all_series(result, &across), across, grey_from: None }];
    let errors = if rounds > 1 { ", ± 2 standard errors" } else { "" };
    let figure = Figure {
        title: experiment_title(result.experiment),
        subtitle: format!("False-positive rate by filter size: {}{errors}", mean_label(rounds)),
        legend: legend_of_hashes_and_extensions(&hashes(result)),
        across: "Number of cells m".to_owned(),
        up: "False-positive rate (share of insertions)".to_owned(),
        notes: note(result, &panels).into_iter().collect(),
        columns: 1,
        rows: 1,
        panel_height: 3800,
        title_lines: 0,
        left: 700,
        gap: 200,
    };
    lines::svg(&figure, &panels, 12, None)
}

fn all_series(result: &ExperimentResult, across: &Axis) -> Vec<Series> {
    let (sizes, hashes) = (&sizes(result), hashes(result));
    let series = EXTENSIONS.into_iter().flat_map(|extension| {
        hashes.iter().enumerate().map(move |(index, &k)| {
            let rate = |&m: &u64| Some((m, &find(result, m, k)?.extension(extension).rate));
            let points = sizes.iter().filter_map(rate).map(|(m, rate)| Estimate::of(across.place(m as f64), rate));
            Series { look: Look::new(index, extension), points: points.collect() }
        })
    });
    series.collect()
}

/// Which points a logarithmic axis cannot show, by their names if they are few.
fn note(result: &ExperimentResult, panels: &[LinePanel]) -> Option<String> {
    let zeros = EXTENSIONS.into_iter().flat_map(|extension| {
        let zeros = result.configurations.iter().filter(move |it| !has_logarithm(it.extension(extension).rate.mean()));
        zeros.map(move |it| format!("{extension} with k = {}, m = {}", it.k, size_label(it.m)))
    });
    let zeros: Vec<_> = zeros.collect();
    match zeros.len() {
        1..=ZEROS_NAMED_MAX => Some(format!("No errors at all, so not on this scale: {}.", zeros.join("; "))),
        _ => zeros_note(panels, "there were no errors at all"),
    }
}
