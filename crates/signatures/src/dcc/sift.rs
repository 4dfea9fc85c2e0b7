//! Branch-free filtering of bytes.

/// Copies the bytes of `text` that are `kept` to the start of `room`, and returns their number. `room` must be at least
/// as long as `text`.
///
/// Every byte is written. If it is not kept, the next byte overwrites it. In text, blanks are too frequent and too
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
