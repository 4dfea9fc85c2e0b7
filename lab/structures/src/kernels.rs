//! Lookups in ribbon maps: dispatch, and the portable code that defines the result.

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::map::MapBits;
use crate::ribbon::{BLOCK_SLOTS, Layer, LayerView, check};
use bruit_filters::Fingerprint;
use bruit_filters::internal::{IN_FLIGHT, Path};

/// The result of a lookup. It is computed without a branch, because the branch would be unpredictable.
pub(crate) trait Answer {
    /// Returns the result for a key that was found with this value, or for a key that was not found.
    fn of(is_found: bool, value: u32) -> Self;
}

impl Answer for Option<u32> {
    #[inline(always)]
    fn of(is_found: bool, value: u32) -> Self {
        is_found.then_some(value)
    }
}

impl Answer for bool {
    #[inline(always)]
    fn of(is_found: bool, _: u32) -> Self {
        is_found
    }
}

/// Returns the result for `key`. `word` is the sum of the key's slots.
#[inline(always)]
fn answer_of<A: Answer>(bits: MapBits, key: &Fingerprint, word: u64) -> A {
    A::of(bits.is_checked(word, check(key)), bits.value_of(word))
}

/// Sets `answers[i]` to the answer for `keys[i]`.
#[expect(unsafe_code, reason = "calls code that needs AVX2")]
pub(crate) fn look_up<A: Answer>(path: Path, layers: &[Layer], bits: MapBits, keys: &[Fingerprint], answers: &mut [A]) {
    assert_eq!(keys.len(), answers.len(), "the slices differ in length");
    match path {
        Path::Portable => by_batches(layers, bits, keys, answers, word_at),
        // SAFETY: the path proves that the processor has AVX2.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { avx2::look_up(layers, bits, keys, answers) },
    }
}

/// Returns the answer for one key. Setting up a batch of one key would cost more than the lookup.
pub(crate) fn look_up_one(layers: &[Layer], bits: MapBits, key: &Fingerprint) -> Option<u32> {
    look_further(layers, key, word_at).and_then(|word| bits.value_in(word, check(key)))
}

/// The places of the keys in a batch.
#[derive(Clone, Copy)]
struct Places {
    /// Each key's start in the first layer, and its coefficients.
    places: [(u64, u64); IN_FLIGHT],
    /// One bit per key, set if the key was bumped to the next layer. It is computed without a branch, because the
    /// branch would be unpredictable.
    bumped: u64,
}

impl Places {
    const NONE: Self = Self { places: [(0, 0); IN_FLIGHT], bumped: 0 };

    /// Computes the places of `keys` and prefetches them.
    #[inline(always)]
    fn locate(&mut self, first: LayerView<'_>, second: Option<LayerView<'_>>, keys: &[Fingerprint]) {
        self.bumped = 0;
        for (i, (key, place)) in keys.iter().zip(&mut self.places).enumerate() {
            *place = first.place(key);
            first.fetch(place.0);
            self.bumped |= u64::from(first.is_bumped(place.0)) << i;
        }
        if let Some(second) = second {
            ones(self.bumped).for_each(|i| second.fetch(second.place(&keys[i]).0));
        }
    }
}

/// Returns the positions of the set bits.
#[inline(always)]
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        bit
    })
}

/// The loop that all paths share. It prefetches the next batch of keys while it processes the current one. `word_at`
/// takes a layer, a start and the coefficients, and returns the sum of the slots whose coefficient is 1.
#[inline(always)]
pub(super) fn by_batches<A: Answer>(
    layers: &[Layer],
    bits: MapBits,
    keys: &[Fingerprint],
    answers: &mut [A],
    word_at: impl Fn(LayerView<'_>, u64, u64) -> u64 + Copy,
) {
    let Some((first, others)) = layers.split_first() else { return answers.fill_with(|| A::of(false, 0)) };
    let (first, second) = (first.view(), others.first().map(Layer::view));
    let (mut here, mut next) = (&mut { Places::NONE }, &mut { Places::NONE });
    let mut batches = keys.chunks(IN_FLIGHT).zip(answers.chunks_mut(IN_FLIGHT)).peekable();
    if let Some((keys, _)) = batches.peek() {
        here.locate(first, second, keys);
    }
    while let Some((keys, answers)) = batches.next() {
        if let Some((keys, _)) = batches.peek() {
            next.locate(first, second, keys);
        }
        for ((key, answer), &(start, coefficients)) in keys.iter().zip(&mut *answers).zip(&here.places) {
            *answer = answer_of(bits, key, word_at(first, start, coefficients));
        }
        answer_bumped(here.bumped, others, bits, keys, answers, word_at);
        std::mem::swap(&mut here, &mut next);
    }
}

/// Corrects the answers for those keys of a batch that were bumped from the first layer. Bit i of `bumped` is set if
/// key i was bumped.
#[inline(always)]
fn answer_bumped<A: Answer>(
    bumped: u64,
    layers: &[Layer],
    bits: MapBits,
    keys: &[Fingerprint],
    answers: &mut [A],
    word_at: impl Fn(LayerView<'_>, u64, u64) -> u64 + Copy,
) {
    for i in ones(bumped) {
        let word = look_further(layers, &keys[i], word_at);
        answers[i] = word.map_or_else(|| A::of(false, 0), |word| answer_of(bits, &keys[i], word));
    }
}

/// Returns the sum of the slots of `key`, in the first layer that did not bump it.
#[inline(always)]
fn look_further(layers: &[Layer], key: &Fingerprint, word_at: impl Fn(LayerView<'_>, u64, u64) -> u64) -> Option<u64> {
    layers.iter().find_map(|layer| {
        let layer = layer.view();
        let (start, coefficients) = layer.place(key);
        (!layer.is_bumped(start)).then(|| word_at(layer, start, coefficients))
    })
}

/// Returns the coefficients, shifted to their positions in the block of `start` and in the next block.
#[inline(always)]
pub(super) const fn spread(start: u64, coefficients: u64) -> (u64, u64) {
    let shift = start % BLOCK_SLOTS;
    // Shift in two steps, because a shift by 64 would overflow.
    (coefficients << shift, coefficients >> 1 >> (63 - shift))
}

fn word_at(layer: LayerView<'_>, start: u64, coefficients: u64) -> u64 {
    let masks = spread(start, coefficients);
    let (first, second) = layer.blocks_at(start, layer.width());
    first.iter().zip(second).enumerate().fold(0, |word, (bit, (first, second))| {
        let sum = (first & masks.0) ^ (second & masks.1);
        word | u64::from(sum.count_ones() & 1) << bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ribbon::RibbonMap;
    use crate::test_keys;
    use bruit_filters::KeyId;

    #[test]
    fn every_path_gives_the_same_answers() {
        for width in 1..=64 {
            let bits = MapBits::new(width / 2, width - width / 2).unwrap();
            let entries = test_keys(0, 5000).into_iter().zip(0..).map(|(key, i)| (key, i & bits.value_max()));
            let map = RibbonMap::build(entries.collect(), bits, KeyId(0)).unwrap();
            let asked = test_keys(2500, 5000);
            let answers = [Path::Portable, Path::best()].map(|path| {
                let (mut values, mut found) = (vec![Some(77); asked.len()], vec![true; asked.len()]);
                look_up(path, map.layers(), bits, &asked, &mut values);
                look_up(path, map.layers(), bits, &asked, &mut found);
                let one_by_one = asked.iter().map(|key| look_up_one(map.layers(), bits, key));
                assert!(one_by_one.eq(values.iter().copied()));
                assert!(values.iter().zip(&found).all(|(value, &found)| value.is_some() == found));
                values
            });
            assert_eq!(answers[0], answers[1], "{width} bits");
        }
    }
}
