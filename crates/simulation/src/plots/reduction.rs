//! How many times fewer errors the refined extension makes, in all experiments.

use bruit_filters::counting::Extension;

use super::axis::Axis;
use super::data::{ROWS_MAX, find, has_logarithm, hashes, rounds_label, sizes, sorted};
use super::figure::{Figure, legend_of_hashes};
use super::lines::{self, Estimate, LinePanel, Series, zeros_note};
use super::look::Look;
use crate::{ConfigurationResult, ExperimentResult, Moments, Study};

/// Eight panels then fill two rows.
const PER_ROW: usize = 4;

/// The plot, unless no experiment has a reduction rate.
pub(super) fn svg(study: &Study) -> Option<String> {
    let rate = |it: &ConfigurationResult| it.reduction_rate().is_some_and(has_logarithm);
    let shown = study.experiments.iter().filter(|result| result.configurations.iter().any(rate));
    let shown: Vec<_> = shown.take(ROWS_MAX * PER_ROW).collect();
    let hashes = sorted(shown.iter().flat_map(|result| hashes(result)));
    let panels: Vec<_> = shown.iter().filter_map(|result| panel(result, &hashes)).collect();
    let rounds = study.rounds;
    let bars = "Bars are ± 2 standard errors at most: both extensions see the same rounds.";
    let bars = (rounds > 1).then(|| bars.to_owned());
    let rows = panels.len().div_ceil(PER_ROW).max(1);
    let figure = Figure {
        title: "How many times fewer errors the refined extension makes".to_owned(),
        subtitle: format!(
            "Reduction rate by filter size: {}rate of the intuitive extension over that of the refined, {}",
            if rounds == 1 { "" } else { "mean " },
            rounds_label(rounds)
        ),
        legend: legend_of_hashes(&hashes),
        across: "Number of cells m".to_owned(),
        up: "Reduction rate (intuitive / refined)".to_owned(),
        notes: bars.into_iter().chain(zeros_note(&panels, "an extension made no errors there at all")).collect(),
        columns: panels.len().div_ceil(rows),
        rows,
        panel_height: if rows > 1 { 1900 } else { 2600 },
        title_lines: 2,
        left: 560,
        gap: 180,
    };
    lines::svg(&figure, &panels, 10, Some(1.0))
}

fn panel(result: &ExperimentResult, hashes: &[u32]) -> Option<LinePanel> {
    let (experiment, sizes) = (result.experiment, sizes(result));
    let across = Axis::sizes(&sizes, true)?;
    let series = hashes.iter().enumerate().map(|(index, &k)| {
        let points = sizes.iter().filter_map(|&m| Some(estimate(across.place(m as f64), find(result, m, k)?)));
        Series { look: Look::new(index, Extension::Refined), points: points.collect() }
    });
    let (series, title) = (series.collect(), format!("Experiment {}, {}", experiment.number(), experiment.order()));
    Some(LinePanel { title: vec![title, experiment.counts().to_string()], across, grey_from: None, series })
}

/// The relative errors of both means add up like the sides of a right angle, or to less: rounds that are bad for one
/// extension are bad for the other.
fn estimate(across: f64, configuration: &ConfigurationResult) -> Estimate {
    let relative = |rate: &Moments| rate.standard_error() / rate.mean();
    let up = configuration.reduction_rate().unwrap_or(0.0);
    let error = relative(&configuration.intuitive.rate).hypot(relative(&configuration.refined.rate));
    Estimate { across, up, reach: Some(2.0 * up * error) }
}
