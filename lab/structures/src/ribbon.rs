//! Bumped ribbon retrieval (Dillinger, Hübschle-Schneider, Sanders and Walzer, 2022): immutable maps and sets that are
//! hardly larger than the bits of their answers.
//!
//! An answer of r bits is the XOR of some of 64 neighbouring *slots*, each of r bits. The leading bits of the key
//! determine its *start*, which is the first of these slots; 64 coefficients, also computed from the key, select among
//! them. A set of keys is thus a system of linear equations, and the map is its solution. The equations are solved from
//! left to right. There are more equations than slots, so that every slot is used. The starts are divided into
//! *buckets* of 128. If an equation contradicts earlier ones, the keys with the first starts of its bucket are *bumped*
//! to the next *layer*, which is about a fiftieth of the size. Two bits per bucket encode a threshold: keys that start
//! below it are bumped.
//!
//! There is a solution for every set of keys, and equal sets give equal bits. The only public type is [`RibbonMap`].

mod layer;
mod map;
mod system;

pub use layer::LAYERS_MAX;
pub(crate) use layer::{BLOCK_SLOTS, Layer, LayerShape, LayerView, PADDING_WORDS};
pub use map::RibbonMap;
pub(crate) use map::check;
