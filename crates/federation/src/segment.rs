//! Segments: the signed units of exchange between servers, with the same bytes wherever they are stored.
//!
//! A log is a sequence of segments of one chain; [`split`] separates them. A decoded segment is an
//! [`UnverifiedSegment`] until the signature of a known server is checked; only a [`VerifiedSegment`] becomes an event.
//! A segment has only one valid encoding, which [`Segment::sign`] writes.
//!
//! `docs/design/segments.md` specifies the byte layout.

use bruit_engine::codec::{Malformed, Reader, put_count};
use bruit_engine::exchange::{
    Book, Chain, Encoding, ExchangeRefusal, Hash, NO_HASH, Origin, PAYLOAD_BYTES_MAX, Received, count_entries,
};
use bruit_engine::realm::RealmId;
use sha2::{Digest, Sha256};

use crate::keys::{NodeKey, PublicKey, SIGNATURE_BYTES};
use crate::signed::{Domain, is_sealed, seal};

/// The magic bytes of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"\x89bruitX\n";

/// The format version.
pub const SEGMENT_VERSION: u16 = 1;

/// Number of bytes before the payload.
pub const SEGMENT_HEADER_BYTES: usize = 124;

/// Maximum number of bytes of a segment.
pub const SEGMENT_BYTES_MAX: usize = SEGMENT_HEADER_BYTES + PAYLOAD_BYTES_MAX + SIGNATURE_BYTES;

/// Prefix of the signed bytes.
const DOMAIN: Domain = Domain(b"bruit segment\n");

/// A segment without its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Realm whose key was used to compute the fingerprints.
    pub realm: RealmId,
    /// Chain of the segment.
    pub chain: Chain,
    /// Number of the segment in its chain, starting with 1.
    pub sequence: u64,
    /// Hash of the preceding segment; [`NO_HASH`] for the first.
    pub previous: Hash,
    /// The encoding of the payload.
    pub encoding: Encoding,
    /// The number of entries, as counted by the origin.
    pub entries: u32,
    /// The entries; at most [`PAYLOAD_BYTES_MAX`] bytes.
    pub payload: &'a [u8],
}

/// A decoded segment whose signature has not been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnverifiedSegment<'a> {
    segment: Segment<'a>,
    bytes: &'a [u8],
}

/// A segment of our realm with a valid signature of its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedSegment<'a> {
    segment: Segment<'a>,
    bytes: &'a [u8],
}

/// Returns the hash of a signed segment.
#[must_use]
pub fn hash(signed: &[u8]) -> Hash {
    Sha256::digest(signed).into()
}

/// The bytes of the first segment of a log, and the rest of the log.
pub type FirstAndRest<'a> = (&'a [u8], &'a [u8]);

/// Splits the first complete segment off a log. Returns `None` if the log ends before the segment does.
///
/// # Errors
/// [`ExchangeRefusal::Malformed`] or [`ExchangeRefusal::Version`] if no segment begins there.
pub fn split(log: &[u8]) -> Result<Option<FirstAndRest<'_>>, ExchangeRefusal> {
    let mut reader = Reader::new(log);
    match read_segment(&mut reader).and_then(|_| Ok(reader.bytes(SIGNATURE_BYTES, "a signature")?)) {
        Ok(_) => Ok(log.split_at_checked(log.len() - reader.left())),
        Err(ExchangeRefusal::Malformed(Malformed::Truncated { .. })) => Ok(None),
        Err(rejected) => Err(rejected),
    }
}

impl Segment<'_> {
    /// Encodes and signs the segment. `key` must be the key of the chain's origin: peers refuse any other signature.
    #[must_use]
    pub fn sign(&self, key: &NodeKey) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEGMENT_HEADER_BYTES + self.payload.len() + SIGNATURE_BYTES);
        out.extend(SEGMENT_MAGIC);
        out.extend(SEGMENT_VERSION.to_le_bytes());
        out.extend([self.chain.book as u8, self.encoding as u8]);
        out.extend(self.entries.to_le_bytes());
        out.extend(self.realm.0);
        out.extend(self.chain.origin.key);
        out.extend(self.chain.origin.incarnation.to_le_bytes());
        out.extend(self.chain.generation.to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.previous);
        put_count(&mut out, self.payload.len());
        out.extend(self.payload);
        seal(DOMAIN, out, key)
    }
}

impl<'a> UnverifiedSegment<'a> {
    /// Decodes a segment; `bytes` must contain nothing else.
    ///
    /// # Errors
    /// [`ExchangeRefusal::Malformed`] or [`ExchangeRefusal::Version`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ExchangeRefusal> {
        let mut reader = Reader::new(bytes);
        let segment = read_segment(&mut reader)?;
        reader.bytes(SIGNATURE_BYTES, "a signature")?;
        reader.finish()?;
        Ok(Self { segment, bytes })
    }

    /// Returns the unverified contents.
    #[must_use]
    pub const fn segment(&self) -> &Segment<'a> {
        &self.segment
    }

    /// Verifies that the segment belongs to `realm` and is signed by its origin, the owner of `key`.
    ///
    /// # Errors
    /// [`ExchangeRefusal::ForeignRealm`], [`ExchangeRefusal::UnknownOrigin`] if the key is not the origin's, or
    /// [`ExchangeRefusal::Forged`].
    pub fn verify(&self, realm: RealmId, key: &PublicKey) -> Result<VerifiedSegment<'a>, ExchangeRefusal> {
        let Self { segment, bytes } = *self;
        if segment.realm != realm {
            return Err(ExchangeRefusal::ForeignRealm(segment.realm));
        }
        if segment.chain.origin.key != *key.as_bytes() {
            return Err(ExchangeRefusal::UnknownOrigin);
        }
        if is_sealed(DOMAIN, bytes, key) {
            Ok(VerifiedSegment { segment, bytes })
        } else {
            Err(ExchangeRefusal::Forged)
        }
    }
}

impl<'a> VerifiedSegment<'a> {
    /// Returns the verified contents.
    #[must_use]
    pub const fn segment(&self) -> &Segment<'a> {
        &self.segment
    }

    /// Decodes all entries, as the engine will do when the segment is in the journal.
    ///
    /// # Errors
    /// [`ExchangeRefusal::Payload`] if an entry cannot be decoded, or the number of entries is wrong.
    pub fn check_entries(&self) -> Result<(), ExchangeRefusal> {
        let Segment { chain, encoding, entries, payload, .. } = self.segment;
        let found = count_entries(chain.book, encoding, payload).map_err(ExchangeRefusal::Payload)?;
        if found == entries as usize {
            return Ok(());
        }
        Err(ExchangeRefusal::Payload(Malformed::OutOfRange { what: "the number of entries", value: entries.into() }))
    }

    /// Returns the form that an engine accepts.
    #[must_use]
    pub fn received(&self) -> Received {
        let Self { segment, bytes } = self;
        Received {
            chain: segment.chain,
            sequence: segment.sequence,
            previous: segment.previous,
            hash: hash(bytes),
            bytes: bytes.len() as u32,
            encoding: segment.encoding,
            payload: segment.payload.to_vec(),
        }
    }
}

fn read_segment<'a>(reader: &mut Reader<'a>) -> Result<Segment<'a>, ExchangeRefusal> {
    read_magic(reader, SEGMENT_MAGIC)?;
    read_version(reader, SEGMENT_VERSION)?;
    let book = read_book(reader)?;
    let encoding = read_encoding(reader)?;
    let entries = reader.u32("the number of entries")?;
    let realm = RealmId(reader.array("the realm of a segment")?);
    let origin = read_origin(reader)?;
    let generation = reader.u64("the generation of a segment")?;
    let sequence = reader.u64("the sequence of a segment")?;
    let previous = reader.array("the hash of the previous segment")?;
    ensure("the sequence of a segment", sequence, (sequence == 1) == (previous == NO_HASH) && sequence > 0)?;
    let length = reader.u32("the length of a payload")?;
    ensure("the length of a payload", length.into(), length > 0 && length as usize <= PAYLOAD_BYTES_MAX)?;
    ensure("the number of entries", entries.into(), entries > 0)?;
    let payload = reader.bytes(length as usize, "a payload")?;
    Ok(Segment { realm, chain: Chain { origin, book, generation }, sequence, previous, encoding, entries, payload })
}

/// Reads magic bytes. Wrong bytes are reported as malformed even if the input is too short.
pub(crate) fn read_magic(reader: &mut Reader<'_>, magic: [u8; 8]) -> Result<(), Malformed> {
    let there = reader.clone().bytes(reader.left().min(magic.len()), "a magic")?;
    ensure("a magic", there.first().copied().unwrap_or(0).into(), magic.starts_with(there))?;
    reader.bytes(magic.len(), "a magic").map(|_| ())
}

pub(crate) fn read_version(reader: &mut Reader<'_>, known: u16) -> Result<(), ExchangeRefusal> {
    let found = reader.u16("a version")?;
    if found == known { Ok(()) } else { Err(ExchangeRefusal::Version(found)) }
}

pub(crate) fn read_origin(reader: &mut Reader<'_>) -> Result<Origin, Malformed> {
    Ok(Origin { key: reader.array("the key of an origin")?, incarnation: reader.u64("the incarnation of an origin")? })
}

pub(crate) fn read_book(reader: &mut Reader<'_>) -> Result<Book, Malformed> {
    let number = reader.u8("a book")?;
    Book::from_number(number).ok_or_else(|| Malformed::OutOfRange { what: "a book", value: number.into() })
}

fn read_encoding(reader: &mut Reader<'_>) -> Result<Encoding, Malformed> {
    let number = reader.u8("an encoding")?;
    Encoding::from_number(number).ok_or_else(|| Malformed::OutOfRange { what: "an encoding", value: number.into() })
}

/// Returns an error unless `is_right`.
pub(crate) const fn ensure(what: &'static str, value: u64, is_right: bool) -> Result<(), Malformed> {
    if is_right { Ok(()) } else { Err(Malformed::OutOfRange { what, value }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REALM: RealmId = RealmId([3; 16]);
    const VERSION_AT: usize = SEGMENT_MAGIC.len();
    const REALM_AT: usize = 16;
    const LENGTH_AT: usize = SEGMENT_HEADER_BYTES - 4;

    fn key() -> NodeKey {
        NodeKey::generate([1; 32])
    }

    fn segment(payload: &[u8]) -> Segment<'_> {
        let origin = Origin { key: *key().public().as_bytes(), incarnation: 1_700_000_000 };
        let chain = Chain { origin, book: Book::Listed, generation: 4_000 };
        Segment { realm: REALM, chain, sequence: 2, previous: [9; 32], encoding: Encoding::Sorted, entries: 1, payload }
    }

    fn signed() -> Vec<u8> {
        segment(b"payload").sign(&key())
    }

    fn rejected(bytes: &[u8]) -> &'static str {
        let verified = UnverifiedSegment::decode(bytes).and_then(|read| read.verify(REALM, &key().public()));
        verified.expect_err("not to be believed").name()
    }

    #[test]
    fn a_segment_is_read_as_signed() {
        let signed = signed();
        let read = UnverifiedSegment::decode(&signed).unwrap().verify(REALM, &key().public()).unwrap();
        assert_eq!(read.segment(), &segment(b"payload"));
        let received = read.received();
        assert_eq!((received.sequence, received.previous, &received.payload[..]), (2, [9; 32], &b"payload"[..]));
        assert_eq!((received.bytes as usize, received.hash), (signed.len(), hash(&signed)));
        assert_eq!(signed.len(), SEGMENT_HEADER_BYTES + 7 + SIGNATURE_BYTES);
    }

    #[test]
    fn every_changed_bit_is_refused() {
        let signed = signed();
        for bit in 0..8 * signed.len() {
            let mut other = signed.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            rejected(&other);
        }
    }

    #[test]
    fn a_truncated_segment_is_incomplete_in_a_log_and_malformed_alone() {
        let signed = signed();
        for cut in 0..signed.len() {
            assert_eq!(rejected(&signed[..cut]), "malformed", "{cut}");
            assert_eq!(split(&signed[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(rejected(&[&signed[..], b"\0"].concat()), "malformed");
    }

    #[test]
    fn a_log_is_taken_apart() {
        let (first, second) = (signed(), segment(b"another").sign(&key()));
        let log = [&first[..], &second, &first[..50]].concat();
        let (one, rest) = split(&log).unwrap().unwrap();
        let (two, rest) = split(rest).unwrap().unwrap();
        assert_eq!((one, two, split(rest)), (&first[..], &second[..], Ok(None)));
        assert_eq!(split(b"<html>").unwrap_err().name(), "malformed");
        assert_eq!(split(&first[1..]).unwrap_err().name(), "malformed");
    }

    #[test]
    fn each_fault_has_its_name() {
        let with = |at: usize, byte: u8| {
            let mut bytes = signed();
            bytes[at] ^= byte;
            rejected(&bytes)
        };
        let (magic, version, realm, last) = (with(0, 1), with(VERSION_AT, 3), with(REALM_AT, 1), with(190, 1));
        assert_eq!((magic, version, realm, last), ("malformed", "version", "foreign_realm", "forged"));
        let stranger = NodeKey::generate([2; 32]);
        assert_eq!(rejected(&segment(b"payload").sign(&stranger)), "forged");
        let read = UnverifiedSegment::decode(&signed()).unwrap().verify(REALM, &stranger.public()).map(|_| ());
        assert_eq!(read, Err(ExchangeRefusal::UnknownOrigin));
    }

    #[test]
    fn the_largest_payload_is_read_and_no_larger_one() {
        let payload = vec![7; PAYLOAD_BYTES_MAX + 1];
        let largest = segment(&payload[1..]).sign(&key());
        assert_eq!(largest.len(), SEGMENT_BYTES_MAX);
        assert!(UnverifiedSegment::decode(&largest).unwrap().verify(REALM, &key().public()).is_ok());
        assert_eq!(rejected(&segment(&payload).sign(&key())), "malformed");
        // A segment with an excessive length is refused at once; the reader does not wait for more bytes.
        let mut endless = signed();
        endless[LENGTH_AT..SEGMENT_HEADER_BYTES].fill(0xff);
        assert_eq!(split(&endless).unwrap_err().name(), "malformed");
    }

    #[test]
    fn impossible_fields_are_malformed() {
        let usual = segment(b"payload");
        let odd = [
            Segment { sequence: 0, ..usual },
            Segment { sequence: 1, ..usual },
            Segment { previous: NO_HASH, ..usual },
            Segment { entries: 0, ..usual },
            Segment { payload: b"", ..usual },
        ];
        odd.iter().for_each(|segment| assert_eq!(rejected(&segment.sign(&key())), "malformed", "{segment:?}"));
        let first = Segment { sequence: 1, previous: NO_HASH, ..usual }.sign(&key());
        assert!(UnverifiedSegment::decode(&first).is_ok());
    }
}
