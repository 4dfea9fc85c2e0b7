//! Errors of sizing functions.

/// The reason why a sizing function has no solution for its arguments.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizingError {
    /// The rate is outside (0, 1).
    #[error("the false-positive rate must be above 0 and below 1, not {rate}")]
    RateOutOfRange {
        /// Requested rate.
        rate: f64,
    },
    /// The rate is lower than fingerprints of 64 bits allow.
    #[error("the false-positive rate {rate:e} is too low: fingerprints of 64 bits allow at least {least:.1e}")]
    RateOutOfReach {
        /// Requested rate.
        rate: f64,
        /// Lowest rate for this number of keys.
        least: f64,
    },
    /// The load is outside (0, 1].
    #[error("the load must be above 0 and at most 1, not {load}")]
    LoadOutOfRange {
        /// Requested load.
        load: f64,
    },
    /// The cell width is outside `1..=`[`CELL_BITS_MAX`](crate::counting::CELL_BITS_MAX).
    #[error("cells have 1 to {} bits, not {bits}", crate::counting::CELL_BITS_MAX)]
    CellBits {
        /// Requested width.
        bits: u32,
    },
    /// There are no keys, so the bits per key and the best k are undefined.
    #[error("a plan needs at least one key")]
    NoKeys,
    /// The memory is too small for the smallest filter of this layout.
    #[error("{bytes} bytes are too few: the smallest filter needs {bytes_min}")]
    TooSmall {
        /// Requested memory.
        bytes: u64,
        /// Minimum memory.
        bytes_min: u64,
    },
    /// The filter would exceed [`BYTES_MAX`](super::BYTES_MAX); larger numbers of cells could not be computed exactly.
    #[error("the filter would exceed 1 PiB")]
    TooLarge,
}

/// Returns an error for a rate that is not in (0, 1), including NaN.
pub(super) fn ensure_rate(rate: f64) -> Result<(), SizingError> {
    if rate > 0.0 && rate < 1.0 { Ok(()) } else { Err(SizingError::RateOutOfRange { rate }) }
}

/// Returns an error if there are no keys.
pub(super) fn ensure_keys(keys: u64) -> Result<(), SizingError> {
    if keys > 0 { Ok(()) } else { Err(SizingError::NoKeys) }
}
