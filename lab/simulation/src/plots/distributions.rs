//! Plots of distributions: the final values of the cells, and the number of wrong keys per round. The wrong keys
//! explain why the rates of large filters vary so much.

use bruit_filters::counting::Extension;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::data::{COLUMNS_MAX, ROWS_MAX, experiment_title, find, hashes, mean_label, rounds_label, size_label, sizes};
use super::figure::{Drawn, EXTENSIONS, Figure, INK, LABEL_SIZE, Look, Outline, Sheet, colour_of, lettering};
use super::lines::{self, Estimate, LinePanel, Series};
use crate::{CELL_TOP, ConfigurationResult, ExperimentResult, Study};

/// Draws the plot of the final cell values; `None` if cells were not counted.
pub(super) fn cells(result: &ExperimentResult, rounds: u64) -> Option<String> {
    let (mut sizes, mut hashes) = (sizes(result), hashes(result));
    sizes.truncate(ROWS_MAX);
    hashes.truncate(COLUMNS_MAX);
    let panels = sizes.iter().flat_map(|&m| hashes.iter().map(move |&k| cell_panel(result, m, k, rounds)));
    let figure = Figure {
        title: experiment_title(result.experiment),
        subtitle: format!("Final values of the cells of the filter: {}", mean_label(rounds)),
        legend: EXTENSIONS.map(|extension| (cell_look(extension), extension.to_string())).to_vec(),
        across: format!("Value of the cell ({CELL_TOP} or more in the grey strip)"),
        up: "Cells per round".to_owned(),
        notes: vec!["Values that no cell had at the end have no mark.".to_owned()],
        columns: hashes.len(),
        rows: sizes.len(),
        panel_height: 1300,
        title_lines: 1,
        left: 600,
        gap: 200,
    };
    lines::svg(&figure, &panels.collect::<Vec<_>>(), 6, None)
}

/// Returns the look of a series. The line has no dashes, because the marks are too close together. The refined
/// extension is drawn over the intuitive one, so its marks are smaller.
const fn cell_look(extension: Extension) -> Look {
    let radius = if matches!(extension, Extension::Refined) { 18 } else { 33 };
    Look { colour: colour_of(extension), outline: Outline::Circle, radius, width: 15, is_open: false }
}

/// Builds the panel of one configuration, with a grey strip for saturated cells.
fn cell_panel(result: &ExperimentResult, m: u64, k: u32, rounds: u64) -> LinePanel {
    let series = EXTENSIONS.into_iter().filter_map(|extension| {
        let cells = find(result, m, k)?.extension(extension).cells.iter().zip(0..=CELL_TOP);
        let points = cells.map(|(&cells, number)| Estimate {
            across: number.into(),
            up: cells as f64 / rounds.max(1) as f64,
            reach: None,
        });
        Some(Series { look: cell_look(extension), points: points.collect() })
    });
    LinePanel {
        title: vec![format!("m = {}, k = {k}", size_label(m))],
        across: cell_axis(),
        grey_from: Some(f64::from(CELL_TOP) - 1.0),
        series: series.collect(),
    }
}

fn cell_axis() -> Axis {
    let top = f64::from(CELL_TOP);
    let mut ticks: Vec<_> = (0..CELL_TOP / 10).map(|tens| (f64::from(tens) * 10.0, (tens * 10).to_string())).collect();
    ticks.push((top, format!("≥{CELL_TOP}")));
    Axis { low: -1.0, high: top + 1.0, ticks }
}

/// Maximum number of pairs of bars in a panel. If there are more values, each bar stands for several of them.
const BARS_MAX: usize = 16;

/// A panel has room for at least this number of pairs. With less room, a single pair would fill the panel.
const BARS_MIN: usize = 5;

/// End of the horizontal axis, which shows shares. It is above 1, to leave room for the label of a full bar.
const ACROSS_END: f64 = 1.35;

/// Draws the plot of wrong keys, for the first experiment that counted them.
pub(super) fn wrong_keys(study: &Study) -> Option<String> {
    let result = study.experiments.iter().find(|result| result.configurations.iter().any(is_counted))?;
    let (sizes, mut hashes) = (ends(&sizes(result)), hashes(result));
    hashes.truncate(COLUMNS_MAX);
    let rounds = rounds_label(study.rounds);
    let figure = Figure {
        title: experiment_title(result.experiment),
        subtitle: format!("How many keys had a wrong count at the end of a round: shares of {rounds}"),
        legend: EXTENSIONS.map(|extension| (bar_look(extension), extension.to_string())).to_vec(),
        across: "Share of the rounds".to_owned(),
        up: "Keys with a wrong count".to_owned(),
        notes: Vec::new(),
        columns: hashes.len(),
        rows: sizes.len(),
        panel_height: 3600,
        title_lines: 1,
        left: 840,
        gap: 740,
    };
    Some(figure.svg(|index, sheet| {
        let (m, k) = (sizes[index / hashes.len()], hashes[index % hashes.len()]);
        let counted = |k: u32| find(result, m, k).filter(|configuration| is_counted(configuration));
        let bars = Bars::of(hashes.iter().filter_map(|&k| counted(k)));
        counted(k).map_or(Ok(()), |configuration| draw_panel(&figure, sheet, configuration, bars))
    }))
}

/// Returns the look of a line that is so broad that it looks like a bar.
const fn bar_look(extension: Extension) -> Look {
    Look { colour: colour_of(extension), outline: Outline::Square, radius: 50, width: 120, is_open: false }
}

fn is_counted(configuration: &ConfigurationResult) -> bool {
    EXTENSIONS.iter().any(|extension| !counts(*extension, configuration).is_empty())
}

/// Returns the largest size, in which errors are rare, and the smallest size for contrast.
fn ends(sizes: &[u64]) -> Vec<u64> {
    let first = sizes.first().filter(|_| sizes.len() > 1);
    sizes.last().into_iter().chain(first).copied().collect()
}

/// Returns how many rounds had 0, 1, 2, … wrong keys, up to the largest number that occurred.
fn counts(extension: Extension, configuration: &ConfigurationResult) -> &[u64] {
    let rounds = &configuration.extension(extension).wrong_keys;
    let end = rounds.iter().rposition(|&rounds| rounds > 0).map_or(0, |last| last + 1);
    &rounds[..end]
}

/// Returns the sum in floating point, because an integer might overflow.
fn sum(counts: &[u64]) -> f64 {
    counts.iter().map(|&count| count as f64).sum()
}

/// The bars in the panels of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bars {
    count: usize,
    /// Number of values that each bar stands for: 1, 2, 5, 10, 20, …
    width: usize,
}

impl Bars {
    /// Returns bars for all values that occurred.
    fn of<'a>(row: impl Iterator<Item = &'a ConfigurationResult>) -> Self {
        let ends = row.flat_map(|configuration| EXTENSIONS.map(|extension| counts(extension, configuration).len()));
        Self::up_to(ends.max().unwrap_or(0))
    }

    fn up_to(end: usize) -> Self {
        let powers = (0..).map(|power| 10usize.saturating_pow(power));
        let mut widths = powers.flat_map(|power| [1, 2, 5].map(|mantissa: usize| mantissa.saturating_mul(power)));
        let width = widths.find(|&width| end.div_ceil(width) <= BARS_MAX).expect("widths grow without limit");
        Self { count: end.div_ceil(width).max(BARS_MIN), width }
    }

    fn label(self, bar: usize) -> String {
        let first = bar * self.width;
        if self.width == 1 { first.to_string() } else { format!("{first}–{}", first + self.width - 1) }
    }
}

fn draw_panel(figure: &Figure, sheet: &Sheet<'_>, configuration: &ConfigurationResult, bars: Bars) -> Drawn {
    let ticks = [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")].map(|(share, label)| (share, label.to_owned()));
    let across = Axis { low: 0.0, high: ACROSS_END, ticks: ticks.to_vec() };
    let ticks = (0..bars.count).map(|bar| (-(bar as f64), bars.label(bar)));
    let up = Axis { low: 0.5 - bars.count as f64, high: 0.5, ticks: ticks.collect() };
    let title = format!("m = {}, k = {}", size_label(configuration.m), configuration.k);
    let area = figure.chart(sheet, &[title], &across, &up, true)?;
    for extension in EXTENSIONS {
        let counts = counts(extension, configuration);
        let shares = counts.chunks(bars.width).map(|part| sum(part) / sum(counts));
        let shares = shares.enumerate().filter(|(_, share)| *share > 0.0);
        for (bar, share) in shares {
            let [top, bottom] = edges(extension, bar);
            area.draw(&Rectangle::new([(0.0, top), (share, bottom)], colour_of(extension).filled()))?;
            let figure = Text::new(percent(share), (50, 14), lettering(LABEL_SIZE - 10.0, &INK, HPos::Left));
            area.draw(&(EmptyElement::at((share, f64::midpoint(top, bottom))) + figure))?;
        }
    }
    Ok(())
}

/// Returns the top and bottom of a bar. The bar of the refined extension is below the bar of the intuitive one.
fn edges(extension: Extension, bar: usize) -> [f64; 2] {
    const HALF: f64 = 0.42;
    let middle = -(bar as f64);
    match extension {
        Extension::Intuitive => [middle + HALF, middle],
        Extension::Refined => [middle, middle - HALF],
    }
}

/// Formats a percentage. It has decimals only if they are needed to distinguish it from 0 % or 100 %.
fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 0.1 => "< 0.1 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent if percent < 99.0 => format!("{percent:.0} %"),
        percent if percent < 99.95 => format!("{percent:.1} %"),
        percent if percent < 100.0 => "> 99.9 %".to_owned(),
        _ => "100 %".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_few_and_round() {
        let widths = [0, 1, 16, 17, 33, 300, 100_000].map(|end| Bars::up_to(end).width);
        assert_eq!(widths, [1, 1, 1, 2, 5, 20, 10_000]);
        assert_eq!([0, 6, 17].map(|end| Bars::up_to(end).count), [5, 6, 9]);
        assert_eq!([6, 300].map(|end| Bars::up_to(end).label(3)), ["3", "60–79"]);
    }

    #[test]
    fn rare_is_not_never_and_most_is_not_all() {
        let shares = [0.0004, 0.003, 0.25, 0.997, 0.9999, 1.0];
        assert_eq!(shares.map(percent), ["< 0.1 %", "0.3 %", "25 %", "99.7 %", "> 99.9 %", "100 %"]);
    }
}
