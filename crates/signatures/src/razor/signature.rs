//! Signatures of a part: 20 bytes for e4, 8 bytes for e8, and their text forms.

use std::fmt;
use std::str::FromStr;

use super::razor64;

/// The e4 signature of a part: the SHA-1 of two sections of its text, or of the whole text.
///
/// ```
/// use bruit_signatures::razor::E4Signature;
///
/// let signature: E4Signature = "maD-J2LHO2hbHzZrbOXcsZ6ndsoA".parse()?;
/// assert_eq!(signature.to_string(), "maD-J2LHO2hbHzZrbOXcsZ6ndsoA");
/// # Ok::<(), bruit_signatures::razor::SignatureError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct E4Signature(pub [u8; 20]);

/// An e8 signature of a part: 48 bits for a domain that it links to, and 16 bits for its length in hundreds of bytes.
///
/// The signature is weak by design, because all parts of similar length that link to the same domain share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct E8Signature(pub [u8; 8]);

/// Reason why a text is not a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// Not the razor64 form of 20 bytes.
    #[error("invalid e4 signature: expected 28 razor64 characters ending in `A`")]
    NotE4,
    /// Not the razor64 form of 8 bytes.
    #[error("invalid e8 signature: expected 12 razor64 characters ending in `A`")]
    NotE8,
}

impl fmt::Display for E4Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&razor64::encode(&self.0))
    }
}

impl fmt::Display for E8Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&razor64::encode(&self.0))
    }
}

impl FromStr for E4Signature {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        razor64::decode(text).map(Self).ok_or(SignatureError::NotE4)
    }
}

impl FromStr for E8Signature {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        razor64::decode(text).map(Self).ok_or(SignatureError::NotE8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_read_what_they_write() {
        let (e4, e8) = (E4Signature([0xa1; 20]), E8Signature([0x5e; 8]));
        assert_eq!(e4.to_string().parse(), Ok(e4));
        assert_eq!(e8.to_string().parse(), Ok(e8));
        assert_eq!(e8.to_string().parse::<E4Signature>(), Err(SignatureError::NotE4));
        assert_eq!(e4.to_string().parse::<E8Signature>(), Err(SignatureError::NotE8));
    }
}
