//! Why a map cannot be built.

use super::{CHECK_BITS_MAX, KEYS_MAX, VALUE_BITS_MAX};
use crate::Fingerprint;

/// Why a map cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There are no such maps.
    #[error(
        "a map has up to {VALUE_BITS_MAX} value bits and up to {CHECK_BITS_MAX} check bits, and one of either at least, not {value} and {check}"
    )]
    Bits {
        /// Value bits asked for.
        value: u32,
        /// Check bits asked for.
        check: u32,
    },
    /// A map whose values can be changed has values.
    #[error("without bits for values there are no values to change")]
    NoValueBits,
    /// No number of check bits has such a rate.
    #[error("a false-positive rate lies between 2^-{CHECK_BITS_MAX} (2.33e-10) and 1, and is not {rate:e}")]
    Rate {
        /// The rate asked for.
        rate: f64,
    },
    /// A value does not fit.
    #[error("the value {value} takes more than {bits} bits")]
    ValueTooLarge {
        /// Which.
        value: u32,
        /// What there is for it.
        bits: u32,
    },
    /// A key cannot have two values.
    #[error("one key has two values, {} and {}", .values[0], .values[1])]
    Conflict {
        /// The key.
        key: Fingerprint,
        /// Two of its values.
        values: [u32; 2],
    },
    /// More keys than a map takes.
    #[error("{keys} keys are more than the {KEYS_MAX} of a map")]
    TooManyKeys {
        /// How many.
        keys: usize,
    },
    /// No seed gave an order in which every key has a cell of its own.
    #[error("no order of the keys was found, with {tries} seeds")]
    NoOrder {
        /// How many seeds were tried.
        tries: u32,
    },
    /// The last layer had keys left over.
    #[error("the equations of the keys have no solution in {layers} layers")]
    NoSolution {
        /// How many layers were tried.
        layers: usize,
    },
}
