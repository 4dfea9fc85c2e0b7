//! Who a server is to others: an Ed25519 key pair, made once.
//!
//! A [`NodeKey`] signs what the server says, a [`PublicKey`] is its name in the configuration of others. Nothing here draws
//! randomness; [`mod@file`] is where a key is kept.

pub mod file;

use std::fmt;
use std::str::FromStr;

use bruit_signatures::hex;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

/// The bytes of a key, public or secret.
pub const KEY_BYTES: usize = 32;

/// The bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// What a server signs with. Never shown: `Debug` writes the public half.
#[derive(Clone)]
pub struct NodeKey(SigningKey);

/// By which others know a server, and what they verify with.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(VerifyingKey);

/// Why something is no public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicKeyError {
    /// Too few or too many characters.
    #[error("a public key is 64 hexadecimal digits, as `bruit keys show` prints it; this has {characters} characters")]
    Length {
        /// How many there are.
        characters: usize,
    },
    /// Another character.
    #[error("a public key is 64 hexadecimal digits; {character:?} is none")]
    Digit {
        /// Which.
        character: char,
    },
    /// No key has these bytes, or one that proves nothing.
    #[error("these digits are no public key: one of them was mistyped, or it is a secret key")]
    NoKey,
}

impl NodeKey {
    /// A key made of bytes that the caller drew at random.
    #[must_use]
    pub fn generate(random: [u8; KEY_BYTES]) -> Self {
        Self(SigningKey::from_bytes(&random))
    }

    /// The secret bytes that it was made of.
    #[must_use]
    pub fn seed(&self) -> &[u8; KEY_BYTES] {
        self.0.as_bytes()
    }

    /// What others verify with.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs bytes; the same bytes give the same signature.
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
    /// The key with these bytes.
    ///
    /// # Errors
    /// [`PublicKeyError::NoKey`] if there is none, or one of the few under which signatures prove nothing.
    pub fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Result<Self, PublicKeyError> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| PublicKeyError::NoKey)?;
        if key.is_weak() { Err(PublicKeyError::NoKey) } else { Ok(Self(key)) }
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        self.0.as_bytes()
    }

    /// Whether the owner of this key signed these bytes. Strict: of every signature there is one form only, so that what was
    /// signed has one hash.
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
    fn what_is_no_public_key_says_why() {
        let read = |text: &str| text.parse::<PublicKey>().unwrap_err();
        assert_eq!(read(""), PublicKeyError::Length { characters: 0 });
        assert_eq!(read(&"a".repeat(63)), PublicKeyError::Length { characters: 63 });
        assert_eq!(read(&"a".repeat(65)), PublicKeyError::Length { characters: 65 });
        assert_eq!(read(&"g".repeat(64)), PublicKeyError::Digit { character: 'g' });
        assert_eq!(read(&"é".repeat(32)), PublicKeyError::Digit { character: 'é' });
        // The neutral element, under which one signature holds for everything; and a number that is on no curve.
        assert_eq!(read(&format!("01{}", "0".repeat(62))), PublicKeyError::NoKey);
        assert_eq!(read(&format!("02{}", "0".repeat(62))), PublicKeyError::NoKey);
    }

    #[test]
    fn a_secret_key_is_not_shown() {
        let key = NodeKey::generate([0xab; 32]);
        assert!(!format!("{key:?}").contains("abab"));
    }
}
