//! Lookups in ribbon maps: the parities of four columns at a time.

use std::arch::x86_64::*;

use crate::kernels::{Answer, by_batches, spread};
use crate::map::MapBits;
use crate::ribbon::{Layer, LayerView, PADDING_WORDS};
use bruit_filters::Fingerprint;

/// Number of columns per register. This many words may be read beyond the last column of the last block.
const COLUMNS: usize = PADDING_WORDS;

#[target_feature(enable = "avx2")]
pub(crate) fn look_up<A: Answer>(layers: &[Layer], bits: MapBits, keys: &[Fingerprint], answers: &mut [A]) {
    // If the number of registers is constant, the loop over them is unrolled.
    match (bits.total() as usize).div_ceil(COLUMNS) {
        1 => look_up_in::<1, A>(layers, bits, keys, answers),
        2 => look_up_in::<2, A>(layers, bits, keys, answers),
        3 => look_up_in::<3, A>(layers, bits, keys, answers),
        4 => look_up_in::<4, A>(layers, bits, keys, answers),
        _ => look_up_in::<ANY, A>(layers, bits, keys, answers),
    }
}

/// Stands for a number of registers that is not known at compile time.
const ANY: usize = 0;

#[target_feature(enable = "avx2")]
fn look_up_in<const REGISTERS: usize, A: Answer>(
    layers: &[Layer],
    bits: MapBits,
    keys: &[Fingerprint],
    answers: &mut [A],
) {
    by_batches(layers, bits, keys, answers, |layer, start, coefficients| {
        word_at::<REGISTERS>(layer, start, coefficients)
    });
}

#[inline]
#[target_feature(enable = "avx2")]
fn word_at<const REGISTERS: usize>(layer: LayerView<'_>, start: u64, coefficients: u64) -> u64 {
    let registers = if REGISTERS == ANY { layer.width().div_ceil(COLUMNS) } else { REGISTERS };
    let masks = spread(start, coefficients);
    let masks = (_mm256_set1_epi64x(masks.0 as i64), _mm256_set1_epi64x(masks.1 as i64));
    let (first, second) = layer.blocks_at(start, registers * COLUMNS);
    let mut word = 0;
    for (i, (first, second)) in first.as_chunks().0.iter().zip(second.as_chunks().0).enumerate() {
        let sums = _mm256_xor_si256(_mm256_and_si256(four(first), masks.0), _mm256_and_si256(four(second), masks.1));
        word |= four_parities(sums) << (i * COLUMNS);
    }
    // Clear the columns of other blocks in the last register.
    word & u64::MAX >> (64 - layer.width())
}

#[inline]
#[target_feature(enable = "avx2")]
fn four(words: &[u64; COLUMNS]) -> __m256i {
    let [a, b, c, d] = words.map(|word| word as i64);
    _mm256_setr_epi64x(a, b, c, d)
}

/// Returns the parities of four words in the low four bits.
#[inline]
#[target_feature(enable = "avx2")]
fn four_parities(words: __m256i) -> u64 {
    // The parity of a byte is that of the XOR of its two halves, and is looked up in a table of 16 entries. The sum of
    // a word's eight parities has the parity of the word in its lowest bit. That bit is moved to the sign bit, for the
    // mask.
    let odd = _mm256_setr_epi64x(PARITIES[0], PARITIES[1], PARITIES[0], PARITIES[1]);
    let halves = _mm256_xor_si256(words, _mm256_srli_epi64::<4>(words));
    let bytes = _mm256_shuffle_epi8(odd, _mm256_and_si256(halves, _mm256_set1_epi8(15)));
    let sums = _mm256_sad_epu8(bytes, _mm256_setzero_si256());
    let signs = _mm256_slli_epi64::<63>(sums);
    _mm256_movemask_pd(_mm256_castsi256_pd(signs)) as u64
}

/// Byte i is the parity of i, counted from the least significant byte of the first word.
const PARITIES: [i64; 2] = [0x0100_0001_0001_0100, 0x0001_0100_0100_0001];
