//! The size of an owner table, and its rate of false votes.
//!
//! A feature may be in either of two lines of 17 slots, and a slot matches if its eight check bits are equal. So on
//! average, a feature that was never stored matches 2 · 17 · load / 256 slots of random owners.

use super::error::{SizingError, ensure_keys};
use super::one_line::LINE_BYTES;
use super::plan::BYTES_MAX;
use crate::owners::SLOTS;

/// The design load of an owner table. Evictions of live owners' slots begin at a load of about 0.97.
pub const OWNER_LOAD: f64 = 0.95;

const LINES_PER_FEATURE: f64 = 2.0;
const CHECKS: f64 = 256.0;

/// Returns the size in bytes of an owner table for `owners` owners of `features` features each, filled to `load`. More
/// than [`OWNERS_LIVE_MAX`](crate::owners::OWNERS_LIVE_MAX) owners need several tables.
///
/// # Errors
/// [`SizingError`] if the load is outside (0, 1], if there are no features, or if the table exceeds a PiB.
pub fn owner_table_bytes(owners: u64, features: u64, load: f64) -> Result<u64, SizingError> {
    if !(load > 0.0 && load <= 1.0) {
        return Err(SizingError::LoadOutOfRange { load });
    }
    ensure_keys(owners.min(features))?;
    let lines = (owners as f64 * features as f64 / (load * SLOTS as f64)).ceil();
    // The number of lines is rounded up to an even number, because the two lines of a feature must differ.
    let bytes = (lines / 2.0).ceil() * 2.0 * LINE_BYTES as f64;
    if bytes <= BYTES_MAX as f64 { Ok(bytes as u64) } else { Err(SizingError::TooLarge) }
}

/// Returns the mean number of false votes for a feature that was never stored, in an owner table filled to `load`.
///
/// ```
/// use bruit_filters::sizing::false_votes;
///
/// assert!((false_votes(0.95) - 0.1262).abs() < 1e-4);
/// ```
#[must_use]
pub fn false_votes(load: f64) -> f64 {
    LINES_PER_FEATURE * SLOTS as f64 * load / CHECKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_of_48_features_takes_190_bytes() {
        let per_owner = |features| owner_table_bytes(1_000_000, features, OWNER_LOAD).unwrap() as f64 / 1e6;
        assert!((per_owner(48) - 190.22).abs() < 0.01, "{}", per_owner(48));
        assert!((per_owner(32) - 126.81).abs() < 0.01, "{}", per_owner(32));
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        for load in [0.0, -1.0, 1.01, f64::NAN] {
            assert!(matches!(owner_table_bytes(1, 1, load), Err(SizingError::LoadOutOfRange { .. })));
        }
        assert_eq!(owner_table_bytes(0, 48, 0.95), Err(SizingError::NoKeys));
        assert_eq!(owner_table_bytes(1, 0, 0.95), Err(SizingError::NoKeys));
        assert_eq!(owner_table_bytes(u64::MAX, u64::MAX, 0.95), Err(SizingError::TooLarge));
        assert_eq!(owner_table_bytes(1, 1, 1.0), Ok(128));
    }
}
