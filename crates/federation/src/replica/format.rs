//! The bytes of a replica: two slots of which the later whole one counts, then the lines of the rings.
//!
//! A slot begins with a front of fixed length, which is all that a check reads of it, and goes on with how far each chain was
//! taken. Both have checksums, and slots are written in turn, so that one is whole whenever the machine stops.
//!
//! `docs/design/replica-file.md` has the bytes.

use std::collections::BTreeMap;

use bruit_engine::codec::{Malformed, Reader};
use bruit_engine::exchange::{Book, Chain, Frontier, Origin};
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_filters::ring::{RING_EPOCH_MAX, RING_LINE_BYTES, RingShape};
use xxhash_rust::xxh3::xxh3_64;

use super::{BOOKS, CAPACITY_MAX, CAPACITY_MIN, LIVE_GENERATIONS};

/// What a slot begins with.
pub(super) const MAGIC: [u8; 8] = *b"\x89bruitF\n";

/// The version of the bytes.
pub(super) const VERSION: u32 = 1;

/// The bytes of a front, its checksum last.
pub(super) const FRONT_BYTES: usize = 512;

/// The bytes of a slot.
pub(super) const SLOT_BYTES: usize = 128 << 10;

/// How many slots there are.
pub(super) const SLOTS: u64 = 2;

/// Where the lines begin.
pub(super) const LINES_AT: u64 = SLOTS * SLOT_BYTES as u64;

/// Origins whose chains there is room for.
const ORIGINS_MAX: usize = 64;

/// The most chains that are followed.
pub const CHAINS_MAX: usize = ORIGINS_MAX * BOOKS.len() * LIVE_GENERATIONS as usize;

/// The bytes of a chain and how far it was taken.
const CHAIN_BYTES: usize = 105;

const _: () = assert!(FRONT_BYTES + CHAINS_MAX * CHAIN_BYTES <= SLOT_BYTES);

/// Most lines of a ring: more than any capacity asks for.
const LINES_MAX: u64 = 1 << 27;

const CHECKSUM_BYTES: usize = 8;

/// The chains that were taken.
pub(super) type Chains = BTreeMap<Chain, Frontier>;

/// What a check needs to know.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Front {
    /// Which write this is: later ones have higher numbers, and even ones are in the first slot.
    pub(super) number: u64,
    pub(super) realm: Realm,
    pub(super) capacity: u64,
    pub(super) rings: [RingShape; 2],
    /// About how many distinct signatures each ring has.
    pub(super) held: [u64; 2],
    /// The share of false hits of each, in parts of a thousand million.
    pub(super) rates: [u64; 2],
    pub(super) heard: Option<Time>,
}

/// Why a slot is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It begins otherwise.
    Magic,
    /// A version of the future.
    Version(u32),
    /// A checksum does not hold, or what it holds for cannot be.
    Damaged,
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Self {
        Self::Damaged
    }
}

/// Where a slot begins.
pub(super) const fn slot_at(number: u64) -> u64 {
    number % SLOTS * SLOT_BYTES as u64
}

impl Front {
    /// Where the lines of a ring begin.
    pub(super) fn ring_at(&self, ring: usize) -> u64 {
        let before: u64 = self.rings.iter().take(ring).map(|shape| shape.lines as u64).sum();
        LINES_AT + before * RING_LINE_BYTES as u64
    }

    /// The bytes of the whole file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.ring_at(self.rings.len())
    }

    /// The slot: this front, and the chains behind it. There are at most [`CHAINS_MAX`].
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

    /// Reads a front.
    pub(super) fn read(bytes: &[u8; FRONT_BYTES]) -> Result<Self, Fault> {
        Ok(Marks::read(bytes)?.front)
    }

    /// Reads a whole slot.
    pub(super) fn read_slot(slot: &[u8]) -> Result<(Self, Chains), Fault> {
        let (front, behind) = slot.split_first_chunk().ok_or(Fault::Damaged)?;
        let Marks { front, chains, checksum } = Marks::read(front)?;
        let behind = behind.get(..chains * CHAIN_BYTES).ok_or(Fault::Damaged)?;
        if xxh3_64(behind) != checksum {
            return Err(Fault::Damaged);
        }
        let mut reader = Reader::new(behind);
        let chains = (0..chains).map(|_| read_chain(&mut reader)).collect::<Result<_, _>>()?;
        Ok((front, chains))
    }
}

/// A front, and what it says of the chains behind it.
struct Marks {
    front: Front,
    chains: usize,
    checksum: u64,
}

impl Marks {
    fn read(bytes: &[u8; FRONT_BYTES]) -> Result<Self, Fault> {
        let mut reader = Reader::new(bytes);
        if reader.array("the magic")? != MAGIC {
            return Err(Fault::Magic);
        }
        let version = reader.u32("the version")?;
        if version != VERSION {
            return Err(Fault::Version(version));
        }
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(Fault::Damaged)?;
        if xxh3_64(content) != u64::from_le_bytes(*checksum) {
            return Err(Fault::Damaged);
        }
        let chains = reader.u32("the number of chains")? as usize;
        let checksum = reader.u64("the checksum of the chains")?;
        let front = read_front(&mut reader)?;
        if chains > CHAINS_MAX { Err(Fault::Damaged) } else { Ok(Self { front, chains, checksum }) }
    }
}

fn read_front(reader: &mut Reader<'_>) -> Result<Front, Fault> {
    let mut number = || reader.u64("a number");
    let (which, capacity, heard) = (number()?, number()?, number()?);
    let mut ring = || Ok::<_, Malformed>((number()?, number()?));
    let rings = [ring()?, ring()?];
    let (held, rates) = ([number()?, number()?], [number()?, number()?]);
    let realm = Realm::decode(reader)?;
    let is_shape = |(lines, epoch): (u64, u64)| (1..=LINES_MAX).contains(&lines) && epoch <= RING_EPOCH_MAX;
    if !rings.into_iter().all(is_shape) || !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity) {
        return Err(Fault::Damaged);
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

fn read_chain(reader: &mut Reader<'_>) -> Result<(Chain, Frontier), Fault> {
    let origin = Origin { key: reader.array("a key")?, incarnation: reader.u64("an incarnation")? };
    let book = Book::from_number(reader.u8("a book")?).filter(|book| BOOKS.contains(book)).ok_or(Fault::Damaged)?;
    let chain = Chain { origin, book, generation: reader.u64("a generation")? };
    let hash = reader.array("a hash")?;
    let (sequence, offset, entries) =
        (reader.u64("a sequence")?, reader.u64("an offset")?, reader.u64("a number of entries")?);
    // Nobody compares digests here: a replica counts nothing.
    Ok((chain, Frontier { sequence, hash, offset, entries, digest: 0 }))
}
