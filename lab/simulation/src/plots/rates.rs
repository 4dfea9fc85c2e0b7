//! Line charts of error rates: by filter size, by progress of the insertions, and as the ratio of the two extensions.

use bruit_filters::counting::Extension;

use super::axis::Axis;
use super::data::{
    COLUMNS_MAX, ROWS_MAX, experiment_title, find, has_logarithm, hashes, mean_label, rounds_label, size_label, sizes,
    sorted,
};
use super::figure::{EXTENSIONS, Figure, Look, legend_of_hashes, legend_of_hashes_and_extensions};
use super::lines::{self, Estimate, LinePanel, Series, zeros_note};
use crate::{ConfigurationResult, ExperimentResult, Moments, Order, Study};

/// Maximum number of zeros that a note lists individually.
const ZEROS_NAMED_MAX: usize = 3;

/// Draws the plot of the error rates by filter size; `None` if all rates are 0.
pub(super) fn rates(result: &ExperimentResult, rounds: u64) -> Option<String> {
    let across = Axis::sizes(&sizes(result), false)?;
    let panels = [LinePanel { title: Vec::new(), series: rates_series(result, &across), across, grey_from: None }];
    let errors = if rounds > 1 { ", ± 2 standard errors" } else { "" };
    let figure = Figure {
        title: experiment_title(result.experiment),
        subtitle: format!("False-positive rate by filter size: {}{errors}", mean_label(rounds)),
        legend: legend_of_hashes_and_extensions(&hashes(result)),
        across: "Number of cells m".to_owned(),
        up: "False-positive rate (share of insertions)".to_owned(),
        notes: rates_note(result, &panels).into_iter().collect(),
        columns: 1,
        rows: 1,
        panel_height: 3800,
        title_lines: 0,
        left: 700,
        gap: 200,
    };
    lines::svg(&figure, &panels, 12, None)
}

fn rates_series(result: &ExperimentResult, across: &Axis) -> Vec<Series> {
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

/// Returns a note about the points that a logarithmic axis cannot show. If they are few, the note lists them.
fn rates_note(result: &ExperimentResult, panels: &[LinePanel]) -> Option<String> {
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

/// Draws the plot of the errors during the insertions. The upper row shows all errors so far, the lower row the new
/// errors. Returns `None` if growth was not measured or there were no errors.
pub(super) fn growth(result: &ExperimentResult, rounds: u64) -> Option<String> {
    let sizes: Vec<_> = sizes(result).into_iter().take(COLUMNS_MAX).collect();
    let (part, across) = match result.experiment.order() {
        Order::Rounds => ("round", "Insertion rounds (each with every key once)"),
        _ => ("chunk", "Insertion chunks (each a twentieth of all insertions)"),
    };
    let so_far = sizes.iter().map(|&m| growth_panel(result, m, "so far", |_, now| now));
    let new =
        sizes.iter().map(|&m| growth_panel(result, m, &format!("new in this {part}"), |before, now| now - before));
    let panels: Vec<_> = so_far.chain(new).collect();
    let figure = Figure {
        title: experiment_title(result.experiment),
        subtitle: format!("Keys with a wrong count during the insertions: {}", mean_label(rounds)),
        legend: legend_of_hashes_and_extensions(&hashes(result)),
        across: across.to_owned(),
        up: "Share of keys with a wrong count".to_owned(),
        notes: zeros_note(&panels, &format!("there were no such errors in that {part}")).into_iter().collect(),
        columns: sizes.len(),
        rows: 2,
        panel_height: 2800,
        title_lines: 1,
        left: 700,
        gap: 200,
    };
    lines::svg(&figure, &panels, 10, None)
}

/// Builds the panel of one size. For each part of the insertions, `shown` computes the plotted value from the errors
/// before and after that part.
fn growth_panel(result: &ExperimentResult, m: u64, what: &str, shown: fn(f64, f64) -> f64) -> LinePanel {
    let hashes = hashes(result);
    let series = EXTENSIONS.into_iter().flat_map(|extension| {
        hashes.iter().enumerate().filter_map(move |(index, &k)| {
            let after = find(result, m, k)?.extension(extension).growth.iter().map(Moments::mean);
            let before = std::iter::once(0.0).chain(after.clone());
            let points = before.zip(after).zip(1u32..).map(|((before, after), part)| Estimate {
                across: part.into(),
                up: shown(before, after),
                reach: None,
            });
            Some(Series { look: Look { radius: 28, ..Look::new(index, extension) }, points: points.collect() })
        })
    });
    let series: Vec<_> = series.collect();
    let parts = series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    LinePanel {
        title: vec![format!("m = {}, {what}", size_label(m))],
        across: growth_axis(parts),
        grey_from: None,
        series,
    }
}

/// Returns an axis from the first part of the insertions to the last.
fn growth_axis(parts: usize) -> Axis {
    let step = parts.div_ceil(5).max(1);
    let ticks = (step..=parts).step_by(step).chain((step > 1).then_some(1));
    let ticks = ticks.map(|part| (part as f64, part.to_string())).collect();
    Axis { low: 0.0, high: parts as f64 + 0.5, ticks }
}

/// Number of panels per row. Eight panels fill two rows.
const PER_ROW: usize = 4;

/// Draws the plot of the reduction rates by filter size; `None` if no experiment has a reduction rate.
pub(super) fn reduction_rates(study: &Study) -> Option<String> {
    let rate = |it: &ConfigurationResult| it.reduction_rate().is_some_and(has_logarithm);
    let shown = study.experiments.iter().filter(|result| result.configurations.iter().any(rate));
    let shown: Vec<_> = shown.take(ROWS_MAX * PER_ROW).collect();
    let hashes = sorted(shown.iter().flat_map(|result| hashes(result)));
    let panels: Vec<_> = shown.iter().filter_map(|result| reduction_panel(result, &hashes)).collect();
    let rounds = study.rounds;
    let bars = "Bars are upper bounds on ± 2 standard errors, because both extensions see the same rounds.";
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

fn reduction_panel(result: &ExperimentResult, hashes: &[u32]) -> Option<LinePanel> {
    let (experiment, sizes) = (result.experiment, sizes(result));
    let across = Axis::sizes(&sizes, true)?;
    let series = hashes.iter().enumerate().map(|(index, &k)| {
        let points =
            sizes.iter().filter_map(|&m| Some(reduction_estimate(across.place(m as f64), find(result, m, k)?)));
        Series { look: Look::new(index, Extension::Refined), points: points.collect() }
    });
    let (series, title) = (series.collect(), format!("Experiment {}, {}", experiment.number(), experiment.order()));
    Some(LinePanel { title: vec![title, experiment.counts().to_string()], across, grey_from: None, series })
}

/// Returns the reduction rate, with an upper bound on its error: the sum, in quadrature, of the relative errors of the
/// two means. The two rates are positively correlated, so the actual error is lower: a round with many errors in one
/// extension often has many in the other.
fn reduction_estimate(across: f64, configuration: &ConfigurationResult) -> Estimate {
    let relative = |rate: &Moments| rate.standard_error() / rate.mean();
    let up = configuration.reduction_rate().unwrap_or(0.0);
    let error = relative(&configuration.intuitive.rate).hypot(relative(&configuration.refined.rate));
    Estimate { across, up, reach: Some(2.0 * up * error) }
}
