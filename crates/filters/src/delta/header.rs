//! The header of a delta: its base and its target.

use std::io::{ErrorKind, Read};

use super::ApplyError;
use crate::file::{
    Checksum, DELTA_MAGIC, FILTER_MAGIC, FieldReader, FieldWriter, FileError, FilterKind, Header, Part, Step, VERSION,
    VERSION_PLAIN, read_fields, read_start, write_fields,
};

/// Bytes of a delta's header.
pub const DELTA_HEADER_BYTES: usize = 96;
/// Minimum number of cells per fingerprint. With fewer cells per fingerprint, the list of fingerprints would be larger
/// than the filter.
pub(super) const CELLS_PER_FINGERPRINT_MIN: u64 = 8;
/// Number of bytes that [`verify`] reads at a time.
const VERIFY_BYTES: usize = 64 * 1024;

/// The encoding of the changes in a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// Block by block: unchanged, whole, or coded gaps.
    Blocks,
    /// The fingerprints of the keys that were added.
    Fingerprints,
    /// The growth of each cell, block by block. Used for classical counts of one origin. Can be added to any filter
    /// that includes the base.
    Growth,
}

impl Encoding {
    const fn code(self) -> u8 {
        match self {
            Self::Blocks => 1,
            Self::Fingerprints => 2,
            Self::Growth => 3,
        }
    }

    fn from_code(code: u8) -> Result<Self, FileError> {
        match code {
            1 => Ok(Self::Blocks),
            2 => Ok(Self::Fingerprints),
            3 => Ok(Self::Growth),
            _ => Err(FileError::invalid("the encoding", code)),
        }
    }
}

/// The header of a delta, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeltaHeader {
    /// The header of the target, without a key.
    pub target: Header,
    /// The checksum of the base.
    pub base_checksum: u32,
    /// The `unlisted` count of the base, that is, the total of the counts that did not fit in its spill section.
    pub base_unlisted: u64,
    /// Number of entries in the spill section of the base.
    pub base_spill_entries: u32,
    /// Encoding of the changes.
    pub encoding: Encoding,
    /// Number of fingerprints, if the encoding is [`Encoding::Fingerprints`].
    pub fingerprints: u64,
    /// Origin and revisions, if the delta is a step of one origin.
    pub step: Option<Step>,
}

impl DeltaHeader {
    /// Creates a header from the headers of base and target, which have the same parameters.
    pub(super) fn new(base: &Header, target: &Header, encoding: Encoding, fingerprints: u64) -> Self {
        Self {
            target: Header { has_key: false, origins: 0, ..target.clone() },
            base_checksum: base.checksum,
            base_unlisted: base.unlisted,
            base_spill_entries: base.spill_entries,
            encoding,
            fingerprints,
            step: None,
        }
    }

    /// Returns an error if `base` is not the base of the delta.
    pub(super) fn ensure_starts_from(&self, base: &Header) -> Result<(), ApplyError> {
        base.ensure_same(&self.target)?;
        let ours = (base.checksum, base.unlisted, base.spill_entries);
        if ours == (self.base_checksum, self.base_unlisted, self.base_spill_entries) {
            return Ok(());
        }
        Err(ApplyError::WrongBase { wanted: self.base_checksum, found: base.checksum })
    }

    /// Returns the header and, if there is one, the step section.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let version = if self.step.is_some() { VERSION } else { VERSION_PLAIN };
        let mut bytes = self.fixed_bytes(version).to_vec();
        if let Some(step) = self.step {
            bytes.extend_from_slice(&step.to_bytes());
        }
        bytes
    }

    fn fixed_bytes(&self, version: u16) -> [u8; DELTA_HEADER_BYTES] {
        let mut bytes = [0; DELTA_HEADER_BYTES];
        let mut fields = FieldWriter::new(&mut bytes);
        fields.put(&DELTA_MAGIC);
        write_fields(&mut fields, version, &self.target, self.encoding.code());
        fields.put(&self.base_checksum.to_le_bytes());
        fields.put(&self.base_unlisted.to_le_bytes());
        fields.put(&self.base_spill_entries.to_le_bytes());
        fields.put(&[0; 4]);
        fields.put(&self.fingerprints.to_le_bytes());
        fields.put(&[0; 4]);
        fields.finish();
        bytes
    }

    /// Reads the header without its step. Also returns true if a step follows.
    fn from_bytes(bytes: &[u8; DELTA_HEADER_BYTES]) -> Result<(Self, bool), FileError> {
        let mut fields = FieldReader::new(bytes);
        match fields.take() {
            DELTA_MAGIC => {}
            FILTER_MAGIC => return Err(FileError::Filter),
            _ => return Err(FileError::NotADelta),
        }
        let (version, target, encoding) = read_fields(&mut fields)?;
        let base_checksum = u32::from_le_bytes(fields.take());
        let base_unlisted = u64::from_le_bytes(fields.take());
        let base_spill_entries = u32::from_le_bytes(fields.take());
        let reserved_1 = u32::from_le_bytes(fields.take());
        let fingerprints = u64::from_le_bytes(fields.take());
        let reserved_2 = u32::from_le_bytes(fields.take());
        if reserved_1 | reserved_2 != 0 {
            return Err(FileError::invalid("a reserved field", reserved_1 | reserved_2));
        }
        let encoding = Encoding::from_code(encoding)?;
        let header =
            Self { target, base_checksum, base_unlisted, base_spill_entries, encoding, fingerprints, step: None };
        let has_step = version == VERSION;
        header.ensure_step(has_step)?;
        Ok((header.checked()?, has_step))
    }

    /// Checks that only deltas of counts have a step, and that a growth delta has one.
    fn ensure_step(&self, has_step: bool) -> Result<(), FileError> {
        let is_growth = self.encoding == Encoding::Growth;
        let fits = match self.target.kind {
            FilterKind::ClassicalCounts => is_growth == has_step,
            FilterKind::OneLineCounts => !is_growth,
            _ => !is_growth && !has_step,
        };
        if fits { Ok(()) } else { Err(FileError::invalid("the encoding", self.encoding.code())) }
    }

    fn checked(self) -> Result<Self, FileError> {
        let fingerprints_max = match self.encoding {
            Encoding::Blocks | Encoding::Growth => 0,
            Encoding::Fingerprints if self.target.kind.counts() => {
                return Err(FileError::invalid("the encoding", self.encoding.code()));
            }
            Encoding::Fingerprints => self.target.cells / CELLS_PER_FINGERPRINT_MIN,
        };
        if self.fingerprints > fingerprints_max {
            return Err(FileError::invalid("the number of fingerprints", self.fingerprints));
        }
        Ok(self)
    }
}

/// Reads the header of a delta and nothing after it.
///
/// # Errors
/// [`FileError`] if the input is not a delta, has a later version, or is truncated or damaged.
pub fn read_header(input: &mut impl Read) -> Result<DeltaHeader, FileError> {
    let bytes = read_start(input)?.ok_or(FileError::NotADelta)?;
    let (mut header, has_step) = DeltaHeader::from_bytes(&bytes)?;
    if has_step {
        header.step = Some(Step::read(input, header.base_checksum, header.target.checksum)?);
    }
    Ok(header)
}

/// Reads a delta to its end and verifies its checksum. Whether the delta fits a base is checked only when it is
/// applied.
///
/// # Errors
/// The same as for [`read_header`].
pub fn verify(input: &mut impl Read) -> Result<DeltaHeader, FileError> {
    let header = read_header(input)?;
    let mut checksum = Checksum::default();
    let mut buffer = vec![0; VERIFY_BYTES];
    // The last four bytes read are not added to the checksum yet, because they may be the checksum itself.
    let mut kept = 0;
    loop {
        let read = read_some(input, &mut buffer[kept..])?;
        let filled = kept + read;
        if read == 0 {
            let stored = buffer.first_chunk().filter(|_| filled == 4).ok_or(FileError::Truncated)?;
            let sound = u32::from_le_bytes(*stored) == checksum.value();
            return if sound { Ok(header) } else { Err(FileError::Damaged { part: Part::Changes }) };
        }
        kept = filled.min(4);
        checksum.add(&buffer[..filled - kept]);
        buffer.copy_within(filled - kept..filled, 0);
    }
}

fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, FileError> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return Ok(outcome?),
        }
    }
}
