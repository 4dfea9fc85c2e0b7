//! Sets of narrow fingerprints in bytes, sorted.

/// Bytes that are no sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no sorted set of fingerprints")]
pub struct NotSorted;

/// Appends a set: its size, and the leading halves of its fingerprints in ascending order.
pub fn encode_sorted(highs: &[u64], out: &mut Vec<u8>) {
    out.extend((highs.len() as u32).to_le_bytes());
    highs.iter().for_each(|high| out.extend(high.to_le_bytes()));
}

/// Reads a set of at most `count_max` fingerprints; what follows it is the rest.
///
/// # Errors
/// [`NotSorted`] for anything that [`encode_sorted`] does not write.
pub fn decode_sorted(bytes: &[u8], count_max: usize) -> Result<(Vec<u64>, &[u8]), NotSorted> {
    let (count, rest) = bytes.split_first_chunk().ok_or(NotSorted)?;
    let count = u32::from_le_bytes(*count) as usize;
    let (body, rest) = rest.split_at_checked(count.saturating_mul(8)).ok_or(NotSorted)?;
    let highs: Vec<_> = body.as_chunks().0.iter().map(|high| u64::from_le_bytes(*high)).collect();
    let is_sorted = count <= count_max && highs.windows(2).all(|pair| pair[0] < pair[1]);
    if is_sorted { Ok((highs, rest)) } else { Err(NotSorted) }
}
