//! The entries of the books in bytes: what waits to be exported, and what a segment carries.
//!
//! Sets (listed, revoked, bulk) are sorted in a segment, as their order says nothing: five to seven bytes a signature. What
//! fills counts keeps its order, so that a copy of an origin's counts equals them cell for cell.
//! `docs/design/segments.md` has the bytes.

use bruit_filters::Fingerprint;
use bruit_filters::sorted::{decode_sorted, encode_sorted};

use super::{Book, PAYLOAD_BYTES_MAX};
use crate::bulk::MANY;
use crate::codec::{Malformed, Reader};
use crate::event::{Event, FINGERPRINTS_MAX, claim_byte, read_claim};
use crate::spam::FLAGS;
use crate::trust::{Claim, Reporter, read_standing};

/// The bytes of a signature that waits.
const SIGNATURE_BYTES: usize = 8;

/// The most entries of a payload. Sorted, so many signatures take fewer bytes than they did while they waited.
pub(super) const ENTRIES_MAX: usize = PAYLOAD_BYTES_MAX / SIGNATURE_BYTES;

/// The lowest level of recipients that is told: sixteen.
pub(crate) const LEVEL_MIN: u8 = 2;
/// The highest level: 4^12 recipients are "many".
pub(crate) const LEVEL_MAX: u8 = 12;

/// How a payload is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// Entries one after the other, as they were accepted.
    InOrder = 1,
    /// A set, sorted.
    Sorted = 2,
}

impl Encoding {
    /// The encoding of a number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::InOrder),
            2 => Some(Self::Sorted),
            _ => None,
        }
    }

    /// How a book is written.
    #[must_use]
    pub const fn of(book: Book) -> Self {
        if book.is_set() { Self::Sorted } else { Self::InOrder }
    }
}

/// A claim as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) reporter: Reporter,
    pub(crate) claim: Claim,
    pub(crate) flag: u8,
    /// The signatures, and whether the claim was counted for each.
    pub(crate) signatures: Vec<(Fingerprint, bool)>,
}

/// The entries of a payload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entries {
    /// Listed or revoked signatures.
    Set(Vec<Fingerprint>),
    /// Signatures and the level of recipients they reached.
    Levels(Vec<(Fingerprint, u8)>),
    /// Claims.
    Votes(Vec<Vote>),
    /// Signatures and their recipients.
    Recipients(Vec<(Fingerprint, u32)>),
    /// Texts, good mail, whitelists.
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

    /// Reads the payload of a segment.
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
            Book::Votes | Book::Recipients | Book::Texts => Self::read_waiting(book, payload),
        }
    }

    /// Reads entries as they wait.
    pub(crate) fn read_waiting(book: Book, waiting: &[u8]) -> Result<Self, Malformed> {
        match book {
            Book::Listed | Book::Revoked => all(waiting, read_signature).map(Self::Set),
            Book::Bulk => all(waiting, read_level).map(Self::Levels),
            Book::Votes => all(waiting, read_vote).map(Self::Votes),
            Book::Recipients => all(waiting, read_recipients).map(Self::Recipients),
            Book::Texts => all(waiting, read_text).map(Self::Texts),
        }
    }

    /// Writes the payload of a segment: `waiting` are whole entries as they wait.
    pub(crate) fn write(book: Book, waiting: &[u8]) -> Vec<u8> {
        match book {
            Book::Listed | Book::Revoked => write_set(waiting),
            Book::Bulk => write_levels(waiting),
            Book::Votes | Book::Recipients | Book::Texts => waiting.to_vec(),
        }
    }
}

/// How many entries a payload has, when all of them can be read.
///
/// # Errors
/// [`Malformed`] for bytes that no origin writes: an engine would refuse them, after they were written to the journal.
pub fn count_entries(book: Book, encoding: Encoding, payload: &[u8]) -> Result<usize, Malformed> {
    Entries::read(book, encoding, payload).map(|entries| entries.len())
}

/// The signatures in the payload of a public book, for whoever keeps no more of it than which there are.
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

/// What entries add up to, in whatever order.
pub(crate) fn digest(entries: &Entries) -> u64 {
    let sum = |digests: &mut dyn Iterator<Item = u64>| digests.fold(0_u64, u64::wrapping_add);
    let bytes = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put(&mut out);
        digest_of(&out)
    };
    match entries {
        Entries::Set(set) => sum(&mut set.iter().map(|signature| digest_of(&signature.high().to_le_bytes()))),
        Entries::Levels(levels) => {
            sum(&mut levels.iter().map(|&(signature, level)| bytes(&|out| put_level(out, signature, level))))
        }
        Entries::Votes(votes) => sum(&mut votes.iter().map(|vote| bytes(&|out| put_vote(out, vote)))),
        Entries::Recipients(recipients) => {
            sum(&mut recipients.iter().map(|&(signature, amount)| bytes(&|out| put_recipients(out, signature, amount))))
        }
        Entries::Texts(texts) => sum(&mut texts.iter().map(|text| bytes(&|out| put_text(out, text)))),
    }
}

/// Sixty-four bits that differ for unlike entries. Not against forgery: that is what signatures and hashes are for.
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

/// The length of the first entry that waits in `waiting`.
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

/// Appends a signature as it waits.
pub(crate) fn put_signature(out: &mut Vec<u8>, signature: Fingerprint) {
    out.extend(signature.high().to_le_bytes());
}

/// Appends a signature and a level.
pub(crate) fn put_level(out: &mut Vec<u8>, signature: Fingerprint, level: u8) {
    put_signature(out, signature);
    out.push(level);
}

/// Appends a signature and its recipients, seven bits to a byte.
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
pub(crate) fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    let Vote { reporter, claim, flag, signatures } = vote;
    out.extend(reporter.id.to_le_bytes());
    out.extend(reporter.group.to_le_bytes());
    out.extend([reporter.standing as u8, claim_byte(*claim), *flag, signatures.len() as u8]);
    let counted = signatures.iter().enumerate().fold(0_u64, |bits, (i, (_, counted))| bits | u64::from(*counted) << i);
    out.extend(&counted.to_le_bytes()[..signatures.len().div_ceil(8)]);
    signatures.iter().for_each(|&(signature, _)| put_signature(out, signature));
}

/// Appends a text, as an event.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &Event) {
    let at = out.len();
    out.extend([0, 0]);
    text.encode(out);
    let length = u16::try_from(out.len() - at - 2).expect("an event of texts is far shorter");
    out[at..at + 2].copy_from_slice(&length.to_le_bytes());
}

/// The level of a number of recipients: 4 to its power are reached.
pub(crate) const fn level_of(recipients: u32) -> u8 {
    if recipients == 0 {
        return 0;
    }
    let level = (recipients.ilog2() / 2) as u8;
    if level > LEVEL_MAX { LEVEL_MAX } else { level }
}

/// The recipients of a level.
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

fn write_set(waiting: &[u8]) -> Vec<u8> {
    let mut highs: Vec<_> = waiting.chunks_exact(SIGNATURE_BYTES).map(high).collect();
    highs.sort_unstable();
    highs.dedup();
    let mut out = Vec::new();
    encode_sorted(&highs, &mut out);
    out
}

fn high(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Signatures, then four bits of level each. Of a signature that reached several levels the highest is told.
fn write_levels(waiting: &[u8]) -> Vec<u8> {
    let mut entries: Vec<_> = waiting
        .chunks_exact(SIGNATURE_BYTES + 1)
        .map(|entry| (high(&entry[..SIGNATURE_BYTES]), entry[SIGNATURE_BYTES]))
        .collect();
    entries.sort_unstable_by_key(|&(high, level)| (high, std::cmp::Reverse(level)));
    entries.dedup_by_key(|&mut (high, _)| high);
    let mut out = Vec::new();
    encode_sorted(&entries.iter().map(|&(high, _)| high).collect::<Vec<_>>(), &mut out);
    out.extend(entries.chunks(2).map(|pair| pair[0].1 | pair.get(1).map_or(0, |second| second.1) << 4));
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

fn read_vote(reader: &mut Reader<'_>) -> Result<Vote, Malformed> {
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
    Ok(Vote { reporter: Reporter { id, standing, group }, claim, flag, signatures })
}

/// One bit for each of `count` signatures, and none beyond.
fn read_counted(reader: &mut Reader<'_>, count: usize) -> Result<u64, Malformed> {
    let mut word = [0; 8];
    let bytes = count.div_ceil(8);
    word[..bytes].copy_from_slice(reader.bytes(bytes, "what was counted")?);
    let counted = u64::from_le_bytes(word);
    if counted.checked_shr(count as u32).unwrap_or(0) != 0 {
        return Err(Malformed::OutOfRange { what: "what was counted", value: counted });
    }
    Ok(counted)
}

fn read_text(reader: &mut Reader<'_>) -> Result<Event, Malformed> {
    let length = reader.u16("the length of a text")?;
    let event = Event::decode(reader.bytes(length.into(), "a text")?)?;
    if event.is_text() { Ok(event) } else { Err(Malformed::OutOfRange { what: "the kind of a text", value: 0 }) }
}
