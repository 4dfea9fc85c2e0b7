//! Account names, and the rules for them in each protocol.

use crate::codec::Malformed;

/// Maximum name length in bytes. Razor names are mostly mail addresses. The protocols set no limit.
pub const NAME_BYTES_MAX: usize = 128;

/// Valid DCC client-IDs. Lower numbers are reserved for servers, and higher numbers do not exist.
const DCC_CLIENT_IDS: std::ops::RangeInclusive<u32> = 32_768..=16_777_215;

/// The protocol of an account. Names are unique within a protocol. The number of a protocol appears in files and never
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// Razor: a user name, usually a mail address.
    Razor = 1,
    /// Pyzor: a user name.
    Pyzor = 2,
    /// DCC: a client-ID in decimal digits.
    Dcc = 3,
    /// rspamd's fuzzy storage: any name, because requests carry only the key.
    Fuzzy = 4,
}

/// Error for an invalid name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty or too long.
    #[error("a name must be 1 to {NAME_BYTES_MAX} bytes long, not {bytes}")]
    Length {
        /// Length of the name in bytes.
        bytes: usize,
    },
    /// The name contains a byte that the protocol's messages or files cannot represent.
    #[error(
        "a name must consist of printable ASCII characters without spaces; a Pyzor name must not contain ':' or ','"
    )]
    Character,
    /// The name is the one that Pyzor reserves for requests without an account.
    #[error("the name 'anonymous' is reserved for requests without an account")]
    Anonymous,
    /// The name is not a DCC client-ID.
    #[error("the name of a DCC account must be a client-ID: a number from 32768 to 16777215 without leading zeros")]
    NotAClientId,
}

impl Protocol {
    /// All protocols, by number.
    pub const ALL: [Self; 4] = [Self::Razor, Self::Pyzor, Self::Dcc, Self::Fuzzy];

    /// Returns the name used in configuration and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Razor => "razor",
            Self::Pyzor => "pyzor",
            Self::Dcc => "dcc",
            Self::Fuzzy => "fuzzy",
        }
    }

    /// Checks that the name is valid for an account of this protocol.
    ///
    /// # Errors
    /// [`NameError`] if it is not.
    pub fn check_name(self, name: &[u8]) -> Result<(), NameError> {
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return Err(NameError::Length { bytes: name.len() });
        }
        if !name.iter().all(|&byte| self.allows(byte)) {
            return Err(NameError::Character);
        }
        match self {
            Self::Pyzor if name.eq_ignore_ascii_case(b"anonymous") => Err(NameError::Anonymous),
            Self::Dcc if !is_client_id(name) => Err(NameError::NotAClientId),
            _ => Ok(()),
        }
    }

    fn allows(self, byte: u8) -> bool {
        byte.is_ascii_graphic() && !(self == Self::Pyzor && matches!(byte, b':' | b','))
    }

    pub(super) const fn index(self) -> usize {
        self as usize - 1
    }

    pub(super) fn from_number(number: u8) -> Result<Self, Malformed> {
        let known = Self::ALL.into_iter().find(|&protocol| protocol as u8 == number);
        known.ok_or_else(|| Malformed::OutOfRange { what: "a protocol", value: number.into() })
    }
}

fn is_client_id(name: &[u8]) -> bool {
    let number = str::from_utf8(name).ok().and_then(|digits| digits.parse().ok());
    name[0].is_ascii_digit() && name[0] != b'0' && number.is_some_and(|id| DCC_CLIENT_IDS.contains(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_names_is_bounded() {
        for protocol in [Protocol::Razor, Protocol::Pyzor, Protocol::Fuzzy] {
            assert_eq!(protocol.check_name(&[b'a'; NAME_BYTES_MAX]), Ok(()));
            for bytes in [0, NAME_BYTES_MAX + 1] {
                assert_eq!(protocol.check_name(&vec![b'a'; bytes]), Err(NameError::Length { bytes }));
            }
        }
    }

    #[test]
    fn names_contain_only_characters_of_the_protocol() {
        assert_eq!(Protocol::Razor.check_name(b"alice@example.org"), Ok(()));
        for name in [&b"a b"[..], b"a\n", b"\xff", b"\0"] {
            assert_eq!(Protocol::Razor.check_name(name), Err(NameError::Character));
        }
        assert_eq!(Protocol::Razor.check_name(b"a:b"), Ok(()));
        assert_eq!(Protocol::Pyzor.check_name(b"a:b"), Err(NameError::Character));
        assert_eq!(Protocol::Pyzor.check_name(b"Anonymous"), Err(NameError::Anonymous));
    }

    #[test]
    fn dcc_accounts_are_client_ids() {
        for name in ["32768", "16777215"] {
            assert_eq!(Protocol::Dcc.check_name(name.as_bytes()), Ok(()));
        }
        for name in ["32767", "16777216", "032768", "+32768", "alice", "99999999999"] {
            assert_eq!(Protocol::Dcc.check_name(name.as_bytes()), Err(NameError::NotAClientId), "{name}");
        }
    }
}
