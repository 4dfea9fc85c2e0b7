//! The trait of filters that have a file format, and one type that holds any of them.

use super::spill::SpillEntry;
use super::{FileError, FilterKind, Header};
use crate::bloom::{ClassicalFilter, MembershipFilter, OneLineFilter};
use crate::counting::rows::CELLS_PER_KEY;
use crate::counting::spill::{Spill, SpillRecords};
use crate::counting::{Cells, CountingFilter, Extension, LINE_CELLS, OneLineCounts};
use crate::hash::{FINGERPRINT_BITS_MAX, FingerprintHash, HashFamily};
use crate::lines::LINE_BITS;
use crate::mismatch::ensure_equal;
use crate::{CreateError, Fingerprint, KeyId, Mismatch, OutOfMemory};
use parts::Parts;

/// A filter that can be stored in files and deltas. Only filters of this crate implement it.
#[expect(private_bounds, reason = "seals the trait")]
pub trait Stored: Parts {
    /// Returns the header of this filter's file, with generation 0 and without the checksum.
    fn shape(&self) -> Header;
}

pub(crate) mod parts {
    use crate::counting::spill::Spill;
    use crate::file::{FileError, Header};

    /// Access to the contents of a filter for encoding and decoding.
    pub(crate) trait Parts: Sized {
        /// Creates an empty filter from a `header` of the same kind.
        fn empty(header: &Header) -> Result<Self, FileError>;
        /// Returns the words of the filter's array, in file order.
        fn words(&self) -> &[u64];
        /// Returns the words of the filter's array for changing them.
        fn words_mut(&mut self) -> &mut [u64];
        /// Returns the spill table if the kind has one.
        fn spill(&self) -> Option<&Spill> {
            None
        }
        /// Returns the spill table for changing it.
        fn spill_mut(&mut self) -> Option<&mut Spill> {
            None
        }
    }
}

/// Returns the header fields that both membership layouts share.
fn membership(kind: FilterKind, cells: u64, hashes: u32, fingerprint_bits: u32, key_id: KeyId) -> Header {
    Header {
        kind,
        cells,
        hashes,
        cell_bits: 1,
        fingerprint_bits,
        extension: None,
        key_id,
        generation: 0,
        spill_entries: 0,
        unlisted: 0,
        has_key: false,
        origins: 0,
        checksum: 0,
    }
}

fn fingerprint_hash(header: &Header) -> Result<FingerprintHash, FileError> {
    Ok(FingerprintHash::new(header.cells, header.hashes, header.fingerprint_bits, header.key_id)?)
}

/// Returns the number of words of a classical array without the padding of its last line.
fn used_words(bits: u64) -> usize {
    bits.div_ceil(64) as usize
}

fn line_count(header: &Header) -> Result<usize, FileError> {
    Ok(usize::try_from(header.words() * 64 / LINE_BITS).map_err(|_| OutOfMemory { bytes: u64::MAX })?)
}

impl Stored for ClassicalFilter<FingerprintHash> {
    fn shape(&self) -> Header {
        let hash = self.hash();
        let (bits, key_id) = (hash.fingerprint_bits(), hash.key_id());
        membership(FilterKind::ClassicalMembership, hash.cells(), hash.hashes(), bits, key_id)
    }
}

impl Parts for ClassicalFilter<FingerprintHash> {
    fn empty(header: &Header) -> Result<Self, FileError> {
        Ok(Self::new(fingerprint_hash(header)?)?)
    }

    fn words(&self) -> &[u64] {
        &self.lines().words()[..used_words(self.hash().cells())]
    }

    fn words_mut(&mut self) -> &mut [u64] {
        let used = used_words(self.hash().cells());
        &mut self.lines_mut().words_mut()[..used]
    }
}

impl Stored for OneLineFilter {
    fn shape(&self) -> Header {
        let cells = self.lines().len() as u64 * LINE_BITS;
        let kind = FilterKind::OneLineMembership;
        membership(kind, cells, self.hashes(), self.fingerprint_bits(), self.key_id())
    }
}

impl Parts for OneLineFilter {
    fn empty(header: &Header) -> Result<Self, FileError> {
        Ok(Self::new(line_count(header)?, header.hashes, header.fingerprint_bits, header.key_id)?)
    }

    fn words(&self) -> &[u64] {
        self.lines().words()
    }

    fn words_mut(&mut self) -> &mut [u64] {
        self.lines_mut().words_mut()
    }
}

impl Stored for CountingFilter<FingerprintHash> {
    fn shape(&self) -> Header {
        let hash = self.hash();
        let (bits, key_id) = (hash.fingerprint_bits(), hash.key_id());
        Header {
            cell_bits: self.cells().bits(),
            extension: Some(self.extension()),
            ..membership(FilterKind::ClassicalCounts, hash.cells(), hash.hashes(), bits, key_id)
        }
    }
}

impl Parts for CountingFilter<FingerprintHash> {
    fn empty(header: &Header) -> Result<Self, FileError> {
        let extension = header.extension.ok_or(FileError::InvalidField { field: "the extension", value: 0 })?;
        Ok(Self::new(fingerprint_hash(header)?, extension, header.cell_bits).map_err(CreateError::from)?)
    }

    fn words(&self) -> &[u64] {
        &self.cells().lines().words()[..used_words(self.cells().len() * u64::from(self.cells().bits()))]
    }

    fn words_mut(&mut self) -> &mut [u64] {
        let used = used_words(self.cells().len() * u64::from(self.cells().bits()));
        &mut self.cells_mut().lines_mut().words_mut()[..used]
    }
}

impl Stored for OneLineCounts {
    fn shape(&self) -> Header {
        let cells = self.line_count() as u64 * LINE_CELLS;
        Header {
            cell_bits: 4,
            extension: Some(Extension::Refined),
            spill_entries: self.spilled() as u32,
            unlisted: self.spill().unlisted().into(),
            ..membership(FilterKind::OneLineCounts, cells, CELLS_PER_KEY, FINGERPRINT_BITS_MAX, self.key_id())
        }
    }
}

impl Parts for OneLineCounts {
    fn empty(header: &Header) -> Result<Self, FileError> {
        Ok(Self::new(line_count(header)?, header.key_id)?)
    }

    fn words(&self) -> &[u64] {
        self.lines().words()
    }

    fn words_mut(&mut self) -> &mut [u64] {
        self.lines_mut().words_mut()
    }

    fn spill(&self) -> Option<&Spill> {
        Some(self.spill())
    }

    fn spill_mut(&mut self) -> Option<&mut Spill> {
        Some(self.spill_mut())
    }
}

/// Returns the entries of a spill table, in file order.
pub(crate) fn spill_entries(spill: Option<&Spill>) -> Vec<SpillEntry> {
    let records = spill.map(Spill::records);
    let entries = records.iter().flat_map(SpillRecords::iter);
    entries.map(|(line, tag, count)| SpillEntry { line, tag, count }).collect()
}

/// A filter of any kind that has a file format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredFilter {
    /// Classical membership.
    ClassicalMembership(ClassicalFilter<FingerprintHash>),
    /// One-line membership.
    OneLineMembership(OneLineFilter),
    /// Classical counts.
    ClassicalCounts(CountingFilter<FingerprintHash>),
    /// One-line counts.
    OneLineCounts(OneLineCounts),
}

/// Evaluates the same expression for a filter of any kind.
macro_rules! each {
    ($stored:expr, $filter:ident => $value:expr) => {
        match $stored {
            StoredFilter::ClassicalMembership($filter) => $value,
            StoredFilter::OneLineMembership($filter) => $value,
            StoredFilter::ClassicalCounts($filter) => $value,
            StoredFilter::OneLineCounts($filter) => $value,
        }
    };
}

impl StoredFilter {
    /// Creates an empty filter as described by `header`.
    ///
    /// # Errors
    /// [`FileError::OutOfMemory`], or [`FileError::InvalidShape`] for a header that no writer produces.
    pub fn empty(header: &Header) -> Result<Self, FileError> {
        Parts::empty(header)
    }

    /// Inserts each of `keys` once.
    pub fn insert_batch(&mut self, keys: &[Fingerprint]) {
        match self {
            Self::ClassicalMembership(filter) => filter.insert_batch(keys),
            Self::OneLineMembership(filter) => filter.insert_batch(keys),
            Self::ClassicalCounts(filter) => filter.insert_batch(keys),
            Self::OneLineCounts(filter) => filter.insert_batch(keys),
        }
    }

    /// Sets `counts[i]` to the count of `keys[i]`, which is at most 1 in a membership filter.
    ///
    /// # Panics
    /// Panics if the two slices differ in length.
    pub fn count_batch(&self, keys: &[Fingerprint], counts: &mut [u32]) {
        match self {
            Self::ClassicalMembership(filter) => membership_counts(filter, keys, counts),
            Self::OneLineMembership(filter) => membership_counts(filter, keys, counts),
            Self::ClassicalCounts(filter) => filter.count_batch(keys, counts),
            Self::OneLineCounts(filter) => filter.count_batch(keys, counts),
        }
    }
}

fn membership_counts(filter: &impl MembershipFilter<Key = Fingerprint>, keys: &[Fingerprint], counts: &mut [u32]) {
    let mut found = vec![false; keys.len()];
    filter.contains_batch(keys, &mut found);
    assert_eq!(keys.len(), counts.len(), "the slices differ in length");
    counts.iter_mut().zip(found).for_each(|(count, found)| *count = found.into());
}

impl Stored for StoredFilter {
    fn shape(&self) -> Header {
        each!(self, filter => filter.shape())
    }
}

impl Parts for StoredFilter {
    fn empty(header: &Header) -> Result<Self, FileError> {
        Ok(match header.kind {
            FilterKind::ClassicalMembership => Self::ClassicalMembership(Parts::empty(header)?),
            FilterKind::OneLineMembership => Self::OneLineMembership(Parts::empty(header)?),
            FilterKind::ClassicalCounts => Self::ClassicalCounts(Parts::empty(header)?),
            FilterKind::OneLineCounts => Self::OneLineCounts(Parts::empty(header)?),
        })
    }

    fn words(&self) -> &[u64] {
        each!(self, filter => Parts::words(filter))
    }

    fn words_mut(&mut self) -> &mut [u64] {
        each!(self, filter => Parts::words_mut(filter))
    }

    fn spill(&self) -> Option<&Spill> {
        each!(self, filter => Parts::spill(filter))
    }

    fn spill_mut(&mut self) -> Option<&mut Spill> {
        each!(self, filter => Parts::spill_mut(filter))
    }
}

macro_rules! try_from_stored {
    ($kind:ident, $filter:ty) => {
        impl TryFrom<StoredFilter> for $filter {
            type Error = FileError;

            /// Returns an error that names both kinds if the filter is of another kind.
            fn try_from(stored: StoredFilter) -> Result<Self, FileError> {
                match stored {
                    StoredFilter::$kind(filter) => Ok(filter),
                    other => Err(other_kind(FilterKind::$kind, other.shape().kind).into()),
                }
            }
        }
    };
}

try_from_stored!(ClassicalMembership, ClassicalFilter<FingerprintHash>);
try_from_stored!(OneLineMembership, OneLineFilter);
try_from_stored!(ClassicalCounts, CountingFilter<FingerprintHash>);
try_from_stored!(OneLineCounts, OneLineCounts);

fn other_kind(wanted: FilterKind, found: FilterKind) -> Mismatch {
    ensure_equal("the kind", &wanted, &found).expect_err("one kind has one variant")
}
