//! Signatures of empty content, such as an empty text or an empty header field. All messages with the same empty
//! content share them.
//!
//! These signatures are never counted, because they would collect the reports of unrelated messages. In Pyzor, their
//! counts are so high that SpamAssassin ignores all counts above a million.

use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_signatures::Scheme;
use bruit_signatures::pyzor::Digest;

use crate::signature::{RSPAMD_DIGEST_BYTES, fingerprint_of_bytes, fingerprint_of_digest};

/// MD5 of the empty string. DCC's clients send no body checksum for a short text, but they send the checksum of every
/// empty field. All bounces, for example, share the envelope sender `<>`.
const MD5: [u8; 16] = [0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0, 0xb2, 4, 0xe9, 0x80, 9, 0x98, 0xec, 0xf8, 0x42, 0x7e];

/// SHA-1 of the empty string: Pyzor's digest for messages without usable lines, and Razor's e4 signature for parts in
/// which the two sections to sign are blank.
const SHA1: [u8; 20] = Digest::EMPTY.0;

/// SHA-256 of the empty string. Bruit's own schemes do not sign empty content, but reports may come from other
/// software.
const SHA256: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// BLAKE2b-512 of the empty string: rspamd's digest of an empty part with an empty key.
const BLAKE2B: [u8; RSPAMD_DIGEST_BYTES] = [
    0x78, 0x6a, 2, 0xf7, 0x42, 1, 0x59, 3, 0xc6, 0xc6, 0xfd, 0x85, 0x25, 0x52, 0xd2, 0x72, 0x91, 0x2f, 0x47, 0x40,
    0xe1, 0x58, 0x47, 0x61, 0x8a, 0x86, 0xe2, 0x17, 0xf7, 0x1f, 0x54, 0x19, 0xd2, 0x5e, 0x10, 0x31, 0xaf, 0xee, 0x58,
    0x53, 0x13, 0x89, 0x64, 0x44, 0x93, 0x4e, 0xb0, 0x4b, 0x90, 0x3a, 0x68, 0x5b, 0x14, 0x48, 0xb7, 0x55, 0xd5, 0x6f,
    0x70, 0x1a, 0xfe, 0x9b, 0xe2, 0xce,
];

/// BLAKE2b-512 of the empty string under rspamd's default key, the BLAKE2b-512 of `rspamd`.
const BLAKE2B_KEYED: [u8; RSPAMD_DIGEST_BYTES] = [
    0xc7, 0xcf, 0x74, 0x63, 0x35, 0xd6, 0xed, 0x2d, 0x83, 0x15, 0xb5, 0x5d, 0xeb, 0x7a, 0xf0, 0xf7, 0x69, 0x90, 0x23,
    0xb1, 0x1c, 0x61, 0xc9, 0x50, 0x88, 0x1c, 0xd8, 0x60, 0x18, 0xc9, 0xaa, 0xa1, 0x4a, 0xe6, 0xad, 0xf5, 0xf2, 0x30,
    0x7e, 0x59, 0x8d, 0x40, 0x7f, 9, 0x12, 0xb0, 0x5d, 0x48, 0x59, 0x5a, 0xe5, 0x58, 0x67, 0x51, 0x45, 0x46, 0x8d,
    0x19, 0x9a, 0xac, 0x30, 0x14, 0x7c, 0x6f,
];

const DCC: [Scheme; 7] = [
    Scheme::DccIp,
    Scheme::DccEnvFrom,
    Scheme::DccFrom,
    Scheme::DccMessageId,
    Scheme::DccReceived,
    Scheme::DccBody,
    Scheme::DccFuz1,
];

/// Returns the fingerprints of all signatures of empty content.
pub(super) fn fingerprints(key: &FingerprintKey) -> impl Iterator<Item = Fingerprint> {
    let sha1 = [Scheme::Pyzor, Scheme::RazorE4].map(|scheme| (scheme, &SHA1[..]));
    let sha256 = [Scheme::Exact, Scheme::Attachment, Scheme::Url].map(|scheme| (scheme, &SHA256[..]));
    let md5 = DCC.map(|scheme| (scheme, &MD5[..]));
    let signatures = sha1.into_iter().chain(sha256).chain(md5);
    let digests = [&BLAKE2B, &BLAKE2B_KEYED].into_iter().map(|digest| fingerprint_of_digest(key, digest));
    signatures.filter_map(|(scheme, bytes)| fingerprint_of_bytes(key, scheme, bytes)).chain(digests)
}

#[cfg(test)]
mod tests {
    use md5::{Digest as _, Md5};
    use sha1::Sha1;

    use super::*;

    #[test]
    fn hashes_of_empty_input_match_other_programs() {
        assert_eq!(<[u8; 16]>::from(Md5::digest([])), MD5);
        assert_eq!(<[u8; 20]>::from(Sha1::digest([])), SHA1);
        let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // Values printed by sha256sum and b2sum for an empty file, and by Python's hashlib for the empty string under
        // rspamd's default key.
        assert_eq!(digits(&SHA256), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(
            digits(&BLAKE2B),
            "786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419\
             d25e1031afee585313896444934eb04b903a685b1448b755d56f701afe9be2ce"
        );
        assert_eq!(
            digits(&BLAKE2B_KEYED),
            "c7cf746335d6ed2d8315b55deb7af0f7699023b11c61c950881cd86018c9aaa1\
             4ae6adf5f2307e598d407f0912b05d48595ae558675145468d199aac30147c6f"
        );
    }

    #[test]
    fn every_scheme_that_can_sign_empty_content_is_included() {
        let key = FingerprintKey::new([7; 16]);
        let all: Vec<Fingerprint> = fingerprints(&key).collect();
        assert_eq!(all.len(), 2 + 3 + 7 + 2);
        let of_e4 = fingerprint_of_bytes(&key, Scheme::RazorE4, &SHA1);
        assert!(of_e4.is_some_and(|fingerprint| all.contains(&fingerprint)));
    }
}
