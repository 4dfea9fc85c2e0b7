//! The keys and values of a map to be built.

use super::{BuildError, MapBits};
use bruit_filters::Fingerprint;

/// Maximum number of keys in a map. Cells and slots have 32-bit numbers.
pub const KEYS_MAX: usize = 1 << 30;

/// A key and its value.
pub type Entry = (Fingerprint, u32);

/// Returns the distinct entries, sorted by key.
///
/// Two entries with the same key would give contradictory or redundant equations. This function therefore removes
/// duplicates and rejects keys with two values.
pub(crate) fn distinct(mut entries: Vec<Entry>, bits: MapBits) -> Result<Vec<Entry>, BuildError> {
    ensure_count(entries.len())?;
    if let Some(&(_, value)) = entries.iter().find(|(_, value)| *value > bits.value_max()) {
        return Err(BuildError::ValueTooLarge { value, bits: bits.value() });
    }
    entries.sort_unstable();
    entries.dedup();
    match entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(BuildError::Conflict { key: pair[0].0, values: [pair[0].1, pair[1].1] }),
        None => Ok(entries),
    }
}

const fn ensure_count(keys: usize) -> Result<(), BuildError> {
    if keys > KEYS_MAX { Err(BuildError::TooManyKeys { keys }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_entries_count_once_and_unequal_values_are_refused() {
        let [a, b] = [Fingerprint::new(1, 2), Fingerprint::new(1, 3)];
        let bits = MapBits::new(4, 4).unwrap();
        assert_eq!(distinct(vec![(b, 7), (a, 15), (b, 7)], bits), Ok(vec![(a, 15), (b, 7)]));
        let conflict = BuildError::Conflict { key: b, values: [6, 7] };
        assert_eq!(distinct(vec![(b, 7), (a, 1), (b, 6)], bits), Err(conflict));
    }

    #[test]
    fn values_and_keys_beyond_the_bounds_are_refused() {
        let bits = MapBits::new(4, 4).unwrap();
        let entries = vec![(Fingerprint::default(), 16)];
        assert_eq!(distinct(entries, bits), Err(BuildError::ValueTooLarge { value: 16, bits: 4 }));
        assert_eq!(ensure_count(KEYS_MAX), Ok(()));
        assert_eq!(ensure_count(KEYS_MAX + 1), Err(BuildError::TooManyKeys { keys: KEYS_MAX + 1 }));
    }
}
