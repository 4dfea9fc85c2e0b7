//! Bytes with a signature behind them.
//!
//! What is signed begins with a name of what it is, which is not sent: no bytes that were signed as one thing pass as
//! another, whatever they look like.

use crate::keys::{NodeKey, PublicKey, SIGNATURE_BYTES};

/// What was signed as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Domain(pub(crate) &'static [u8]);

/// Appends the signature of `body`.
pub(crate) fn seal(domain: Domain, mut body: Vec<u8>, key: &NodeKey) -> Vec<u8> {
    let signature = key.sign(&[domain.0, &body].concat());
    body.extend(signature);
    body
}

/// Whether `bytes` end with the signature of those before it.
pub(crate) fn is_sealed(domain: Domain, bytes: &[u8], key: &PublicKey) -> bool {
    let Some((body, signature)) = bytes.split_last_chunk::<SIGNATURE_BYTES>() else { return false };
    key.verify(&[domain.0, body].concat(), signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_signed_as_one_thing_does_not_pass_as_another() {
        let key = NodeKey::generate([1; 32]);
        let sealed = seal(Domain(b"one\n"), b"body".to_vec(), &key);
        assert!(is_sealed(Domain(b"one\n"), &sealed, &key.public()));
        assert!(!is_sealed(Domain(b"two\n"), &sealed, &key.public()));
        assert!(!is_sealed(Domain(b"one\n"), &sealed[..SIGNATURE_BYTES - 1], &key.public()));
        assert!(!is_sealed(Domain(b"one\n"), &sealed, &NodeKey::generate([2; 32]).public()));
    }
}
