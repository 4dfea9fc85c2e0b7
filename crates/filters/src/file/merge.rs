//! Merging directly from a file, so that only one of the two filters is in memory.

use std::io::Read;

use super::codec::Source;
use super::{FileError, Header, Stored, StoredFilter};
use crate::bloom::or_words;
use crate::counting::row_merge::RowMerge;
use crate::counting::spill::Spill;
use crate::counting::{Cells, CountingFilter, OneLineCounts};
use crate::hash::FingerprintHash;
use crate::lines::{LINE_WORDS, Line};

/// Maximum number of words read and merged at a time.
const STEP_WORDS: usize = 8192;

/// Number of lines of counts read and merged at a time.
const STEP_LINES: usize = STEP_WORDS / LINE_WORDS;

/// Adds the contents of the filter file `input` to `filter`, which belongs to `generation`.
///
/// Does not check the history; [`FilterFile::merge`](super::FilterFile::merge) does.
///
/// The header is compared before anything changes. If `input` then proves to be truncated or damaged, part of it has
/// already been added, and `filter` must be discarded.
///
/// # Errors
/// [`FileError::Mismatch`] if the filters have different parameters, and the errors of [`decode`](super::decode).
pub fn merge_from(filter: &mut StoredFilter, generation: u64, input: &mut impl Read) -> Result<(), FileError> {
    // No limit is needed, because a file with the same parameters has the same size as `filter`.
    merge_source(filter, Source::open_like(input, &Header { generation, ..filter.shape() })?)
}

/// Adds the contents of `source`, which has the same parameters as `filter`.
pub(crate) fn merge_source<R: Read>(filter: &mut StoredFilter, mut source: Source<R>) -> Result<(), FileError> {
    match filter {
        StoredFilter::ClassicalMembership(filter) => or_from(filter, &mut source)?,
        StoredFilter::OneLineMembership(filter) => or_from(filter, &mut source)?,
        StoredFilter::ClassicalCounts(filter) => add_from(filter, &mut source)?,
        StoredFilter::OneLineCounts(filter) => join_from(filter, &mut source)?,
    }
    source.finish()?;
    Ok(())
}

fn or_from<R: Read>(filter: &mut impl Stored, source: &mut Source<R>) -> Result<(), FileError> {
    let mut buffer = vec![0; STEP_WORDS];
    for words in filter.words_mut().chunks_mut(STEP_WORDS) {
        let read = &mut buffer[..words.len()];
        source.take(read)?;
        or_words(words, &[read]);
    }
    Ok(())
}

fn add_from<R: Read>(filter: &mut CountingFilter<FingerprintHash>, source: &mut Source<R>) -> Result<(), FileError> {
    let step_words = STEP_WORDS - STEP_WORDS % filter.cells().bits() as usize;
    let mut buffer = vec![0; step_words];
    let total = source.header.words() as usize;
    for start in (0..total).step_by(step_words) {
        let read = &mut buffer[..step_words.min(total - start)];
        source.take(read)?;
        filter.cells_mut().add_packed(start, read);
    }
    Ok(())
}

fn join_from<R: Read>(filter: &mut OneLineCounts, source: &mut Source<R>) -> Result<(), FileError> {
    let (ours, theirs) = (filter.spill().records(), source.spill.records());
    let mut joined = Spill::joining(filter.spill(), &source.spill);
    let mut merge = RowMerge::new(&ours, &theirs, &mut joined);
    let mut buffer = vec![0; STEP_WORDS];
    let mut index = 0;
    for lines in filter.lines_mut().changing_all().chunks_mut(STEP_LINES) {
        let read = &mut buffer[..lines.len() * LINE_WORDS];
        source.take(read)?;
        for (line, other) in lines.iter_mut().zip(read.as_chunks().0) {
            merge.add_line(line, &Line(*other), index);
            index += 1;
        }
    }
    *filter.spill_mut() = joined;
    Ok(())
}
