//! The header of journal files and snapshots, and the checksum used throughout both.
//!
//! The checksum is XXH3-64, seeded with the realm and the file's sequence. A search after a damaged record tests at
//! every byte whether a record begins there. For this reason, the checksum has 64 bits; 32 bits would match by accident
//! about once in a hundred full journal files. Because of the seed, a record from one file is not accepted in another.

use bruit_engine::codec::Reader;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Length of the header of a journal file or snapshot.
pub const HEADER_BYTES: usize = 48;

/// The format version. There is only one so far.
pub(crate) const VERSION: u32 = 1;

/// Highest sequence that a file may contain. No disk can hold that many events, and arithmetic with it does not
/// overflow.
pub(crate) const SEQUENCE_MAX: u64 = 1 << 62;

/// Length of every checksum.
pub(crate) const CHECKSUM_BYTES: usize = 8;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records of the journal.
    Journal,
    /// A complete state.
    Snapshot,
}

impl Kind {
    const fn magic(self) -> [u8; 8] {
        match self {
            Self::Journal => *b"\x89bruitJ\n",
            Self::Snapshot => *b"\x89bruitS\n",
        }
    }
}

/// The header of a journal file or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) realm: [u8; 16],
    /// The first sequence of a journal file, or the last one in a snapshot.
    pub(crate) sequence: u64,
}

/// The reason why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderFault {
    #[error("the file ends within its header")]
    Truncated,
    #[error("the file does not begin with the magic bytes of its kind")]
    Magic,
    #[error("the file has format version {0}; this program reads version {VERSION}")]
    Version(u32),
    #[error("the checksum of the header does not match")]
    Checksum,
    #[error("a reserved field of the header is not zero")]
    Reserved,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend(self.kind.magic());
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.realm);
        out.extend(self.sequence.to_le_bytes());
        out.extend(xxh3_64(&out).to_le_bytes());
        out
    }

    /// Decodes a header. The checksum is checked before the version. So a later version is reported only if the header
    /// is intact, and a flipped bit counts as damage. Later versions must therefore keep the header's length and the
    /// position of its checksum.
    pub(crate) fn decode(kind: Kind, bytes: &[u8]) -> Result<Self, HeaderFault> {
        let truncated = |_| HeaderFault::Truncated;
        let mut reader = Reader::new(bytes);
        if reader.array("magic").map_err(truncated)? != kind.magic() {
            return Err(HeaderFault::Magic);
        }
        let version = reader.u32("version").map_err(truncated)?;
        let reserved = reader.u32("reserved").map_err(truncated)?;
        let realm = reader.array("realm").map_err(truncated)?;
        let sequence = reader.u64("sequence").map_err(truncated)?;
        let covered = bytes.get(..HEADER_BYTES - CHECKSUM_BYTES).unwrap_or_default();
        if reader.u64("checksum").map_err(truncated)? != xxh3_64(covered) {
            return Err(HeaderFault::Checksum);
        }
        if version != VERSION {
            return Err(HeaderFault::Version(version));
        }
        if reserved != 0 {
            return Err(HeaderFault::Reserved);
        }
        Ok(Self { kind, realm, sequence })
    }

    /// Returns the seed of every checksum after this header.
    pub(crate) fn seed(&self) -> u64 {
        xxh3_64_with_seed(&self.realm, self.sequence)
    }
}

/// Returns the checksum of `bytes` in a file with this seed.
pub(crate) fn checksum(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { kind: Kind::Journal, realm: [7; 16], sequence: 1 << 40 };

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let bytes = HEADER.encode();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(Header::decode(Kind::Journal, &bytes), Ok(HEADER));
        assert_eq!(Header::decode(Kind::Snapshot, &bytes), Err(HeaderFault::Magic));
        for length in 0..HEADER_BYTES {
            assert_eq!(Header::decode(Kind::Journal, &bytes[..length]), Err(HeaderFault::Truncated));
        }
    }

    #[test]
    fn every_changed_bit_of_a_header_is_noticed() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = HEADER.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 64 { HeaderFault::Magic } else { HeaderFault::Checksum };
            assert_eq!(Header::decode(Kind::Journal, &bytes), Err(expected), "bit {bit}");
        }
    }

    #[test]
    fn a_later_version_is_reported_as_such() {
        let mut bytes = HEADER.encode();
        bytes[8] = 2;
        let sum = xxh3_64(&bytes[..40]);
        bytes[40..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Header::decode(Kind::Journal, &bytes), Err(HeaderFault::Version(2)));
    }

    #[test]
    fn a_reserved_field_is_zero() {
        let mut bytes = HEADER.encode();
        bytes[12] = 1;
        let sum = xxh3_64(&bytes[..40]);
        bytes[40..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Header::decode(Kind::Journal, &bytes), Err(HeaderFault::Reserved));
    }
}
