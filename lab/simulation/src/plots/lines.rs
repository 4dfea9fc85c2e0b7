//! Line charts in panels that share a logarithmic vertical axis.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::data::has_logarithm;
use super::figure::{Drawn, Figure, GREY, Look, PlotArea, SHADE, Sheet, TEXT_SIZE, lettering};
use crate::Moments;

/// Horizontal distance between the error bars of two series, so that the bars do not hide each other.
const SIDESTEP: f64 = 70.0;

/// The content of one panel.
pub(super) struct LinePanel {
    /// Lines of the title.
    pub(super) title: Vec<String>,
    pub(super) across: Axis,
    /// Position at which the grey part of the panel starts.
    pub(super) grey_from: Option<f64>,
    pub(super) series: Vec<Series>,
}

/// Connected points, from left to right.
pub(super) struct Series {
    pub(super) look: Look,
    pub(super) points: Vec<Estimate>,
}

/// A point: a number and its uncertainty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// Position on the horizontal axis; a logarithm if the axis is logarithmic.
    pub(super) across: f64,
    pub(super) up: f64,
    /// Half the length of the error bar; `None` if the number is exact.
    pub(super) reach: Option<f64>,
}

impl Estimate {
    /// Returns a point at the mean, with an error bar of two standard errors.
    pub(super) fn of(across: f64, moments: &Moments) -> Self {
        Self { across, up: moments.mean(), reach: Some(2.0 * moments.standard_error()) }
    }

    fn is_shown(&self) -> bool {
        has_logarithm(self.up)
    }
}

/// Draws the picture; `None` if a logarithmic axis can show none of the points. The vertical axis has at most about
/// `ticks_max` ticks and covers all points and `reference`.
pub(super) fn svg(figure: &Figure, panels: &[LinePanel], ticks_max: usize, reference: Option<f64>) -> Option<String> {
    let mut shown = points(panels).filter(|point| point.is_shown()).peekable();
    shown.peek()?;
    let numbers = shown.flat_map(|point| [point.up, point.up + point.reach.unwrap_or(0.0)]).chain(reference);
    let up = Axis::logarithmic(numbers, ticks_max)?;
    Some(figure.svg(|index, sheet| match panels.get(index) {
        Some(panel) => draw_panel(figure, sheet, panel, &up, index.is_multiple_of(figure.columns)),
        None => Ok(()),
    }))
}

/// Returns a note that counts the points that a logarithmic axis cannot show, and gives `reason`; `None` if there are
/// no such points.
pub(super) fn zeros_note(panels: &[LinePanel], reason: &str) -> Option<String> {
    match points(panels).filter(|point| !point.is_shown()).count() {
        0 => None,
        1 => Some(format!("One point is left out: {reason}.")),
        count => Some(format!("{count} points are left out: {reason}.")),
    }
}

fn points(panels: &[LinePanel]) -> impl Iterator<Item = &Estimate> {
    panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points)
}

fn draw_panel(figure: &Figure, sheet: &Sheet<'_>, panel: &LinePanel, up: &Axis, has_labels_up: bool) -> Drawn {
    let LinePanel { title, across, grey_from, series } = panel;
    let area = &figure.chart(sheet, title, across, up, has_labels_up)?;
    let strip = grey_from.map(|from| Rectangle::new([(from, up.low), (across.high, up.high)], SHADE.filled()));
    strip.iter().try_for_each(|strip| area.draw(strip))?;
    let (width, _) = area.dim_in_pixel();
    let step = SIDESTEP * (across.high - across.low) / f64::from(width);
    let middle = series.len().saturating_sub(1) as f64 / 2.0;
    for (position, series) in series.iter().enumerate() {
        draw_series(area, series, up, (position as f64 - middle) * step)?;
    }
    if !series.iter().flat_map(|series| &series.points).any(Estimate::is_shown) {
        let middle = (f64::midpoint(across.low, across.high), f64::midpoint(up.low, up.high));
        area.draw(&Text::new("nothing to show", middle, lettering(TEXT_SIZE, &GREY, HPos::Center)))?;
    }
    Ok(())
}

/// Draws lines through the points. Points that cannot be shown break the line and have no mark.
fn draw_series(area: &PlotArea<'_>, series: &Series, up: &Axis, sidestep: f64) -> Drawn {
    let look = &series.look;
    for run in series.points.split(|point| !point.is_shown()) {
        // Points without error bars need not be moved to the side.
        let aside = |point: &Estimate| point.reach.map_or(0.0, |_| sidestep);
        let places: Vec<_> = run.iter().map(|point| (point.across + aside(point), up.place(point.up))).collect();
        for (point, &(x, _)) in run.iter().zip(&places) {
            if let Some(reach) = point.reach.filter(|reach| reach.is_finite()) {
                let ends = [point.up - reach, point.up + reach].map(|end| (x, up.place(end)));
                draw_error_bar(area, look, ends, up.low)?;
            }
        }
        if places.len() > 1 {
            look.draw_line(area, &places)?;
        }
        places.iter().try_for_each(|&place| look.draw_mark(area, place))?;
    }
    Ok(())
}

/// Draws an error bar, unless the mark would hide it. A bar that is cut off at the bottom has no lower cap.
fn draw_error_bar(area: &PlotArea<'_>, look: &Look, ends: [(f64, f64); 2], bottom: f64) -> Drawn {
    const CAP: [(i32, i32); 2] = [(-35, 0), (35, 0)];
    let [low, high] = ends.map(|end| area.map_coordinate(&end).1);
    if low - high <= 2 * look.radius as i32 {
        return Ok(());
    }
    let style = look.colour.stroke_width(12);
    area.draw(&PathElement::new(ends, style))?;
    let mut capped = ends.into_iter().filter(|end| end.1 > bottom);
    capped.try_for_each(|end| area.draw(&(EmptyElement::at(end) + PathElement::new(CAP, style))))
}
