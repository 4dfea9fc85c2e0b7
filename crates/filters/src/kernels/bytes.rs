//! Search for a byte among sixteen.
//!
//! With SSE2, which every x86-64 processor has, this search needs two instructions, but the compiler does not generate
//! them automatically.

/// Returns a mask in which bit i is set if byte i equals `byte`.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the compiler does not generate these instructions by itself")]
pub(crate) fn equal_to(bytes: [u8; 16], byte: u8) -> u32 {
    use std::arch::x86_64::*;
    let value = u128::from_le_bytes(bytes);
    // SAFETY: these intrinsics access no memory, and SSE2 is part of every x86-64.
    unsafe {
        let bytes = _mm_set_epi64x((value >> 64) as i64, value as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u32
    }
}

#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn equal_to(bytes: [u8; 16], byte: u8) -> u32 {
    equal_to_portable(bytes, byte)
}

#[inline(always)]
#[cfg(any(test, not(target_arch = "x86_64")))]
fn equal_to_portable(bytes: [u8; 16], byte: u8) -> u32 {
    (0..16).fold(0, |set, i| set | u32::from(bytes[i] == byte) << i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn both_forms_find_the_same_bytes() {
        for key in test_keys(0, 2000) {
            let word = u128::from(key.high()) << 64 | u128::from(key.low());
            let bytes = word.to_le_bytes().map(|byte| byte & 0x83);
            for byte in [0, 1, 2, 0x80, 0x83, 0xff] {
                assert_eq!(equal_to(bytes, byte), equal_to_portable(bytes, byte));
            }
        }
    }
}
