//! Keyed fingerprints of two words: the one hash from which every position derives.
//!
//! Whoever can predict positions can forge false positives, and the people who choose the keys of a spam database are
//! spammers. So a key is hashed once, with SipHash-1-3-128 under a secret [`FingerprintKey`], and nothing is hashed
//! again: filters, rings, maps and deltas take their bits from the [`Fingerprint`].
//!
//! A key is *wide* or *narrow*. Wide fingerprints are 128 bits of the hash. Of narrow ones the leading 64 are, and the
//! others follow from those without a key, so that 8 bytes are all there is to send or keep of a fingerprint. What it costs
//! is that of n keys two are the same with probability n² / 2^65: 2.7 · 10^-6 at ten million.

use std::fmt;

use siphasher::sip128::SipHasher13;

use crate::hash::finalise;

/// What [`FingerprintKey::id`] hashes; part of the file format, as key ids are stored.
const WIDE_KEY_ID_LABEL: &[u8] = b"bruit key id v1";
/// The same for narrow keys: filters filled under the two widths of equal bytes have nothing in common.
const NARROW_KEY_ID_LABEL: &[u8] = b"bruit narrow key id v1";

/// The keyed hash of a key.
///
/// `high` chooses where in a filter, `low` (or a mixture, see [`crate::hash`]) what there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Fingerprint {
    high: u64,
    low: u64,
}

impl Fingerprint {
    /// The fingerprint whose leading 64 bits are `high`.
    #[must_use]
    pub const fn new(high: u64, low: u64) -> Self {
        Self { high, low }
    }

    /// The fingerprint under a narrow key whose leading 64 bits are `high`: the whole from its half.
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

    /// The leading 64 bits.
    #[inline]
    #[must_use]
    pub const fn high(self) -> u64 {
        self.high
    }

    /// The trailing 64 bits.
    #[inline]
    #[must_use]
    pub const fn low(self) -> u64 {
        self.low
    }
}

/// The secret under which keys are fingerprinted. Filters merge only if they were filled under the same one.
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
    /// A wide key from 16 secret bytes; the caller brings the randomness.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self { bytes, is_narrow: false }
    }

    /// A key from 16 secret bytes whose fingerprints are told by their leading 64 bits: see [`Fingerprint::narrow`].
    #[must_use]
    pub const fn narrow(bytes: [u8; 16]) -> Self {
        Self { bytes, is_narrow: true }
    }

    /// Whether its fingerprints are told by their leading 64 bits.
    #[must_use]
    pub const fn is_narrow(&self) -> bool {
        self.is_narrow
    }

    /// The secret itself, for storing it, with the width kept beside it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.bytes
    }

    /// The fingerprint of `bytes`.
    #[inline]
    #[must_use]
    pub fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        let hash = SipHasher13::new_with_key(&self.bytes).hash(bytes);
        if self.is_narrow { Fingerprint::narrow(hash.h1) } else { Fingerprint::new(hash.h1, hash.h2) }
    }

    /// A public name for this key, from which the key cannot be computed. It differs between the widths.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let label = if self.is_narrow { NARROW_KEY_ID_LABEL } else { WIDE_KEY_ID_LABEL };
        KeyId(self.fingerprint(label).high)
    }
}

impl fmt::Debug for FingerprintKey {
    /// Names the key without showing it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FingerprintKey(id {})", self.id())
    }
}

/// The public name of a [`FingerprintKey`].
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
        // Computed with another implementation, written from the definition.
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
        // What is stored and sent depends on it: the first outputs of SplitMix64 are known answers of the finaliser.
        assert_eq!(Fingerprint::narrow(0x9e37_79b9_7f4a_7c15).low(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(Fingerprint::narrow(0x3c6e_f372_fe94_f82a).low(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn the_two_widths_of_equal_bytes_are_keys_of_unlike_names() {
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
