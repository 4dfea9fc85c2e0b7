//! Whitelist changes, as recorded in the journal.
//!
//! The first byte is the kind of change, and the fields follow:
//!
//! | kind | fields |
//! |---|---|
//! | list a signature (1) | fingerprint, author (u8) |
//! | unlist a signature (2) | fingerprint |
//! | add (3) or remove (4) a sender | length of the pattern (u16), pattern |

use super::{ListAuthor, SENDER_BYTES_MAX};
use crate::codec::{Malformed, Reader, put_fingerprint};
use bruit_filters::Fingerprint;

/// A change of the whitelists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhitelistChange {
    /// Whitelists a signature. Claims about it are then ignored.
    List(Fingerprint, ListAuthor),
    /// Removes a signature from the whitelist.
    Unlist(Fingerprint),
    /// Whitelists a sender or mailing list by pattern.
    AddSender(Box<[u8]>),
    /// Removes the pattern of a sender or mailing list.
    RemoveSender(Box<[u8]>),
}

/// Maximum length of an encoded pattern. [`Senders`](super::Senders) decides which patterns are valid.
const PATTERN_BYTES_MAX: usize = 2 * SENDER_BYTES_MAX;

impl WhitelistChange {
    /// Returns true if the pattern, if any, is within its length limit.
    pub(crate) fn is_within_bounds(&self) -> bool {
        match self {
            Self::List(..) | Self::Unlist(_) => true,
            Self::AddSender(pattern) | Self::RemoveSender(pattern) => pattern.len() <= PATTERN_BYTES_MAX,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::List(fingerprint, by) => {
                out.push(1);
                put_fingerprint(out, *fingerprint);
                out.push(*by as u8);
            }
            Self::Unlist(fingerprint) => {
                out.push(2);
                put_fingerprint(out, *fingerprint);
            }
            Self::AddSender(pattern) => put_pattern(out, 3, pattern),
            Self::RemoveSender(pattern) => put_pattern(out, 4, pattern),
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        const SIGNATURE: &str = "a whitelisted signature";
        Ok(match reader.u8("the kind of whitelist change")? {
            1 => {
                let fingerprint = reader.fingerprint(SIGNATURE)?;
                Self::List(fingerprint, ListAuthor::from_number(reader.u8("the author of a whitelist entry")?)?)
            }
            2 => Self::Unlist(reader.fingerprint(SIGNATURE)?),
            3 => Self::AddSender(read_pattern(reader)?),
            4 => Self::RemoveSender(read_pattern(reader)?),
            value => return Err(Malformed::OutOfRange { what: "the kind of whitelist change", value: value.into() }),
        })
    }
}

/// Appends a pattern. A pattern that is too long is written with a length that the decoder rejects.
fn put_pattern(out: &mut Vec<u8>, change: u8, pattern: &[u8]) {
    out.push(change);
    out.extend(u16::try_from(pattern.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(pattern);
}

fn read_pattern(reader: &mut Reader<'_>) -> Result<Box<[u8]>, Malformed> {
    let length = usize::from(reader.u16("the length of a sender")?);
    if length > PATTERN_BYTES_MAX {
        return Err(Malformed::OutOfRange { what: "the length of a sender", value: length as u64 });
    }
    Ok(reader.bytes(length, "a sender")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_round_trips() {
        let changes = [
            WhitelistChange::List(Fingerprint::new(1, 2), ListAuthor::Protocol),
            WhitelistChange::Unlist(Fingerprint::new(3, 4)),
            WhitelistChange::AddSender(b"@example.org".as_slice().into()),
            WhitelistChange::RemoveSender([b'a'; SENDER_BYTES_MAX].into()),
        ];
        for change in changes {
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            assert_eq!(WhitelistChange::decode(&mut reader), Ok(change));
            assert_eq!(reader.finish(), Ok(()));
            (0..bytes.len()).for_each(|cut| assert!(WhitelistChange::decode(&mut Reader::new(&bytes[..cut])).is_err()));
        }
    }
}
