//! IDs of messages under a secret key. A retry of a message has the same ID, so the server counts it once. Without the
//! key, an ID reveals nothing about sender, recipients and text.

use bruit_filters::{Fingerprint, FingerprintKey};

/// The ID of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity(Fingerprint);

/// The secret key.
pub(crate) struct IdentityKey(FingerprintKey);

impl IdentityKey {
    /// Creates a random key.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(FingerprintKey::new(bytes)))
    }

    /// Returns the ID of a message. `recipients` is a sum of [hashes](Self::hash).
    pub(crate) fn identity(&self, sender: &[u8], recipients: u64, message: &[u8]) -> Identity {
        let message = self.0.fingerprint(message);
        let numbers = [recipients, message.high(), message.low()].map(u64::to_le_bytes);
        // The numbers have a fixed length and come first, so no two messages give the same bytes.
        Identity(self.0.fingerprint(&[numbers.as_flattened(), sender].concat()))
    }

    /// Returns a hash of other bytes.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        self.0.fingerprint(bytes).high()
    }
}

impl std::fmt::Display for Identity {
    /// Writes the 32 hexadecimal digits that a report's ID has.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:016x}{:016x}", self.0.high(), self.0.low())
    }
}

#[cfg(test)]
impl IdentityKey {
    /// A key for tests.
    pub(crate) fn fixed() -> Self {
        Self(FingerprintKey::new([7; 16]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_depends_on_every_part_and_on_the_key() {
        let [key, other] = [1, 2].map(|byte| IdentityKey(FingerprintKey::new([byte; 16])));
        let first = key.identity(b"a@b", 7, b"text");
        assert_eq!(first, key.identity(b"a@b", 7, b"text"));
        assert_eq!(first.to_string().len(), 32);
        for different in [
            key.identity(b"a@c", 7, b"text"),
            key.identity(b"a@b", 8, b"text"),
            key.identity(b"a@b", 7, b"texts"),
            key.identity(b"a@btext", 7, b""),
            other.identity(b"a@b", 7, b"text"),
        ] {
            assert_ne!(first, different);
        }
    }
}
