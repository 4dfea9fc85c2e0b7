//! Keyed 128-bit fingerprints: the one hash from which every position derives.
//!
//! Whoever can predict positions can forge false positives, and the people who choose the keys of a spam database are
//! spammers. So a key is hashed once, with SipHash-1-3-128 under a secret [`FingerprintKey`], and nothing is hashed
//! again: filters, rings, maps and deltas take their bits from the [`Fingerprint`].

use std::fmt;

use siphasher::sip128::SipHasher13;

/// What [`FingerprintKey::id`] hashes; part of the file format, as key ids are stored.
const KEY_ID_LABEL: &[u8] = b"bruit key id v1";

/// The keyed 128-bit hash of a key.
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
pub struct FingerprintKey([u8; 16]);

impl FingerprintKey {
    /// A key from 16 secret bytes; the caller brings the randomness.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The secret itself, for storing it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The fingerprint of `bytes`.
    #[inline]
    #[must_use]
    pub fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        let hash = SipHasher13::new_with_key(&self.0).hash(bytes);
        Fingerprint::new(hash.h1, hash.h2)
    }

    /// A public name for this key, from which the key cannot be computed.
    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId(self.fingerprint(KEY_ID_LABEL).high)
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
    fn debug_output_hides_the_key() {
        let key = FingerprintKey::new(*b"0123456789abcdef");
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.id().to_string()));
        assert!(!shown.contains("0123456789abcdef") && !shown.contains("48, 49"));
    }
}
