//! In how many rounds so many keys had a wrong count: why the rates of large filters deviate so much.

use bruit_filters::counting::Extension;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::data::{COLUMNS_MAX, experiment_title, find, hashes, rounds_label, size_label, sizes};
use super::figure::{Drawn, Figure, Sheet};
use super::look::{EXTENSIONS, INK, LABEL_SIZE, Look, Outline, colour_of, lettering};
use crate::{ConfigurationResult, Study};

/// A panel has at most so many pairs of bars. Where numbers of keys are many, a bar stands for several of them.
const BARS_MAX: usize = 16;

/// And room for at least so many, or a single pair would fill the panel.
const BARS_MIN: usize = 5;

/// Where rates end: beyond 1, so that its bar has room for its figure.
const ACROSS_END: f64 = 1.35;

/// The plot, of the first experiment that counted wrong keys.
pub(super) fn svg(study: &Study) -> Option<String> {
    let result = study.experiments.iter().find(|result| result.configurations.iter().any(is_counted))?;
    let (sizes, mut hashes) = (ends(&sizes(result)), hashes(result));
    hashes.truncate(COLUMNS_MAX);
    let rounds = rounds_label(study.rounds);
    let figure = Figure {
        title: experiment_title(result.experiment),
        subtitle: format!("How many keys had a wrong count at the end of a round: shares of {rounds}"),
        legend: EXTENSIONS.map(|extension| (look(extension), extension.to_string())).to_vec(),
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

/// A broad line like a bar.
const fn look(extension: Extension) -> Look {
    Look { colour: colour_of(extension), outline: Outline::Square, radius: 50, width: 120, is_open: false }
}

fn is_counted(configuration: &ConfigurationResult) -> bool {
    EXTENSIONS.iter().any(|extension| !counts(*extension, configuration).is_empty())
}

/// The largest size, where errors are rare, and the smallest for contrast.
fn ends(sizes: &[u64]) -> Vec<u64> {
    let first = sizes.first().filter(|_| sizes.len() > 1);
    sizes.last().into_iter().chain(first).copied().collect()
}

/// How many rounds had 0, 1, 2, … wrong keys, up to the last that occurred.
fn counts(extension: Extension, configuration: &ConfigurationResult) -> &[u64] {
    let rounds = &configuration.extension(extension).wrong_keys;
    let end = rounds.iter().rposition(|&rounds| rounds > 0).map_or(0, |last| last + 1);
    &rounds[..end]
}

/// Not in whole numbers, which may overflow.
fn sum(counts: &[u64]) -> f64 {
    counts.iter().map(|&count| count as f64).sum()
}

/// Which bars the panels of a row have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bars {
    count: usize,
    /// How many numbers of keys share a bar: 1, 2, 5, 10, 20, …
    width: usize,
}

impl Bars {
    /// Bars for all numbers that occurred.
    fn of<'a>(row: impl Iterator<Item = &'a ConfigurationResult>) -> Self {
        let ends = row.flat_map(|configuration| EXTENSIONS.map(|extension| counts(extension, configuration).len()));
        Self::up_to(ends.max().unwrap_or(0))
    }

    fn up_to(end: usize) -> Self {
        let powers = (0..).map(|power| 10usize.saturating_pow(power));
        let mut widths = powers.flat_map(|power| [1, 2, 5].map(|mantissa: usize| mantissa.saturating_mul(power)));
        let width = widths.find(|&width| end.div_ceil(width) <= BARS_MAX).expect("widths grow beyond every number");
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

/// Top and bottom of a bar: the refined extension is below the intuitive.
fn edges(extension: Extension, bar: usize) -> [f64; 2] {
    const HALF: f64 = 0.42;
    let middle = -(bar as f64);
    match extension {
        Extension::Intuitive => [middle + HALF, middle],
        Extension::Refined => [middle, middle - HALF],
    }
}

/// With decimals only where they tell something from nothing or from everything.
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
