//! The header of a map file: everything about a map but its contents.

use std::fmt;

use super::{KEYS_MAX, MapBits, VALUE_BITS_MAX};
use crate::bloomier::{CELLS_PER_KEY, SEEDS_MAX, table_words};
use crate::ribbon::LAYERS_MAX;
use bruit_filters::KeyId;
use bruit_filters::file::{FileError, KEY_BYTES};
use bruit_filters::internal::{FieldReader, FieldWriter};

/// The only format version, written and read.
pub const MAP_VERSION: u16 = 1;
/// The first bytes of a map file.
pub const MAP_MAGIC: [u8; 8] = *b"\x89bruitM\n";
/// Length of a header, in bytes.
pub const MAP_HEADER_BYTES: usize = 64;
/// Length of an entry in the list of layers, in bytes.
pub const LAYER_BYTES: usize = 4;

/// The only hash that files use: SipHash-1-3-128 fingerprints.
const HASH_FINGERPRINT: u8 = 1;
const FLAG_KEY: u8 = 1;

/// The kind of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapKind {
    /// [`RibbonMap`](crate::ribbon::RibbonMap).
    Ribbon,
    /// [`MutableBloomierFilter`](crate::bloomier::MutableBloomierFilter).
    MutableBloomier,
}

impl MapKind {
    const fn code(self) -> u8 {
        match self {
            Self::Ribbon => 1,
            Self::MutableBloomier => 2,
        }
    }

    fn from_code(code: u8) -> Result<Self, FileError> {
        let mut all = [Self::Ribbon, Self::MutableBloomier].into_iter();
        all.find(|kind| kind.code() == code).ok_or_else(|| FileError::invalid("the kind", code))
    }

    /// Returns the count stored in a file: the layers of a ribbon, or the cells per key of a Bloomier filter.
    const fn count(self, layers: u8) -> u8 {
        match self {
            Self::Ribbon => layers,
            Self::MutableBloomier => CELLS_PER_KEY as u8,
        }
    }

    /// Returns the number of layers from the count stored in a file.
    fn layers_from(self, count: u8) -> Result<u8, FileError> {
        if self == Self::Ribbon {
            return Ok(count);
        }
        ensure(count == CELLS_PER_KEY as u8, "the number of cells of a key", count)?;
        Ok(0)
    }
}

impl fmt::Display for MapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ribbon => "ribbon",
            Self::MutableBloomier => "mutable Bloomier filter",
        })
    }
}

/// Everything about a map but its contents. The values have been validated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapHeader {
    /// Kind of the map.
    pub kind: MapKind,
    /// Division of the bits of an answer into value bits and check bits.
    pub bits: MapBits,
    /// Number of keys.
    pub keys: u64,
    /// ID of the key that the fingerprints were computed with.
    pub key_id: KeyId,
    /// Number of layers of a ribbon map; 0 for other kinds.
    pub layers: u8,
    /// Number of cells in each third of a Bloomier filter's table; 0 for other kinds.
    pub cells_of_third: u64,
    /// Seed of a Bloomier filter; 0 for other kinds.
    pub seed: u32,
    /// Number of 64-bit words in all tables.
    pub words: u64,
    /// True if the header is followed by a key section.
    pub has_key: bool,
    /// CRC-32 of the list of layers and of the tables.
    pub checksum: u32,
}

impl MapHeader {
    /// Returns the size of all tables in bytes.
    #[must_use]
    pub const fn payload_bytes(&self) -> u64 {
        self.words * 8
    }

    /// Returns the size of the whole encoding in bytes.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        let key_bytes = if self.has_key { KEY_BYTES } else { 0 };
        (MAP_HEADER_BYTES + key_bytes + self.layers as usize * LAYER_BYTES) as u64 + self.payload_bytes()
    }

    pub(super) fn to_bytes(&self) -> [u8; MAP_HEADER_BYTES] {
        let mut bytes = [0; MAP_HEADER_BYTES];
        let mut fields = FieldWriter::new(&mut bytes);
        fields.put(&MAP_MAGIC);
        fields.put(&MAP_VERSION.to_le_bytes());
        fields.put(&[self.kind.code(), HASH_FINGERPRINT, self.bits.value() as u8, self.bits.check() as u8]);
        fields.put(&[self.kind.count(self.layers), if self.has_key { FLAG_KEY } else { 0 }]);
        fields.put(&self.keys.to_le_bytes());
        fields.put(&self.cells_of_third.to_le_bytes());
        fields.put(&self.key_id.0.to_le_bytes());
        fields.put(&self.words.to_le_bytes());
        fields.put(&u64::from(self.seed).to_le_bytes());
        fields.put(&self.checksum.to_le_bytes());
        fields.finish();
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; MAP_HEADER_BYTES]) -> Result<Self, FileError> {
        let mut fields = FieldReader::new(bytes);
        ensure_known(fields.take(), u16::from_le_bytes(fields.take()))?;
        fields.verify()?;
        let [kind, hash, value_bits, check_bits, count, flags] = fields.take();
        let kind = MapKind::from_code(kind)?;
        ensure(hash == HASH_FINGERPRINT, "the hash", hash)?;
        ensure(flags & !FLAG_KEY == 0, "the flags", flags)?;
        let header = Self {
            kind,
            bits: bits_from(value_bits, check_bits)?,
            keys: u64::from_le_bytes(fields.take()),
            cells_of_third: u64::from_le_bytes(fields.take()),
            key_id: KeyId(u64::from_le_bytes(fields.take())),
            words: u64::from_le_bytes(fields.take()),
            seed: seed_from(u64::from_le_bytes(fields.take()))?,
            checksum: u32::from_le_bytes(fields.take()),
            layers: kind.layers_from(count)?,
            has_key: flags & FLAG_KEY != 0,
        };
        header.checked()
    }

    /// Returns an error if no valid map can have this header.
    fn checked(self) -> Result<Self, FileError> {
        ensure(self.keys <= KEYS_MAX as u64, "the number of keys", self.keys)?;
        match self.kind {
            MapKind::Ribbon => self.check_ribbon()?,
            MapKind::MutableBloomier => self.check_bloomier()?,
        }
        Ok(self)
    }

    fn check_ribbon(&self) -> Result<(), FileError> {
        ensure(usize::from(self.layers) <= LAYERS_MAX, "the number of layers", self.layers)?;
        ensure((self.layers == 0) == (self.keys == 0), "the number of keys", self.keys)?;
        ensure(self.cells_of_third == 0, "a third of the cells", self.cells_of_third)?;
        ensure(self.seed == 0, "the seed", self.seed)?;
        // No file reaches this limit, and below it, sums and products of sizes cannot overflow.
        ensure(self.words < 1 << 48, "the number of words", self.words)
    }

    fn check_bloomier(&self) -> Result<(), FileError> {
        ensure(self.bits.value() > 0, "the number of value bits", self.bits.value())?;
        let cells_max = u64::from(u32::MAX) / CELLS_PER_KEY as u64;
        ensure((1..=cells_max).contains(&self.cells_of_third), "a third of the cells", self.cells_of_third)?;
        ensure(self.words == table_words(self.cells_of_third, self.bits), "the number of words", self.words)
    }
}

fn ensure_known(magic: [u8; 8], version: u16) -> Result<(), FileError> {
    if magic != MAP_MAGIC {
        return Err(FileError::NotAMap);
    }
    if version != MAP_VERSION {
        return Err(FileError::UnsupportedVersion { version, supported: MAP_VERSION });
    }
    Ok(())
}

fn bits_from(value_bits: u8, check_bits: u8) -> Result<MapBits, FileError> {
    ensure(u32::from(value_bits) <= VALUE_BITS_MAX, "the number of value bits", value_bits)?;
    let bits = MapBits::new(value_bits.into(), check_bits.into());
    bits.map_err(|_| FileError::invalid("the number of check bits", check_bits))
}

fn seed_from(seed: u64) -> Result<u32, FileError> {
    ensure(seed < SEEDS_MAX.into(), "the seed", seed)?;
    Ok(seed as u32)
}

pub(super) fn ensure(holds: bool, field: &'static str, value: impl Into<u64>) -> Result<(), FileError> {
    if holds { Ok(()) } else { Err(FileError::invalid(field, value)) }
}
