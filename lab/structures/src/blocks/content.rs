//! A fast keyed hash of block contents. It reads every byte only once, for any number of levels and digests.
//!
//! A block is hashed with NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway, CRYPTO 1999). NH adds a secret word to
//! each word of the block, multiplies the words in pairs, and adds the products. The sum is then reduced by
//! multiply-shift with other secret words (Dietzfelbinger, STACS 1996). Multiply-shift also computes the hash of a
//! doubled block from the hashes of its halves. Both hashes are universal: two different contents chosen without
//! knowledge of the key have the same hash with a probability of at most 2^-63. A filter does not reveal hashes, so a
//! universal hash is sufficient. This hash takes a tenth of the time of SipHash.

use super::shape::BLOCK_BYTES_MAX;
use bruit_filters::FingerprintKey;

/// Number of key words for the longest block.
const BLOCK_WORDS: usize = BLOCK_BYTES_MAX as usize / 8;

/// Each key word is derived from this label and the number of the word. The label must not change, because recorded
/// pages depend on it.
const LABEL: &[u8; 16] = b"bruit blocks v1 ";

/// The secret words.
#[derive(Clone)]
pub(super) struct ContentKey {
    blocks: [u64; BLOCK_WORDS],
    narrowing: [u128; 2],
    doubling: [u128; 2],
}

impl ContentKey {
    pub(super) fn new(key: &FingerprintKey) -> Self {
        let words = |number: usize| {
            let mut labelled = [0; 24];
            labelled[..16].copy_from_slice(LABEL);
            labelled[16..].copy_from_slice(&(number as u64).to_le_bytes());
            key.fingerprint(&labelled)
        };
        let long = |number| u128::from(words(number).high()) << 64 | u128::from(words(number + 1).high());
        Self {
            blocks: std::array::from_fn(|number| words(number).high()),
            narrowing: [long(BLOCK_WORDS), long(BLOCK_WORDS + 2)],
            doubling: [long(BLOCK_WORDS + 4), long(BLOCK_WORDS + 6)],
        }
    }

    /// Returns the hash of a block's content. All blocks of a filter have the same length, so the last pair of words
    /// may be padded with zeros.
    #[inline]
    pub(super) fn block(&self, block: &[u8]) -> u64 {
        let (pairs, rest) = block.as_chunks::<16>();
        let (keys, _) = self.blocks.as_chunks::<2>();
        let mut sum = pairs.iter().zip(keys).fold(0, |sum: u128, (pair, key)| sum.wrapping_add(product(pair, key)));
        if let (false, Some(key)) = (rest.is_empty(), keys.get(pairs.len())) {
            let mut pair = [0; 16];
            pair[..rest.len()].copy_from_slice(rest);
            sum = sum.wrapping_add(product(&pair, key));
        }
        multiply_shift(&self.narrowing, (sum >> 64) as u64, sum as u64)
    }

    /// Returns the hash of a doubled block, computed from the hashes of its halves.
    #[inline]
    pub(super) fn doubled(&self, first: u64, second: u64) -> u64 {
        multiply_shift(&self.doubling, first, second)
    }
}

#[inline(always)]
fn product(pair: &[u8; 16], key: &[u64; 2]) -> u128 {
    let words = u128::from_le_bytes(*pair);
    let (first, second) = (words as u64, (words >> 64) as u64);
    u128::from(first.wrapping_add(key[0])) * u128::from(second.wrapping_add(key[1]))
}

#[inline(always)]
fn multiply_shift(key: &[u128; 2], first: u64, second: u64) -> u64 {
    let sum = key[0].wrapping_mul(u128::from(first)).wrapping_add(key[1].wrapping_mul(u128::from(second)));
    (sum >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn key(byte: u8) -> ContentKey {
        ContentKey::new(&FingerprintKey::new([byte; 16]))
    }

    #[test]
    fn every_bit_of_a_block_changes_its_hash_at_every_length() {
        let key = key(1);
        for length in [1, 3, 8, 15, 16, 17, 32, 100, BLOCK_BYTES_MAX as usize] {
            let mut block = vec![0; length];
            let mut seen = HashSet::from([key.block(&block)]);
            for bit in 0..length * 8 {
                block[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(key.block(&block)), "bit {bit} of {length} bytes");
                block[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn hashes_depend_on_the_key_and_on_the_order_of_words_and_halves() {
        let block: [u8; 32] = std::array::from_fn(|i| i as u8);
        let mut swapped = block;
        swapped.rotate_left(16);
        assert_ne!(key(1).block(&block), key(2).block(&block));
        assert_ne!(key(1).block(&block), key(1).block(&swapped));
        assert_ne!(key(1).doubled(3, 4), key(1).doubled(4, 3));
        assert_ne!(key(1).doubled(3, 4), key(2).doubled(3, 4));
    }

    #[test]
    fn recorded_pages_can_be_asked_by_later_versions() {
        let key = ContentKey::new(&FingerprintKey::new(std::array::from_fn(|i| i as u8)));
        let block: [u8; 32] = std::array::from_fn(|i| i as u8);
        // Computed with an independent implementation, written from the specification.
        assert_eq!((key.block(&block), key.doubled(1, 2)), (0xf874_712a_2b68_912c, 0x0b9e_93d9_c432_8b1e));
    }
}
