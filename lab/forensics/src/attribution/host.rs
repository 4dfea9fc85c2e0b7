//! Senders and recipients.

use std::fmt;
use std::net::IpAddr;

/// Maximum length of a name. RFC 5321 (section 4.5.3.1) limits a mail address to 64 bytes before the `@` and 255 after
/// it.
pub const NAME_BYTES_MAX: usize = 64 + 1 + 255;

/// Sender or recipient of a payload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A network address.
    Address(IpAddr),
    /// A mail address of at most [`NAME_BYTES_MAX`] bytes.
    Name(Box<str>),
    /// Not stated.
    Unknown,
}

impl Host {
    /// Returns `name` as a host, or [`Unknown`](Self::Unknown) if it is empty or too long.
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

/// A sender and a recipient.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Sender as claimed in the packet or message.
    pub source: Host,
    /// Recipient.
    pub destination: Host,
}
