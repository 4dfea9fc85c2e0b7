//! The format of a replica: two slots, then the lines of the rings. The later of the intact slots is valid.
//!
//! A slot begins with a front of fixed length, the only part that a check reads, followed by the frontier of each
//! chain. Both have checksums. Slots are written alternately, so that one is intact after a crash at any moment.
//!
//! `docs/design/replica-file.md` specifies the byte layout.

use std::collections::BTreeMap;

use bruit_engine::codec::{Malformed, Reader};
use bruit_engine::exchange::{Book, Chain, Frontier, Origin};
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_filters::ring::{RING_EPOCH_MAX, RING_LINE_BYTES, RingShape};
use xxhash_rust::xxh3::xxh3_64;

use super::{BOOKS, CAPACITY_MAX, CAPACITY_MIN, LIVE_GENERATIONS};

/// The magic bytes of a slot.
pub(super) const MAGIC: [u8; 8] = *b"\x89bruitF\n";

/// The format version.
pub(super) const VERSION: u32 = 1;

/// Length of a front, which ends with its checksum.
pub(super) const FRONT_BYTES: usize = 512;

/// Length of a slot.
pub(super) const SLOT_BYTES: usize = 128 << 10;

/// Number of slots.
pub(super) const SLOTS: u64 = 2;

/// Offset of the lines.
pub(super) const LINES_AT: u64 = SLOTS * SLOT_BYTES as u64;

/// Number of origins whose chains fit into a slot.
const ORIGINS_MAX: usize = 64;

/// Maximum number of chains.
pub const CHAINS_MAX: usize = ORIGINS_MAX * BOOKS.len() * LIVE_GENERATIONS as usize;

/// Length of a chain with its frontier.
const CHAIN_BYTES: usize = 105;

const _: () = assert!(FRONT_BYTES + CHAINS_MAX * CHAIN_BYTES <= SLOT_BYTES);

/// Maximum number of lines of a ring. No capacity needs this many.
const LINES_MAX: u64 = 1 << 27;

const CHECKSUM_BYTES: usize = 8;

/// The applied chains and their frontiers.
pub(super) type Chains = BTreeMap<Chain, Frontier>;

/// The fields that a check needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Front {
    /// The number of the write. Later writes have higher numbers; writes with even numbers are in the first slot.
    pub(super) number: u64,
    pub(super) realm: Realm,
    pub(super) capacity: u64,
    pub(super) rings: [RingShape; 2],
    /// Estimated number of distinct signatures in each ring.
    pub(super) held: [u64; 2],
    /// The false positive rate of each ring, in units of 10⁻⁹.
    pub(super) rates: [u64; 2],
    pub(super) heard: Option<Time>,
}

/// The reason why a slot is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotFault {
    /// The magic bytes are wrong.
    Magic,
    /// The version is not supported.
    Version(u32),
    /// A checksum does not match, or a value is impossible.
    Damaged,
}

impl From<Malformed> for SlotFault {
    fn from(_: Malformed) -> Self {
        Self::Damaged
    }
}

/// Returns the offset of a slot.
pub(super) const fn slot_at(number: u64) -> u64 {
    number % SLOTS * SLOT_BYTES as u64
}

impl Front {
    /// Returns the offset of a ring's lines.
    pub(super) fn ring_at(&self, ring: usize) -> u64 {
        let before: u64 = self.rings.iter().take(ring).map(|shape| shape.lines as u64).sum();
        LINES_AT + before * RING_LINE_BYTES as u64
    }

    /// Returns the length of the whole file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.ring_at(self.rings.len())
    }

    /// Encodes a slot: this front, and the chains after it. There are at most [`CHAINS_MAX`].
    pub(super) fn slot(&self, chains: &Chains) -> Vec<u8> {
        let mut behind = Vec::with_capacity(chains.len() * CHAIN_BYTES);
        chains.iter().for_each(|(chain, frontier)| put_chain(&mut behind, chain, frontier));
        let mut out = Vec::with_capacity(FRONT_BYTES + behind.len());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((chains.len() as u32).to_le_bytes());
        out.extend(xxh3_64(&behind).to_le_bytes());
        let rings = self.rings.iter().flat_map(|shape| [shape.lines as u64, shape.epoch]);
        let numbers = [self.number, self.capacity, self.heard.map_or(0, |heard| heard.0)];
        let numbers = numbers.into_iter().chain(rings).chain(self.held).chain(self.rates);
        numbers.for_each(|number| out.extend(number.to_le_bytes()));
        self.realm.encode(&mut out);
        out.resize(FRONT_BYTES - CHECKSUM_BYTES, 0);
        out.extend(xxh3_64(&out).to_le_bytes());
        out.extend(behind);
        out
    }

    /// Decodes a front.
    pub(super) fn read(bytes: &[u8; FRONT_BYTES]) -> Result<Self, SlotFault> {
        Ok(Marks::read(bytes)?.front)
    }

    /// Decodes a whole slot.
    pub(super) fn read_slot(slot: &[u8]) -> Result<(Self, Chains), SlotFault> {
        let (front, behind) = slot.split_first_chunk().ok_or(SlotFault::Damaged)?;
        let Marks { front, chains, checksum } = Marks::read(front)?;
        let behind = behind.get(..chains * CHAIN_BYTES).ok_or(SlotFault::Damaged)?;
        if xxh3_64(behind) != checksum {
            return Err(SlotFault::Damaged);
        }
        let mut reader = Reader::new(behind);
        let chains = (0..chains).map(|_| read_chain(&mut reader)).collect::<Result<_, _>>()?;
        Ok((front, chains))
    }
}

/// A front, with the number of chains after it and their checksum.
struct Marks {
    front: Front,
    chains: usize,
    checksum: u64,
}

impl Marks {
    fn read(bytes: &[u8; FRONT_BYTES]) -> Result<Self, SlotFault> {
        let mut reader = Reader::new(bytes);
        if reader.array("the magic")? != MAGIC {
            return Err(SlotFault::Magic);
        }
        let version = reader.u32("the version")?;
        if version != VERSION {
            return Err(SlotFault::Version(version));
        }
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(SlotFault::Damaged)?;
        if xxh3_64(content) != u64::from_le_bytes(*checksum) {
            return Err(SlotFault::Damaged);
        }
        let chains = reader.u32("the number of chains")? as usize;
        let checksum = reader.u64("the checksum of the chains")?;
        let front = read_front(&mut reader)?;
        if chains > CHAINS_MAX { Err(SlotFault::Damaged) } else { Ok(Self { front, chains, checksum }) }
    }
}

fn read_front(reader: &mut Reader<'_>) -> Result<Front, SlotFault> {
    let mut number = || reader.u64("a number");
    let (which, capacity, heard) = (number()?, number()?, number()?);
    let mut ring = || Ok::<_, Malformed>((number()?, number()?));
    let rings = [ring()?, ring()?];
    let (held, rates) = ([number()?, number()?], [number()?, number()?]);
    let realm = Realm::decode(reader)?;
    let is_shape = |(lines, epoch): (u64, u64)| (1..=LINES_MAX).contains(&lines) && epoch <= RING_EPOCH_MAX;
    if !rings.into_iter().all(is_shape) || !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity) {
        return Err(SlotFault::Damaged);
    }
    let rings = rings.map(|(lines, epoch)| RingShape { lines: lines as usize, epoch });
    let heard = Some(Time(heard)).filter(|heard| heard.0 > 0);
    Ok(Front { number: which, realm, capacity, rings, held, rates, heard })
}

fn put_chain(out: &mut Vec<u8>, chain: &Chain, frontier: &Frontier) {
    out.extend(chain.origin.key);
    out.extend(chain.origin.incarnation.to_le_bytes());
    out.push(chain.book as u8);
    out.extend(chain.generation.to_le_bytes());
    out.extend(frontier.hash);
    [frontier.sequence, frontier.offset, frontier.entries].iter().for_each(|number| out.extend(number.to_le_bytes()));
}

fn read_chain(reader: &mut Reader<'_>) -> Result<(Chain, Frontier), SlotFault> {
    let origin = Origin { key: reader.array("a key")?, incarnation: reader.u64("an incarnation")? };
    let book = Book::from_number(reader.u8("a book")?).filter(|book| BOOKS.contains(book)).ok_or(SlotFault::Damaged)?;
    let chain = Chain { origin, book, generation: reader.u64("a generation")? };
    let hash = reader.array("a hash")?;
    let (sequence, offset, entries) =
        (reader.u64("a sequence")?, reader.u64("an offset")?, reader.u64("a number of entries")?);
    // The digest is unused: a replica compares no counts.
    Ok((chain, Frontier { sequence, hash, offset, entries, digest: 0 }))
}
