//! Branch-free filtering of bytes.

/// Copies the bytes of `text` that are `kept` to the start of `room`, which must be large enough for all, and returns
/// their number.
///
/// Every byte is written, and the next byte overwrites it if it is not kept. In text, blanks are too frequent and too
/// irregular for a branch per byte.
pub(super) fn sift(text: &[u8], room: &mut [u8], kept: impl Fn(&u8) -> bool) -> usize {
    let mut length = 0;
    for byte in text {
        if let Some(place) = room.get_mut(length) {
            *place = *byte;
        }
        length += usize::from(kept(byte));
    }
    length
}
