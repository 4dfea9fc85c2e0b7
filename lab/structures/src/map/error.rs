//! Errors when building a map.

use super::{CHECK_BITS_MAX, KEYS_MAX, VALUE_BITS_MAX};
use bruit_filters::Fingerprint;

/// The reason why a map cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The numbers of bits are out of range.
    #[error(
        "a map has at most {VALUE_BITS_MAX} value bits, at most {CHECK_BITS_MAX} check bits and at least one bit in total, not {value} and {check}"
    )]
    Bits {
        /// Requested value bits.
        value: u32,
        /// Requested check bits.
        check: u32,
    },
    /// A map with changeable values needs value bits.
    #[error("a map with changeable values needs at least one value bit")]
    NoValueBits,
    /// No valid number of check bits yields the rate.
    #[error("the false-positive rate must be between 2^-{CHECK_BITS_MAX} (2.33e-10) and 1, not {rate:e}")]
    Rate {
        /// Requested rate.
        rate: f64,
    },
    /// A value does not fit.
    #[error("the value {value} does not fit in {bits} bits")]
    ValueTooLarge {
        /// The value.
        value: u32,
        /// Number of value bits.
        bits: u32,
    },
    /// A key has two values.
    #[error("a key has two values, {} and {}", .values[0], .values[1])]
    Conflict {
        /// The key.
        key: Fingerprint,
        /// Two of its values.
        values: [u32; 2],
    },
    /// There are more keys than a map can have.
    #[error("a map has at most {KEYS_MAX} keys, not {keys}")]
    TooManyKeys {
        /// Number of keys.
        keys: usize,
    },
    /// All seeds failed: the keys could not be ordered so that every key has its own cell.
    #[error("the keys cannot be ordered with any of {tries} seeds")]
    NoOrder {
        /// Number of seeds tried.
        tries: u32,
    },
    /// Keys remained after the last layer.
    #[error("the equations of the keys have no solution in {layers} layers")]
    NoSolution {
        /// Number of layers tried.
        layers: usize,
    },
}
