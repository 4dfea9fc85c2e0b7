//! The frame of all plots: title, legend, panels in rows, and notes at the bottom edge.
//!
//! Lengths in all plots are in tenths of a pixel, because plotters rounds positions to whole numbers, and whole pixels
//! are too coarse for dashes and flat slopes.
//!
//! Colours, lines and marks have the same meaning in all plots. Colours are from Okabe and Ito's palette, which
//! colour-blind readers can distinguish. Numbers of hash functions also differ in the shape of their marks, and
//! extensions in the style of their lines.

use std::io;

use bruit_filters::counting::Extension;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::{CoordTranslate, Shift};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;

/// Width of all pictures.
const WIDTH: i32 = 9600;

/// Margin of a picture.
const MARGIN: i32 = 240;

/// Height of the title, the line below it, and the legend.
const HEAD: i32 = 1040;

/// Height of each line of a panel's title.
const PANEL_LINE: i32 = 200;

/// Height of the labels of a panel's lower axis.
const PANEL_FOOT: i32 = 260;

/// Height of the name of the lower axis, and of each note.
const FOOT_LINE: i32 = 240;

pub(super) type Area<'a, C> = DrawingArea<SVGBackend<'a>, C>;
pub(super) type Sheet<'a> = Area<'a, Shift>;
pub(super) type PlotArea<'a> = Area<'a, Cartesian2d<Axis, Axis>>;
pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<io::Error>>;

/// Everything in a picture but its panels.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) legend: Vec<(Look, String)>,
    pub(super) across: String,
    pub(super) up: String,
    pub(super) notes: Vec<String>,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// Height of a panel without its title and labels.
    pub(super) panel_height: i32,
    /// Number of lines of a panel's title.
    pub(super) title_lines: i32,
    /// Space to the left of the first column.
    pub(super) left: i32,
    /// Space between columns.
    pub(super) gap: i32,
}

impl Figure {
    /// Draws the picture as SVG. `draw_panel` is called row by row, and draws the panel with the given index into the
    /// given area.
    pub(super) fn svg(&self, draw_panel: impl Fn(usize, &Sheet<'_>) -> Drawn) -> String {
        let foot = MARGIN / 2 + FOOT_LINE * (1 + self.notes.len() as i32);
        let body = self.rows as i32 * (self.panel_head() + self.panel_height + PANEL_FOOT);
        let (mut svg, height) = (String::new(), HEAD + body + foot);
        let sheet = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        self.draw(&sheet, HEAD + body, draw_panel).expect("drawing to a string cannot fail");
        drop(sheet);
        // plotters writes a display size in its own units. Replace it with the size in pixels.
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

    /// Draws the legend as one row below the subtitle, outside the panels.
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

    /// Draws the grid, axes, title lines and labels of a panel. Panels side by side may share the labels of the
    /// vertical axis.
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

/// Returns a legend for colours and marks that stand for numbers of hash functions.
pub(super) fn legend_of_hashes(hashes: &[u32]) -> Vec<(Look, String)> {
    hashes.iter().enumerate().map(|(index, k)| (Look::new(index, Extension::Refined), format!("k = {k}"))).collect()
}

/// Returns a legend for colours and marks that stand for numbers of hash functions, and for line styles that stand for
/// extensions.
pub(super) fn legend_of_hashes_and_extensions(hashes: &[u32]) -> Vec<(Look, String)> {
    let extensions = EXTENSIONS.map(|extension| {
        let look = Look { colour: GREY, outline: Outline::Circle, ..Look::new(0, extension) };
        (look, extension.to_string())
    });
    legend_of_hashes(hashes).into_iter().chain(extensions).collect()
}

pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(super) const GREY: RGBColor = RGBColor(0x60, 0x60, 0x60);
pub(super) const GRID: RGBColor = RGBColor(0xe2, 0xe2, 0xe2);
pub(super) const SHADE: RGBAColor = RGBAColor(0, 0, 0, 0.06);
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const VERMILION: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
const PURPLE: RGBColor = RGBColor(0xcc, 0x79, 0xa7);
const SKY: RGBColor = RGBColor(0x56, 0xb4, 0xe9);

/// Font sizes of titles, texts and labels.
pub(super) const TITLE_SIZE: f64 = 190.0;
pub(super) const TEXT_SIZE: f64 = 140.0;
pub(super) const LABEL_SIZE: f64 = 130.0;

/// Returns the style of a text that is vertically centred on its point. `align` decides whether the left edge, the
/// centre or the right edge of the text is at the point. SVG viewers without DejaVu use Verdana, which is about as
/// wide.
pub(super) fn lettering(size: f64, colour: &'static RGBColor, align: HPos) -> TextStyle<'static> {
    /// Ratio of a font size in plotters to the same size in SVG.
    const SIZE_UNIT: f64 = 1.24;
    let font = ("DejaVu Sans, Verdana, sans-serif", size * SIZE_UNIT).into_font();
    TextStyle::from(font).color(colour).pos(Pos::new(align, VPos::Center))
}

/// Both extensions, in the order of the paper.
pub(super) const EXTENSIONS: [Extension; 2] = [Extension::Intuitive, Extension::Refined];

/// Returns the colour of an extension, for plots in which colours do not stand for numbers of hash functions.
pub(super) const fn colour_of(extension: Extension) -> RGBColor {
    match extension {
        Extension::Intuitive => ORANGE,
        Extension::Refined => BLUE,
    }
}

/// The outline of a mark.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outline {
    Circle,
    Square,
    Triangle,
}

/// The line of a series, and the marks of its points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) colour: RGBColor,
    pub(super) outline: Outline,
    pub(super) radius: u32,
    /// Width of the line.
    pub(super) width: u32,
    /// True if the line is dashed and the marks are hollow.
    pub(super) is_open: bool,
}

impl Look {
    /// Returns the look of a series. `index` selects the colour and mark, which stand for a number of hash functions.
    pub(super) const fn new(index: usize, extension: Extension) -> Self {
        const LOOKS: [(RGBColor, Outline); 6] = [
            (BLUE, Outline::Circle),
            (VERMILION, Outline::Square),
            (GREEN, Outline::Triangle),
            (PURPLE, Outline::Circle),
            (ORANGE, Outline::Square),
            (SKY, Outline::Triangle),
        ];
        let (colour, outline) = LOOKS[index % LOOKS.len()];
        Self { colour, outline, radius: 45, width: 20, is_open: matches!(extension, Extension::Intuitive) }
    }

    /// Draws a line through the points. Coordinates on a sheet are in tenths of a pixel; on a chart, in units of its
    /// axes.
    pub(super) fn draw_line<C>(&self, area: &Area<'_, C>, points: &[C::From]) -> Drawn
    where
        C: CoordTranslate<From: Copy>,
    {
        let (points, style) = (points.iter().copied(), self.colour.stroke_width(self.width));
        if self.is_open {
            area.draw(&DashedPathElement::new(points, 60, 40, style))
        } else {
            area.draw(&PathElement::new(points.collect::<Vec<_>>(), style))
        }
    }

    /// Draws the mark of a point. A hollow mark is a filled mark with a smaller white mark on top.
    pub(super) fn draw_mark<C: CoordTranslate<From: Copy>>(&self, area: &Area<'_, C>, at: C::From) -> Drawn {
        let inner = (self.radius * 3 / 5, WHITE);
        for (radius, colour) in [(self.radius, self.colour)].into_iter().chain(self.is_open.then_some(inner)) {
            let (side, style) = (radius as i32 * 8 / 9, colour.filled());
            match self.outline {
                Outline::Circle => area.draw(&Circle::new(at, radius, style)),
                Outline::Square => {
                    area.draw(&(EmptyElement::at(at) + Rectangle::new([(-side, -side), (side, side)], style)))
                }
                Outline::Triangle => area.draw(&TriangleMarker::new(at, radius * 5 / 4, style)),
            }?;
        }
        Ok(())
    }
}
