//! Encoding and decoding of maps. `docs/design/map-files.md` specifies the format.

use std::io::{Read, Write};

use super::header::ensure;
use super::{LAYER_BYTES, MAP_HEADER_BYTES, MapBits, MapHeader, MapKind};
use crate::bloomier::{KeyedNeighbourhoods, MutableBloomierFilter};
use crate::ribbon::{LAYERS_MAX, LayerShape, RibbonMap};
use bruit_filters::file::{FileError, Part};
use bruit_filters::internal::ensure_equal;
use bruit_filters::internal::{Checksum, InputWords, OutputWords, expect_end, read_key, read_start};
use bruit_filters::{Fingerprint, FingerprintKey, KeyId};

/// A map of any kind that has a file format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredMap {
    /// An immutable map.
    Ribbon(RibbonMap),
    /// A map whose values can be changed.
    MutableBloomier(MutableBloomierFilter),
}

/// The content of a map file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapFile {
    /// The header, as read from the file.
    pub header: MapHeader,
    /// The key, if the file contains it.
    pub key: Option<FingerprintKey>,
    /// The map.
    pub map: StoredMap,
}

/// Writes `map` and returns the header. If `key` is given, it is written as well. Anyone who has the file can then
/// query it, so the file must be kept secret.
///
/// # Errors
/// An error if writing fails, or `key` is not the key that `map` was built with.
pub fn encode(map: &StoredMap, key: Option<&FingerprintKey>, output: &mut impl Write) -> Result<MapHeader, FileError> {
    let header = header_of(map, key)?;
    let mut output = OutputWords::new(output);
    output.output().write_all(&header.to_bytes())?;
    if let Some(key) = key {
        output.output().write_all(key.as_bytes())?;
    }
    output.put_bytes(&map.list_of_layers())?;
    map.tables().into_iter().try_for_each(|words| output.put(words))?;
    Ok(header)
}

fn header_of(map: &StoredMap, key: Option<&FingerprintKey>) -> Result<MapHeader, FileError> {
    if let Some(key) = key {
        ensure_equal("the key id", &map.key_id(), &key.id())?;
    }
    let mut checksum = Checksum::default();
    checksum.add(&map.list_of_layers());
    map.tables().into_iter().for_each(|words| checksum.add_words(words));
    Ok(MapHeader { has_key: key.is_some(), checksum: checksum.value(), ..map.shape() })
}

/// Reads a map. Its tables may have at most `payload_limit` bytes.
///
/// # Errors
/// [`FileError`] if the input is not a map, uses a later version, or is truncated, damaged or too large.
pub fn decode(input: &mut impl Read, payload_limit: u64) -> Result<MapFile, FileError> {
    let (header, key) = read_header(input)?;
    let bytes = header.payload_bytes();
    if bytes > payload_limit || usize::try_from(bytes).is_err() {
        return Err(FileError::TooLarge { bytes, limit_bytes: payload_limit });
    }
    let mut input = InputWords::new(input);
    let mut map = StoredMap::empty(&header, &read_layers(&header, &mut input)?);
    map.tables_mut().into_iter().try_for_each(|words| input.take(words))?;
    expect_end(input.input())?;
    if input.checksum.value() != header.checksum {
        return Err(FileError::Damaged { part: Part::Array });
    }
    ensure(map.padding() == 0, "the padding after the last cell", map.padding())?;
    Ok(MapFile { header, key, map })
}

/// Reads the header and the key, but nothing after them.
///
/// # Errors
/// The same as for [`decode`].
pub fn read_header(input: &mut impl Read) -> Result<(MapHeader, Option<FingerprintKey>), FileError> {
    let bytes: [u8; MAP_HEADER_BYTES] = read_start(input)?.ok_or(FileError::NotAMap)?;
    let header = MapHeader::from_bytes(&bytes)?;
    let key = if header.has_key { Some(read_key(input, header.key_id)?) } else { None };
    Ok((header, key))
}

/// Reads the layers of a ribbon map. Together they must have the number of words that the header states.
fn read_layers<R: Read>(header: &MapHeader, input: &mut InputWords<R>) -> Result<Vec<LayerShape>, FileError> {
    if header.kind != MapKind::Ribbon {
        return Ok(Vec::new());
    }
    let mut bytes = [0; LAYERS_MAX * LAYER_BYTES];
    let bytes = &mut bytes[..usize::from(header.layers) * LAYER_BYTES];
    input.take_bytes(bytes)?;
    let mut shapes = Vec::new();
    for (depth, blocks) in (0..).zip(bytes.as_chunks().0) {
        let blocks = u32::from_le_bytes(*blocks);
        ensure(blocks >= LayerShape::BLOCKS_MIN, "the number of blocks", blocks)?;
        shapes.push(LayerShape::new(blocks, header.bits.total(), depth));
    }
    let words = shapes.iter().map(|shape| shape.solution_words() + shape.code_words()).sum::<u64>();
    ensure(words == header.words, "the number of words", header.words)?;
    Ok(shapes)
}

impl StoredMap {
    /// Returns the value of `key`. For a key that is not in the map, returns `None`, or any value if the key is a false
    /// positive.
    #[must_use]
    pub fn get(&self, key: &Fingerprint) -> Option<u32> {
        match self {
            Self::Ribbon(map) => map.get(key),
            Self::MutableBloomier(map) => map.get(key),
        }
    }

    /// Sets `values[i]` to the value of `keys[i]`. For a key that is not in the map, that is `None`, or any value if
    /// the key is a false positive.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn get_batch(&self, keys: &[Fingerprint], values: &mut [Option<u32>]) {
        match self {
            Self::Ribbon(map) => map.get_batch(keys, values),
            Self::MutableBloomier(map) => map.get_batch(keys, values),
        }
    }

    /// Returns how the bits of an answer are divided into value bits and check bits.
    #[must_use]
    pub const fn bits(&self) -> MapBits {
        match self {
            Self::Ribbon(map) => map.bits(),
            Self::MutableBloomier(map) => map.bits(),
        }
    }

    /// Returns the number of keys.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        match self {
            Self::Ribbon(map) => map.keys(),
            Self::MutableBloomier(map) => map.keys(),
        }
    }

    /// Returns the ID of the key that the fingerprints were computed with.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        match self {
            Self::Ribbon(map) => map.key_id(),
            Self::MutableBloomier(map) => map.hashing().key_id(),
        }
    }

    /// Returns the size of all tables in bits.
    #[must_use]
    pub fn total_bits(&self) -> u64 {
        match self {
            Self::Ribbon(map) => map.total_bits(),
            Self::MutableBloomier(map) => map.total_bits(),
        }
    }

    /// Returns the probability that a key outside the map has a value.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        match self {
            Self::Ribbon(map) => map.false_positive_rate(),
            Self::MutableBloomier(map) => map.false_positive_rate(),
        }
    }

    /// Creates a map with empty tables, as described by the header.
    fn empty(header: &MapHeader, layers: &[LayerShape]) -> Self {
        let (bits, keys, key_id) = (header.bits, header.keys, header.key_id);
        match header.kind {
            MapKind::Ribbon => Self::Ribbon(RibbonMap::empty(layers, bits, keys, key_id)),
            MapKind::MutableBloomier => {
                let cells = u32::try_from(header.cells_of_third).expect("the header was validated");
                let hashing = KeyedNeighbourhoods::from_parts(cells, header.seed, key_id);
                Self::MutableBloomier(MutableBloomierFilter::empty(hashing, bits, keys))
            }
        }
    }

    /// Returns the header, without key and checksum.
    fn shape(&self) -> MapHeader {
        let (kind, layers, cells_of_third, seed) = match self {
            Self::Ribbon(map) => (MapKind::Ribbon, map.layers().len() as u8, 0, 0),
            Self::MutableBloomier(map) => {
                let hashing = map.hashing();
                (MapKind::MutableBloomier, 0, hashing.cells_of_third().into(), hashing.seed())
            }
        };
        let words = self.tables().iter().map(|words| words.len() as u64).sum();
        let (bits, keys, key_id) = (self.bits(), self.keys(), self.key_id());
        MapHeader { kind, bits, keys, key_id, layers, cells_of_third, seed, words, has_key: false, checksum: 0 }
    }

    fn list_of_layers(&self) -> Vec<u8> {
        match self {
            Self::Ribbon(map) => map.layers().iter().flat_map(|layer| layer.shape().blocks().to_le_bytes()).collect(),
            Self::MutableBloomier(_) => Vec::new(),
        }
    }

    fn tables(&self) -> Vec<&[u64]> {
        match self {
            Self::Ribbon(map) => map.layers().iter().flat_map(|layer| layer.words()).collect(),
            Self::MutableBloomier(map) => map.words().to_vec(),
        }
    }

    fn tables_mut(&mut self) -> Vec<&mut [u64]> {
        match self {
            Self::Ribbon(map) => map.layers_mut().iter_mut().flat_map(|layer| layer.words_mut()).collect(),
            Self::MutableBloomier(map) => map.words_mut().into(),
        }
    }

    /// Returns the bits after the ends of the tables. They are zero in every valid map.
    fn padding(&self) -> u64 {
        match self {
            Self::Ribbon(map) => map.layers().iter().fold(0, |padding, layer| padding | layer.padding()),
            Self::MutableBloomier(map) => map.padding(),
        }
    }
}

impl From<RibbonMap> for StoredMap {
    fn from(map: RibbonMap) -> Self {
        Self::Ribbon(map)
    }
}

impl From<MutableBloomierFilter> for StoredMap {
    fn from(map: MutableBloomierFilter) -> Self {
        Self::MutableBloomier(map)
    }
}
