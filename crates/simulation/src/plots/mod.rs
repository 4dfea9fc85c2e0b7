//! Plots of what a study found, as SVG and as PNG.
//!
//! `plotters` draws the SVG, and `resvg` paints the PNG from that very SVG, so both show the same. All kinds of plots
//! but one are lines in panels, and only say what the points are.
//!
//! Equal studies give equal bytes: nothing depends on the clock, the machine's fonts, or the order of a hash map.

mod axis;
mod cells;
mod data;
mod figure;
mod gallery;
mod growth;
mod lines;
mod look;
mod png;
mod rates;
mod reduction;
mod wrong_keys;

pub use gallery::{Plot, draw};
