//! Deltas of filter files. Computing a delta between two files keeps only a few blocks in memory at a time. Each step
//! of an origin is applied to a file exactly once.

use std::io::{Read, Write};

use super::block::{BlockEncoder, BlockShape, decode_block};
use super::changes::encode_spill;
use super::header::{DeltaHeader, Encoding, read_header};
use super::memory::InPlace;
use super::transform::{Blocks, Opened};
use super::{ApplyError, DiffError};
use crate::counting::CountingFilter;
use crate::counting::cells::{cell_at, set_cell_at};
use crate::counting::spill::Spill;
use crate::file::{
    FileError, FilterFile, FilterKind, Header, History, HistoryError, InputWords, OutputWords, Parts as _, Source,
    Step, StoredFilter, WordCheck, expect_checksum, header_of, spill_entries, with_history, write_front,
};
use crate::hash::FingerprintHash;

/// Writes the delta from the filter file `base` to the filter file `target`.
///
/// # Errors
/// [`DiffError`]; output written so far must be discarded.
pub fn diff(base: &mut impl Read, target: &mut impl Read, output: &mut impl Write) -> Result<DeltaHeader, DiffError> {
    // No limit is needed: memory use does not depend on the sizes.
    let mut base = Source::open(base, u64::MAX).map_err(DiffError::Base)?;
    let mut target = Source::open(target, u64::MAX).map_err(DiffError::Target)?;
    base.header.ensure_same(&target.header)?;
    let header = header_between(&base, &target)?;
    output.write_all(&header.to_bytes())?;
    let mut output = OutputWords::new(output);
    let mut body = Vec::new();
    if header.target.kind == FilterKind::OneLineCounts {
        encode_spill(&base.spill, &target.spill, &mut body);
    }
    let mut base_words = |words: &mut [u64]| base.take(words).map_err(DiffError::Base);
    let mut target_words = |words: &mut [u64]| target.take(words).map_err(DiffError::Target);
    write_blocks(&header, &mut base_words, &mut target_words, body, &mut output)?;
    base.finish().map_err(DiffError::Base)?;
    target.finish().map_err(DiffError::Target)?;
    let checksum = output.checksum.value();
    output.output().write_all(&checksum.to_le_bytes())?;
    Ok(header)
}

/// Returns the header of the delta between two files. It contains a step if the files have a history.
fn header_between<B, T>(base: &Source<B>, target: &Source<T>) -> Result<DeltaHeader, DiffError> {
    let (from, to) = (&base.header, &target.header);
    let step = match (&base.history, &target.history) {
        (None, None) => None,
        (Some(before), Some(after)) => Some(before.step_to(from.checksum, after, to.checksum)?),
        _ => return Err(HistoryError::OriginsUnknown.into()),
    };
    let is_growth = step.is_some() && to.kind == FilterKind::ClassicalCounts;
    let encoding = if is_growth { Encoding::Growth } else { Encoding::Blocks };
    Ok(DeltaHeader { step, ..DeltaHeader::new(from, to, encoding, 0) })
}

/// Writes `body`, which contains everything before the blocks, and then the blocks.
fn write_blocks<W: Write>(
    header: &DeltaHeader,
    base: &mut impl FnMut(&mut [u64]) -> Result<(), DiffError>,
    target: &mut impl FnMut(&mut [u64]) -> Result<(), DiffError>,
    mut body: Vec<u8>,
    output: &mut OutputWords<W>,
) -> Result<(), DiffError> {
    let shape = BlockShape::new(&header.target);
    let mut encoder = BlockEncoder::new(shape);
    let (mut before, mut after) = (vec![0; shape.block_words()], vec![0; shape.block_words()]);
    let total = header.target.words();
    let mut start = 0;
    while start < total {
        let length = (total - start).min(before.len() as u64) as usize;
        base(&mut before[..length])?;
        target(&mut after[..length])?;
        if header.encoding == Encoding::Growth {
            subtract(&mut after[..length], &before[..length], header.target.cell_bits)?;
            before.fill(0);
        }
        encoder.encode(&before[..length], &after[..length], &mut body);
        output.put_bytes(&body)?;
        body.clear();
        start += length as u64;
    }
    Ok(())
}

/// Applies `delta` to the filter file `base` and writes the resulting filter file, with the key of the base.
///
/// Neither file may have a history; for files with a history, use [`advance`].
///
/// Keeps only a few blocks in memory, unless the delta has the fingerprint form and the filter is classical. In that
/// case, the whole array is in memory, and `payload_limit` is the maximum size of this array.
///
/// # Errors
/// [`ApplyError`]; output written so far must be discarded.
pub fn apply_between(
    base: &mut impl Read,
    payload_limit: u64,
    delta: &mut impl Read,
    output: &mut impl Write,
) -> Result<Header, ApplyError> {
    let source = Source::open(base, payload_limit).map_err(ApplyError::Base)?;
    let opened = Opened::new(delta, &source.header, &source.spill)?;
    if opened.header.step.is_some() || source.history.is_some() {
        return Err(HistoryError::OriginsUnknown.into());
    }
    let header = Header { has_key: source.key.is_some(), ..opened.header.target.clone() };
    let mut output = OutputWords::new(output);
    let entries = spill_entries(Some(&opened.spill));
    write_front(&header, source.key.as_ref(), None, &entries, &mut output)?;
    let mut files = Files { source, output };
    let outcome = opened.transform(&mut files);
    // A damaged base leads to a wrong target, so an error in the base takes precedence over an error in the delta.
    files.source.finish().map_err(ApplyError::Base)?;
    outcome.map(|()| header)
}

/// Reads blocks from one file, and writes them to another.
struct Files<R, W> {
    source: Source<R>,
    output: OutputWords<W>,
}

impl<R: Read, W: Write> Blocks for Files<R, W> {
    fn read(&mut self, _: u64, words: &mut [u64]) -> Result<(), ApplyError> {
        self.source.take(words).map_err(ApplyError::Base)
    }

    fn write(&mut self, _: u64, words: &[u64]) -> Result<(), ApplyError> {
        Ok(self.output.put(words)?)
    }
}

/// Subtracts the cells of `before` from those of `after`. Cells have `width` bits and are not split between blocks.
fn subtract(after: &mut [u64], before: &[u64], width: u32) -> Result<(), DiffError> {
    if after == before {
        after.fill(0);
        return Ok(());
    }
    let cells = after.len() as u64 * 64 / u64::from(width);
    for cell in 0..cells {
        let (low, high) = (cell_at(before, width, cell), cell_at(after, width, cell));
        set_cell_at(after, width, cell, high.checked_sub(low).ok_or(DiffError::Shrunk)?);
    }
    Ok(())
}

/// Applies `delta`, a step of one origin, to `file`, which is the filter of that origin or a merged one.
///
/// Parameters and history are compared before anything changes. If the delta then proves to be truncated or damaged,
/// part of it has already been applied, and `file` must be discarded.
///
/// # Errors
/// [`ApplyError::History`] if the delta is already applied, out of order, or belongs to another filter; other variants
/// of [`ApplyError`] if the file or the delta cannot be read, or they do not match.
pub fn advance(file: &mut FilterFile, delta: &mut impl Read) -> Result<Step, ApplyError> {
    let header = read_header(delta).map_err(ApplyError::Delta)?;
    file.header.ensure_same(&header.target)?;
    let (Some(history), Some(step)) = (&file.history, header.step) else {
        return Err(HistoryError::OriginsUnknown.into());
    };
    let after = history.after(file.header.checksum, &step)?;
    match (&mut file.filter, header.encoding) {
        (StoredFilter::ClassicalCounts(filter), Encoding::Growth) => {
            add_growth(filter, &header, delta).map_err(ApplyError::Delta)?;
        }
        _ if matches!(after, History::Merged(_)) => return Err(HistoryError::OneLine.into()),
        _ => replace_blocks(file, header, delta)?,
    }
    file.history = Some(after);
    let written = header_of(&file.filter, &file.label()).map_err(ApplyError::Base)?;
    file.header = with_history(written, file.history.as_ref()).map_err(ApplyError::Base)?;
    ensure_own_target(file, &step)?;
    Ok(step)
}

/// Returns an error if the origin's own filter is not exactly the target of the step.
fn ensure_own_target(file: &FilterFile, step: &Step) -> Result<(), ApplyError> {
    let (wanted, found) = (step.target_checksum, file.header.checksum);
    match file.history {
        Some(History::Own { .. }) if wanted != found => Err(ApplyError::WrongTarget { wanted, found }),
        _ => Ok(()),
    }
}

/// Adds the growth of every cell. Cells saturate at their top.
fn add_growth(
    filter: &mut CountingFilter<FingerprintHash>,
    header: &DeltaHeader,
    delta: &mut impl Read,
) -> Result<(), FileError> {
    let shape = BlockShape::new(&header.target);
    let mut check = WordCheck::new(&header.target, Vec::new());
    let mut input = InputWords::new(delta);
    let total = header.target.words() as usize;
    let mut buffer = vec![0; shape.block_words().min(total)];
    let mut start = 0;
    while start < total {
        let length = buffer.len().min(total - start);
        let words = &mut buffer[..length];
        words.fill(0);
        decode_block(shape, start as u64, words, &mut input)?;
        check.next(words)?;
        filter.cells_mut().add_packed(start, words);
        start += length;
    }
    expect_checksum(&mut input)
}

/// Turns the origin's own filter into the target of the delta.
fn replace_blocks(file: &mut FilterFile, header: DeltaHeader, delta: &mut impl Read) -> Result<(), ApplyError> {
    let empty = Spill::new(0);
    let opened = Opened::after_header(header, delta, &file.header, file.filter.spill().unwrap_or(&empty))?;
    let spill = opened.spill.clone();
    opened.transform(&mut InPlace(file.filter.words_mut()))?;
    if let Some(old) = file.filter.spill_mut() {
        *old = spill;
    }
    Ok(())
}
