//! SHA-256 signatures, in the text form of `sha256sum`.

use std::fmt;

use crate::hex;

/// A signature of the schemes [`exact`](crate::exact), [`attachment`](crate::attachment) and [`url`](crate::url).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Signature(pub [u8; 32]);

impl fmt::Display for Sha256Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(out, &self.0)
    }
}

impl fmt::Debug for Sha256Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sha256Signature({self})")
    }
}
