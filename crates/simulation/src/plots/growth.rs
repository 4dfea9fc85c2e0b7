//! How errors become more while an experiment inserts.

use super::axis::Axis;
use super::data::{COLUMNS_MAX, experiment_title, find, hashes, mean_label, size_label, sizes};
use super::figure::{Figure, legend_of_hashes_and_extensions};
use super::lines::{self, Estimate, LinePanel, Series, zeros_note};
use super::look::{EXTENSIONS, Look};
use crate::{ExperimentResult, Moments, Order};

/// The plot, unless growth was not measured or there were no errors: all errors so far above, the new ones below.
pub(super) fn svg(result: &ExperimentResult, rounds: u64) -> Option<String> {
    let sizes: Vec<_> = sizes(result).into_iter().take(COLUMNS_MAX).collect();
    let (part, across) = match result.experiment.order() {
        Order::Rounds => ("round", "Insertion rounds (each with every key once)"),
        _ => ("chunk", "Insertion chunks (each a twentieth of all insertions)"),
    };
    let so_far = sizes.iter().map(|&m| panel(result, m, "so far", |_, now| now));
    let new = sizes.iter().map(|&m| panel(result, m, &format!("new in this {part}"), |before, now| now - before));
    let panels: Vec<_> = so_far.chain(new).collect();
    let figure = Figure {
        title: experiment_title(result.experiment),
        subtitle: format!("Keys with a wrong count as insertions go on: {}", mean_label(rounds)),
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

/// One size, and for each part of the insertions what `shown` makes of the errors before and after it.
fn panel(result: &ExperimentResult, m: u64, what: &str, shown: fn(f64, f64) -> f64) -> LinePanel {
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
    LinePanel { title: vec![format!("m = {}, {what}", size_label(m))], across: across(parts), grey_from: None, series }
}

/// From the first part of the insertions to the last.
fn across(parts: usize) -> Axis {
    let step = parts.div_ceil(5).max(1);
    let ticks = (step..=parts).step_by(step).chain((step > 1).then_some(1));
    let ticks = ticks.map(|part| (part as f64, part.to_string())).collect();
    Axis { low: 0.0, high: parts as f64 + 0.5, ticks }
}
