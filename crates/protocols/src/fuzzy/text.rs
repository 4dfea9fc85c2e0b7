//! Text form of keys: 52 characters of base 32 in rspamd's alphabet, or 64 hex digits.
//!
//! The low bits come first, both in characters and in bytes. So the last character holds only one bit of the key.

/// Reason why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyTextError {
    /// The text is neither 52 nor 64 characters long.
    #[error("invalid key length {0}: expected {KEY_CHARACTERS} characters or {HEX_DIGITS} hex digits")]
    Length(usize),
    /// A character is not in the alphabet.
    #[error("invalid character {0:?} in key")]
    Character(char),
    /// The text encodes more than 256 bits.
    #[error("invalid last character of key: expected y or b, because it holds only one bit")]
    TooLarge,
}

/// Number of characters of a key in base 32.
pub(super) const KEY_CHARACTERS: usize = 52;

/// Number of digits of a key in hexadecimal.
const HEX_DIGITS: usize = 64;

/// rspamd's base 32 digits, from 0 to 31.
const ALPHABET: &[u8; 32] = b"ybndrfg8ejkmcpqxot1uwisza345h769";

/// Encodes a key in base 32.
pub(super) fn encode(key: &[u8; 32]) -> String {
    let mut text = String::with_capacity(KEY_CHARACTERS);
    let (mut bits, mut count) = (0_u32, 0);
    for &byte in key {
        bits |= u32::from(byte) << count;
        count += 8;
        while count >= 5 {
            text.push(character(bits & 31));
            (bits, count) = (bits >> 5, count - 5);
        }
    }
    text.push(character(bits));
    text
}

fn character(digit: u32) -> char {
    ALPHABET.get(digit as usize).map_or('y', |&character| char::from(character))
}

/// Decodes a key in base 32 or hexadecimal, distinguished by length.
pub(super) fn decode(text: &str) -> Result<[u8; 32], KeyTextError> {
    match text.len() {
        KEY_CHARACTERS => decode_base32(text),
        HEX_DIGITS => decode_hex(text),
        other => Err(KeyTextError::Length(other)),
    }
}

fn decode_base32(text: &str) -> Result<[u8; 32], KeyTextError> {
    let mut key = [0; 32];
    let mut bytes = key.iter_mut();
    let (mut bits, mut count) = (0_u32, 0);
    for character in text.chars() {
        let digit = ALPHABET.iter().position(|&known| char::from(known) == character);
        bits |= (digit.ok_or(KeyTextError::Character(character))? as u32) << count;
        count += 5;
        if count >= 8 {
            bytes.next().into_iter().for_each(|byte| *byte = bits as u8);
            (bits, count) = (bits >> 8, count - 8);
        }
    }
    // 52 characters encode 260 bits, but a key has 256. The last four must be zero.
    if bits == 0 { Ok(key) } else { Err(KeyTextError::TooLarge) }
}

fn decode_hex(text: &str) -> Result<[u8; 32], KeyTextError> {
    let mut key = [0; 32];
    let mut digits = text.chars().map(|character| character.to_digit(16).ok_or(KeyTextError::Character(character)));
    for byte in &mut key {
        for digit in digits.by_ref().take(2) {
            *byte = *byte << 4 | digit? as u8;
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "diwhu69wtbehuj3zfjuq9iytk9ya5eekgrbx58hukea5zfdb63ty";

    #[test]
    fn a_key_of_rspamd_is_read_and_written() {
        let key = decode(TEXT).unwrap();
        // The key ID must be the one in the requests that were recorded with this key.
        assert_eq!(key[..8], [0xa3, 0x52, 0x3e, 0xfd, 0xa7, 0x31, 0x20, 0x3e]);
        assert_eq!(encode(&key), TEXT);
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(decode(&hex), Ok(key));
        assert_eq!(decode(&hex.to_uppercase()), Ok(key));
    }

    #[test]
    fn the_last_character_has_one_bit() {
        let with_last = |last: char| format!("{}{last}", &TEXT[..KEY_CHARACTERS - 1]);
        assert_eq!(decode(&with_last('b')).map(|key| key[31] >> 7), Ok(1));
        assert_eq!(decode(&with_last('n')), Err(KeyTextError::TooLarge));
        assert_eq!(encode(&[0xff; 32]), format!("{}b", "9".repeat(51)));
    }

    #[test]
    fn other_texts_are_no_keys() {
        assert_eq!(decode(""), Err(KeyTextError::Length(0)));
        assert_eq!(decode(&TEXT[1..]), Err(KeyTextError::Length(51)));
        assert_eq!(decode(&format!("{TEXT}y")), Err(KeyTextError::Length(53)));
        assert_eq!(decode(&TEXT.to_uppercase()), Err(KeyTextError::Character('D')));
        assert_eq!(decode(&"g".repeat(64)), Err(KeyTextError::Character('g')));
        // This text has the same length in bytes, but fewer characters.
        assert_eq!(decode(&"é".repeat(26)), Err(KeyTextError::Character('é')));
        assert_eq!(decode(&"é".repeat(32)), Err(KeyTextError::Character('é')));
    }
}
