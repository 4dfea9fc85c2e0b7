//! Keyed fingerprints, which consist of two words. The positions in all filters derive from them.
//!
//! An attacker who can predict positions can forge false positives, and spammers choose the keys of a spam database.
//! So a key is hashed once, with SipHash-1-3-128 under a secret [`FingerprintKey`]. Filters, rings, maps and deltas
//! take their bits from the resulting [`Fingerprint`] and do not hash again.
//!
//! A [`FingerprintKey`] is *wide* or *narrow*, and so are its fingerprints. A wide fingerprint is 128 bits of the hash.
//! A narrow one keeps only the leading 64 bits and derives the rest from them without a secret, so that 8 bytes are
//! enough to send or store a fingerprint. The cost is a higher probability of collisions. With n keys, the probability
//! that any two have the same fingerprint is n² / 2^65. For ten million keys, this is 2.7 · 10^-6.

use std::fmt;

use siphasher::sip128::SipHasher13;

use crate::hash::finalise;

/// The input that [`FingerprintKey::id`] hashes. This label is part of the file format, because key ids are stored.
const WIDE_KEY_ID_LABEL: &[u8] = b"bruit key id v1";
/// The label for narrow keys. It differs from the label for wide keys, because a wide and a narrow key with the same
/// secret create incompatible filters.
const NARROW_KEY_ID_LABEL: &[u8] = b"bruit narrow key id v1";

/// The hash of a key, computed under a secret [`FingerprintKey`].
///
/// `high` selects the line or slot in a filter; `low`, or a mixture of both words (see [`crate::hash`]), selects the
/// bits within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Fingerprint {
    high: u64,
    low: u64,
}

impl Fingerprint {
    /// Creates a fingerprint from its leading 64 bits, `high`, and its trailing 64 bits, `low`.
    #[must_use]
    pub const fn new(high: u64, low: u64) -> Self {
        Self { high, low }
    }

    /// Reconstructs a fingerprint that was made under a narrow key from its leading 64 bits.
    ///
    /// ```
    /// use bruit_filters::{Fingerprint, FingerprintKey};
    ///
    /// let fingerprint = FingerprintKey::narrow([7; 16]).fingerprint(b"cheap pills");
    /// assert_eq!(Fingerprint::narrow(fingerprint.high()), fingerprint);
    /// ```
    #[inline]
    #[must_use]
    pub const fn narrow(high: u64) -> Self {
        Self { high, low: finalise(high) }
    }

    /// Returns the leading 64 bits.
    #[inline]
    #[must_use]
    pub const fn high(self) -> u64 {
        self.high
    }

    /// Returns the trailing 64 bits.
    #[inline]
    #[must_use]
    pub const fn low(self) -> u64 {
        self.low
    }
}

/// The secret key under which fingerprints are made. Filters merge only if they were filled under the same key.
///
/// ```
/// use bruit_filters::FingerprintKey;
///
/// let ours = FingerprintKey::new([7; 16]);
/// let theirs = FingerprintKey::new([8; 16]);
/// assert_eq!(ours.fingerprint(b"cheap pills"), ours.fingerprint(b"cheap pills"));
/// assert_ne!(ours.fingerprint(b"cheap pills"), theirs.fingerprint(b"cheap pills"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct FingerprintKey {
    bytes: [u8; 16],
    is_narrow: bool,
}

impl FingerprintKey {
    /// A key that everyone knows. Anyone can compute items that collide under it, so use it only if no one gains from
    /// false positives.
    pub const PUBLIC: Self = Self::new(*b"bruit public key");

    /// Creates a wide key from 16 secret random bytes, which the caller provides.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self { bytes, is_narrow: false }
    }

    /// Creates a narrow key from 16 secret random bytes: see [`Fingerprint::narrow`].
    #[must_use]
    pub const fn narrow(bytes: [u8; 16]) -> Self {
        Self { bytes, is_narrow: true }
    }

    /// Returns true if this key is narrow, so that the leading 64 bits determine the whole fingerprint.
    #[must_use]
    pub const fn is_narrow(&self) -> bool {
        self.is_narrow
    }

    /// Returns the secret, for storing it. Store [`is_narrow`](Self::is_narrow) with it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.bytes
    }

    /// Returns the fingerprint of `bytes`.
    #[inline]
    #[must_use]
    pub fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        let hash = SipHasher13::new_with_key(&self.bytes).hash(bytes);
        if self.is_narrow { Fingerprint::narrow(hash.h1) } else { Fingerprint::new(hash.h1, hash.h2) }
    }

    /// Returns a public id of this key. The id does not reveal the key. A wide and a narrow key with the same secret
    /// have different ids.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let label = if self.is_narrow { NARROW_KEY_ID_LABEL } else { WIDE_KEY_ID_LABEL };
        KeyId(self.fingerprint(label).high)
    }
}

impl fmt::Debug for FingerprintKey {
    /// Prints the id of the key, not the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FingerprintKey(id {})", self.id())
    }
}

/// The public id of a [`FingerprintKey`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_siphash_1_3_128() {
        // Computed with an independent implementation, written from the specification.
        let key = FingerprintKey::new(std::array::from_fn(|i| i as u8));
        let eight_bytes: [u8; 8] = std::array::from_fn(|i| i as u8);
        assert_eq!(key.fingerprint(&eight_bytes), Fingerprint::new(0xb4da_e3d5_e1fe_12aa, 0x99c7_f935_ab16_4f72));
        assert_eq!(key.fingerprint(b"cheap pills"), Fingerprint::new(0x33da_7bc2_a496_29a7, 0x6022_357d_133f_36b1));
    }

    #[test]
    fn narrow_fingerprints_have_the_leading_half_of_wide_ones_and_follow_from_it() {
        let (wide, narrow) = (FingerprintKey::new([3; 16]), FingerprintKey::narrow([3; 16]));
        for number in 0..1000u32 {
            let bytes = number.to_le_bytes();
            let fingerprint = narrow.fingerprint(&bytes);
            assert_eq!(fingerprint.high(), wide.fingerprint(&bytes).high());
            assert_eq!(fingerprint, Fingerprint::narrow(fingerprint.high()));
            assert_ne!(fingerprint.low(), wide.fingerprint(&bytes).low());
        }
        // Stored and sent bytes depend on the finaliser. SplitMix64 uses the same finaliser, so the expected values are
        // the first outputs of SplitMix64.
        assert_eq!(Fingerprint::narrow(0x9e37_79b9_7f4a_7c15).low(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(Fingerprint::narrow(0x3c6e_f372_fe94_f82a).low(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn wide_and_narrow_keys_of_equal_bytes_have_different_ids() {
        let (wide, narrow) = (FingerprintKey::new([3; 16]), FingerprintKey::narrow([3; 16]));
        assert!(!wide.is_narrow() && narrow.is_narrow());
        assert_ne!(wide, narrow);
        assert_ne!(wide.id(), narrow.id());
        assert_eq!(wide.as_bytes(), narrow.as_bytes());
    }

    #[test]
    fn debug_output_hides_the_key() {
        let key = FingerprintKey::new(*b"0123456789abcdef");
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.id().to_string()));
        assert!(!shown.contains("0123456789abcdef") && !shown.contains("48, 49"));
    }
}
