//! Who sent or received something.

use std::fmt;
use std::net::IpAddr;

/// Longest name: an address of RFC 5321 (4.5.3.1), 64 bytes before the `@` and 255 behind it.
pub const NAME_BYTES_MAX: usize = 64 + 1 + 255;

/// One end of what was carried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An address of the network.
    Address(IpAddr),
    /// An address of mail, of at most [`NAME_BYTES_MAX`] bytes.
    Name(Box<str>),
    /// It does not say.
    Unknown,
}

impl Host {
    /// A name, if it is one and not too long.
    #[must_use]
    pub fn named(name: &str) -> Self {
        if (1..=NAME_BYTES_MAX).contains(&name.len()) { Self::Name(name.into()) } else { Self::Unknown }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Name(name) => write!(f, "{name}"),
            Self::Unknown => write!(f, "unknown"),
        }
    }
}

/// From whom, to whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Who sent it, as it says itself.
    pub source: Host,
    /// Who received it.
    pub destination: Host,
}
