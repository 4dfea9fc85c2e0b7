//! The inner loops in AVX2. Each loop is tested against its portable version.

pub(super) mod counts;
pub(super) mod membership;
pub(super) mod ring;

use std::arch::x86_64::*;

use crate::lines::Line;

/// The two halves of a line.
type Halves = (__m256i, __m256i);

#[inline]
#[target_feature(enable = "avx2")]
#[expect(unsafe_code, reason = "a whole-line load")]
fn load(line: &Line) -> Halves {
    let half = std::ptr::from_ref(line).cast::<__m256i>();
    // SAFETY: a line is 64 bytes, aligned to 64, and borrowed.
    unsafe { (_mm256_load_si256(half), _mm256_load_si256(half.add(1))) }
}

#[inline]
#[target_feature(enable = "avx2")]
#[expect(unsafe_code, reason = "a whole-line store")]
fn store(line: &mut Line, (low, high): Halves) {
    let half = std::ptr::from_mut(line).cast::<__m256i>();
    // SAFETY: a line is 64 bytes, aligned to 64, and exclusively borrowed.
    unsafe {
        _mm256_store_si256(half, low);
        _mm256_store_si256(half.add(1), high);
    }
}

/// Loads sixteen bytes into a register.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes(values: [u8; 16]) -> __m128i {
    let value = u128::from_le_bytes(values);
    _mm_set_epi64x((value >> 64) as i64, value as i64)
}
