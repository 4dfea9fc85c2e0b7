//! The map: layers, from the large to the small.

use super::layer::{LAYERS_MAX, Layer, LayerShape};
use super::system::{Equation, solve};
use crate::hash::{MULTIPLIER_A, mix};
use crate::kernels::{self, Path};
use crate::map::{BuildError, Entry, MapBits, distinct};
use crate::{Fingerprint, KeyId};

/// A map, or with no value bits a set, that nobody changes, in 1.005 times the bits of its answers.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_filters::map::MapBits;
/// use bruit_filters::ribbon::RibbonMap;
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
/// # Ok::<(), bruit_filters::map::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RibbonMap {
    layers: Vec<Layer>,
    bits: MapBits,
    keys: u64,
    key_id: KeyId,
}

impl RibbonMap {
    /// The map of `entries`, whose fingerprints were made under the key named `key_id`.
    ///
    /// # Errors
    /// [`BuildError`]: a value that does not fit, a key with two values, too many keys.
    pub fn build(entries: Vec<Entry>, bits: MapBits, key_id: KeyId) -> Result<Self, BuildError> {
        let entries = distinct(entries, bits)?;
        let keys = entries.len() as u64;
        let equation = |(key, value)| Equation { key, word: bits.word(value, check(&key)) };
        let layers = solve_all(entries.into_iter().map(equation).collect(), bits)?;
        Ok(Self { layers, bits, keys, key_id })
    }

    /// The set of `keys`, with so many check bits.
    ///
    /// # Errors
    /// [`BuildError`]: no check bits, too many keys.
    pub fn set_of(keys: &[Fingerprint], check_bits: u32, key_id: KeyId) -> Result<Self, BuildError> {
        Self::build(keys.iter().map(|&key| (key, 0)).collect(), MapBits::new(0, check_bits)?, key_id)
    }

    /// A map whose layers are still to be filled.
    pub(crate) fn empty(shapes: &[LayerShape], bits: MapBits, keys: u64, key_id: KeyId) -> Self {
        Self { layers: shapes.iter().map(|&shape| Layer::empty(shape)).collect(), bits, keys, key_id }
    }

    /// The value of `key`; for a key that the map was not built with, nothing, but for false positives. Keys of a set have the
    /// value 0.
    #[must_use]
    pub fn get(&self, key: &Fingerprint) -> Option<u32> {
        kernels::ribbon::look_up_one(&self.layers, self.bits, key)
    }

    /// Writes to `values[i]` what [`get`](Self::get) says of `keys[i]`. Many at once is faster than one by one.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn get_batch(&self, keys: &[Fingerprint], values: &mut [Option<u32>]) {
        kernels::ribbon::look_up(Path::best(), &self.layers, self.bits, keys, values);
    }

    /// Whether `key` is one of the map's, but for false positives.
    #[must_use]
    pub fn contains(&self, key: &Fingerprint) -> bool {
        self.get(key).is_some()
    }

    /// Writes to `found[i]` whether `keys[i]` is one of the map's, but for false positives.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn contains_batch(&self, keys: &[Fingerprint], found: &mut [bool]) {
        kernels::ribbon::look_up(Path::best(), &self.layers, self.bits, keys, found);
    }

    /// How the bits of an answer are used.
    #[must_use]
    pub const fn bits(&self) -> MapBits {
        self.bits
    }

    /// How many keys it was built with.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.keys
    }

    /// The key under which the fingerprints were made.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Bits of all layers, with their thresholds.
    #[must_use]
    pub fn total_bits(&self) -> u64 {
        self.layers.iter().map(Layer::total_bits).sum()
    }

    /// How often a key that the map was not built with gets a value all the same.
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

/// What the check bits are taken from. It has to be no linear function of the coefficients, and to differ from the start.
#[inline(always)]
pub(crate) fn check(key: &Fingerprint) -> u64 {
    mix(key.high() ^ key.low().rotate_left(32), MULTIPLIER_A)
}

/// Layer after layer, until no equation is left.
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
    fn keys_of_equal_leading_halves_are_told_apart() {
        // All start at one place of the first layer, which has answers for 64 of them at most.
        for count in [40, 64, 65, 5000] {
            let key = |i| Fingerprint::new(7, crate::hash::finalise(i));
            let entries: Vec<_> = (0..count).map(|i| (key(i), i as u32 & 0xff)).collect();
            let map = RibbonMap::build(entries.clone(), MapBits::new(8, 8).unwrap(), KeyId(0)).unwrap();
            assert!(entries.iter().all(|(key, value)| map.get(key) == Some(*value)), "{count} keys");
        }
    }
}
