//! rspamd's fuzzy storage: a request is encrypted to one of the server's public keys, and carries the first eight bytes
//! of that key.
//!
//! A client generates a new key at every start, so its key does not identify it. Instead, the server has a separate key
//! for each account, and a set of flags that the account may write. The MAC of a request proves that the request was
//! encrypted to that server key. The code that holds the private keys verifies the MAC; this module does not.

use crate::codec::{Malformed, Reader};

/// Length of a public key (Curve25519) in bytes.
pub const KEY_BYTES: usize = 32;

/// Number of leading bytes of a public key that a request carries.
pub const KEY_ID_BYTES: usize = 8;

/// The key of an account and the flags it may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuzzyKey {
    /// Public half of the server's key pair for this account.
    pub public_key: [u8; KEY_BYTES],
    /// Flags the account may write. The account may check all flags.
    pub flags: Flags,
}

/// A set of flags, each from 0 to 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags([u64; 4]);

impl FuzzyKey {
    /// Returns the key id that requests carry.
    #[must_use]
    pub fn id(&self) -> [u8; KEY_ID_BYTES] {
        std::array::from_fn(|at| self.public_key[at])
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.public_key);
        self.flags.0.iter().for_each(|word| out.extend(word.to_le_bytes()));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let public_key = reader.array("a fuzzy key")?;
        let mut flags = Flags::default();
        for word in &mut flags.0 {
            *word = reader.u64("the flags of a fuzzy key")?;
        }
        Ok(Self { public_key, flags })
    }
}

impl Flags {
    /// The set of all flags.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// Returns true if the flag is in the set.
    #[must_use]
    pub const fn contains(&self, flag: u8) -> bool {
        self.0[flag as usize / 64] >> (flag % 64) & 1 == 1
    }
}

impl FromIterator<u8> for Flags {
    fn from_iter<I: IntoIterator<Item = u8>>(flags: I) -> Self {
        let mut set = Self::default();
        flags.into_iter().for_each(|flag| set.0[usize::from(flag) / 64] |= 1 << (flag % 64));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_the_flags_it_was_given() {
        let given = [0, 1, 11, 63, 64, 200, 255];
        let set: Flags = given.into_iter().collect();
        for flag in 0..=255 {
            assert_eq!(set.contains(flag), given.contains(&flag), "{flag}");
            assert!(Flags::ALL.contains(flag) && !Flags::default().contains(flag));
        }
    }

    #[test]
    fn a_key_id_is_the_first_bytes_of_the_key() {
        let key = FuzzyKey { public_key: std::array::from_fn(|at| at as u8), flags: Flags::ALL };
        assert_eq!(key.id(), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
