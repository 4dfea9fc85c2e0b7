//! The precision of an account over time: a small drawing for a row of the table, and a chart with its figures.

use std::fmt::Write as _;

use bruit_engine::time::Time;
use bruit_protocols::http::AccountDay;
use maud::{Markup, html};

use super::chart::{AXIS, BOTTOM, HEIGHT, Range, TOP, Tick, tick, ticks};
use super::format::{counted, grouped, percent};
use crate::history::DAY_SECONDS;

/// The ranges of a chart.
pub(super) const RANGES: [Range; 2] = [Range::Month, Range::Years];

/// Height of a small drawing in pixels, and its margin above and below the line.
const SMALL_HEIGHT: f64 = 28.0;
const SMALL_MARGIN: f64 = 2.0;

/// Number of steps of the vertical axis, from 0 to 100 %.
const STEPS: u64 = 4;

/// Returns the range of this name, or the month.
pub(super) fn range(name: &str) -> Range {
    RANGES.into_iter().find(|range| range.name() == name).unwrap_or(Range::Month)
}

/// The days of a range.
struct Days<'d> {
    /// Start of the first day and of the last one.
    start: u64,
    end: u64,
    days: Vec<&'d AccountDay>,
}

impl<'d> Days<'d> {
    fn of(days: &'d [AccountDay], range: Range, now: Time) -> Self {
        let end = now.0 - now.0 % DAY_SECONDS;
        let start = end.saturating_sub(range.seconds() - DAY_SECONDS);
        let days = days.iter().filter(|day| (start..=end).contains(&day.start)).collect();
        Self { start, end, days }
    }

    /// Returns the number of the last day.
    const fn last(&self) -> u64 {
        (self.end - self.start) / DAY_SECONDS
    }

    /// Returns a line through the precision of each day. It has a gap where days are missing.
    fn line(&self, top: f64, height: f64) -> String {
        let (mut path, mut before) = (String::new(), None);
        for day in &self.days {
            let x = (day.start - self.start) / DAY_SECONDS;
            let y = top + height * (1.0 - day.precision.clamp(0.0, 1.0));
            // A line without length is a dot.
            let is_next = before.is_some_and(|before| before + 1 == x);
            let _ = if is_next { write!(path, "L{x} {y:.1}") } else { write!(path, "M{x} {y:.1}h0") };
            before = Some(x);
        }
        path
    }

    /// Describes the line in a sentence, for people who do not see it.
    fn summary(&self) -> String {
        let (Some(first), Some(last)) = (self.days.first(), self.days.last()) else { return "no data".to_owned() };
        let of = |day: &AccountDay| format!("{} on {}", percent(day.precision), date(day.start));
        if first.start == last.start {
            return of(first);
        }
        let precisions = || self.days.iter().map(|day| day.precision);
        let (lowest, highest) = (precisions().fold(1.0, f64::min), precisions().fold(0.0, f64::max));
        format!("from {} to {}, between {} and {}", of(first), of(last), percent(lowest), percent(highest))
    }
}

/// Returns a date in UTC, such as `2027-01-15`.
fn date(at: u64) -> String {
    Time(at).to_string().chars().take_while(|letter| *letter != ' ').collect()
}

/// Draws the precision in the last month, for a row of the table.
pub(super) fn small(days: &[AccountDay], now: Time) -> Markup {
    let days = Days::of(days, Range::Month, now);
    let label = format!("Precision in the last month: {}", days.summary());
    html! {
        @if days.days.is_empty() { "–" } @else {
            svg .spark width="96" height=(SMALL_HEIGHT) viewBox=(format!("0 0 {} {SMALL_HEIGHT}", days.last()))
                preserveAspectRatio="none" role="img" aria-label=(label) {
                path vector-effect="non-scaling-stroke" d=(days.line(SMALL_MARGIN, SMALL_HEIGHT - 2.0 * SMALL_MARGIN)) {}
            }
        }
    }
}

/// Draws the precision in a range, with the figures as a table. `path` is the address of the page for each range.
pub(super) fn chart(all: &[AccountDay], range: Range, now: Time, path: impl Fn(Range) -> String) -> Markup {
    let days = Days::of(all, range, now);
    html! {
        section .card {
            h2 { "Precision over time " small { "one figure per day" } }
            nav aria-label="Time range of the chart" {
                ul .spans {
                    @for one in RANGES {
                        li { a href=(path(one)) aria-current=[(one == range).then_some("true")] { (one.title()) } }
                    }
                }
            }
            @if days.days.is_empty() {
                p .soft {
                    "Nothing in this period. The first figure appears when a claim of the account is settled, two days \
                    after the first claim about its signature with the default settings."
                }
            } @else {
                (drawing(&days, range))
                p .soft { "Precision: " (days.summary()) "." }
                (table(&days))
            }
        }
    }
}

fn drawing(days: &Days<'_>, range: Range) -> Markup {
    let (bottom, plot) = (HEIGHT - BOTTOM, HEIGHT - TOP - BOTTOM);
    let lines = (0..=STEPS).map(|step| (100 * step / STEPS, bottom - plot * step / STEPS));
    let label = format!("Precision, {}: {}", range.title().to_lowercase(), days.summary());
    html! {
        div .plot {
            svg .axis width=(AXIS) height=(HEIGHT) aria-hidden="true" {
                @for (value, y) in lines.clone() {
                    text x=(AXIS - 8) y=(y + 4) text-anchor="end" { (value) " %" }
                }
            }
            svg .chart height=(HEIGHT) role="img" aria-label=(label) {
                @for (_, y) in lines { line .grid x1="0" x2="100%" y1=(y) y2=(y) {} }
                svg .spark width="100%" height=(HEIGHT) preserveAspectRatio="none"
                    viewBox=(format!("0 0 {} {HEIGHT}", days.last())) {
                    path vector-effect="non-scaling-stroke" d=(days.line(TOP as f64, plot as f64)) {}
                }
                @for Tick { at, place, is_minor } in ticks(days.start, days.end, range) {
                    @let x = format!("{:.2}%", place * 100.0);
                    line .grid x1=(x) x2=(x) y1=(bottom) y2=(bottom + 5) {}
                    text .minor[is_minor] x=(x) y=(HEIGHT - 8) text-anchor="middle" data-time=(at) data-range=(range.name()) {
                        (tick(at, range))
                    }
                }
                text x="100%" y=(HEIGHT - 8) text-anchor="end" { "today" }
            }
        }
    }
}

fn table(days: &Days<'_>) -> Markup {
    html! {
        details {
            summary { "Show as a table" }
            div .scroll tabindex="0" role="region" aria-label="Precision over time, as a table" {
                table {
                    caption { (counted(days.days.len() as u64, "day")) ". Claims are counted from the first one." }
                    thead {
                        tr {
                            th scope="col" { "Day (UTC)" }
                            @for head in ["Precision", "Weight", "Right", "Wrong", "Open"] { th .number scope="col" { (head) } }
                        }
                    }
                    tbody {
                        @for day in days.days.iter().rev() {
                            tr {
                                td { (date(day.start)) }
                                td .number { (percent(day.precision)) }
                                td .number { (format!("{:.2}", day.weight)) }
                                @for count in [day.confirmed, day.refuted, day.unconfirmed] { td .number { (grouped(count.into())) } }
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

    /// A day at noon.
    const NOW: Time = Time(1_800_014_400);
    const TODAY: u64 = NOW.0 - NOW.0 % DAY_SECONDS;

    fn day(ago: u64, precision: f64) -> AccountDay {
        AccountDay { start: TODAY - ago * DAY_SECONDS, precision, confirmed: 7, ..AccountDay::default() }
    }

    #[test]
    fn a_line_has_a_point_for_each_day_and_a_gap_where_days_are_missing() {
        let days = [day(40, 0.9), day(30, 0.0), day(29, 0.5), day(1, 1.0), day(0, 2.0)];
        let month = Days::of(&days, Range::Month, NOW);
        assert_eq!((month.days.len(), month.last()), (4, 30));
        assert_eq!(month.line(0.0, 100.0), "M0 100.0h0L1 50.0M29 0.0h0L30 0.0");
        assert_eq!(Days::of(&days, Range::Years, NOW).days.len(), 5);
    }

    #[test]
    fn the_figures_are_there_as_text() {
        let days = [day(2, 0.25), day(1, 0.5), day(0, 0.375)];
        let shown = small(&days, NOW).into_string();
        let label = "aria-label=\"Precision in the last month: from 25\u{a0}% on 2027-01-13 to 38\u{a0}% on 2027-01-15, \
            between 25\u{a0}% and 50\u{a0}%\"";
        assert!(shown.contains(label), "{shown}");
        assert!(small(&days[..1], NOW).into_string().contains("month: 25\u{a0}% on 2027-01-13\""));
        assert_eq!(small(&[], NOW).into_string(), "–");
        let shown = chart(&days, Range::Years, NOW, |range| range.name().to_owned()).into_string();
        for text in ["Precision, last two years: from 25", "<caption>3 days.", "2027-01-14", ">7</td>", "aria-current"]
        {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert!(chart(&[], Range::Month, NOW, |_| String::new()).into_string().contains("Nothing in this period"));
    }

    #[test]
    fn a_chart_of_two_years_is_small() {
        let days: Vec<AccountDay> = (0..728).rev().map(|ago| day(ago, 0.123)).collect();
        let days = Days::of(&days, Range::Years, NOW);
        assert_eq!(days.days.len(), 728);
        assert!(drawing(&days, Range::Years).into_string().len() < 16_000);
    }
}
