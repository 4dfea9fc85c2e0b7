//! What a client asks.

use super::extensions;
use super::{COMMAND_BYTES, DATAGRAM_BYTES_MAX, DIGEST_BYTES, SHINGLED_BYTES, SHINGLES, put, split};

/// The version in the low half of its byte; the high half has flags of the client.
const VERSION_MASK: u8 = 0x0f;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Which language it is in.
    pub version: Version,
    /// What is asked.
    pub operation: Operation,
    /// The list, such as "spam" or "white": what the numbers mean is between the clients.
    pub flag: u8,
    /// The weight that is written; 0 in a check.
    pub value: i32,
    /// What the reply repeats, so that the client knows it by.
    pub tag: u32,
    /// The digest of the text.
    pub digest: [u8; DIGEST_BYTES],
    /// Its shingles; texts of few words have none.
    pub shingles: Option<[u64; SHINGLES]>,
}

/// The versions of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Of very old clients, whose replies are short.
    V3,
    /// rspamd to date. The byte may have flags of the client: 0x14 is from one that also reads longer replies.
    V4,
    /// A client that has seen a longer reply.
    V5,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// What is known of a text.
    Check = 0,
    /// A text is put on a list.
    Write = 1,
    /// A text is taken off.
    Delete = 2,
    /// How many texts are known.
    Stat = 3,
    /// Whether anybody is there.
    Ping = 4,
}

/// Why a datagram holds no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It ends before the command does.
    #[error("a datagram of {length} bytes ends before its command does")]
    TooShort {
        /// Its length.
        length: usize,
    },
    /// It is longer than a command can be.
    #[error("a datagram of {length} bytes is longer than a command of its version")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// A language nobody knows.
    #[error("version byte {0:#04x} is none of 3, 4 and 5")]
    Version(u8),
    /// No command of the network: rspamd has some of its own above.
    #[error("command {0} is none of 0 to 4")]
    Operation(u8),
    /// An extension ends too early.
    #[error("an extension of type {kind:#04x} is cut")]
    ExtensionCut {
        /// Its type.
        kind: u8,
    },
    /// An extension whose length is not known.
    #[error("extensions of type {kind:#04x} are not known")]
    Extension {
        /// Its type.
        kind: u8,
    },
}

impl Command {
    /// Reads a command from a datagram, or from what one was decrypted to.
    ///
    /// # Errors
    /// [`DecodeError`] for anything that is not a command; it is not to be answered.
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

    /// Reads the part that every command has, and whether shingles follow: any number of them stands for all 32.
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

    /// Writes the command as a client sends it, without extensions.
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

    /// What is equal in a command and in those sent again because no reply came, and differs otherwise: its bytes but for the
    /// shingles and what follows them. The address of the client goes with it.
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

    /// A check of version 4 with a block of shingles.
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
        // 0x14 is rspamd 4's first request to a server.
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
        // A block of shingles that the head does not announce is no extension either.
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
