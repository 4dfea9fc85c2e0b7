//! Merging of cell arrays by saturating addition, which for cells of one bit is OR.
//!
//! These are plain loops that the compiler vectorises, with AVX2 if the processor supports it. Some loops treat the
//! words as bytes or halfwords. The result does not depend on the byte order: each byte or halfword consists of whole
//! cells, and is added to the byte or halfword of the same cells. Both arrays are prefetched, because hardware
//! prefetching alone reaches only 85 % of the speed.

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::{Path, prefetch};

/// A function that adds the cells of a source to those of a target, word by word.
pub(crate) type AddWords = fn(&mut [u64], &[u64]);

/// Number of words per step. Sources are read once and the target is written once, in steps that fit in the first-level
/// cache.
pub(crate) const STEP_WORDS: usize = 1024;

/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// Number of lines to prefetch ahead.
const LINES_AHEAD: usize = 32;

/// Returns a function that adds cells of `bits` bits, many at a time; `None` if cells of that width straddle words.
pub(crate) fn whole_words(bits: u32) -> Option<AddWords> {
    match bits {
        1 => Some(|target, source| add_all(target, source, |a: u64, b| a | b)),
        2 => Some(|target, source| add_all(target, source, add_pairs)),
        4 => Some(|target, source| add_all(target, source, add_nibbles)),
        8 => Some(|target, source| add_all(target, source, u8::saturating_add)),
        16 => Some(|target, source| add_all(target, source, u16::saturating_add)),
        _ => None,
    }
}

/// Adds all sources to the target in one pass over it.
pub(crate) fn add_sources(target: &mut [u64], sources: &[&[u64]], add_words: AddWords) {
    for (step, target) in target.chunks_mut(STEP_WORDS).enumerate() {
        let start = step * STEP_WORDS;
        for source in sources {
            add_words(target, &source[start..start + target.len()]);
        }
    }
}

#[expect(unsafe_code, reason = "calls code that needs AVX2")]
fn add_all<T: Pod>(target: &mut [u64], source: &[u64], add: impl Fn(T, T) -> T + Copy) {
    match Path::best() {
        Path::Portable => add_lines(target, source, add),
        // SAFETY: the path proves that the processor has AVX2.
        #[cfg(target_arch = "x86_64")]
        Path::Avx2(_) => unsafe { add_lines_avx2(target, source, add) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_lines_avx2<T: Pod>(target: &mut [u64], source: &[u64], add: impl Fn(T, T) -> T + Copy) {
    add_lines(target, source, add);
}

#[inline(always)]
fn add_lines<T: Pod>(target: &mut [u64], source: &[u64], add: impl Fn(T, T) -> T + Copy) {
    let (target_lines, target_rest) = target.as_chunks_mut::<LINE_WORDS>();
    let (source_lines, source_rest) = source.as_chunks::<LINE_WORDS>();
    for (target, source) in target_lines.iter_mut().zip(source_lines) {
        prefetch(std::ptr::from_ref(target).wrapping_add(LINES_AHEAD));
        prefetch(std::ptr::from_ref(source).wrapping_add(LINES_AHEAD));
        zip_with(cast_slice_mut(target), cast_slice(source), add);
    }
    zip_with(cast_slice_mut(target_rest), cast_slice(source_rest), add);
}

#[inline(always)]
fn zip_with<T: Copy>(target: &mut [T], source: &[T], add: impl Fn(T, T) -> T) {
    for (target, &source) in target.iter_mut().zip(source) {
        *target = add(*target, source);
    }
}

/// Adds 32 cells of two bits.
#[inline(always)]
fn add_pairs(a: u64, b: u64) -> u64 {
    const LOW: u64 = 0x5555_5555_5555_5555;
    // One full adder for all low bits and one for all high bits. If the second adder carries, both bits of the cell are
    // set.
    let carry_low = a & b & LOW;
    let low = (a ^ b) & LOW;
    let (a_high, b_high) = (a >> 1 & LOW, b >> 1 & LOW);
    let high = a_high ^ b_high ^ carry_low;
    let overflow = a_high & b_high | carry_low & (a_high | b_high);
    (high | overflow) << 1 | low | overflow
}

/// Adds two cells of four bits.
#[inline(always)]
fn add_nibbles(a: u8, b: u8) -> u8 {
    // The low nibble of `a` cannot carry into the high one, because zero is added to it.
    let high = a.saturating_add(b & 0xf0) & 0xf0;
    let low = ((a & 0x0f) + (b & 0x0f)).min(0x0f);
    high | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_cells_add_without_touching_their_neighbours() {
        for bits in [1, 2, 4] {
            let add = whole_words(bits).unwrap();
            let top = (1 << bits) - 1;
            for (a, b) in (0..=top).flat_map(|a| (0..=top).map(move |b| (a, b))) {
                for shift in (0..64).step_by(bits as usize) {
                    let mut target = [a << shift];
                    add(&mut target, &[b << shift]);
                    assert_eq!(target, [(a + b).min(top) << shift], "{a} + {b} in {bits} bits at {shift}");
                }
            }
        }
    }

    #[test]
    fn every_path_adds_the_same() {
        let words = |seed: u64| -> Vec<u64> { (1..1000).map(|i| seed.wrapping_mul(i).rotate_left(i as u32)).collect() };
        let (a, b) = (words(0x9e37_79b9_7f4a_7c15), words(0xd6e8_feb8_6659_fd93));
        for bits in [1, 2, 4, 8, 16] {
            let (mut fast, mut plain) = (a.clone(), a.clone());
            whole_words(bits).unwrap()(&mut fast, &b);
            match bits {
                1 => add_lines(&mut plain, &b, |a: u64, b| a | b),
                2 => add_lines(&mut plain, &b, add_pairs),
                4 => add_lines(&mut plain, &b, add_nibbles),
                8 => add_lines(&mut plain, &b, u8::saturating_add),
                _ => add_lines(&mut plain, &b, u16::saturating_add),
            }
            assert_eq!(fast, plain, "{bits} bits");
        }
    }

    #[test]
    fn widths_that_straddle_words_have_no_whole_word_form() {
        let aligned: Vec<u32> = (0..=17).filter(|&bits| whole_words(bits).is_some()).collect();
        assert_eq!(aligned, [1, 2, 4, 8, 16]);
    }
}
