//! Bumped ribbon retrieval (Dillinger, Hübschle-Schneider, Sanders and Walzer, 2022): maps and sets that nobody changes, in
//! hardly more bits than their answers have.
//!
//! An answer of r bits is the XOR of some of 64 neighbouring *slots* of r bits: which ones, the key's 64 coefficients say, and
//! where they start, its leading bits. So a set of keys is a system of linear equations, and the map is its solution.
//! The equations are solved from left to right as they come; there are more of them than slots, on purpose, so that no slot
//! stays unused. Where one contradicts those before it, the keys that start early in its *bucket* of 128 starts are *bumped*
//! to the next, fifty times smaller *layer*. Two bits per bucket tell how many: the keys that start below a threshold.
//!
//! Promises every key its value, whatever the set; equal sets give equal bits. [`RibbonMap`] is all there is to use.

mod layer;
mod map;
mod system;

pub use layer::LAYERS_MAX;
pub(crate) use layer::{BLOCK_SLOTS, Layer, LayerShape, LayerView, PADDING_WORDS};
pub use map::RibbonMap;
pub(crate) use map::check;
