//! Why a sizing question has no answer.

/// A sizing question without an answer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizingError {
    /// No number of cells gives this rate.
    #[error("the false-positive rate must lie strictly between 0 and 1, not be {rate}")]
    RateOutOfRange {
        /// What was asked for.
        rate: f64,
    },
    /// A rate below what fingerprints of 64 bits can tell apart.
    #[error("a rate of {rate:e} is out of reach: fingerprints alone make unknown keys known at {least:.1e}")]
    RateOutOfReach {
        /// What was asked for.
        rate: f64,
        /// Below this there is nothing for so many keys.
        least: f64,
    },
    /// A table cannot hold more than it has slots for, nor be empty and sized by it.
    #[error("the load must be more than 0 and at most 1, not {load}")]
    LoadOutOfRange {
        /// What was asked for.
        load: f64,
    },
    /// A cell width outside `1..=`[`CELL_BITS_MAX`](crate::counting::CELL_BITS_MAX).
    #[error("cells have 1 to {} bits, not {bits}", crate::counting::CELL_BITS_MAX)]
    CellBits {
        /// What was asked for.
        bits: u32,
    },
    /// Bits per key and the best k are undefined for an empty set.
    #[error("a plan needs at least one signature")]
    NoKeys,
    /// The budget holds not even the smallest filter of this layout.
    #[error("{bytes} bytes are too few: the smallest filter takes {bytes_min}")]
    TooSmall {
        /// The budget.
        bytes: u64,
        /// The least that would do.
        bytes_min: u64,
    },
    /// Above [`BYTES_MAX`](super::BYTES_MAX) cells could no longer be counted exactly.
    #[error("the filter would exceed 1 PiB")]
    TooLarge,
}

/// Refuses a rate that no filter has; not-a-number included.
pub(super) fn ensure_rate(rate: f64) -> Result<(), SizingError> {
    if rate > 0.0 && rate < 1.0 { Ok(()) } else { Err(SizingError::RateOutOfRange { rate }) }
}

/// Refuses the empty set.
pub(super) fn ensure_keys(keys: u64) -> Result<(), SizingError> {
    if keys > 0 { Ok(()) } else { Err(SizingError::NoKeys) }
}
