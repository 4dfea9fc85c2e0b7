//! Fingerprints of signatures. The engine identifies signatures by their fingerprints.
//!
//! A fingerprint is a hash of the scheme's number, in two bytes, and the bytes of the signature. So the same bytes
//! under two schemes have different fingerprints. Computing a fingerprint allocates no memory.

use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_signatures::{Scheme, Signature};

/// Length of a digest in rspamd's fuzzy storage, twice the maximum length of a signature.
pub const RSPAMD_DIGEST_BYTES: usize = 64;

/// Scheme number for rspamd digests, which only clients compute. Schemes have numbers below 256.
const RSPAMD_NUMBER: u16 = 256;

/// Scheme number for DCC's Fuz2 checksums, which depend on dictionaries that only DCC's own clients may use.
const FUZ2_NUMBER: u16 = 257;

/// Scheme number for a file that accompanies a claimed text; see [`crate::message`].
const CARRIED_NUMBER: u16 = 258;

/// Scheme number for all files of a message together.
const FILES_NUMBER: u16 = 259;

/// Returns the fingerprint for claims about a file that accompanies a text. Because this is not the file's own
/// fingerprint, such claims never decide a verdict.
#[must_use]
pub fn fingerprint_of_carried(key: &FingerprintKey, file: &Signature) -> Fingerprint {
    fingerprint(key, CARRIED_NUMBER, file.bytes())
}

/// Returns the fingerprint of several files together. Their order does not matter, and duplicates count once.
#[must_use]
pub fn fingerprint_of_files<'s>(key: &FingerprintKey, files: impl Iterator<Item = &'s Signature>) -> Fingerprint {
    let mut files: Vec<u64> = files.map(|file| fingerprint_of(key, file).high()).collect();
    files.sort_unstable();
    files.dedup();
    let sum = files.into_iter().fold(0, u64::wrapping_add);
    fingerprint(key, FILES_NUMBER, &sum.to_le_bytes())
}

/// Returns the fingerprint of a signature.
#[must_use]
pub fn fingerprint_of(key: &FingerprintKey, signature: &Signature) -> Fingerprint {
    fingerprint(key, number(signature.scheme()), signature.bytes())
}

/// Returns the fingerprint of a signature given as bytes, as in a protocol's request. Returns `None` for more than
/// [`Signature::BYTES_MAX`] bytes.
#[must_use]
pub fn fingerprint_of_bytes(key: &FingerprintKey, scheme: Scheme, bytes: &[u8]) -> Option<Fingerprint> {
    (bytes.len() <= Signature::BYTES_MAX).then(|| fingerprint(key, number(scheme), bytes))
}

/// Returns the fingerprint of a DCC Fuz2 checksum.
#[must_use]
pub fn fingerprint_of_fuz2(key: &FingerprintKey, sum: &[u8; 16]) -> Fingerprint {
    fingerprint(key, FUZ2_NUMBER, sum)
}

/// Returns the fingerprint of a digest in rspamd's fuzzy storage. The trailing half of the fingerprint is derived from
/// the leading half, because a record of [`crate::shingles`] stores only the leading half.
#[must_use]
pub fn fingerprint_of_digest(key: &FingerprintKey, digest: &[u8; RSPAMD_DIGEST_BYTES]) -> Fingerprint {
    fingerprint_of_short(key, fingerprint(key, RSPAMD_NUMBER, digest).high())
}

/// Returns the fingerprint of a digest, given the leading half of the fingerprint.
#[must_use]
pub fn fingerprint_of_short(key: &FingerprintKey, high: u64) -> Fingerprint {
    if key.is_narrow() {
        return Fingerprint::narrow(high);
    }
    Fingerprint::new(high, key.fingerprint(&high.to_le_bytes()).low())
}

/// Returns the number of a scheme. Both releases of Pyzor share one number, because clients do not indicate which
/// release computed a digest.
const fn number(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Pyzor11 => Scheme::Pyzor as u16,
        scheme => scheme as u16,
    }
}

/// Returns the fingerprint of a scheme number and at most [`RSPAMD_DIGEST_BYTES`] bytes.
fn fingerprint(key: &FingerprintKey, number: u16, bytes: &[u8]) -> Fingerprint {
    let mut whole = [0; 2 + RSPAMD_DIGEST_BYTES];
    let length = 2 + bytes.len();
    whole[..2].copy_from_slice(&number.to_le_bytes());
    whole[2..length].copy_from_slice(bytes);
    key.fingerprint(&whole[..length])
}

#[cfg(test)]
mod tests {
    use bruit_signatures::{Context, Wanted, sign};

    use super::*;

    const KEY: FingerprintKey = FingerprintKey::new([7; 16]);

    #[test]
    fn a_fingerprint_covers_number_and_bytes() {
        let wanted = Wanted { pyzor: true, ..Wanted::NONE };
        let signed = sign(b"\nA message of a few words.\n", &wanted, &Context::default());
        let signature = &signed.signatures[0];
        let expected = KEY.fingerprint(&[&[4, 0], signature.bytes()].concat());
        assert_eq!(fingerprint_of(&KEY, signature), expected);
        assert_eq!(fingerprint_of_bytes(&KEY, Scheme::Pyzor, signature.bytes()), Some(expected));
        assert_ne!(fingerprint_of_bytes(&KEY, Scheme::RazorE4, signature.bytes()), Some(expected));
        assert_eq!(
            fingerprint_of_bytes(&KEY, Scheme::Pyzor11, signature.bytes()),
            Some(expected),
            "the same for either release"
        );
    }

    #[test]
    fn more_bytes_than_a_signature_has_are_refused() {
        let bytes = [1; Signature::BYTES_MAX + 1];
        assert!(fingerprint_of_bytes(&KEY, Scheme::Exact, &bytes[1..]).is_some());
        assert_eq!(fingerprint_of_bytes(&KEY, Scheme::Exact, &bytes), None);
    }

    #[test]
    fn fingerprints_of_a_file_alone_carried_and_together_differ() {
        let file = |byte: u8| {
            let message = ["Content-Type: application/pdf\n\n", &char::from(byte + b'a').to_string()].concat();
            let wanted = Wanted { attachment: true, ..Wanted::NONE };
            sign(message.as_bytes(), &wanted, &Context::default()).signatures.remove(0)
        };
        let together = |files: &[Signature]| fingerprint_of_files(&KEY, files.iter());
        assert_eq!(together(&[file(1), file(2)]), together(&[file(2), file(1), file(2)]));
        assert_ne!(together(&[file(1), file(2)]), together(&[file(1), file(3)]));
        let known = [together(&[file(1)]), fingerprint_of_carried(&KEY, &file(1)), fingerprint_of(&KEY, &file(1))];
        assert!(known[0] != known[1] && known[1] != known[2] && known[0] != known[2]);
    }

    #[test]
    fn fuz2_has_its_own_scheme_number() {
        let sum = [9; 16];
        assert_eq!(fingerprint_of_fuz2(&KEY, &sum), KEY.fingerprint(&[&[1, 1][..], &sum].concat()));
        assert_ne!(Some(fingerprint_of_fuz2(&KEY, &sum)), fingerprint_of_bytes(&KEY, Scheme::DccFuz1, &sum));
    }

    #[test]
    fn digests_have_their_own_scheme_number() {
        let digest = [9; RSPAMD_DIGEST_BYTES];
        let narrow = FingerprintKey::narrow([7; 16]);
        for key in [&KEY, &narrow] {
            let fingerprint = fingerprint_of_digest(key, &digest);
            assert_eq!(fingerprint.high(), key.fingerprint(&[&[0, 1][..], &digest].concat()).high());
            assert_eq!(fingerprint, fingerprint_of_short(key, fingerprint.high()));
        }
        assert_eq!(
            fingerprint_of_short(&narrow, 5),
            Fingerprint::narrow(5),
            "like every fingerprint under a narrow key"
        );
    }
}
