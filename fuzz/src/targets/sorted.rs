//! Bytes are accepted only if they are the one valid encoding of a set. Encoding and decoding a set does not change it.

use bruit_filters::sorted::{decode_sorted, encode_sorted};

pub(crate) fn fuzz(input: &[u8]) {
    if let Ok((highs, rest)) = decode_sorted(input, usize::MAX) {
        assert!(highs.is_sorted_by(|a, b| a < b), "a set is in ascending order");
        assert!(encoded(&highs) == input[..input.len() - rest.len()], "a set has one encoding");
    }
    let mut highs: Vec<u64> = input.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    highs.sort_unstable();
    highs.dedup();
    let bytes = encoded(&highs);
    assert!(decode_sorted(&bytes, highs.len()).expect("an encoded set can be decoded").0 == highs);
    assert!(decode_sorted(&bytes[..bytes.len() - 1], highs.len()).is_err(), "truncated");
}

fn encoded(highs: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_sorted(highs, &mut bytes);
    bytes
}
