//! The realm: the parameters that servers must share for their books to merge.
//!
//! In the paper of Yan and Cho, servers need "the same parameters and hash functions". Here, one type contains all of
//! these. A realm is created when a clearinghouse is founded, and is stored next to its data. Every file and segment
//! contains its [`RealmId`]. Data of different realms cannot be merged.
//!
//! The key and the epochs must be equal; the sizes of the books may differ. Servers exchange fingerprints, and each
//! stores them in books that fit its own memory. The sizes at the founding of a realm remain part of its encoding and
//! its id.

use bruit_filters::FingerprintKey;
use bruit_signatures::hex;

use crate::codec::{Malformed, Reader};
use crate::time::Time;

/// Magic at the start of an encoded realm.
const MAGIC: [u8; 8] = *b"BRUITRLM";
/// Version of the encoding for realms with a wide key.
const VERSION_WIDE: u16 = 1;
/// Version of the encoding for realms with a narrow key. Only the version number differs.
const VERSION_NARROW: u16 = 2;

/// Minimum length of an epoch, in seconds. Epochs this short are for tests in which a generation has to end soon. Each
/// ring clears one generation per epoch, and only a ring of a few MiB can do so in seconds. A realm in production has
/// epochs of hours or more.
pub const EPOCH_SECONDS_MIN: u64 = 1;
/// Maximum length of an epoch, in seconds.
pub const EPOCH_SECONDS_MAX: u64 = 366 * Time::DAY;

/// Maximum number of lines in a ring: 64 GiB.
pub const RING_LINES_MAX: u64 = 1 << 30;

/// The sizes of the books, in lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookSizes {
    /// Number of lines in each of the two stages of the ring of listed signatures.
    pub spam_lines: u64,
    /// Number of lines in the ring of revoked signatures.
    pub revoked_lines: u64,
    /// Number of lines in the ring that counts claims.
    pub claim_lines: u64,
    /// Number of lines in the ring that counts recipients.
    pub bulk_lines: u64,
}

/// The parameters shared by servers that merge their books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realm {
    key: FingerprintKey,
    spam_epoch_seconds: u64,
    bulk_epoch_seconds: u64,
    sizes: BookSizes,
}

/// The public id of a realm. It reveals nothing about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RealmId(pub [u8; 16]);

impl std::fmt::Display for RealmId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        hex::write(f, &self.0)
    }
}

/// Error for two realms that differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the realms differ in {what}: expected {ours}, found {theirs}")]
pub struct RealmMismatch {
    /// Name of the first parameter that differs.
    pub what: &'static str,
    /// Value in this realm.
    pub ours: String,
    /// Value in the other realm.
    pub theirs: String,
}

impl BookSizes {
    /// Returns true if no ring has more lines here than in `most`.
    #[must_use]
    pub const fn fit(&self, most: &Self) -> bool {
        self.spam_lines <= most.spam_lines
            && self.revoked_lines <= most.revoked_lines
            && self.claim_lines <= most.claim_lines
            && self.bulk_lines <= most.bulk_lines
    }

    /// Returns the lines of each book, in the order of the encoding.
    #[must_use]
    pub const fn lines(&self) -> [u64; 4] {
        [self.spam_lines, self.revoked_lines, self.claim_lines, self.bulk_lines]
    }

    /// Creates the sizes from the result of [`lines`](Self::lines).
    #[must_use]
    pub const fn from_lines([spam_lines, revoked_lines, claim_lines, bulk_lines]: [u64; 4]) -> Self {
        Self { spam_lines, revoked_lines, claim_lines, bulk_lines }
    }
}

impl Realm {
    /// Default epoch length of the spam book, for a window of 30 to 35 days.
    pub const SPAM_EPOCH_SECONDS: u64 = 5 * Time::DAY;
    /// Default epoch length of the bulk book, for a window of six to seven days.
    pub const BULK_EPOCH_SECONDS: u64 = Time::DAY;

    /// Creates a realm. The caller must generate the key at random. New realms should have a narrow key, because
    /// servers exchange fingerprints as 8 bytes. Eight bytes are too few for fingerprints under a wide key.
    ///
    /// # Errors
    /// [`Malformed::OutOfRange`] for epochs or sizes beyond the bounds of this module.
    pub fn new(
        key: FingerprintKey,
        spam_epoch_seconds: u64,
        bulk_epoch_seconds: u64,
        sizes: BookSizes,
    ) -> Result<Self, Malformed> {
        let realm = Self { key, spam_epoch_seconds, bulk_epoch_seconds, sizes };
        for (what, value) in [("the spam epoch", spam_epoch_seconds), ("the bulk epoch", bulk_epoch_seconds)] {
            if !(EPOCH_SECONDS_MIN..=EPOCH_SECONDS_MAX).contains(&value) {
                return Err(Malformed::OutOfRange { what, value });
            }
        }
        for (what, value) in realm.lines() {
            if !(1..=RING_LINES_MAX).contains(&value) {
                return Err(Malformed::OutOfRange { what, value });
            }
        }
        Ok(realm)
    }

    /// Returns the key under which signatures are fingerprinted.
    #[must_use]
    pub const fn key(&self) -> &FingerprintKey {
        &self.key
    }

    /// Returns the length of an epoch of the spam book in seconds.
    #[must_use]
    pub const fn spam_epoch_seconds(&self) -> u64 {
        self.spam_epoch_seconds
    }

    /// Returns the length of an epoch of the bulk book in seconds.
    #[must_use]
    pub const fn bulk_epoch_seconds(&self) -> u64 {
        self.bulk_epoch_seconds
    }

    /// Returns the sizes of the books at the founding of the realm. They are part of its id. A server's own sizes
    /// depend on its memory budget and may differ ([`Plan::sizes`](crate::budget::Plan::sizes)).
    #[must_use]
    pub const fn sizes(&self) -> BookSizes {
        self.sizes
    }

    /// Returns the realm's id. It is equal for equal realms and reveals nothing about the key.
    #[must_use]
    pub fn id(&self) -> RealmId {
        // The id is 128 bits long, even if the realm has a narrow key.
        let name = FingerprintKey::new(*self.key.as_bytes()).fingerprint(&self.shared_bytes());
        let mut id = [0; 16];
        id[..8].copy_from_slice(&name.high().to_le_bytes());
        id[8..].copy_from_slice(&name.low().to_le_bytes());
        RealmId(id)
    }

    /// Checks that another realm equals this one.
    ///
    /// # Errors
    /// [`RealmMismatch`] names the first difference.
    pub fn ensure_same(&self, other: &Self) -> Result<(), RealmMismatch> {
        let differ = |what, ours: String, theirs: String| Err(RealmMismatch { what, ours, theirs });
        if self.key != other.key {
            return differ("their keys", self.key.id().to_string(), other.key.id().to_string());
        }
        for ((what, ours), (_, theirs)) in self.numbers().into_iter().zip(other.numbers()) {
            if ours != theirs {
                return differ(what, ours.to_string(), theirs.to_string());
            }
        }
        Ok(())
    }

    /// Appends the realm, **with its secret key**.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.shared_bytes());
        out.extend(self.key.as_bytes());
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`Malformed`] for anything else, including later versions.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let magic = u64::from_le_bytes(reader.array("the magic of a realm")?);
        if magic != u64::from_le_bytes(MAGIC) {
            return Err(Malformed::OutOfRange { what: "the magic of a realm", value: magic });
        }
        let key_of = match reader.u16("the version of a realm")? {
            VERSION_WIDE => FingerprintKey::new,
            VERSION_NARROW => FingerprintKey::narrow,
            version => return Err(Malformed::OutOfRange { what: "the version of a realm", value: version.into() }),
        };
        let mut number = || reader.u64("the epochs and sizes of a realm");
        let (spam, bulk) = (number()?, number()?);
        let sizes = BookSizes {
            spam_lines: number()?,
            revoked_lines: number()?,
            claim_lines: number()?,
            bulk_lines: number()?,
        };
        Self::new(key_of(reader.array("the key of a realm")?), spam, bulk, sizes)
    }

    /// Returns the encoding without the key.
    fn shared_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let version = if self.key.is_narrow() { VERSION_NARROW } else { VERSION_WIDE };
        out.extend(version.to_le_bytes());
        self.numbers().iter().for_each(|(_, number)| out.extend(number.to_le_bytes()));
        out
    }

    fn numbers(&self) -> [(&'static str, u64); 6] {
        let [spam, revoked, claim, bulk] = self.lines();
        let epochs = [("the spam epoch", self.spam_epoch_seconds), ("the bulk epoch", self.bulk_epoch_seconds)];
        [epochs[0], epochs[1], spam, revoked, claim, bulk]
    }

    const fn lines(&self) -> [(&'static str, u64); 4] {
        [
            ("the lines of the spam ring", self.sizes.spam_lines),
            ("the lines of the revocation ring", self.sizes.revoked_lines),
            ("the lines of the claim ring", self.sizes.claim_lines),
            ("the lines of the bulk ring", self.sizes.bulk_lines),
        ]
    }
}

#[cfg(test)]
mod tests {
    use bruit_filters::Fingerprint;

    use super::*;

    const SIZES: BookSizes = BookSizes { spam_lines: 100, revoked_lines: 10, claim_lines: 50, bulk_lines: 200 };

    fn realm(key: u8, spam_epoch: u64, sizes: BookSizes) -> Realm {
        Realm::new(FingerprintKey::new([key; 16]), spam_epoch, Realm::BULK_EPOCH_SECONDS, sizes).unwrap()
    }

    /// Returns two realms with a key of these bytes: one with a wide key, one with a narrow key.
    fn widths(key: u8) -> [Realm; 2] {
        let keys = [FingerprintKey::new([key; 16]), FingerprintKey::narrow([key; 16])];
        keys.map(|key| Realm::new(key, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, SIZES).unwrap())
    }

    fn encoded(realm: &Realm) -> Vec<u8> {
        let mut bytes = Vec::new();
        realm.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_realm_round_trips_and_no_prefix_decodes() {
        let read = |bytes: &[u8]| Realm::decode(&mut Reader::new(bytes));
        for realm in widths(1) {
            let bytes = encoded(&realm);
            assert_eq!(read(&bytes), Ok(realm));
            (0..bytes.len()).for_each(|cut| assert!(read(&bytes[..cut]).is_err(), "{cut}"));
            for (at, what) in [(0, "the magic of a realm"), (8, "the version of a realm")] {
                let mut other = bytes.clone();
                other[at] ^= 8;
                assert!(matches!(read(&other), Err(Malformed::OutOfRange { what: named, .. }) if named == what));
            }
        }
    }

    #[test]
    fn the_version_encodes_the_width_of_the_key() {
        let [wide, narrow] = widths(1);
        let [mut wide_bytes, narrow_bytes] = [encoded(&wide), encoded(&narrow)];
        assert_eq!((wide_bytes[8], narrow_bytes[8]), (1, 2));
        wide_bytes[8] = 2;
        assert_eq!(wide_bytes, narrow_bytes);
        assert_eq!(wide.ensure_same(&narrow).unwrap_err().what, "their keys");
        assert_ne!(wide.id(), narrow.id());
    }

    #[test]
    fn the_id_of_a_realm_has_128_bits_under_either_key() {
        for realm in widths(1) {
            let [high, low] = [0, 8].map(|at| u64::from_le_bytes(*realm.id().0[at..].first_chunk().unwrap()));
            assert_ne!(Fingerprint::narrow(high).low(), low);
        }
    }

    #[test]
    fn different_realms_have_different_ids_and_name_the_difference() {
        let ours = realm(1, Realm::SPAM_EPOCH_SECONDS, SIZES);
        assert_eq!(ours.ensure_same(&ours.clone()), Ok(()));
        let larger = BookSizes { bulk_lines: 201, ..SIZES };
        let others = [
            (realm(2, Realm::SPAM_EPOCH_SECONDS, SIZES), "their keys"),
            (realm(1, Time::DAY, SIZES), "the spam epoch"),
            (realm(1, Realm::SPAM_EPOCH_SECONDS, larger), "the lines of the bulk ring"),
        ];
        for (theirs, what) in others {
            assert_eq!(ours.ensure_same(&theirs).unwrap_err().what, what);
            assert_ne!(ours.id(), theirs.id());
        }
    }

    #[test]
    fn sizes_and_epochs_have_bounds() {
        let with = |epoch, lines| {
            let sizes = BookSizes { claim_lines: lines, ..SIZES };
            Realm::new(FingerprintKey::new([0; 16]), epoch, Time::DAY, sizes).is_ok()
        };
        assert!(with(EPOCH_SECONDS_MIN, 1) && with(EPOCH_SECONDS_MAX, RING_LINES_MAX));
        assert!(!with(EPOCH_SECONDS_MIN - 1, 1) && !with(EPOCH_SECONDS_MAX + 1, 1));
        assert!(!with(Time::DAY, 0) && !with(Time::DAY, RING_LINES_MAX + 1));
    }
}
