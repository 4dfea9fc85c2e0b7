//! razor64, the base64 variant in which the Razor protocol writes signatures.
//!
//! The alphabet is that of RFC 4648 §5 (`-` and `_`). The bits of every hex digit are written least significant bit
//! first. The last group of twelve bits is padded with zeros, and `=` is not used.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Number of bits per character.
const CHARACTER_BITS: usize = 6;
/// Number of bits per group of three hex digits.
const GROUP_BITS: usize = 12;

/// Encodes `bytes`.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(encoded_length(bytes.len()));
    let (mut waiting, mut waiting_bits) = (0u32, 0);
    for &byte in bytes {
        waiting = waiting << 8 | u32::from(mirror_digits(byte));
        waiting_bits += 8;
        while waiting_bits >= CHARACTER_BITS {
            waiting_bits -= CHARACTER_BITS;
            text.push(character(waiting >> waiting_bits));
        }
    }
    if waiting_bits > 0 {
        text.push(character(waiting << (CHARACTER_BITS - waiting_bits)));
    }
    while text.len() < encoded_length(bytes.len()) {
        text.push('A');
    }
    text
}

/// Returns the bytes for which [`encode`] returns exactly `text`, if there are such bytes.
pub(super) fn decode<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let mut places = bytes.iter_mut();
    let (mut waiting, mut waiting_bits) = (0u32, 0);
    for character in text.bytes().take(encoded_length(BYTES)) {
        waiting = waiting << CHARACTER_BITS | value(character)?;
        waiting_bits += CHARACTER_BITS;
        if waiting_bits >= 8 {
            waiting_bits -= 8;
            // Bits beyond the last byte are padding. The comparison below checks them.
            if let Some(place) = places.next() {
                *place = mirror_digits((waiting >> waiting_bits) as u8);
            }
        }
    }
    (encode(&bytes) == text).then_some(bytes)
}

/// Returns the number of characters that encode `bytes` bytes.
const fn encoded_length(bytes: usize) -> usize {
    (bytes * 8).div_ceil(GROUP_BITS) * (GROUP_BITS / CHARACTER_BITS)
}

/// Reverses the bits of both hex digits of a byte.
const fn mirror_digits(byte: u8) -> u8 {
    byte.reverse_bits().rotate_left(4)
}

/// Returns the character for the six lowest bits.
fn character(bits: u32) -> char {
    ALPHABET.get((bits & 63) as usize).map_or('A', |&character| char::from(character))
}

/// Returns the value of a character.
fn value(character: u8) -> Option<u32> {
    ALPHABET.iter().zip(0..).find(|&(&other, _)| other == character).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_are_written_least_significant_bit_first() {
        assert_eq!(encode(&[0xc0, 0xff, 0xee]), "MP93");
        assert_eq!(encode(&[0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]), "CEwqbhldO38A");
        assert_eq!(encode(&[0xff; 20]), "__________________________8A");
    }

    #[test]
    fn a_value_has_one_spelling() {
        assert_eq!(decode::<3>("MP93"), Some([0xc0, 0xff, 0xee]));
        assert_eq!(decode::<8>("CEwqbhldO38A"), Some([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]));
        for other in ["CEwqbhldO38B", "CEwqbhldO39A", "CEwqbhldO38", "CEwqbhldO38AA", "CEwqbhldO3+A", "", "CEwqbhldOé8"]
        {
            assert_eq!(decode::<8>(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn encoding_and_back_is_the_same(e4 in any::<[u8; 20]>(), e8 in any::<[u8; 8]>()) {
            prop_assert_eq!(decode(&encode(&e4)), Some(e4));
            prop_assert_eq!(decode(&encode(&e8)), Some(e8));
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "\\PC{0,40}") {
            if let Some(bytes) = decode::<8>(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
