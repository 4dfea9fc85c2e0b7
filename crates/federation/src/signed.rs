//! Bytes followed by their signature.
//!
//! The signed data begins with a domain name that is not transmitted, so bytes signed as one kind of object cannot pass
//! as another kind.

use crate::keys::{NodeKey, PublicKey, SIGNATURE_BYTES};

/// The kind of object that is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Domain(pub(crate) &'static [u8]);

/// Appends the signature of `body`.
pub(crate) fn seal(domain: Domain, mut body: Vec<u8>, key: &NodeKey) -> Vec<u8> {
    let signature = key.sign(&[domain.0, &body].concat());
    body.extend(signature);
    body
}

/// Returns true if `bytes` end with a valid signature of the bytes before it.
pub(crate) fn is_sealed(domain: Domain, bytes: &[u8], key: &PublicKey) -> bool {
    let Some((body, signature)) = bytes.split_last_chunk::<SIGNATURE_BYTES>() else { return false };
    key.verify(&[domain.0, body].concat(), signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_valid_only_in_its_domain() {
        let key = NodeKey::generate([1; 32]);
        let sealed = seal(Domain(b"one\n"), b"body".to_vec(), &key);
        assert!(is_sealed(Domain(b"one\n"), &sealed, &key.public()));
        assert!(!is_sealed(Domain(b"two\n"), &sealed, &key.public()));
        assert!(!is_sealed(Domain(b"one\n"), &sealed[..SIGNATURE_BYTES - 1], &key.public()));
        assert!(!is_sealed(Domain(b"one\n"), &sealed, &NodeKey::generate([2; 32]).public()));
    }
}
