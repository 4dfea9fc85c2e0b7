//! Applies the steps of an origin, each exactly once, to the origin's own filter or to a merged one.

use std::io::Read;

use super::block::{BlockShape, decode_block};
use super::header::{DeltaHeader, Encoding, read_header};
use super::memory::InPlace;
use super::transform::Opened;
use super::{ApplyError, DiffError};
use crate::counting::CountingFilter;
use crate::counting::cells::{cell_at, set_cell_at};
use crate::counting::spill::Spill;
use crate::file::{
    FileError, FilterFile, History, HistoryError, InputWords, Parts as _, Step, StoredFilter, WordCheck,
    expect_checksum, header_of, with_history,
};
use crate::hash::FingerprintHash;

/// Subtracts the cells of `before` from those of `after`. Cells have `width` bits and are not split between blocks.
pub(super) fn subtract(after: &mut [u64], before: &[u64], width: u32) -> Result<(), DiffError> {
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

/// Turns the filter of the origin into its target.
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
