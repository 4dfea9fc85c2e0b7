//! Encoding of entries: those pending export, and those in the payload of a segment.
//!
//! The order of a set (listed, revoked, bulk) has no meaning. Sets are sorted in a segment, so that a signature takes
//! only five to seven bytes. Entries that are counted keep their order. `docs/design/segments.md` specifies the
//! encoding.

use std::cmp::Reverse;

use bruit_filters::Fingerprint;
use bruit_filters::sorted::{decode_sorted, encode_sorted};

use super::{Book, PAYLOAD_BYTES_MAX};
use crate::bulk::MANY;
use crate::codec::{Malformed, Reader};
use crate::event::{Event, FINGERPRINTS_MAX, claim_byte, read_claim};
use crate::spam::FLAGS;
use crate::trust::{Claim, Reporter, read_standing};

/// Length of a pending signature in bytes.
const SIGNATURE_BYTES: usize = 8;

/// Maximum number of entries in a payload. This many signatures fit, because they need fewer bytes as a sorted set than
/// as pending entries.
pub(super) const ENTRIES_MAX: usize = PAYLOAD_BYTES_MAX / SIGNATURE_BYTES;

/// Lowest exported level of recipients: sixteen recipients.
pub(crate) const LEVEL_MIN: u8 = 2;
/// Highest level: 4^12 recipients are "many".
pub(crate) const LEVEL_MAX: u8 = 12;

/// Encoding of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// Entries one after another, in the order in which they were accepted.
    InOrder = 1,
    /// A sorted set.
    Sorted = 2,
}

impl Encoding {
    /// Returns the encoding with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::InOrder),
            2 => Some(Self::Sorted),
            _ => None,
        }
    }

    /// Returns the encoding of a book.
    #[must_use]
    pub const fn of(book: Book) -> Self {
        if book.is_set() { Self::Sorted } else { Self::InOrder }
    }
}

/// A claim as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimEntry {
    pub(crate) reporter: Reporter,
    pub(crate) claim: Claim,
    pub(crate) flag: u8,
    /// Signatures, and whether the claim was counted for each.
    pub(crate) signatures: Vec<(Fingerprint, bool)>,
}

/// The entries of a payload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entries {
    /// Listed or revoked signatures.
    Set(Vec<Fingerprint>),
    /// Signatures and the level of recipients that each reached.
    Levels(Vec<(Fingerprint, u8)>),
    /// Claims.
    Votes(Vec<ClaimEntry>),
    /// Signatures and their recipients.
    Recipients(Vec<(Fingerprint, u32)>),
    /// Texts, good mail and whitelist changes.
    Texts(Vec<Event>),
}

impl Entries {
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Set(entries) => entries.len(),
            Self::Levels(entries) => entries.len(),
            Self::Votes(entries) => entries.len(),
            Self::Recipients(entries) => entries.len(),
            Self::Texts(entries) => entries.len(),
        }
    }

    /// Decodes the payload of a segment.
    pub(crate) fn read(book: Book, encoding: Encoding, payload: &[u8]) -> Result<Self, Malformed> {
        if encoding != Encoding::of(book) {
            return Err(Malformed::OutOfRange { what: "the encoding of a book", value: encoding as u64 });
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Malformed::OutOfRange { what: "the length of a payload", value: payload.len() as u64 });
        }
        match book {
            Book::Listed | Book::Revoked => {
                let (highs, rest) = sorted(payload)?;
                Reader::new(rest).finish()?;
                Ok(Self::Set(highs.into_iter().map(Fingerprint::narrow).collect()))
            }
            Book::Bulk => {
                let (highs, levels) = sorted(payload)?;
                read_levels(&highs, levels)
            }
            Book::Votes | Book::Recipients | Book::Texts => Self::read_pending(book, payload),
        }
    }

    /// Decodes pending entries.
    pub(crate) fn read_pending(book: Book, waiting: &[u8]) -> Result<Self, Malformed> {
        match book {
            Book::Listed | Book::Revoked => all(waiting, read_signature).map(Self::Set),
            Book::Bulk => all(waiting, read_level).map(Self::Levels),
            Book::Votes => all(waiting, read_vote).map(Self::Votes),
            Book::Recipients => all(waiting, read_recipients).map(Self::Recipients),
            Book::Texts => all(waiting, read_text).map(Self::Texts),
        }
    }

    /// Decodes pending entries and brings them into the form that a segment contains: sets are sorted and without
    /// duplicates. If a signature reached several levels, only the highest is kept.
    pub(crate) fn for_segment(book: Book, waiting: &[u8]) -> Result<Self, Malformed> {
        let mut entries = Self::read_pending(book, waiting)?;
        match &mut entries {
            Self::Set(set) => {
                set.sort_unstable_by_key(|signature| signature.high());
                set.dedup();
            }
            Self::Levels(levels) => {
                levels.sort_unstable_by_key(|(signature, level)| (signature.high(), Reverse(*level)));
                levels.dedup_by_key(|(signature, _)| *signature);
            }
            Self::Votes(_) | Self::Recipients(_) | Self::Texts(_) => {}
        }
        Ok(entries)
    }

    /// Encodes entries, decoded from `waiting` by [`for_segment`](Self::for_segment), as the payload of a segment.
    pub(crate) fn payload(&self, waiting: &[u8]) -> Vec<u8> {
        match self {
            Self::Set(set) => write_set(set),
            Self::Levels(levels) => write_levels(levels),
            Self::Votes(_) | Self::Recipients(_) | Self::Texts(_) => waiting.to_vec(),
        }
    }
}

/// Decodes a whole payload and returns its number of entries.
///
/// # Errors
/// [`Malformed`] for bytes that no origin writes. An engine would refuse such bytes, but only after they were
/// journalled.
pub fn count_entries(book: Book, encoding: Encoding, payload: &[u8]) -> Result<usize, Malformed> {
    Entries::read(book, encoding, payload).map(|entries| entries.len())
}

/// Returns the signatures in the payload of a public book, without levels.
///
/// # Errors
/// [`Malformed`] for bytes that no origin writes, and for books that are not public.
pub fn public_signatures(book: Book, encoding: Encoding, payload: &[u8]) -> Result<Vec<Fingerprint>, Malformed> {
    match Entries::read(book, encoding, payload)? {
        Entries::Set(signatures) => Ok(signatures),
        Entries::Levels(levels) => Ok(levels.into_iter().map(|(signature, _)| signature).collect()),
        Entries::Votes(_) | Entries::Recipients(_) | Entries::Texts(_) => {
            Err(Malformed::OutOfRange { what: "a public book", value: book as u64 })
        }
    }
}

/// Returns a digest of entries that does not depend on their order.
pub(crate) fn digest(entries: &Entries) -> u64 {
    // Use one buffer for all entries, because segments are applied under the lock of the engine.
    let mut buffer = Vec::new();
    let mut sum = 0_u64;
    let mut add = |put: &dyn Fn(&mut Vec<u8>)| {
        buffer.clear();
        put(&mut buffer);
        sum = sum.wrapping_add(digest_of(&buffer));
    };
    match entries {
        Entries::Set(set) => set.iter().for_each(|&signature| add(&|out| put_signature(out, signature))),
        Entries::Levels(levels) => {
            levels.iter().for_each(|&(signature, level)| add(&|out| put_level(out, signature, level)));
        }
        Entries::Votes(votes) => votes.iter().for_each(|vote| add(&|out| put_vote(out, vote))),
        Entries::Recipients(recipients) => {
            recipients.iter().for_each(|&(signature, amount)| add(&|out| put_recipients(out, signature, amount)));
        }
        Entries::Texts(texts) => texts.iter().for_each(|text| add(&|out| put_text(out, text))),
    }
    sum
}

/// Returns a 64-bit checksum of an entry. It does not protect against forgery; the signatures and hashes of segments
/// do.
fn digest_of(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    let start = Fingerprint::narrow(bytes.len() as u64);
    let mixed = bytes.chunks(8).fold(start, |state, chunk| Fingerprint::narrow(state.low() ^ word(chunk)));
    mixed.low()
}

/// Returns the length of the first pending entry.
pub(crate) fn entry_bytes(book: Book, waiting: &[u8]) -> Result<usize, Malformed> {
    let mut reader = Reader::new(waiting);
    match book {
        Book::Listed | Book::Revoked => reader.u64("a signature").map(drop)?,
        Book::Bulk => read_level(&mut reader).map(drop)?,
        Book::Votes => read_vote(&mut reader).map(drop)?,
        Book::Recipients => read_recipients(&mut reader).map(drop)?,
        Book::Texts => read_text(&mut reader).map(drop)?,
    }
    Ok(waiting.len() - reader.left())
}

/// Appends a signature in pending form.
pub(crate) fn put_signature(out: &mut Vec<u8>, signature: Fingerprint) {
    out.extend(signature.high().to_le_bytes());
}

/// Appends a signature and a level.
pub(crate) fn put_level(out: &mut Vec<u8>, signature: Fingerprint, level: u8) {
    put_signature(out, signature);
    out.push(level);
}

/// Appends a signature, then its number of recipients as a variable-length integer of seven bits per byte.
pub(crate) fn put_recipients(out: &mut Vec<u8>, signature: Fingerprint, amount: u32) {
    put_signature(out, signature);
    let mut rest = amount;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a claim.
pub(crate) fn put_vote(out: &mut Vec<u8>, vote: &ClaimEntry) {
    let ClaimEntry { reporter, claim, flag, signatures } = vote;
    out.extend(reporter.id.to_le_bytes());
    out.extend(reporter.group.to_le_bytes());
    out.extend([reporter.standing as u8, claim_byte(*claim), *flag, signatures.len() as u8]);
    let counted = signatures.iter().enumerate().fold(0_u64, |bits, (i, (_, counted))| bits | u64::from(*counted) << i);
    out.extend(&counted.to_le_bytes()[..signatures.len().div_ceil(8)]);
    signatures.iter().for_each(|&(signature, _)| put_signature(out, signature));
}

/// Appends a text as an encoded event.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &Event) {
    let at = out.len();
    out.extend([0, 0]);
    text.encode(out);
    let length = u16::try_from(out.len() - at - 2).expect("an event of the texts book is far shorter");
    out[at..at + 2].copy_from_slice(&length.to_le_bytes());
}

/// Returns the level of a number of recipients: the exponent of the largest power of 4 that does not exceed the number.
pub(crate) const fn level_of(recipients: u32) -> u8 {
    if recipients == 0 {
        return 0;
    }
    let level = (recipients.ilog2() / 2) as u8;
    if level > LEVEL_MAX { LEVEL_MAX } else { level }
}

/// Returns the number of recipients that a level stands for.
pub(crate) const fn recipients_of(level: u8) -> u32 {
    let recipients = 1_u32 << (2 * level as u32);
    if recipients > MANY { MANY } else { recipients }
}

fn all<'a, T>(payload: &'a [u8], read: impl Fn(&mut Reader<'a>) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
    let mut reader = Reader::new(payload);
    let mut entries = Vec::new();
    while reader.left() > 0 {
        entries.push(read(&mut reader)?);
    }
    Ok(entries)
}

fn sorted(payload: &[u8]) -> Result<(Vec<u64>, &[u8]), Malformed> {
    decode_sorted(payload, ENTRIES_MAX).map_err(|_| Malformed::OutOfRange { what: "a set of signatures", value: 0 })
}

fn write_set(set: &[Fingerprint]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_sorted(&set.iter().map(|signature| signature.high()).collect::<Vec<_>>(), &mut out);
    out
}

/// Encodes all signatures, then the level of each in four bits.
fn write_levels(levels: &[(Fingerprint, u8)]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_sorted(&levels.iter().map(|(signature, _)| signature.high()).collect::<Vec<_>>(), &mut out);
    out.extend(levels.chunks(2).map(|pair| pair[0].1 | pair.get(1).map_or(0, |second| second.1) << 4));
    out
}

fn read_levels(highs: &[u64], levels: &[u8]) -> Result<Entries, Malformed> {
    if levels.len() != highs.len().div_ceil(2) {
        return Err(Malformed::Truncated { what: "levels of recipients" });
    }
    let nibble = |i: usize| levels[i / 2] >> (4 * (i % 2)) & 15;
    if highs.len() % 2 == 1 && nibble(highs.len()) != 0 {
        return Err(Malformed::OutOfRange { what: "the padding of levels", value: nibble(highs.len()).into() });
    }
    let level = |(i, &high): (usize, &u64)| Ok((Fingerprint::narrow(high), ensure_level(nibble(i))?));
    Ok(Entries::Levels(highs.iter().enumerate().map(level).collect::<Result<_, _>>()?))
}

fn ensure_level(level: u8) -> Result<u8, Malformed> {
    let is_one = (LEVEL_MIN..=LEVEL_MAX).contains(&level);
    if is_one { Ok(level) } else { Err(Malformed::OutOfRange { what: "a level of recipients", value: level.into() }) }
}

fn read_level(reader: &mut Reader<'_>) -> Result<(Fingerprint, u8), Malformed> {
    let signature = read_signature(reader)?;
    Ok((signature, ensure_level(reader.u8("a level of recipients")?)?))
}

fn read_signature(reader: &mut Reader<'_>) -> Result<Fingerprint, Malformed> {
    reader.u64("a signature").map(Fingerprint::narrow)
}

fn read_recipients(reader: &mut Reader<'_>) -> Result<(Fingerprint, u32), Malformed> {
    let signature = read_signature(reader)?;
    let mut amount = 0_u32;
    for shift in (0..28).step_by(7) {
        let byte = reader.u8("a number of recipients")?;
        amount |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            let is_shortest = byte > 0 || shift == 0;
            let is_one = is_shortest && amount <= MANY;
            return if is_one { Ok((signature, amount)) } else { Err(recipients_out_of_range(amount)) };
        }
    }
    Err(recipients_out_of_range(amount))
}

fn recipients_out_of_range(amount: u32) -> Malformed {
    Malformed::OutOfRange { what: "a number of recipients", value: amount.into() }
}

fn read_vote(reader: &mut Reader<'_>) -> Result<ClaimEntry, Malformed> {
    let (id, group) = (reader.u64("a reporter")?, reader.u64("a group")?);
    let standing = read_standing(reader)?;
    let claim = read_claim(reader)?;
    let flag = reader.u8("a flag")?;
    let count = usize::from(reader.u8("a number of signatures")?);
    if flag >= FLAGS || count == 0 || count > FINGERPRINTS_MAX {
        return Err(Malformed::OutOfRange { what: "a claim's flag or number of signatures", value: count as u64 });
    }
    let counted = read_counted(reader, count)?;
    let signature = |i: usize| Ok((read_signature(reader)?, counted >> i & 1 == 1));
    let signatures = (0..count).map(signature).collect::<Result<_, _>>()?;
    Ok(ClaimEntry { reporter: Reporter { id, standing, group }, claim, flag, signatures })
}

/// Reads one bit for each of `count` signatures. Unused bits must be zero.
fn read_counted(reader: &mut Reader<'_>, count: usize) -> Result<u64, Malformed> {
    let mut word = [0; 8];
    let bytes = count.div_ceil(8);
    word[..bytes].copy_from_slice(reader.bytes(bytes, "the counted flags of a claim")?);
    let counted = u64::from_le_bytes(word);
    if counted.checked_shr(count as u32).unwrap_or(0) != 0 {
        return Err(Malformed::OutOfRange { what: "the counted flags of a claim", value: counted });
    }
    Ok(counted)
}

fn read_text(reader: &mut Reader<'_>) -> Result<Event, Malformed> {
    let length = reader.u16("the length of a text")?;
    let event = Event::decode(reader.bytes(length.into(), "a text")?)?;
    if event.is_text() { Ok(event) } else { Err(Malformed::OutOfRange { what: "the kind of a text", value: 0 }) }
}
