//! Decoded map files encode to the same bytes, and can be queried and changed.
//!
//! Random bytes never have valid checksums, so the target corrects some fields. The first byte of the input selects
//! them.

use bruit_filters::FingerprintKey;
use bruit_filters::file::KEY_BYTES;
use bruit_structures::map::{self, LAYER_BYTES, MAP_HEADER_BYTES, MapFile, StoredMap};

/// Maximum size of the tables to decode.
const PAYLOAD_BYTES_MAX: u64 = 1 << 20;
/// The kind of map that has a list of layers.
const KIND_RIBBON: u8 = 1;

pub(crate) fn fuzz(input: &[u8]) {
    let Some((&wishes, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if bytes.len() >= MAP_HEADER_BYTES {
        fix_fields(&mut bytes, wishes);
    }
    let Ok(decoded) = map::decode(&mut &*bytes, PAYLOAD_BYTES_MAX) else { return };
    let mut again = Vec::new();
    let header = map::encode(&decoded.map, decoded.key.as_ref(), &mut again).expect("a decoded map can be encoded");
    assert_eq!(again, bytes, "equal contents have equal bytes");
    assert_eq!(header, decoded.header);
    work_with(decoded);
}

/// Corrects the fields that the bits of `wishes` select. Bit 0 is for the checksums, bit 1 for the number of words
/// (computed from the length), bits 2 and 3 for the key ID. Bit 2 computes it as for a wide key, bit 3 as for a narrow
/// key.
fn fix_fields(bytes: &mut [u8], wishes: u8) {
    let has_key = bytes[15] & 1 == 1 && bytes.len() >= MAP_HEADER_BYTES + KEY_BYTES;
    let front = if has_key { MAP_HEADER_BYTES + KEY_BYTES } else { MAP_HEADER_BYTES };
    if wishes & 2 != 0 {
        let list = if bytes[10] == KIND_RIBBON { LAYER_BYTES * usize::from(bytes[14]) } else { 0 };
        let words = (bytes.len() - front).saturating_sub(list) as u64 / 8;
        bytes[40..48].copy_from_slice(&words.to_le_bytes());
    }
    if wishes & 12 != 0 && has_key {
        let key = bytes[MAP_HEADER_BYTES..front].try_into().expect("a key has 16 bytes");
        let key = if wishes & 8 != 0 { FingerprintKey::narrow(key) } else { FingerprintKey::new(key) };
        let key_id = key.id().0;
        bytes[32..40].copy_from_slice(&key_id.to_le_bytes());
    }
    if wishes & 1 != 0 {
        let contents = crc32fast::hash(&bytes[front..]);
        bytes[56..60].copy_from_slice(&contents.to_le_bytes());
        let header = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&header.to_le_bytes());
    }
}

/// Queries and changes a map with untrusted contents. These operations must not panic.
fn work_with(MapFile { map, .. }: MapFile) {
    let key = FingerprintKey::new([1; 16]);
    let keys: Vec<_> = (0..64u8).map(|i| key.fingerprint(&[i])).collect();
    let mut values = [None; 64];
    map.get_batch(&keys, &mut values);
    assert!(keys.iter().map(|key| map.get(key)).eq(values), "single and batch lookups agree");
    assert!(values.iter().flatten().all(|&value| value <= map.bits().value_max()));
    if let StoredMap::MutableBloomier(mut map) = map {
        for (key, value) in keys.iter().zip(values) {
            assert_eq!(map.set(key, 1), Ok(value.is_some()));
            assert_eq!(map.get(key), value.map(|_| 1));
        }
    }
}
