//! Key pairs of Curve25519, and what requests call them.

use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq;
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use super::sealed::SharedKey;
use super::text::{self, KeyTextError};

/// The bytes of a key, public or secret.
pub const KEY_BYTES: usize = 32;

/// The leading bytes of a public key that a request carries.
pub const KEY_ID_BYTES: usize = 8;

/// What a request calls the key of the server that it is encrypted to.
pub type KeyId = [u8; KEY_ID_BYTES];

/// The public half of a key pair. Its text is that of rspamd's configuration, `encryption_key`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(pub [u8; KEY_BYTES]);

/// A key pair.
#[derive(Clone)]
pub struct Keypair {
    secret: [u8; KEY_BYTES],
    public: PublicKey,
}

/// Why there is no [`SharedKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the public key is of those that give the same shared key with every other")]
pub struct KeyError;

impl PublicKey {
    /// What a request calls it.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.0.first_chunk().copied().unwrap_or_default()
    }
}

impl Keypair {
    /// The pair of a secret: 32 random bytes.
    #[must_use]
    pub fn from_secret(secret: [u8; KEY_BYTES]) -> Self {
        Self { secret, public: PublicKey(x25519(secret, X25519_BASEPOINT_BYTES)) }
    }

    /// The pair of a secret in rspamd's text form (`privkey`), or in hexadecimal.
    ///
    /// # Errors
    /// [`KeyTextError`] if that is none.
    pub fn from_secret_text(text: &str) -> Result<Self, KeyTextError> {
        text::decode(text).map(Self::from_secret)
    }

    /// The public half.
    #[must_use]
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// The secret half in rspamd's text form.
    #[must_use]
    pub fn secret_text(&self) -> String {
        text::encode(&self.secret)
    }

    /// What is shared with the owner of another public key. It takes tens of microseconds: keep it.
    ///
    /// # Errors
    /// [`KeyError`] if anybody could compute it, as it does not depend on our secret.
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
    /// Without the secret.
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
