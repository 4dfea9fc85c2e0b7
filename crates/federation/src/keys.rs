//! The identity of a server: an Ed25519 key pair, generated once.
//!
//! A [`NodeKey`] signs this server's segments and heads; a [`PublicKey`] identifies a server in the configuration of
//! its peers. Nothing here generates randomness; [`mod@file`] stores keys.

pub mod file;

use std::fmt;
use std::str::FromStr;

use bruit_signatures::hex;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

/// Length of a public or secret key in bytes.
pub const KEY_BYTES: usize = 32;

/// Length of a signature in bytes.
pub const SIGNATURE_BYTES: usize = 64;

/// A server's secret key. `Debug` prints only the public key.
#[derive(Clone)]
pub struct NodeKey(SigningKey);

/// A server's public key. Peers use it to identify the server and to verify its signatures.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(VerifyingKey);

/// The reason why a public key is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// The text has the wrong number of characters.
    #[error(
        "invalid public key: expected 64 hex digits, as `bruit keys show` prints them; found {characters} characters"
    )]
    Length {
        /// The number of characters.
        characters: usize,
    },
    /// The text has a character that is not a hexadecimal digit.
    #[error("invalid public key: expected 64 hex digits; found {character:?}")]
    Digit {
        /// The character.
        character: char,
    },
    /// The bytes are not a public key, or they are one of the few keys whose signatures prove nothing.
    #[error("invalid public key: a digit was mistyped, or it is a secret key")]
    NoKey,
}

impl NodeKey {
    /// Creates a key from bytes that the caller generated at random.
    #[must_use]
    pub fn generate(random: [u8; KEY_BYTES]) -> Self {
        Self(SigningKey::from_bytes(&random))
    }

    /// Returns the secret bytes from which the key was created.
    #[must_use]
    pub fn seed(&self) -> &[u8; KEY_BYTES] {
        self.0.as_bytes()
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs bytes. Signing is deterministic.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(bytes).to_bytes()
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey(public {})", self.public())
    }
}

impl PublicKey {
    /// Creates a key from its bytes.
    ///
    /// # Errors
    /// [`PublicKeyError::NoKey`] if they are not a key, or are one of the few keys whose signatures prove nothing.
    pub fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Result<Self, PublicKeyError> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| PublicKeyError::NoKey)?;
        if key.is_weak() { Err(PublicKeyError::NoKey) } else { Ok(Self(key)) }
    }

    /// Returns the bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        self.0.as_bytes()
    }

    /// Returns true if the owner of this key signed these bytes. Verification is strict: each signature has only one
    /// valid encoding, so that a signed segment has only one hash.
    #[must_use]
    pub fn verify(&self, bytes: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.0.verify_strict(bytes, &Signature::from_bytes(signature)).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = PublicKeyError;

    fn from_str(text: &str) -> Result<Self, PublicKeyError> {
        if let Some(character) = text.chars().find(|character| !character.is_ascii_hexdigit()) {
            return Err(PublicKeyError::Digit { character });
        }
        let bytes = hex::read(text).ok_or(PublicKeyError::Length { characters: text.len() })?;
        Self::from_bytes(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_of_one_key_and_these_bytes() {
        let (ours, theirs) = (NodeKey::generate([1; 32]), NodeKey::generate([2; 32]));
        let signature = ours.sign(b"said");
        assert!(ours.public().verify(b"said", &signature));
        assert!(!ours.public().verify(b"sail", &signature));
        assert!(!theirs.public().verify(b"said", &signature));
        for bit in 0..8 * SIGNATURE_BYTES {
            let mut other = signature;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!ours.public().verify(b"said", &other), "{bit}");
        }
    }

    /// RFC 8032, section 7.1, test 2.
    #[test]
    fn signatures_are_those_of_the_standard() {
        let seed = hex::read("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb").unwrap();
        let key = NodeKey::generate(seed);
        let public = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
        assert_eq!(key.public().to_string(), public);
        let signature = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
                         085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
        assert_eq!(key.sign(&[0x72]), hex::read(signature).unwrap());
    }

    #[test]
    fn a_public_key_is_read_as_it_is_written() {
        let public = NodeKey::generate([1; 32]).public();
        assert_eq!(public.to_string().parse(), Ok(public));
        assert_eq!(public.to_string().to_uppercase().parse(), Ok(public));
    }

    #[test]
    fn an_invalid_public_key_is_refused_with_the_reason() {
        let read = |text: &str| text.parse::<PublicKey>().unwrap_err();
        assert_eq!(read(""), PublicKeyError::Length { characters: 0 });
        assert_eq!(read(&"a".repeat(63)), PublicKeyError::Length { characters: 63 });
        assert_eq!(read(&"a".repeat(65)), PublicKeyError::Length { characters: 65 });
        assert_eq!(read(&"g".repeat(64)), PublicKeyError::Digit { character: 'g' });
        assert_eq!(read(&"é".repeat(32)), PublicKeyError::Digit { character: 'é' });
        // The neutral element, for which one signature is valid for every message; and a number that is not on the
        // curve.
        assert_eq!(read(&format!("01{}", "0".repeat(62))), PublicKeyError::NoKey);
        assert_eq!(read(&format!("02{}", "0".repeat(62))), PublicKeyError::NoKey);
    }

    #[test]
    fn a_secret_key_is_not_shown() {
        let key = NodeKey::generate([0xab; 32]);
        assert!(!format!("{key:?}").contains("abab"));
    }
}
