//! Decoded filter files encode to the same bytes, and can be used.
//!
//! Random bytes never have valid checksums, so the target corrects some fields. The first byte of the input selects
//! them.

use bruit_filters::FingerprintKey;
use bruit_filters::file::{
    self, FilterFile, HEADER_BYTES, HISTORY_ENTRY_BYTES, HISTORY_FRAME_BYTES, KEY_BYTES, SPILL_ENTRY_BYTES,
};

/// Maximum size of the arrays to decode.
const PAYLOAD_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn fuzz(input: &[u8]) {
    let Some((&wishes, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if bytes.len() >= HEADER_BYTES {
        fix_fields(&mut bytes, wishes);
    }
    let Ok(decoded) = file::decode(&mut &*bytes, PAYLOAD_BYTES_MAX) else { return };
    let mut again = Vec::new();
    decoded.write(&mut again).expect("a decoded file can be encoded");
    assert_eq!(again, bytes, "equal contents have equal bytes");
    work_with(decoded, &bytes);
}

/// Corrects the fields that the bits of `wishes` select. Bit 0 is for the checksums, bit 1 for the size (computed from
/// the length), bit 2 for the ID of the included key.
fn fix_fields(bytes: &mut [u8], wishes: u8) {
    let has_key = bytes[15] & 1 == 1 && bytes.len() >= HEADER_BYTES + KEY_BYTES;
    let history = if has_key { HEADER_BYTES + KEY_BYTES } else { HEADER_BYTES };
    let front = history + history_bytes(bytes, history);
    if wishes & 2 != 0 {
        let entries = u32::from_le_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]) as usize;
        let array = (bytes.len() - front).saturating_sub(entries.saturating_mul(SPILL_ENTRY_BYTES));
        let cells = array as u64 * 8 / u64::from(bytes[13].max(1));
        bytes[24..32].copy_from_slice(&cells.to_le_bytes());
    }
    if wishes & 4 != 0 && has_key {
        let key = bytes[HEADER_BYTES..history].try_into().expect("a key has 16 bytes");
        let key_id = FingerprintKey::new(key).id().0;
        bytes[32..40].copy_from_slice(&key_id.to_le_bytes());
    }
    if wishes & 1 != 0 {
        let array = crc32fast::hash(&bytes[front..]);
        bytes[56..60].copy_from_slice(&array.to_le_bytes());
        finish_history(&mut bytes[history..front], array);
        let header = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&header.to_le_bytes());
    }
}

/// Returns the length of the history section at `start`; 0 if the flags indicate no history, or if the history does not
/// fit.
fn history_bytes(bytes: &[u8], start: usize) -> usize {
    let Some(&[_, _, low, high]) = bytes[start..].first_chunk().filter(|_| bytes[15] & 2 != 0) else { return 0 };
    let length = HISTORY_FRAME_BYTES + usize::from(u16::from_le_bytes([low, high])) * HISTORY_ENTRY_BYTES;
    if length <= bytes.len() - start { length } else { 0 }
}

/// Corrects the checksums of a history. The checksum of an own origin is equal to `array`, the checksum of the array.
fn finish_history(history: &mut [u8], array: u32) {
    let Some(end) = history.len().checked_sub(4) else { return };
    if history[0] == 1 && end == 4 + HISTORY_ENTRY_BYTES {
        history[end - 4..end].copy_from_slice(&array.to_le_bytes());
    }
    let checksum = crc32fast::hash(&history[..end]);
    history[end..].copy_from_slice(&checksum.to_le_bytes());
}

/// Queries, merges and fills a filter with untrusted contents. These operations must not panic.
fn work_with(FilterFile { header, mut filter, .. }: FilterFile, bytes: &[u8]) {
    let key = FingerprintKey::new([1; 16]);
    let keys: Vec<_> = (0..64u8).map(|i| key.fingerprint(&[i])).collect();
    let (mut before, mut after) = ([0; 64], [0; 64]);
    filter.count_batch(&keys, &mut before);
    file::merge_from(&mut filter, header.generation, &mut &*bytes).expect("a filter can be merged with itself");
    filter.insert_batch(&keys);
    filter.count_batch(&keys, &mut after);
    assert!(before.iter().zip(&after).all(|(before, after)| before <= after && *after > 0), "no key is lost");
    let estimates = filter.estimates();
    assert!((0.0..=1.0).contains(&estimates.fill) && estimates.keys >= 0.0);
}
