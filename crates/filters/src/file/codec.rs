//! Encoding and decoding of filters.

use std::io::{self, Read, Write};

use super::header::KEY_BYTES;
use super::merge::merge_source;
use super::spill::{SpillEntry, read_entries, write_entry};
use super::stored::parts::Parts;
use super::stored::spill_entries;
use super::{
    Checksum, FileError, Header, History, HistoryError, InputWords, OutputWords, Part, Stored, StoredFilter, WordCheck,
};
use super::{ORIGINS_MAX, expect_end, read_exactly, read_start};
use crate::counting::rows;
use crate::counting::spill::{Spill, SpillRecords};
use crate::lines::LINE_WORDS;
use crate::mismatch::ensure_equal;
use crate::{FingerprintKey, KeyId};

/// Data stored in a file in addition to the filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The generation, for filters that belong to one.
    pub generation: u64,
    /// The key to store with the filter, if any. A file with its key is secret; omit the key from files sent to others.
    pub key: Option<FingerprintKey>,
}

/// The content of a filter file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterFile {
    /// The header read from the file.
    pub header: Header,
    /// The key, if the file contains it.
    pub key: Option<FingerprintKey>,
    /// The origins of the counts, if the file contains them.
    pub history: Option<History>,
    /// The filter.
    pub filter: StoredFilter,
}

impl FilterFile {
    /// Creates a file that contains `filter`. A counting filter may have a history.
    ///
    /// # Errors
    /// The same as for [`encode`].
    pub fn new(filter: StoredFilter, label: Label, history: Option<History>) -> Result<Self, FileError> {
        let header = with_history(header_of(&filter, &label)?, history.as_ref())?;
        Ok(Self { header, key: label.key, history, filter })
    }

    /// Writes the file and returns the header written.
    ///
    /// # Errors
    /// The same as for [`encode`].
    pub fn write(&self, output: &mut impl Write) -> Result<Header, FileError> {
        let header = with_history(header_of(&self.filter, &self.label())?, self.history.as_ref())?;
        write_all(&self.filter, &header, self.key.as_ref(), self.history.as_ref(), output)?;
        Ok(header)
    }

    /// Adds the contents of the filter file `input`.
    ///
    /// Header and history are compared before anything changes. If `input` then proves to be truncated or damaged, part
    /// of it has already been added, and this file must be discarded.
    ///
    /// # Errors
    /// [`FileError::Mismatch`] if the filters have different parameters, [`FileError::History`] if counts would be
    /// added twice, and the errors of [`decode`].
    pub fn merge(&mut self, input: &mut impl Read) -> Result<(), FileError> {
        let source = Source::open_like(input, &self.header)?;
        let joined = match (&self.history, &source.history) {
            (Some(ours), Some(theirs)) => Some(ours.joined(self.header.checksum, theirs, source.header.checksum)?),
            (None, None) => None,
            // The sum would have no history, so the same counts could be added twice.
            _ => return Err(HistoryError::OriginsUnknown.into()),
        };
        merge_source(&mut self.filter, source)?;
        self.history = joined;
        self.header = with_history(header_of(&self.filter, &self.label())?, self.history.as_ref())?;
        Ok(())
    }

    /// Returns the label for writing this file again.
    #[must_use]
    pub fn label(&self) -> Label {
        Label { generation: self.header.generation, key: self.key.clone() }
    }
}

/// Writes `filter` and returns the header written.
///
/// # Errors
/// [`FileError`] if writing fails, if the key of `label` is not the key that `filter` was filled under, or if a
/// parameter exceeds the range of the file format (k is at most 64).
pub fn encode(filter: &impl Stored, label: &Label, output: &mut impl Write) -> Result<Header, FileError> {
    let header = header_of(filter, label)?;
    write_all(filter, &header, label.key.as_ref(), None, output)?;
    Ok(header)
}

fn write_all(
    filter: &impl Stored,
    header: &Header,
    key: Option<&FingerprintKey>,
    history: Option<&History>,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut output = OutputWords::new(output);
    write_front(header, key, history, &spill_entries(filter.spill()), &mut output)?;
    output.put(filter.words())
}

/// Returns `header` with its number of origins set to that of `history`.
pub(crate) fn with_history(header: Header, history: Option<&History>) -> Result<Header, FileError> {
    let Some(history) = history else { return Ok(Header { origins: 0, ..header }) };
    let origins = history.reached(0).len();
    if !header.kind.counts() || !(1..=ORIGINS_MAX).contains(&origins) {
        return Err(FileError::invalid("the number of origins", origins as u64));
    }
    Ok(Header { origins: origins as u32, ..header })
}

/// Returns the complete header of `filter`.
pub(crate) fn header_of(filter: &impl Stored, label: &Label) -> Result<Header, FileError> {
    let shape = filter.shape();
    if let Some(key) = &label.key {
        ensure_equal("the key id", &shape.key_id, &key.id())?;
    }
    let mut checksum = Checksum::default();
    checksum.add(&spill_bytes(&spill_entries(filter.spill())));
    checksum.add_words(filter.words());
    // Readers reject a file with k above 64, but a classical filter may have any k, so the header is checked before
    // writing.
    Header { generation: label.generation, has_key: label.key.is_some(), checksum: checksum.value(), ..shape }.checked()
}

/// Writes everything before the array.
pub(crate) fn write_front<W: Write>(
    header: &Header,
    key: Option<&FingerprintKey>,
    history: Option<&History>,
    spill: &[SpillEntry],
    output: &mut OutputWords<W>,
) -> io::Result<()> {
    output.output().write_all(&header.to_bytes())?;
    if let Some(key) = key {
        output.output().write_all(key.as_bytes())?;
    }
    if let Some(history) = history {
        output.output().write_all(&history.to_bytes(header.checksum))?;
    }
    output.put_bytes(&spill_bytes(spill))
}

pub(crate) fn spill_bytes(entries: &[SpillEntry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| write_entry(entry, &mut bytes));
    bytes
}

/// Reads a filter whose array and spill section have at most `payload_limit` bytes.
///
/// # Errors
/// [`FileError`] if the input is not a filter, has a later version, or is truncated, damaged or too large.
pub fn decode(input: &mut impl Read, payload_limit: u64) -> Result<FilterFile, FileError> {
    let mut source = Source::open(input, payload_limit)?;
    let mut filter = StoredFilter::empty(&source.header)?;
    source.take(filter.words_mut())?;
    if let Some(spill) = filter.spill_mut() {
        std::mem::swap(spill, &mut source.spill);
    }
    let (header, key, history) = source.finish()?;
    Ok(FilterFile { header, key, history, filter })
}

/// Reads header and key, and nothing after them.
///
/// # Errors
/// The same as for [`decode`].
pub fn read_header(input: &mut impl Read) -> Result<(Header, Option<FingerprintKey>), FileError> {
    read_front(input).map(|(header, key, _)| (header, key))
}

type Front = (Header, Option<FingerprintKey>, Option<History>);

/// Reads header, key and history.
fn read_front(input: &mut impl Read) -> Result<Front, FileError> {
    let (header, has_history) = Header::from_bytes(&read_start(input)?.ok_or(FileError::NotAFilter)?)?;
    let key = if header.has_key { Some(read_key(input, header.key_id)?) } else { None };
    let history = if has_history { Some(History::read(input, header.checksum)?) } else { None };
    Ok((with_history(header, history.as_ref())?, key, history))
}

/// Reads a key section. Its key must have the id `key_id`.
pub fn read_key(input: &mut impl Read, key_id: KeyId) -> Result<FingerprintKey, FileError> {
    let mut key = [0; KEY_BYTES];
    read_exactly(input, &mut key)?;
    // The id also determines the width of the key.
    let widths = [FingerprintKey::new(key), FingerprintKey::narrow(key)];
    widths.into_iter().find(|key| key.id() == key_id).ok_or(FileError::Damaged { part: Part::Key })
}

/// A filter file that is read from front to back, in steps of any size.
pub(crate) struct Source<R> {
    pub(crate) header: Header,
    pub(crate) key: Option<FingerprintKey>,
    pub(crate) history: Option<History>,
    pub(crate) spill: Spill,
    input: InputWords<R>,
    check: WordCheck,
}

impl<R: Read> Source<R> {
    /// Opens a file and reads everything before the array.
    pub(crate) fn open(mut input: R, payload_limit: u64) -> Result<Self, FileError> {
        let front = read_front(&mut input)?;
        let bytes = front.0.payload_bytes();
        if bytes > payload_limit || usize::try_from(bytes).is_err() {
            return Err(FileError::TooLarge { bytes, limit_bytes: payload_limit });
        }
        Self::after_front(front, input)
    }

    /// Opens a file whose header must match `other`.
    pub(crate) fn open_like(mut input: R, other: &Header) -> Result<Self, FileError> {
        let front = read_front(&mut input)?;
        other.ensure_same(&front.0)?;
        Self::after_front(front, input)
    }

    fn after_front((header, key, history): Front, input: R) -> Result<Self, FileError> {
        let mut input = InputWords::new(input);
        let entries = read_entries(&mut input, header.spill_entries, header.lines())?;
        let spill = restore_spill(&header, &entries)?;
        let check = WordCheck::new(&header, entries);
        Ok(Self { header, key, history, spill, input, check })
    }

    /// Fills `words` with the next words of the array. They are whole lines, except at the end.
    pub(crate) fn take(&mut self, words: &mut [u64]) -> Result<(), FileError> {
        self.input.take(words)?;
        self.check.next(words)
    }

    /// Reads the rest of the array. Fails if the checksum is wrong or bytes follow.
    pub(crate) fn finish(mut self) -> Result<Front, FileError> {
        let mut rest = [0; LINE_WORDS];
        while self.check.words_left() > 0 {
            let length = self.check.words_left().min(LINE_WORDS as u64) as usize;
            self.take(&mut rest[..length])?;
        }
        expect_end(self.input.input())?;
        if self.input.checksum.value() != self.header.checksum {
            return Err(FileError::Damaged { part: Part::Array });
        }
        Ok((self.header, self.key, self.history))
    }
}

/// Restores the spill table from `entries` if the filter's kind has one.
pub(crate) fn restore_spill(header: &Header, entries: &[SpillEntry]) -> Result<Spill, FileError> {
    let unlisted = u32::try_from(header.unlisted).map_err(|_| FileError::invalid("unlisted", header.unlisted))?;
    if let Some(entry) = entries.iter().find(|entry| !rows::is_sound_record(entry.tag, entry.count)) {
        return Err(FileError::invalid("the count of a spill entry", entry.count));
    }
    let records = entries.iter().map(|entry| (entry.line, entry.tag, entry.count));
    let records = SpillRecords::new(records, unlisted).expect("entries were read in order");
    Ok(Spill::restore(header.lines() as usize, &records))
}
