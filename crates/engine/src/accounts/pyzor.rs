//! Pyzor: every request is signed with a hash that covers the request, its time and the key hash of the account. The
//! key hash is a hash of the account's name and key.
//!
//! The server stores only the key hash. Anyone who has seen a request can replay it while its time is fresh, so the
//! server has to detect replays.

use std::fmt;

use bruit_signatures::hex::sha1_digits;
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use crate::codec::{Malformed, Reader};
use crate::time::Time;

/// Length of an account's key in hexadecimal digits. The key is a SHA-1, as printed by `pyzor genkey`.
pub const KEY_DIGITS: usize = 40;

/// Maximum difference in seconds between the time of a request and the server's time, as in the reference server.
pub const TIME_TOLERANCE_SECONDS: u64 = 300;

/// Verifier for the requests of one account: the SHA-1 of its name and key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PyzorVerifier([u8; 20]);

impl PyzorVerifier {
    /// Creates the verifier of an account; returns `None` if the key is not [`KEY_DIGITS`] hexadecimal digits.
    #[must_use]
    pub fn of(name: &[u8], key: &[u8]) -> Option<Self> {
        let is_key = key.len() == KEY_DIGITS && key.iter().all(u8::is_ascii_hexdigit);
        is_key.then(|| {
            let hash = Sha1::new().chain_update(name).chain_update(b":").chain_update(key.to_ascii_lowercase());
            Self(hash.finalize().into())
        })
    }

    /// Returns true if the signature of a request is valid.
    ///
    /// `signed` is the request's header text without its `Sig` line and without surrounding white space; `time` and
    /// `signature` are the values of `Time` and `Sig`, as received. [`is_fresh`] checks the time separately.
    #[must_use]
    pub fn verify(&self, signed: &[u8], time: &[u8], signature: &[u8]) -> bool {
        let hash = Sha1::new().chain_update(Sha1::digest(signed)).chain_update(b":").chain_update(time);
        let expected = hash.chain_update(b":").chain_update(sha1_digits(&self.0)).finalize();
        sha1_digits(&expected.into()).ct_eq(signature).into()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.0);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.array("a Pyzor verifier").map(Self)
    }
}

impl fmt::Debug for PyzorVerifier {
    /// Prints only the type name, so that the hash never reaches a log.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PyzorVerifier")
    }
}

/// Returns true if a request with this time may still be answered.
#[must_use]
pub const fn is_fresh(time: Time, now: Time) -> bool {
    time.0.abs_diff(now.0) <= TIME_TOLERANCE_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"0123456789abcdef0123456789abcdef01234567";

    /// Requests from the original client: text, time and signature.
    const REQUESTS: [(&str, &str, &str); 3] = [
        (
            "Op: whitelist\nOp-Digest: eb2a0e84c910ecae205eba635c8e442e85f5ee9a\nOp-Spec: 20,3,60,3\nThread: 22213\n\
             PV: 2.1\nUser: alice\nTime: 1794725694",
            "1794725694",
            "87f9be22df84a60dcd6efbdbb7c362a14edf2452",
        ),
        (
            "Op: check\nOp-Digest: eb2a0e84c910ecae205eba635c8e442e85f5ee9a\nThread: 43262\nPV: 2.1\nUser: alice\n\
             Time: 1794725694",
            "1794725694",
            "8b4d85f7819e34890038273fbfaab61cb8c48619",
        ),
        (
            "Op: info\nOp-Digest: eb2a0e84c910ecae205eba635c8e442e85f5ee9a\nThread: 19496\nPV: 2.1\nUser: alice\n\
             Time: 1794725694",
            "1794725694",
            "9ecee040f69593b21cf536c4997eb53185ba14f1",
        ),
    ];

    #[test]
    fn a_real_clients_requests_verify() {
        let verifier = PyzorVerifier::of(b"alice", KEY).unwrap();
        assert_eq!(&sha1_digits(&verifier.0), b"aac70190808b3008d8bd2c1866a1516293dd7655");
        for (signed, time, signature) in REQUESTS {
            assert!(verifier.verify(signed.as_bytes(), time.as_bytes(), signature.as_bytes()));
            assert!(!verifier.verify(signed.as_bytes(), b"1794725695", signature.as_bytes()));
            assert!(!verifier.verify(&signed.as_bytes()[1..], time.as_bytes(), signature.as_bytes()));
            assert!(!verifier.verify(signed.as_bytes(), time.as_bytes(), &signature.as_bytes()[..39]));
            let other = PyzorVerifier::of(b"bob", KEY).unwrap();
            assert!(!other.verify(signed.as_bytes(), time.as_bytes(), signature.as_bytes()));
        }
    }

    #[test]
    fn keys_are_forty_digits_in_either_case() {
        assert_eq!(PyzorVerifier::of(b"alice", &KEY.to_ascii_uppercase()), PyzorVerifier::of(b"alice", KEY));
        assert_eq!(PyzorVerifier::of(b"alice", &KEY[1..]), None);
        assert_eq!(PyzorVerifier::of(b"alice", &[KEY, b"0"].concat()), None);
        assert_eq!(PyzorVerifier::of(b"alice", &[b'g'; KEY_DIGITS]), None);
    }

    #[test]
    fn requests_are_fresh_for_five_minutes_either_way() {
        let now = Time(1_794_725_694);
        for (seconds, fresh) in [(TIME_TOLERANCE_SECONDS, true), (TIME_TOLERANCE_SECONDS + 1, false)] {
            assert_eq!(is_fresh(Time(now.0 - seconds), now), fresh);
            assert_eq!(is_fresh(Time(now.0 + seconds), now), fresh);
        }
        assert!(!is_fresh(Time(0), Time(u64::MAX)));
    }
}
