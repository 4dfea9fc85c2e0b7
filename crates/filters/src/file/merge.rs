//! Merging straight from bytes, so that two filters join in the memory of one.

use std::io::Read;

use super::codec::Source;
use super::{FileError, Header, Stored, StoredFilter};
use crate::bloom::or_words;
use crate::counting::row_merge::RowMerge;
use crate::counting::spill::Spill;
use crate::counting::{Cells, CountingFilter, OneLineCounts};
use crate::hash::FingerprintHash;
use crate::lines::{LINE_WORDS, Line};

/// Words read before they are merged, at most.
const STEP_WORDS: usize = 8192;

/// Lines of counts read before they are merged.
const STEP_LINES: usize = STEP_WORDS / LINE_WORDS;

/// Adds all that the filter file `input` holds to `filter`, which belongs to `generation`.
///
/// Does not ask whose counts they are; [`FilterFile::merge`](super::FilterFile::merge) does.
///
/// The header is compared before anything changes. If the file turns out to be cut off or damaged later, `filter` has
/// taken a part of it and should be thrown away.
///
/// # Errors
/// [`FileError::Mismatch`] if the filters are unlike, and as [`decode`](super::decode).
pub fn merge_from(filter: &mut StoredFilter, generation: u64, input: &mut impl Read) -> Result<(), FileError> {
    // A file that is like `filter` takes as much as it does; the comparison stands for the limit.
    merge_source(filter, Source::open_like(input, &Header { generation, ..filter.shape() })?)
}

/// Adds all of `source`, which is like `filter`.
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
