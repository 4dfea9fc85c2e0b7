//! Lower-case hexadecimal SHA-1 digests, which Razor and Pyzor hash again.

/// Returns the lower-case hexadecimal digits of a digest.
pub(super) fn hexadecimal(digest: &[u8; 20]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|at| {
        let byte = digest[at / 2];
        DIGITS[usize::from(if at % 2 == 0 { byte >> 4 } else { byte & 15 })]
    })
}
