//! Look-ups in ribbon maps: dispatch, and the loop, which is compiled twice.

use super::{Path, pipelined};
use crate::Fingerprint;
use crate::ribbon::{BLOCK_SLOTS, Layer};

/// Calls `found` with the index and the word of every key that some layer has an answer for, in order.
#[expect(unsafe_code, reason = "enters code that needs AVX2")]
pub(crate) fn look_up(path: Path, layers: &[Layer], keys: &[Fingerprint], found: impl FnMut(usize, u64)) {
    match path {
        Path::Portable => look_up_by_any(layers, keys, found),
        // SAFETY: the path is proof that the processor has AVX2 and POPCNT.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { look_up_by_avx2(layers, keys, found) },
    }
}

/// The same loop with instructions that count bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn look_up_by_avx2(layers: &[Layer], keys: &[Fingerprint], found: impl FnMut(usize, u64)) {
    look_up_by_any(layers, keys, found);
}

#[inline(always)]
fn look_up_by_any(layers: &[Layer], keys: &[Fingerprint], mut found: impl FnMut(usize, u64)) {
    let Some((first, others)) = layers.split_first() else { return };
    let locate = |layer: &&Layer, key: &Fingerprint| layer.shape().place(key);
    let fetch = |layer: &&Layer, (start, _): (u64, u64)| layer.fetch(start);
    pipelined(first, keys, first.is_cached(), locate, fetch, |layer, i, key, (start, coefficients)| {
        if !layer.is_bumped(start) {
            found(i, word_at(layer, start, coefficients));
        } else if let Some(word) = look_further(others, key) {
            found(i, word);
        }
    });
}

/// The word of a key that was bumped from the first layer. The others are small, and few keys are there.
fn look_further(layers: &[Layer], key: &Fingerprint) -> Option<u64> {
    layers.iter().find_map(|layer| {
        let (start, coefficients) = layer.shape().place(key);
        (!layer.is_bumped(start)).then(|| word_at(layer, start, coefficients))
    })
}

/// The sum of the slots from `start` on that have a coefficient.
#[inline(always)]
fn word_at(layer: &Layer, start: u64, coefficients: u64) -> u64 {
    let shift = start % BLOCK_SLOTS;
    // In two steps, as a shift by 64 is none.
    let (in_first, in_second) = (coefficients << shift, coefficients >> 1 >> (63 - shift));
    let (first, second) = layer.blocks_at(start);
    let columns = first.iter().zip(second);
    columns.enumerate().fold(0, |word, (bit, (first, second))| {
        let sum = (first & in_first) ^ (second & in_second);
        word | u64::from(sum.count_ones() & 1) << bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyId;
    use crate::map::MapBits;
    use crate::ribbon::RibbonMap;
    use crate::test_keys;

    #[test]
    fn every_path_finds_the_same_words() {
        for width in [1, 8, 13, 64] {
            let bits = MapBits::new(width / 2, width - width / 2).unwrap();
            let entries = test_keys(0, 5000).into_iter().zip(0..).map(|(key, i)| (key, i & bits.value_max()));
            let map = RibbonMap::build(entries.collect(), bits, KeyId(0)).unwrap();
            let asked = test_keys(2500, 5000);
            let words = [Path::Portable, Path::best()].map(|path| {
                let mut words = Vec::new();
                look_up(path, map.layers(), &asked, |i, word| words.push((i, word)));
                words
            });
            assert_eq!(words[0], words[1], "{width} bits");
            assert_eq!(words[0].len(), asked.len());
        }
    }
}
