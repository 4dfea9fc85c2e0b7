//! Bloomier filters (Chazelle, Kilian, Rubinfeld and Tal, 2004), as described by the survey.
//!
//! Hashing maps a key to k cells and a mask: its [`Neighbourhood`]. The value of a key is the mask XOR its k cells.
//! Each key gets one of its cells as its *own* cell, which is adjusted to set the value of the key. The keys need an
//! order in which no later key's own cell is among the k cells of an earlier key. The order is built from its end: a
//! cell that only one of the remaining keys has (a *singleton*) becomes that key's own cell. The key takes the last
//! free place in the order and is removed, which creates new singletons, and so on. With three hash functions and a
//! table of 1.23 cells per key, this almost always succeeds; otherwise the next seed is tried.
//!
//! - [`BloomierFilter`] is immutable: its cells contain the values.
//! - In [`MutableBloomierFilter`], the cells state *which* of the k cells is the key's own. A second table contains the
//!   value, at the index of that cell. Values can be changed, but not the set of keys.
//!
//! Both filters store check bits, which must be zero, above the value or the index in a cell. For a key that is not in
//! the set, each check bit is zero with probability 1/2. The mask is needed for this: without it, the check bits of a
//! key whose cells are all empty would always be zero.

mod immutable;
mod mutable;
mod neighbourhood;
mod peel;
mod table;

pub use immutable::BloomierFilter;
pub use mutable::MutableBloomierFilter;
pub(crate) use mutable::table_words;
pub(crate) use neighbourhood::CELLS_PER_KEY;
pub use neighbourhood::{HASHES_MAX, KeyedNeighbourhoods, Neighbourhood, Neighbourhoods, SEEDS_MAX};
