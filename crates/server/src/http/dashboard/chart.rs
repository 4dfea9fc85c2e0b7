//! Charts of the history: stacked bars as inline SVG, and the same figures as a table.

use bruit_engine::time::Time;
use maud::{Markup, PreEscaped, html};

use super::format::{grouped, time};
use crate::history::{Slot, Span};

/// Height of a drawing, and its margins, in pixels. The width is that of the page; places on it are percentages.
pub(super) const HEIGHT: u64 = 210;
pub(super) const TOP: u64 = 12;
pub(super) const BOTTOM: u64 = 28;

/// Width of the labels of the vertical axis in pixels.
pub(super) const AXIS: u64 = 60;

/// Width of a column, and of its bar, in units of the bars' own coordinates.
const COLUMN: usize = 10;
const BAR: usize = 9;

/// Number of steps of the vertical axis.
const STEPS: u64 = 4;

/// Part of the width in which times are labelled. The rest is left for the labels at both ends.
const LABELLED: std::ops::Range<f64> = 0.02..0.92;

/// Names of months.
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A range of time that a viewer can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    Hour,
    Day,
    Month,
    Years,
}

impl Range {
    pub(super) const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Month, Self::Years];

    /// Returns the range of this name, or the hour.
    pub(super) fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|range| range.name() == name).unwrap_or(Self::Hour)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Years => "years",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Hour => "Last hour",
            Self::Day => "Last day",
            Self::Month => "Last month",
            Self::Years => "Last two years",
        }
    }

    /// Returns the span whose slots are used.
    pub(super) const fn span(self) -> Span {
        match self {
            Self::Hour | Self::Day => Span::Day,
            Self::Month => Span::Month,
            Self::Years => Span::Years,
        }
    }

    /// Returns the length of the range in seconds.
    pub(super) const fn seconds(self) -> u64 {
        self.columns() * self.column().0
    }

    /// Returns the length of a column in seconds, with its name.
    const fn column(self) -> (u64, &'static str) {
        match self {
            Self::Hour => (60, "minute"),
            Self::Day => (15 * 60, "15 minutes"),
            Self::Month => (8 * 3_600, "8 hours"),
            Self::Years => (7 * 86_400, "week"),
        }
    }

    /// Returns true for a time, at the start of a minute, that gets a label.
    fn is_labelled(self, at: u64) -> bool {
        match self {
            Self::Hour => at.is_multiple_of(600),
            Self::Day => at.is_multiple_of(4 * 3_600),
            Self::Month => at.is_multiple_of(5 * 86_400),
            Self::Years => matches!(Date::of(at), Date { day: 1, month: 1 | 5 | 9, .. }),
        }
    }

    /// Returns the distance between times that may get a label.
    const fn label_seconds(self) -> u64 {
        match self {
            Self::Hour => 600,
            Self::Day => 3_600,
            Self::Month | Self::Years => 86_400,
        }
    }

    /// Returns the number of columns.
    const fn columns(self) -> u64 {
        match self {
            Self::Hour => 60,
            Self::Day => 96,
            Self::Month => 93,
            Self::Years => 104,
        }
    }
}

/// One colour of the bars.
pub(super) struct Series {
    /// The style class, which selects the colour.
    pub(super) class: &'static str,
    pub(super) name: &'static str,
    pub(super) of: fn(&Slot) -> u64,
}

/// The figures of a chart.
struct Figures {
    /// Start of the first column.
    start: u64,
    seconds: u64,
    /// The columns, each with a number for every series.
    columns: Vec<Vec<u64>>,
}

impl Figures {
    fn of(slots: &[&Slot], range: Range, series: &[Series], now: Time) -> Self {
        let (seconds, _) = range.column();
        let count = range.columns();
        let last = now.0 - now.0 % seconds;
        let start = last.saturating_sub((count - 1) * seconds);
        let mut columns = vec![vec![0; series.len()]; count as usize];
        for slot in slots {
            let at = slot.start.checked_sub(start).map(|since| (since / seconds) as usize);
            let Some(column) = at.and_then(|at| columns.get_mut(at)) else { continue };
            column.iter_mut().zip(series).for_each(|(sum, series)| *sum += (series.of)(slot));
        }
        Self { start, seconds, columns }
    }

    fn total(&self, series: usize) -> u64 {
        self.columns.iter().filter_map(|column| column.get(series)).sum()
    }

    /// Returns the largest sum of a column.
    fn highest(&self) -> u64 {
        self.columns.iter().map(|column| column.iter().sum()).max().unwrap_or(0)
    }

    fn time(&self, column: usize) -> u64 {
        self.start + column as u64 * self.seconds
    }

    /// Returns the end of the last column.
    fn end(&self) -> u64 {
        self.time(self.columns.len())
    }
}

/// A chart with its figures, added up. It borrows nothing from the history, so that rendering needs no lock.
pub(super) struct Chart {
    title: &'static str,
    /// What is counted.
    noun: &'static str,
    range: Range,
    series: &'static [Series],
    figures: Figures,
}

impl Chart {
    /// Adds up `slots`, which are those of the range's span.
    pub(super) fn new(
        title: &'static str,
        noun: &'static str,
        slots: &[&Slot],
        range: Range,
        series: &'static [Series],
        now: Time,
    ) -> Self {
        Self { title, noun, range, series, figures: Figures::of(slots, range, series, now) }
    }

    /// Renders the chart with its table.
    pub(super) fn render(&self) -> Markup {
        let Self { title, noun, range, series, figures } = self;
        let (_, column) = range.column();
        let label = || format!("{title}, {}: {}", range.title().to_lowercase(), summary(figures, series));
        html! {
            section .card {
                h2 { (title) " " small { (noun) " per " (column) } }
                @if figures.highest() == 0 {
                    p .soft { "Nothing in this period." }
                } @else {
                    (drawing(&label(), figures, *range, series))
                    ul .key {
                        @for (at, one) in series.iter().enumerate() {
                            li class=(one.class) { (one.name) ": " (grouped(figures.total(at))) }
                        }
                    }
                    (table(title, figures, series))
                }
            }
        }
    }
}

/// Describes a chart in a sentence, for people who do not see it.
fn summary(figures: &Figures, series: &[Series]) -> String {
    let parts = series
        .iter()
        .enumerate()
        .map(|(at, one)| format!("{} {}", grouped(figures.total(at)), one.name.to_lowercase()));
    parts.collect::<Vec<_>>().join(", ")
}

fn drawing(label: &str, figures: &Figures, range: Range, series: &[Series]) -> Markup {
    let top = nice(figures.highest());
    let (bottom, plot) = (HEIGHT - BOTTOM, HEIGHT - TOP - BOTTOM);
    let lines = (0..=STEPS).map(|step| (axis_label(top, step), bottom - plot * step / STEPS));
    html! {
        div .plot {
            svg .axis width=(AXIS) height=(HEIGHT) aria-hidden="true" {
                @for (text, y) in lines.clone() { text x=(AXIS - 8) y=(y + 4) text-anchor="end" { (text) } }
            }
            svg .chart height=(HEIGHT) role="img" aria-label=(label) {
                @for (_, y) in lines { line .grid x1="0" x2="100%" y1=(y) y2=(y) {} }
                svg width="100%" height=(HEIGHT) preserveAspectRatio="none"
                    viewBox=(format!("0 0 {} {HEIGHT}", COLUMN * figures.columns.len())) {
                    @for (at, one) in series.iter().enumerate() {
                        path class=(one.class) d=(PreEscaped(bars(figures, at, top))) {}
                    }
                }
                @for Tick { at, place, is_minor } in ticks(figures.start, figures.end(), range) {
                    @let x = format!("{:.2}%", place * 100.0);
                    line .grid x1=(x) x2=(x) y1=(bottom) y2=(bottom + 5) {}
                    text .minor[is_minor] x=(x) y=(HEIGHT - 8) text-anchor="middle" data-time=(at) data-range=(range.name()) {
                        (tick(at, range))
                    }
                }
                text x="100%" y=(HEIGHT - 8) text-anchor="end" { "now" }
            }
        }
    }
}

/// Returns the label of a step of the vertical axis.
fn axis_label(top: u64, step: u64) -> String {
    let value = top as f64 * step as f64 / STEPS as f64;
    if value.fract() == 0.0 { grouped(value as u64) } else { format!("{value:.1}") }
}

/// A label of the horizontal axis.
pub(super) struct Tick {
    pub(super) at: u64,
    /// The place, as a part of the width.
    pub(super) place: f64,
    /// True if there is no room for it on a phone.
    pub(super) is_minor: bool,
}

/// Returns the round times of a range.
pub(super) fn ticks(start: u64, end: u64, range: Range) -> Vec<Tick> {
    let step = range.label_seconds();
    let times = (start.div_ceil(step)..=end / step).map(|number| number * step);
    let place = |at: u64| (at - start) as f64 / (end - start).max(1) as f64;
    let labelled = times.filter(|at| range.is_labelled(*at) && LABELLED.contains(&place(*at)));
    // The last one is the nearest to "now", so it is the first that a phone leaves out.
    let mut ticks: Vec<Tick> =
        labelled.rev().enumerate().map(|(nth, at)| Tick { at, place: place(at), is_minor: nth % 2 == 0 }).collect();
    ticks.reverse();
    ticks
}

/// A date in UTC.
struct Date {
    year: u64,
    month: usize,
    day: u64,
}

impl Date {
    fn of(at: u64) -> Self {
        let text = Time(at).to_string();
        let mut parts = text.split(['-', ' ']).map(|part| part.parse().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        Self { year: next(), month: next() as usize, day: next() }
    }

    fn month(&self) -> &'static str {
        self.month.checked_sub(1).and_then(|month| MONTHS.get(month)).copied().unwrap_or_default()
    }
}

/// Returns the label of a time on the horizontal axis, in UTC. The script shows it in the zone of the viewer.
pub(super) fn tick(at: u64, range: Range) -> String {
    let date = Date::of(at);
    match range {
        Range::Hour | Range::Day => Time(at).to_string().chars().skip(11).take(5).collect(),
        Range::Month => format!("{} {}", date.day, date.month()),
        Range::Years => format!("{} {}", date.month(), date.year),
    }
}

/// Returns the path of one series: a rectangle for every column, above the series before it.
fn bars(figures: &Figures, series: usize, top: u64) -> String {
    let plot = (HEIGHT - TOP - BOTTOM) as f64;
    let scale = |count: u64| count as f64 * plot / top.max(1) as f64;
    let mut path = String::new();
    for (at, column) in figures.columns.iter().enumerate() {
        let count = column.get(series).copied().unwrap_or(0);
        if count == 0 {
            continue;
        }
        let below: u64 = column.iter().take(series).sum();
        let y = (HEIGHT - BOTTOM) as f64 - scale(below + count);
        path.push_str(&format!("M{} {y:.1}h{BAR}v{:.1}h-{BAR}z", at * COLUMN, scale(count).max(0.5)));
    }
    path
}

/// Returns the next larger number that divides well: 4, 8, 20, 40, 80, 200 …
fn nice(number: u64) -> u64 {
    let mut unit = 1_u64;
    loop {
        for factor in [4, 8, 20] {
            let top = unit.saturating_mul(factor);
            if top >= number {
                return top;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

fn table(title: &str, figures: &Figures, series: &[Series]) -> Markup {
    let rows = figures.columns.iter().enumerate().filter(|(_, column)| column.iter().any(|count| *count > 0));
    html! {
        details {
            summary { "Show as a table" }
            div .scroll tabindex="0" role="region" aria-label=(format!("{title}, as a table")) {
                table {
                    thead {
                        tr {
                            th scope="col" { "From" }
                            @for one in series { th .number scope="col" { (one.name) } }
                        }
                    }
                    tbody {
                        @for (at, column) in rows {
                            tr {
                                td { (time(figures.time(at))) }
                                @for count in column { td .number { (grouped(*count)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Gauges;
    use crate::metrics::{Disposition, Interface};

    const NOW: u64 = 1_800_014_400;
    static SERIES: [Series; 2] = [
        Series { class: "spam", name: "Spam", of: |slot| slot.total(Disposition::Spam) },
        Series { class: "ham", name: "Ham", of: |slot| slot.total(Disposition::Ham) },
    ];

    fn slot(start: u64, spam: u64) -> Slot {
        let mut slot = Slot::new(start);
        let mut requests = slot.requests;
        requests[crate::history::counter(Interface::Dcc, Disposition::Spam)] = spam;
        slot.add(&requests, &[0; crate::metrics::BUCKETS], Gauges::default());
        slot
    }

    #[test]
    fn slots_are_added_up_in_columns_and_others_are_left_out() {
        let slots =
            [slot(NOW - 900, 1), slot(NOW - 840, 2), slot(NOW, 4), slot(NOW - 100_000, 9), slot(NOW + 86_400, 9)];
        let slots: Vec<&Slot> = slots.iter().collect();
        let figures = Figures::of(&slots, Range::Day, &SERIES, Time(NOW));
        assert_eq!((figures.columns.len(), figures.total(0), figures.highest()), (96, 7, 4));
        assert_eq!(figures.columns[94..], [vec![3, 0], vec![4, 0]]);
        assert_eq!(figures.time(95), NOW);
    }

    #[test]
    fn a_chart_is_small_and_has_the_figures_in_words() {
        let slots: Vec<Slot> = (0..60).map(|minute| slot(NOW - 60 * minute, minute * 1_000)).collect();
        let slots: Vec<&Slot> = slots.iter().collect();
        let shown = Chart::new("Checks", "checks", &slots, Range::Hour, &SERIES, Time(NOW)).render().into_string();
        assert!(shown.contains("aria-label=\"Checks, last hour: 1,770,000 spam, 0 ham\""), "{shown}");
        assert!(shown.len() < 16_000 && !shown.contains("NaN"), "{}", shown.len());
        assert!(shown.contains("<h2>Checks <small>checks per minute</small></h2>"), "{shown}");
        let empty = Chart::new("Checks", "checks", &[], Range::Years, &SERIES, Time(0)).render().into_string();
        assert!(empty.contains("Nothing in this period"), "{empty}");
    }

    #[test]
    fn times_are_round_and_leave_room_for_each_other() {
        for (range, now, first, labels) in [
            (Range::Hour, NOW + 123, "11:10", 5),
            (Range::Day, NOW + 123, "16:00", 5),
            (Range::Month, NOW + 123, "18 Dec", 6),
            (Range::Years, NOW + 123, "May 2025", 5),
        ] {
            let figures = Figures::of(&[], range, &SERIES, Time(now));
            let ticks = ticks(figures.start, figures.end(), range);
            assert_eq!((tick(ticks[0].at, range).as_str(), ticks.len()), (first, labels), "{range:?}");
            // 900 pixels on a desktop, and 280 on a phone, where half of the labels are hidden.
            let gaps = |width: f64, shown: Vec<&Tick>| {
                let mut places: Vec<f64> = shown.iter().map(|tick| tick.place * width).collect();
                places.push(width);
                places.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::MAX, f64::min)
            };
            assert!(gaps(900.0, ticks.iter().collect()) > 50.0, "{range:?}");
            assert!(gaps(280.0, ticks.iter().filter(|tick| !tick.is_minor).collect()) > 50.0, "{range:?}");
        }
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([0, 4, 5, 9, 21, 41, 81].map(nice), [4, 4, 8, 20, 40, 80, 200]);
        assert!(nice(u64::MAX) == u64::MAX);
        assert_eq!((axis_label(4, 1), axis_label(20, 4)), ("1".to_owned(), "20".to_owned()));
    }
}
