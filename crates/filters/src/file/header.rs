//! The header of a filter file: all data except the contents of the filter.

use std::fmt;

use super::history::History;
use super::spill::SPILL_ENTRY_BYTES;
use super::words::crc32;
use super::{FileError, Part};
use crate::bloom::ONE_LINE_HASHES_MAX;
use crate::counting::rows::CELLS_PER_KEY;
use crate::counting::{CELL_BITS_MAX, Extension};
use crate::hash::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN};
use crate::lines::{LINE_BITS, LINES_MAX};
use crate::mismatch::ensure_equal;
use crate::{KeyId, Mismatch};

/// The latest version. It is used for files with a history and deltas with a step. All other files and deltas are
/// written as version 1.
pub const VERSION: u16 = 2;
/// The version of files without a history and deltas without a step.
pub(crate) const VERSION_PLAIN: u16 = 1;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a key section.
pub const KEY_BYTES: usize = 16;
/// Maximum number of hash functions of a filter in a file.
pub const HASHES_MAX: u32 = 64;

/// The only hash that files use: SipHash-1-3-128, with positions from the leading bits.
const HASH_FINGERPRINT: u8 = 1;
/// The first bytes of a filter file.
pub const FILTER_MAGIC: [u8; 8] = *b"\x89bruitF\n";
/// The first bytes of a delta.
pub const DELTA_MAGIC: [u8; 8] = *b"\x89bruitD\n";
const FLAG_KEY: u8 = 1;
const FLAG_HISTORY: u8 = 2;
/// Cell width of the one-line counting layout.
const ONE_LINE_CELL_BITS: u32 = 4;

/// Maximum number of spill entries per line. A spill table has about one record for each line, and up to two more that
/// belong to the entries in the line.
const SPILL_ENTRIES_PER_LINE_MAX: u64 = 3;
const SPILL_ENTRIES_BASE: u64 = 1024;

/// The kind of a filter: membership or counts, and the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterKind {
    /// [`ClassicalFilter`](crate::bloom::ClassicalFilter).
    ClassicalMembership,
    /// [`OneLineFilter`](crate::bloom::OneLineFilter).
    OneLineMembership,
    /// [`CountingFilter`](crate::counting::CountingFilter) on packed cells.
    ClassicalCounts,
    /// [`OneLineCounts`](crate::counting::OneLineCounts).
    OneLineCounts,
}

impl FilterKind {
    const ALL: [Self; 4] =
        [Self::ClassicalMembership, Self::OneLineMembership, Self::ClassicalCounts, Self::OneLineCounts];

    /// Returns true for counting filters.
    #[must_use]
    pub const fn counts(self) -> bool {
        matches!(self, Self::ClassicalCounts | Self::OneLineCounts)
    }

    /// Returns true for the one-line layouts.
    #[must_use]
    pub const fn is_one_line(self) -> bool {
        matches!(self, Self::OneLineMembership | Self::OneLineCounts)
    }

    const fn code(self) -> u8 {
        match self {
            Self::ClassicalMembership => 1,
            Self::OneLineMembership => 2,
            Self::ClassicalCounts => 3,
            Self::OneLineCounts => 4,
        }
    }

    fn from_code(code: u8) -> Result<Self, FileError> {
        Self::ALL.into_iter().find(|kind| kind.code() == code).ok_or_else(|| FileError::invalid("the kind", code))
    }
}

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClassicalMembership => "classical membership",
            Self::OneLineMembership => "one-line membership",
            Self::ClassicalCounts => "classical counts",
            Self::OneLineCounts => "one-line counts",
        })
    }
}

/// All data of a filter except its contents, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// Kind of the filter.
    pub kind: FilterKind,
    /// m, the number of cells.
    pub cells: u64,
    /// k, the number of positions per key.
    pub hashes: u32,
    /// Width of a cell; 1 for membership.
    pub cell_bits: u32,
    /// Number of leading fingerprint bits that determine the positions.
    pub fingerprint_bits: u32,
    /// The rule for raising the cells of an inserted key; only counting filters have one.
    pub extension: Option<Extension>,
    /// Id of the key that made the fingerprints.
    pub key_id: KeyId,
    /// The generation, for filters that belong to one.
    pub generation: u64,
    /// Number of entries in the spill section.
    pub spill_entries: u32,
    /// Total of the counts that did not fit in the spill section.
    pub unlisted: u64,
    /// True if a key section follows.
    pub has_key: bool,
    /// Number of origins in the history section; 0 if there is none.
    pub origins: u32,
    /// CRC-32 of the spill section and the array.
    pub checksum: u32,
}

impl Header {
    /// Returns the number of words of the array.
    #[must_use]
    pub const fn words(&self) -> u64 {
        (self.cells * self.cell_bits as u64).div_ceil(64)
    }

    /// Returns the size of the spill section and the array in bytes.
    #[must_use]
    pub const fn payload_bytes(&self) -> u64 {
        self.words() * 8 + self.spill_bytes()
    }

    /// Returns the size of the whole encoding in bytes.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        let key_bytes = if self.has_key { KEY_BYTES } else { 0 };
        let history_bytes = if self.origins > 0 { History::section_bytes(self.origins) } else { 0 };
        (HEADER_BYTES + key_bytes) as u64 + history_bytes + self.payload_bytes()
    }

    /// Returns the number of lines in the one-line layouts.
    pub(crate) const fn lines(&self) -> u64 {
        self.words() * 64 / LINE_BITS
    }

    const fn spill_bytes(&self) -> u64 {
        self.spill_entries as u64 * SPILL_ENTRY_BYTES as u64
    }

    /// Returns a mask of the bits of the last word that belong to cells.
    pub(crate) const fn last_word_mask(&self) -> u64 {
        match self.cells * self.cell_bits as u64 % 64 {
            0 => u64::MAX,
            used => (1 << used) - 1,
        }
    }

    /// Checks that a filter with header `other` can be merged with this one.
    ///
    /// # Errors
    /// [`Mismatch`] if kind, a parameter, the key id or the generation differs.
    pub fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the kind", &self.kind, &other.kind)?;
        ensure_equal("the number of cells m", &self.cells, &other.cells)?;
        ensure_equal("the number of hash functions k", &self.hashes, &other.hashes)?;
        ensure_equal("the cell width in bits", &self.cell_bits, &other.cell_bits)?;
        ensure_equal("the extension", &extension_name(self), &extension_name(other))?;
        ensure_equal("the number of fingerprint bits", &self.fingerprint_bits, &other.fingerprint_bits)?;
        ensure_equal("the key id", &self.key_id, &other.key_id)?;
        ensure_equal("the generation", &self.generation, &other.generation)
    }

    pub(crate) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut fields = FieldWriter::new(&mut bytes);
        fields.put(&FILTER_MAGIC);
        let key = if self.has_key { FLAG_KEY } else { 0 };
        match self.origins {
            0 => write_fields(&mut fields, VERSION_PLAIN, self, key),
            _ => write_fields(&mut fields, VERSION, self, key | FLAG_HISTORY),
        }
        fields.finish();
        bytes
    }

    /// Reads the header. Also returns true if a history follows.
    pub(crate) fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<(Self, bool), FileError> {
        let mut fields = FieldReader::new(bytes);
        match fields.take() {
            FILTER_MAGIC => {}
            DELTA_MAGIC => return Err(FileError::Delta),
            _ => return Err(FileError::NotAFilter),
        }
        let (version, mut header, flags) = read_fields(&mut fields)?;
        let has_history = flags & FLAG_HISTORY != 0;
        if flags & !(FLAG_KEY | FLAG_HISTORY) != 0 || has_history != (version == VERSION) {
            return Err(FileError::invalid("the flags", flags));
        }
        ensure(!has_history || header.kind.counts(), "the flags", flags)?;
        header.has_key = flags & FLAG_KEY != 0;
        Ok((header, has_history))
    }

    /// Validates the fields, so that creating a filter from them cannot fail.
    pub(crate) fn checked(self) -> Result<Self, FileError> {
        let hashes_max = if self.kind == FilterKind::OneLineMembership { ONE_LINE_HASHES_MAX } else { HASHES_MAX };
        ensure(self.cells > 0, "m", self.cells)?;
        ensure((1..=hashes_max).contains(&self.hashes), "k", self.hashes)?;
        ensure((1..=CELL_BITS_MAX).contains(&self.cell_bits), "the cell width", self.cell_bits)?;
        ensure(
            (FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX).contains(&self.fingerprint_bits),
            "the number of fingerprint bits",
            self.fingerprint_bits,
        )?;
        ensure(self.kind.counts() || self.cell_bits == 1, "the cell width", self.cell_bits)?;
        // The number is below half the range of a u64, so the sums computed from it cannot overflow.
        let bits = self.cells.checked_mul(u64::from(self.cell_bits)).filter(|&bits| bits <= u64::MAX / 2);
        let bits = bits.ok_or_else(|| FileError::invalid("m", self.cells))?;
        let whole_lines = bits.is_multiple_of(LINE_BITS) && bits / LINE_BITS <= LINES_MAX as u64;
        ensure(!self.kind.is_one_line() || whole_lines, "m", self.cells)?;
        self.check_one_line_counts()?;
        Ok(self)
    }

    fn check_one_line_counts(&self) -> Result<(), FileError> {
        if self.kind != FilterKind::OneLineCounts {
            ensure(self.spill_entries == 0, "the number of spill entries", self.spill_entries)?;
            return ensure(self.unlisted == 0, "unlisted", self.unlisted);
        }
        let lines = self.lines();
        let entries_max = lines * SPILL_ENTRIES_PER_LINE_MAX + SPILL_ENTRIES_BASE;
        ensure(self.fingerprint_bits == FINGERPRINT_BITS_MAX, "the number of fingerprint bits", self.fingerprint_bits)?;
        ensure(u64::from(self.spill_entries) <= entries_max, "the number of spill entries", self.spill_entries)?;
        ensure(self.unlisted <= u32::MAX.into(), "unlisted", self.unlisted)?;
        ensure(self.hashes == CELLS_PER_KEY, "k", self.hashes)?;
        ensure(self.cell_bits == ONE_LINE_CELL_BITS, "the cell width", self.cell_bits)?;
        ensure(self.extension == Some(Extension::Refined), "the extension", extension_code(self.extension))
    }
}

fn extension_name(header: &Header) -> String {
    header.extension.map_or_else(|| "none".to_owned(), |extension| extension.to_string())
}

fn ensure(holds: bool, field: &'static str, value: impl Into<u64>) -> Result<(), FileError> {
    if holds { Ok(()) } else { Err(FileError::invalid(field, value)) }
}

const fn extension_code(extension: Option<Extension>) -> u8 {
    match extension {
        None => 0,
        Some(Extension::Intuitive) => 1,
        Some(Extension::Refined) => 2,
    }
}

fn extension_from(code: u8, kind: FilterKind) -> Result<Option<Extension>, FileError> {
    match (code, kind.counts()) {
        (0, false) => Ok(None),
        (1, true) => Ok(Some(Extension::Intuitive)),
        (2, true) => Ok(Some(Extension::Refined)),
        _ => Err(FileError::invalid("the extension", code)),
    }
}

/// Writes the fields that filters and deltas share, from version to checksum of the contents. `flags` is byte 15.
pub(crate) fn write_fields<const N: usize>(fields: &mut FieldWriter<'_, N>, version: u16, header: &Header, flags: u8) {
    fields.put(&version.to_le_bytes());
    fields.put(&[header.kind.code(), HASH_FINGERPRINT, extension_code(header.extension)]);
    fields.put(&[header.cell_bits as u8, header.fingerprint_bits as u8, flags]);
    fields.put(&header.hashes.to_le_bytes());
    fields.put(&header.spill_entries.to_le_bytes());
    fields.put(&header.cells.to_le_bytes());
    fields.put(&header.key_id.0.to_le_bytes());
    fields.put(&header.generation.to_le_bytes());
    fields.put(&header.unlisted.to_le_bytes());
    fields.put(&header.checksum.to_le_bytes());
}

/// Reads the fields that [`write_fields`] writes, and returns the version, the header and byte 15. Returns an error if
/// the version, the checksum or a field is invalid.
pub(crate) fn read_fields<const N: usize>(fields: &mut FieldReader<'_, N>) -> Result<(u16, Header, u8), FileError> {
    let version = u16::from_le_bytes(fields.take());
    if !(VERSION_PLAIN..=VERSION).contains(&version) {
        return Err(FileError::UnsupportedVersion { version, supported: VERSION });
    }
    fields.verify()?;
    let [kind, hash, extension, cell_bits, fingerprint_bits, flags] = fields.take();
    let kind = FilterKind::from_code(kind)?;
    ensure(hash == HASH_FINGERPRINT, "the hash", hash)?;
    let header = Header {
        kind,
        extension: extension_from(extension, kind)?,
        cell_bits: cell_bits.into(),
        fingerprint_bits: fingerprint_bits.into(),
        hashes: u32::from_le_bytes(fields.take()),
        spill_entries: u32::from_le_bytes(fields.take()),
        cells: u64::from_le_bytes(fields.take()),
        key_id: KeyId(u64::from_le_bytes(fields.take())),
        generation: u64::from_le_bytes(fields.take()),
        unlisted: u64::from_le_bytes(fields.take()),
        checksum: u32::from_le_bytes(fields.take()),
        has_key: false,
        origins: 0,
    };
    Ok((version, header.checked()?, flags))
}

/// A writer that fills an array of `N` bytes field by field, with a checksum at the end.
pub struct FieldWriter<'a, const N: usize> {
    bytes: &'a mut [u8; N],
    filled: usize,
}

impl<'a, const N: usize> FieldWriter<'a, N> {
    /// Creates a writer at the first byte of `bytes`.
    pub const fn new(bytes: &'a mut [u8; N]) -> Self {
        Self { bytes, filled: 0 }
    }

    /// Writes the next field.
    pub fn put(&mut self, field: &[u8]) {
        self.bytes[self.filled..self.filled + field.len()].copy_from_slice(field);
        self.filled += field.len();
    }

    /// Appends the checksum of all bytes written so far. Exactly four bytes must be left.
    pub fn finish(mut self) {
        assert_eq!(self.filled, N - 4, "the fields fill the header");
        let checksum = crc32(&self.bytes[..N - 4]);
        self.put(&checksum.to_le_bytes());
    }
}

/// A reader of an array of `N` bytes, field by field. All field sizes are known at compile time and add up to at most
/// N.
pub struct FieldReader<'a, const N: usize> {
    bytes: &'a [u8; N],
    taken: usize,
}

impl<'a, const N: usize> FieldReader<'a, N> {
    /// Creates a reader at the first byte of `bytes`.
    pub const fn new(bytes: &'a [u8; N]) -> Self {
        Self { bytes, taken: 0 }
    }

    /// Returns the next field.
    pub fn take<const M: usize>(&mut self) -> [u8; M] {
        let field = self.bytes[self.taken..].first_chunk().expect("the fields fit in the header");
        self.taken += M;
        *field
    }

    /// Returns an error if the last four bytes are not the checksum of the bytes before them.
    pub fn verify(&self) -> Result<(), FileError> {
        let (fields, stored) = self.bytes.split_last_chunk().expect("a header is longer than its checksum");
        if crc32(fields) == u32::from_le_bytes(*stored) {
            return Ok(());
        }
        Err(FileError::Damaged { part: Part::Header })
    }
}
