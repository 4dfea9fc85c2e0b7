//! Errors when building a map.

use super::{CHECK_BITS_MAX, KEYS_MAX, VALUE_BITS_MAX};
use bruit_filters::Fingerprint;

/// The reason why a map cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of value bits or check bits is out of range.
    #[error(
        "{value} value bits and {check} check bits are not possible: \
         expected at most {VALUE_BITS_MAX} and {CHECK_BITS_MAX}, and at least one bit in total"
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
    /// No valid number of check bits gives this rate.
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
        /// Two of the key's values.
        values: [u32; 2],
    },
    /// There are more keys than fit into a map.
    #[error("a map has at most {KEYS_MAX} keys, not {keys}")]
    TooManyKeys {
        /// Number of keys.
        keys: usize,
    },
    /// All seeds failed: the keys could not be ordered so that every key has its own cell.
    #[error("none of {tries} seeds gave a usable order of the keys")]
    NoOrder {
        /// Number of seeds tried.
        tries: u32,
    },
    /// Some keys were left after the last layer.
    #[error("{layers} layers are not enough to solve the equations of all keys")]
    NoSolution {
        /// Number of layers tried.
        layers: usize,
    },
}
