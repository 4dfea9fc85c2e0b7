//! Bytes that count, out of those that do not.

/// Copies the bytes of `text` that are `kept` to the start of `room`, which has room for all, and tells how many those are.
///
/// Every byte is written, and the next overwrites one that does not count: in text, blanks come too often and too irregularly
/// for a branch at each.
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
