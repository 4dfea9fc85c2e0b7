//! What the maps of this crate share: the bits of an answer, the keys and values they are built from, and their files.
//!
//! A map gives each key of a fixed set its value, in little more than the bits of the value, because it does not hold the
//! keys. For another key it gives nothing, or, once in 2^`check bits`, some value: a false positive. There are three:
//!
//! | map | bits per key | for |
//! |---|---|---|
//! | [`RibbonMap`] | 1.005 (value + check) | what is published: snapshots, and tables that nobody changes |
//! | [`MutableBloomierFilter`] | 1.23 (value + check + 2) | values that change while the keys stay |
//! | [`BloomierFilter`] | 1.23 (value + check) | study: the survey's construction, step by step |
//!
//! [`encode`] and [`decode`] are the bytes of the first two: `docs/design/map-files.md`.

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
