//! The map: a list of layers, from the largest to the smallest.

use super::layer::{LAYERS_MAX, Layer, LayerShape};
use super::system::{Equation, solve};
use crate::kernels;
use crate::map::{BuildError, Entry, MapBits, distinct};
use bruit_filters::internal::Path;
use bruit_filters::internal::{MULTIPLIER_A, mix};
use bruit_filters::{Fingerprint, KeyId};

/// An immutable map. Its size is 1.005 times the bits of its answers. Without value bits, the map is a set.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_structures::map::MapBits;
/// use bruit_structures::ribbon::RibbonMap;
///
/// let key = FingerprintKey::new([1; 16]);
/// let keys: Vec<_> = (0..100_000u32).map(|i| key.fingerprint(&i.to_le_bytes())).collect();
/// let entries = keys.iter().zip(0..).map(|(&key, i)| (key, i % 256)).collect();
/// let map = RibbonMap::build(entries, MapBits::new(8, 8)?, key.id())?;
/// assert!(map.total_bits() < 16 * 100_000 * 102 / 100);
///
/// let mut values = vec![None; keys.len()];
/// map.get_batch(&keys, &mut values);
/// assert!(values.iter().zip(0..).all(|(&value, i)| value == Some(i % 256)));
/// # Ok::<(), bruit_structures::map::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RibbonMap {
    layers: Vec<Layer>,
    bits: MapBits,
    keys: u64,
    key_id: KeyId,
}

impl RibbonMap {
    /// Builds the map of `entries`, whose fingerprints were computed with the key whose ID is `key_id`.
    ///
    /// # Errors
    /// [`BuildError`] if a value does not fit, a key has two values, or there are too many keys.
    pub fn build(entries: Vec<Entry>, bits: MapBits, key_id: KeyId) -> Result<Self, BuildError> {
        let entries = distinct(entries, bits)?;
        let keys = entries.len() as u64;
        let equation = |(key, value)| Equation { key, word: bits.word(value, check(&key)) };
        let layers = solve_all(entries.into_iter().map(equation).collect(), bits)?;
        Ok(Self { layers, bits, keys, key_id })
    }

    /// Builds the set of `keys` with this number of check bits.
    ///
    /// # Errors
    /// [`BuildError`] if there are no check bits, or there are too many keys.
    pub fn set_of(keys: &[Fingerprint], check_bits: u32, key_id: KeyId) -> Result<Self, BuildError> {
        Self::build(keys.iter().map(|&key| (key, 0)).collect(), MapBits::new(0, check_bits)?, key_id)
    }

    /// Creates a map with empty layers.
    pub(crate) fn empty(shapes: &[LayerShape], bits: MapBits, keys: u64, key_id: KeyId) -> Self {
        Self { layers: shapes.iter().map(|&shape| Layer::empty(shape)).collect(), bits, keys, key_id }
    }

    /// Returns the value of `key`, which is 0 in a set. For a key that is not in the map, returns `None`, or any value
    /// if the key is a false positive.
    #[must_use]
    pub fn get(&self, key: &Fingerprint) -> Option<u32> {
        kernels::look_up_one(&self.layers, self.bits, key)
    }

    /// Sets `values[i]` to the value of `keys[i]`. Faster than calling [`get`](Self::get) for each key.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn get_batch(&self, keys: &[Fingerprint], values: &mut [Option<u32>]) {
        kernels::look_up(Path::best(), &self.layers, self.bits, keys, values);
    }

    /// Returns true if `key` is in the map or is a false positive.
    #[must_use]
    pub fn contains(&self, key: &Fingerprint) -> bool {
        self.get(key).is_some()
    }

    /// Sets `found[i]` to true if `keys[i]` is in the map or is a false positive, and to false otherwise.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn contains_batch(&self, keys: &[Fingerprint], found: &mut [bool]) {
        kernels::look_up(Path::best(), &self.layers, self.bits, keys, found);
    }

    /// Returns how the bits of an answer are divided into value bits and check bits.
    #[must_use]
    pub const fn bits(&self) -> MapBits {
        self.bits
    }

    /// Returns the number of keys.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the ID of the key that the fingerprints were computed with.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Returns the size of all layers in bits, including their thresholds.
    #[must_use]
    pub fn total_bits(&self) -> u64 {
        self.layers.iter().map(Layer::total_bits).sum()
    }

    /// Returns the probability that a key outside the map has a value.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        if self.keys == 0 { 0.0 } else { self.bits.false_positive_rate() }
    }

    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    pub(crate) fn layers_mut(&mut self) -> &mut [Layer] {
        &mut self.layers
    }
}

/// Returns the word whose leading bits are the check bits. These bits must not determine the start as well, and must
/// not be a linear function of the coefficients.
#[inline(always)]
pub(crate) fn check(key: &Fingerprint) -> u64 {
    mix(key.high() ^ key.low().rotate_left(32), MULTIPLIER_A)
}

/// Solves one layer after another, until no equation is left.
fn solve_all(mut equations: Vec<Equation>, bits: MapBits) -> Result<Vec<Layer>, BuildError> {
    let mut layers = Vec::new();
    while !equations.is_empty() {
        if layers.len() == LAYERS_MAX {
            return Err(BuildError::NoSolution { layers: LAYERS_MAX });
        }
        let shape = LayerShape::for_keys(equations.len(), bits.total(), layers.len() as u32);
        layers.push(solve(&mut equations, shape));
        equations.shrink_to_fit();
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn equations_that_contradict_each_other_are_given_up_at_the_last_layer() {
        let key = test_keys(0, 1)[0];
        let bits = MapBits::new(8, 0).unwrap();
        let solved = |words: [u64; 2]| solve_all(words.map(|word| Equation { key, word }).to_vec(), bits).map(drop);
        assert_eq!(solved([7, 7]), Ok(()));
        assert_eq!(solved([7, 8]), Err(BuildError::NoSolution { layers: LAYERS_MAX }));
    }

    #[test]
    fn keys_with_equal_leading_halves_are_distinguished() {
        // All keys have the same start in the first layer, which has room for at most 64 of them.
        for count in [40, 64, 65, 5000] {
            let key = |i| Fingerprint::new(7, bruit_filters::internal::finalise(i));
            let entries: Vec<_> = (0..count).map(|i| (key(i), i as u32 & 0xff)).collect();
            let map = RibbonMap::build(entries.clone(), MapBits::new(8, 8).unwrap(), KeyId(0)).unwrap();
            assert!(entries.iter().all(|(key, value)| map.get(key) == Some(*value)), "{count} keys");
        }
    }
}
