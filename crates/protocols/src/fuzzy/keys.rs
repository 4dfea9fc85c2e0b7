//! Curve25519 key pairs and key IDs.

use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq;
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use super::sealed::SharedKey;
use super::text::{self, KeyTextError};

/// Size of a key, public or secret.
pub const KEY_BYTES: usize = 32;

/// Size of a key ID, which is the first bytes of the server's public key. Each encrypted request contains it.
pub const KEY_ID_BYTES: usize = 8;

/// Identifies the server key for which a request is encrypted.
pub type KeyId = [u8; KEY_ID_BYTES];

/// A public key. Its text form is the same as in rspamd's `encryption_key` setting.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(pub [u8; KEY_BYTES]);

/// A key pair.
#[derive(Clone)]
pub struct Keypair {
    secret: [u8; KEY_BYTES],
    public: PublicKey,
}

/// Error: no [`SharedKey`] can be derived, because the public key is weak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("weak public key: it yields the same shared key with every other key")]
pub struct KeyError;

impl PublicKey {
    /// Returns the key ID used in requests.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.0.first_chunk().copied().unwrap_or_default()
    }
}

impl Keypair {
    /// Creates a key pair from a secret of 32 random bytes.
    #[must_use]
    pub fn from_secret(secret: [u8; KEY_BYTES]) -> Self {
        Self { secret, public: PublicKey(x25519(secret, X25519_BASEPOINT_BYTES)) }
    }

    /// Creates a key pair from a secret in rspamd's text form (`privkey`) or in hexadecimal.
    ///
    /// # Errors
    /// Returns [`KeyTextError`] if the text is not a key.
    pub fn from_secret_text(text: &str) -> Result<Self, KeyTextError> {
        text::decode(text).map(Self::from_secret)
    }

    /// Returns the public key.
    #[must_use]
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// Returns the secret key in rspamd's text form.
    #[must_use]
    pub fn secret_text(&self) -> String {
        text::encode(&self.secret)
    }

    /// Derives the key shared with the owner of another public key. This takes tens of microseconds, so cache the
    /// result.
    ///
    /// # Errors
    /// Returns [`KeyError`] if the result does not depend on our secret. Anyone could compute such a key.
    pub fn shared_key(&self, other: &PublicKey) -> Result<SharedKey, KeyError> {
        let point = x25519(self.secret, other.0);
        let is_zero = point.ct_eq(&[0; KEY_BYTES]);
        if is_zero.into() { Err(KeyError) } else { Ok(SharedKey::from_point(&point)) }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&text::encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        text::decode(text).map(Self)
    }
}

impl fmt::Debug for Keypair {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keypair").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "opfr9epmoe9ufaqcwkozo7qhafyrsmzw7naxiiyqth4fzobz7poy";
    const PUBLIC: &str = "diwhu69wtbehuj3zfjuq9iytk9ya5eekgrbx58hukea5zfdb63ty";

    #[test]
    fn the_public_half_follows_from_the_secret() {
        let pair = Keypair::from_secret_text(SECRET).unwrap();
        assert_eq!(pair.public().to_string(), PUBLIC);
        assert_eq!(PUBLIC.parse(), Ok(pair.public()));
        assert_eq!(pair.secret_text(), SECRET);
        assert_eq!(pair.public().id(), [0xa3, 0x52, 0x3e, 0xfd, 0xa7, 0x31, 0x20, 0x3e]);
    }

    #[test]
    fn both_sides_share_the_same_key() {
        let (ours, theirs) = (Keypair::from_secret([1; 32]), Keypair::from_secret([2; 32]));
        assert_eq!(ours.shared_key(&theirs.public()), theirs.shared_key(&ours.public()));
        assert_ne!(ours.shared_key(&theirs.public()), ours.shared_key(&ours.public()));
    }

    #[test]
    fn public_keys_that_anybody_shares_are_refused() {
        let ours = Keypair::from_secret([1; 32]);
        let mut one = [0; 32];
        one[0] = 1;
        for point in [[0; 32], one] {
            assert_eq!(ours.shared_key(&PublicKey(point)), Err(KeyError));
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let pair = Keypair::from_secret_text(SECRET).unwrap();
        let shown = format!("{pair:?}");
        assert!(shown.contains(PUBLIC) && !shown.contains(SECRET), "{shown}");
    }
}
