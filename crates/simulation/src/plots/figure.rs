//! The frame of all plots: title, legend, panels in rows, and notes at the bottom edge.
//!
//! Lengths, here and in all plots, are tenths of a pixel: plotters rounds places to whole numbers, and whole pixels
//! are too coarse for dashes and flat slopes.

use std::io;

use bruit_filters::counting::Extension;
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::look::{EXTENSIONS, GREY, GRID, INK, LABEL_SIZE, Look, Outline, TEXT_SIZE, TITLE_SIZE, lettering};

/// Width of all pictures.
const WIDTH: i32 = 9600;

/// Margin of the picture.
const MARGIN: i32 = 240;

/// Room for the title, the line below it, and the legend.
const HEAD: i32 = 1040;

/// Room for each line of a panel's title, and for the labels of its lower axis.
const PANEL_LINE: i32 = 200;
const PANEL_FOOT: i32 = 260;

/// Room for what the lower axis is, and for each note.
const FOOT_LINE: i32 = 240;

pub(super) type Area<'a, C> = DrawingArea<SVGBackend<'a>, C>;
pub(super) type Sheet<'a> = Area<'a, Shift>;
pub(super) type PlotArea<'a> = Area<'a, Cartesian2d<Axis, Axis>>;
pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<io::Error>>;

/// All of a picture but its panels.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) legend: Vec<(Look, String)>,
    pub(super) across: String,
    pub(super) up: String,
    pub(super) notes: Vec<String>,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// Height of a panel without its title and labels, and how many lines its title has.
    pub(super) panel_height: i32,
    pub(super) title_lines: i32,
    /// Room left of the first column, and between columns.
    pub(super) left: i32,
    pub(super) gap: i32,
}

impl Figure {
    /// The picture as SVG. Panels, row by row, are drawn by a function of their index and place.
    pub(super) fn svg(&self, draw_panel: impl Fn(usize, &Sheet<'_>) -> Drawn) -> String {
        let foot = MARGIN / 2 + FOOT_LINE * (1 + self.notes.len() as i32);
        let body = self.rows as i32 * (self.panel_head() + self.panel_height + PANEL_FOOT);
        let (mut svg, height) = (String::new(), HEAD + body + foot);
        let sheet = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        self.draw(&sheet, HEAD + body, draw_panel).expect("a string takes all shapes");
        drop(sheet);
        // Plotters writes that a picture wants to be shown as large as its lengths are.
        let size = |unit: i32| format!(r#"width="{}" height="{}""#, WIDTH / unit, height / unit);
        svg.replacen(&size(1), &size(10), 1)
    }

    fn panel_head(&self) -> i32 {
        80 + PANEL_LINE * self.title_lines
    }

    fn draw(&self, sheet: &Sheet<'_>, foot: i32, draw_panel: impl Fn(usize, &Sheet<'_>) -> Drawn) -> Drawn {
        sheet.fill(&WHITE)?;
        sheet.draw_text(&self.title, &lettering(TITLE_SIZE, &INK, HPos::Left), (MARGIN, 302))?;
        sheet.draw_text(&self.subtitle, &lettering(TEXT_SIZE, &GREY, HPos::Left), (MARGIN, 556))?;
        self.draw_legend(sheet)?;
        let words = lettering(TEXT_SIZE, &INK, HPos::Center);
        sheet.draw_text(&self.across, &words, ((WIDTH + self.left) / 2, foot + 96))?;
        let middle = (HEAD + self.panel_head() + foot - PANEL_FOOT) / 2;
        sheet.draw_text(&self.up, &words.transform(FontTransform::Rotate270), (MARGIN + 56, middle))?;
        for (note, line) in self.notes.iter().zip(1..) {
            let place = (MARGIN, foot + 95 + FOOT_LINE * line);
            sheet.draw_text(note, &lettering(LABEL_SIZE, &GREY, HPos::Left), place)?;
        }
        let height = sheet.dim_in_pixel().1 as i32;
        let body = sheet.margin(HEAD, height - foot, MARGIN + self.left - self.gap, MARGIN);
        let panels = body.split_evenly((self.rows, self.columns));
        panels.iter().enumerate().try_for_each(|(index, panel)| draw_panel(index, panel))
    }

    /// One row below the subtitle, off all data.
    fn draw_legend(&self, sheet: &Sheet<'_>) -> Drawn {
        const SAMPLE_WIDTH: i32 = 340;
        let (mut x, y) = (MARGIN, 840);
        for (look, label) in &self.legend {
            look.draw_line(sheet, &[(x, y), (x + SAMPLE_WIDTH, y)])?;
            look.draw_mark(sheet, (x + SAMPLE_WIDTH / 2, y))?;
            let words = lettering(TEXT_SIZE, &INK, HPos::Left);
            sheet.draw_text(label, &words, (x + SAMPLE_WIDTH + 70, y + 16))?;
            x += SAMPLE_WIDTH + 240 + sheet.estimate_text_size(label, &words)?.0 as i32;
        }
        Ok(())
    }

    /// Grid, axes, title line by line, and labels of a panel. Panels side by side may share those of the axis going up.
    pub(super) fn chart<'a>(
        &self,
        sheet: &Sheet<'a>,
        title: &[String],
        across: &Axis,
        up: &Axis,
        has_labels_up: bool,
    ) -> Drawn<PlotArea<'a>> {
        for (line, index) in title.iter().zip(0..) {
            sheet.draw_text(line, &lettering(TEXT_SIZE, &INK, HPos::Left), (self.gap, 156 + PANEL_LINE * index))?;
        }
        let mut chart = ChartBuilder::on(sheet)
            .margin_top(self.panel_head())
            .x_label_area_size(PANEL_FOOT)
            .y_label_area_size(self.gap)
            .build_cartesian_2d(across.clone(), up.clone())?;
        chart
            .configure_mesh()
            .axis_style(GREY.stroke_width(10))
            .bold_line_style(GRID.stroke_width(10))
            .label_style(lettering(LABEL_SIZE, &GREY, HPos::Center))
            .set_all_tick_mark_size(40)
            .y_label_offset(15)
            .y_label_formatter(&|value| if has_labels_up { up.format_ext(value) } else { String::new() })
            .draw()?;
        Ok(chart.plotting_area().clone())
    }
}

/// What colours and marks mean where they are numbers of hash functions.
pub(super) fn legend_of_hashes(hashes: &[u32]) -> Vec<(Look, String)> {
    hashes.iter().enumerate().map(|(index, k)| (Look::new(index, Extension::Refined), format!("k = {k}"))).collect()
}

/// The same, and what lines mean where they are extensions.
pub(super) fn legend_of_hashes_and_extensions(hashes: &[u32]) -> Vec<(Look, String)> {
    let extensions = EXTENSIONS.map(|extension| {
        let look = Look { colour: GREY, outline: Outline::Circle, ..Look::new(0, extension) };
        (look, extension.to_string())
    });
    legend_of_hashes(hashes).into_iter().chain(extensions).collect()
}
