//! Commands: the requests of a client.

use super::extensions;
use super::{COMMAND_BYTES, DATAGRAM_BYTES_MAX, DIGEST_BYTES, SHINGLED_BYTES, SHINGLES, put, split};

/// The bits of the version byte that contain the version. The other bits are client flags.
const VERSION_MASK: u8 = 0x0f;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Protocol version.
    pub version: Version,
    /// Requested operation.
    pub operation: Operation,
    /// Number of a list, such as the one for spam. The clients of a storage agree on the meaning of each number.
    pub flag: u8,
    /// The weight to write; 0 in a check.
    pub value: i32,
    /// A tag that the reply repeats, so that the client can match the reply with the request.
    pub tag: u32,
    /// The digest of the text.
    pub digest: [u8; DIGEST_BYTES],
    /// Shingles of the text. Short texts have none.
    pub shingles: Option<[u64; SHINGLES]>,
}

/// A protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Very old clients, which expect short replies.
    V3,
    /// Current rspamd. The byte may carry client flags: 0x14 marks a client that also accepts longer replies.
    V4,
    /// A client that has received a longer reply.
    V5,
}

/// A requested operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Look up a text.
    Check = 0,
    /// Add a text to a list.
    Write = 1,
    /// Remove a text from a list.
    Delete = 2,
    /// Return the number of known texts.
    Stat = 3,
    /// Test whether the server responds.
    Ping = 4,
}

/// Reason why a datagram is not a valid command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The datagram is shorter than its command.
    #[error("truncated command: the datagram has only {length} bytes")]
    TooShort {
        /// Length of the datagram.
        length: usize,
    },
    /// The datagram is longer than the longest command.
    #[error("datagram of {length} bytes is too long for a command of its version")]
    TooLong {
        /// Length of the datagram.
        length: usize,
    },
    /// Unknown version.
    #[error("unknown version byte {0:#04x}: expected version 3, 4 or 5")]
    Version(u8),
    /// The operation is not one that clients can request. rspamd uses higher numbers internally.
    #[error("unknown command {0}: expected 0 to 4")]
    Operation(u8),
    /// An extension is truncated.
    #[error("truncated extension of type {kind:#04x}")]
    ExtensionCut {
        /// The type of the extension.
        kind: u8,
    },
    /// The length of an extension is unknown.
    #[error("unknown extension type {kind:#04x}")]
    Extension {
        /// The type of the extension.
        kind: u8,
    },
}

impl Command {
    /// Decodes a command from a plain datagram or from decrypted bytes.
    ///
    /// # Errors
    /// Returns [`DecodeError`] if the bytes are not a command. Such datagrams must not be answered.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let length = bytes.len();
        if length > DATAGRAM_BYTES_MAX {
            return Err(DecodeError::TooLong { length });
        }
        let (head, rest) = split::<COMMAND_BYTES>(bytes).ok_or(DecodeError::TooShort { length })?;
        let (mut command, has_shingles) = Self::decode_head(head)?;
        let mut extensions = rest;
        if has_shingles {
            let (shingles, rest) = split(rest).ok_or(DecodeError::TooShort { length })?;
            command.shingles = Some(decode_shingles(shingles));
            extensions = rest;
        }
        if command.version == Version::V3 && !extensions.is_empty() {
            return Err(DecodeError::TooLong { length });
        }
        extensions::skip_all(extensions)?;
        Ok(command)
    }

    /// Decodes the fixed part. Also returns true if shingles follow. Any nonzero shingle count stands for all 32.
    fn decode_head(head: &[u8; COMMAND_BYTES]) -> Result<(Self, bool), DecodeError> {
        let [version, operation, shingle_count, flag, v0, v1, v2, v3, t0, t1, t2, t3, digest @ ..] = head;
        let command = Self {
            version: Version::decode(*version)?,
            operation: Operation::decode(*operation)?,
            flag: *flag,
            value: i32::from_le_bytes([*v0, *v1, *v2, *v3]),
            tag: u32::from_le_bytes([*t0, *t1, *t2, *t3]),
            digest: *digest,
            shingles: None,
        };
        Ok((command, *shingle_count > 0))
    }

    /// Encodes the command as a client sends it, without extensions.
    pub fn encode<'b>(&self, out: &'b mut [u8; SHINGLED_BYTES]) -> &'b [u8] {
        let mut rest = put(out, &self.head());
        let Some(shingles) = &self.shingles else {
            return out.first_chunk::<COMMAND_BYTES>().map_or(&[], |head| head);
        };
        for shingle in shingles {
            rest = put(rest, &shingle.to_le_bytes());
        }
        out
    }

    /// Returns a key that a command shares only with its retransmissions: the command without shingles and extensions.
    /// The caller adds the client's address.
    #[must_use]
    pub fn duplicate_key(&self) -> [u8; COMMAND_BYTES] {
        self.head()
    }

    fn head(&self) -> [u8; COMMAND_BYTES] {
        let mut head = [0; COMMAND_BYTES];
        let [version, operation, shingle_count, flag, v0, v1, v2, v3, t0, t1, t2, t3, digest @ ..] = &mut head;
        *version = self.version.byte();
        *operation = self.operation as u8;
        *shingle_count = self.shingles.map_or(0, |shingles| shingles.len() as u8);
        *flag = self.flag;
        [*v0, *v1, *v2, *v3] = self.value.to_le_bytes();
        [*t0, *t1, *t2, *t3] = self.tag.to_le_bytes();
        *digest = self.digest;
        head
    }
}

impl Version {
    const fn decode(byte: u8) -> Result<Self, DecodeError> {
        match (byte, byte & VERSION_MASK) {
            (3, _) => Ok(Self::V3),
            (_, 4) => Ok(Self::V4),
            (_, 5) => Ok(Self::V5),
            _ => Err(DecodeError::Version(byte)),
        }
    }

    const fn byte(self) -> u8 {
        match self {
            Self::V3 => 3,
            Self::V4 => 4,
            Self::V5 => 5,
        }
    }
}

impl Operation {
    const fn decode(byte: u8) -> Result<Self, DecodeError> {
        match byte {
            0 => Ok(Self::Check),
            1 => Ok(Self::Write),
            2 => Ok(Self::Delete),
            3 => Ok(Self::Stat),
            4 => Ok(Self::Ping),
            _ => Err(DecodeError::Operation(byte)),
        }
    }
}

fn decode_shingles(bytes: &[u8; SHINGLES * 8]) -> [u64; SHINGLES] {
    let mut shingles = [0; SHINGLES];
    for (shingle, bytes) in shingles.iter_mut().zip(bytes.as_chunks().0) {
        *shingle = u64::from_le_bytes(*bytes);
    }
    shingles
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a check of version 4 with a block of shingles.
    fn shingled() -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..SHINGLED_BYTES).map(|at| at as u8).collect();
        bytes[..3].copy_from_slice(&[4, 0, 32]);
        bytes
    }

    fn with(at: usize, byte: u8) -> Vec<u8> {
        let mut bytes = shingled();
        bytes[at] = byte;
        bytes
    }

    #[test]
    fn the_versions_of_old_and_new_clients_are_understood() {
        let version = |byte| Command::decode(&with(0, byte)).map(|command| command.version);
        assert_eq!(version(3), Ok(Version::V3));
        // rspamd 4 sends 0x14 in its first request to a server.
        for (byte, expected) in [(4, Version::V4), (0x14, Version::V4), (5, Version::V5), (0x15, Version::V5)] {
            assert_eq!(version(byte), Ok(expected));
        }
        for byte in [0, 1, 2, 0x13, 6, 0x16, 0xff] {
            assert_eq!(version(byte), Err(DecodeError::Version(byte)));
        }
    }

    #[test]
    fn commands_of_the_storage_itself_are_refused() {
        for byte in [5, 100, 101, 255] {
            assert_eq!(Command::decode(&with(1, byte)), Err(DecodeError::Operation(byte)));
        }
        assert_eq!(Command::decode(&with(1, 4)).map(|command| command.operation), Ok(Operation::Ping));
    }

    #[test]
    fn any_number_of_shingles_is_all_of_them() {
        let all = Command::decode(&shingled()).unwrap().shingles;
        assert_eq!(all.unwrap()[0], u64::from_le_bytes([76, 77, 78, 79, 80, 81, 82, 83]));
        for count in [1, 31, 33, 255] {
            assert_eq!(Command::decode(&with(2, count)).map(|command| command.shingles), Ok(all));
        }
        let cut = &shingled()[..SHINGLED_BYTES - 1];
        assert_eq!(Command::decode(cut), Err(DecodeError::TooShort { length: cut.len() }));
    }

    #[test]
    fn a_command_is_at_least_as_long_as_its_head() {
        let bytes = &with(2, 0)[..COMMAND_BYTES];
        assert_eq!(Command::decode(bytes).map(|command| command.shingles), Ok(None));
        assert_eq!(Command::decode(&bytes[1..]), Err(DecodeError::TooShort { length: 75 }));
        assert_eq!(Command::decode(&[]), Err(DecodeError::TooShort { length: 0 }));
    }

    #[test]
    fn old_clients_have_no_extensions() {
        let extended = |version| [with(0, version), b"4\x01\x02\x03\x04".to_vec()].concat();
        let length = SHINGLED_BYTES + 5;
        assert_eq!(Command::decode(&extended(3)), Err(DecodeError::TooLong { length }));
        assert!(Command::decode(&extended(4)).is_ok());
        // Shingles that the head does not announce also make the datagram too long.
        let mut unannounced = with(0, 3);
        unannounced[2] = 0;
        assert_eq!(Command::decode(&unannounced), Err(DecodeError::TooLong { length: SHINGLED_BYTES }));
    }

    #[test]
    fn the_longest_datagram_is_read_and_no_longer_one() {
        let mut bytes = shingled();
        while bytes.len() < DATAGRAM_BYTES_MAX {
            let length = (DATAGRAM_BYTES_MAX - bytes.len() - 2).min(255);
            bytes.extend([b'd', length as u8]);
            bytes.extend(vec![b'a'; length]);
        }
        assert_eq!(bytes.len(), DATAGRAM_BYTES_MAX);
        assert!(Command::decode(&bytes).is_ok());
        bytes.extend(b"d\0");
        assert_eq!(Command::decode(&bytes), Err(DecodeError::TooLong { length: DATAGRAM_BYTES_MAX + 2 }));
    }

    #[test]
    fn duplicates_are_told_by_tag_digest_and_command() {
        let key = |at| Command::decode(&with(at, 2)).unwrap().duplicate_key();
        let usual = Command::decode(&shingled()).unwrap().duplicate_key();
        for at in [1, 3, 4, 8, 12, 75] {
            assert_ne!(key(at), usual, "byte {at}");
        }
        let extended = [shingled(), b"d\x01a".to_vec()].concat();
        assert_eq!(Command::decode(&extended).unwrap().duplicate_key(), usual);
    }
}
