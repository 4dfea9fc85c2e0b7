//! At which numbers the cells ended, in an experiment.

use bruit_filters::counting::Extension;

use super::axis::Axis;
use super::data::{COLUMNS_MAX, ROWS_MAX, experiment_title, find, hashes, mean_label, size_label, sizes};
use super::figure::Figure;
use super::lines::{self, Estimate, LinePanel, Series};
use super::look::{EXTENSIONS, Look, Outline, colour_of};
use crate::{CELL_TOP, ExperimentResult};

/// The plot, unless cells were not counted.
pub(super) fn svg(result: &ExperimentResult, rounds: u64) -> Option<String> {
    let (mut sizes, mut hashes) = (sizes(result), hashes(result));
    sizes.truncate(ROWS_MAX);
    hashes.truncate(COLUMNS_MAX);
    let panels = sizes.iter().flat_map(|&m| hashes.iter().map(move |&k| panel(result, m, k, rounds)));
    let figure = Figure {
        title: experiment_title(result.experiment),
        subtitle: format!("At which number the cells of the filter ended: {}", mean_label(rounds)),
        legend: EXTENSIONS.map(|extension| (look(extension), extension.to_string())).to_vec(),
        across: format!("Number in the cell ({CELL_TOP} or more in the grey strip)"),
        up: "Cells per round".to_owned(),
        notes: vec!["Numbers that no cell ended at have no mark.".to_owned()],
        columns: hashes.len(),
        rows: sizes.len(),
        panel_height: 1300,
        title_lines: 1,
        left: 600,
        gap: 200,
    };
    lines::svg(&figure, &panels.collect::<Vec<_>>(), 6, None)
}

/// Marks are too close for dashes. The refined extension is drawn over the intuitive one, so has smaller marks.
const fn look(extension: Extension) -> Look {
    let radius = if matches!(extension, Extension::Refined) { 18 } else { 33 };
    Look { colour: colour_of(extension), outline: Outline::Circle, radius, width: 15, is_open: false }
}

/// The strip of cells that count no further is grey.
fn panel(result: &ExperimentResult, m: u64, k: u32, rounds: u64) -> LinePanel {
    let series = EXTENSIONS.into_iter().filter_map(|extension| {
        let cells = find(result, m, k)?.extension(extension).cells.iter().zip(0..=CELL_TOP);
        let points = cells.map(|(&cells, number)| Estimate {
            across: number.into(),
            up: cells as f64 / rounds.max(1) as f64,
            reach: None,
        });
        Some(Series { look: look(extension), points: points.collect() })
    });
    LinePanel {
        title: vec![format!("m = {}, k = {k}", size_label(m))],
        across: across(),
        grey_from: Some(f64::from(CELL_TOP) - 1.0),
        series: series.collect(),
    }
}

fn across() -> Axis {
    let top = f64::from(CELL_TOP);
    let mut ticks: Vec<_> = (0..CELL_TOP / 10).map(|tens| (f64::from(tens) * 10.0, (tens * 10).to_string())).collect();
    ticks.push((top, format!("≥{CELL_TOP}")));
    Axis { low: -1.0, high: top + 1.0, ticks }
}
