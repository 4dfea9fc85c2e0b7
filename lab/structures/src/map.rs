//! Shared parts of this crate's maps: the bits of an answer, the keys and values to build from, and the files.
//!
//! A map returns the value of each key of a fixed set. It is hardly larger than the values themselves, because it does
//! not store the keys. For other keys it usually returns nothing. For one such key in 2^`check bits`, it returns a
//! value, which is a false positive. There are three kinds of maps:
//!
//! | map | bits per key | use |
//! |---|---|---|
//! | [`RibbonMap`] | 1.005 (value + check) | for publication: snapshots, and tables that never change |
//! | [`MutableBloomierFilter`] | 1.23 (value + check + 2) | for a fixed set of keys with values that change |
//! | [`BloomierFilter`] | 1.23 (value + check) | for study: the survey's construction, step by step |
//!
//! [`encode`] and [`decode`] convert the first two maps to and from bytes; `docs/design/map-files.md` specifies the
//! format.

mod bits;
mod codec;
mod entries;
mod error;
mod header;

pub use bits::{CHECK_BITS_MAX, MapBits, VALUE_BITS_MAX};
pub use codec::{MapFile, StoredMap, decode, encode, read_header};
pub(crate) use entries::distinct;
pub use entries::{Entry, KEYS_MAX};
pub use error::BuildError;
pub use header::{LAYER_BYTES, MAP_HEADER_BYTES, MAP_MAGIC, MAP_VERSION, MapHeader, MapKind};

#[cfg(doc)]
use crate::bloomier::{BloomierFilter, MutableBloomierFilter};
#[cfg(doc)]
use crate::ribbon::RibbonMap;
