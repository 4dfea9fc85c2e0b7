//! What colours, lines and marks mean, in all plots alike.
//!
//! Colours are of Okabe and Ito's palette, which colour-blind readers can tell apart. Numbers of hash functions differ
//! in the shape of their marks, too, and extensions in the line.

use bruit_filters::counting::Extension;
use plotters::coord::CoordTranslate;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure::{Area, Drawn};

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

/// Texts by the size of their letters.
pub(super) const TITLE_SIZE: f64 = 190.0;
pub(super) const TEXT_SIZE: f64 = 140.0;
pub(super) const LABEL_SIZE: f64 = 130.0;

/// A text that is at half the height of its point, and left, around or right of it. Verdana is about as wide as
/// DejaVu, for readers of an SVG who lack that.
pub(super) fn lettering(size: f64, colour: &'static RGBColor, align: HPos) -> TextStyle<'static> {
    /// What plotters calls the size of a font is so many times what SVG does.
    const SIZE_UNIT: f64 = 1.24;
    let font = ("DejaVu Sans, Verdana, sans-serif", size * SIZE_UNIT).into_font();
    TextStyle::from(font).color(colour).pos(Pos::new(align, VPos::Center))
}

/// Both extensions, in the order of the paper.
pub(super) const EXTENSIONS: [Extension; 2] = [Extension::Intuitive, Extension::Refined];

/// The colour of an extension, in plots where colours do not stand for numbers of hash functions.
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
    /// Of the line.
    pub(super) width: u32,
    /// The line is dashed, and marks are hollow.
    pub(super) is_open: bool,
}

impl Look {
    /// Of an extension with that number of hash functions which is the `index`th of those shown.
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

    /// A line through the points, in pixels of a sheet or numbers of a chart.
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

    /// The mark of a point: what is hollow has a white one on it.
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
