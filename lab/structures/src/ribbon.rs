//! Bumped ribbon retrieval (Dillinger, Hübschle-Schneider, Sanders and Walzer, 2022): immutable maps and sets in little
//! more than the bits of their answers.
//!
//! An answer of r bits is the XOR of some of 64 neighbouring *slots* of r bits. The key's leading bits determine the
//! first of these slots, and its 64 coefficients select among them. A set of keys is thus a system of linear equations,
//! and the map is its solution. The equations are solved from left to right. There are more equations than slots, so
//! that every slot is used. If an equation contradicts earlier ones, the keys that start early in its *bucket* of 128
//! starts are *bumped* to the next *layer*, which has about a fiftieth of the size. Two bits per bucket encode a
//! threshold: keys that start below it are bumped.
//!
//! Every set of keys has a solution, and equal sets have equal bits. The only public type is [`RibbonMap`].

mod layer;
mod map;
mod system;

pub use layer::LAYERS_MAX;
pub(crate) use layer::{BLOCK_SLOTS, Layer, LayerShape, LayerView, PADDING_WORDS};
pub use map::RibbonMap;
pub(crate) use map::check;
