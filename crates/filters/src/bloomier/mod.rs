//! Bloomier filters (Chazelle, Kilian, Rubinfeld and Tal, 2004), as the survey tells them.
//!
//! A key has k cells and a mask, all from hashing: its [`Neighbourhood`]. Its value is the mask XOR the k cells. To make
//! that so for every key, each needs one cell of its own to adjust, in an order in which no later key's own cell is among
//! an earlier key's k. The order is found backwards: a cell that only one key has, a *singleton*, is that key's own; it goes
//! last, is taken away, and leaves new singletons behind. With three cells per key in a table of 1.23 cells per key that
//! ends well nearly always; if not, the next seed is tried.
//!
//! - [`BloomierFilter`] is immutable: values are in the cells.
//! - [`MutableBloomierFilter`] has in the cells *which* of the k is the key's own, and the value in a second table there,
//!   where it can be changed. The set of keys cannot.
//!
//! Both ask for more than the value: the check bits above it have to come out as zero, which is as likely as not for each
//! of them if the key is not one of the set. That takes the mask: without it, a key whose cells are all empty would
//! always come out as zero.

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
