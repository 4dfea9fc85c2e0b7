//! The search for an excerpt. It tries every alignment to the blocks and every offset, and returns the longest runs.
//!
//! Blocks of the base level are checked in order, each at all offsets in one batch. Blocks found at consecutive offsets
//! form a run. The doubled blocks within the run are then looked up; if one is missing, the run is split.

use std::cmp::Reverse;
use std::ops::Range;

use super::{BlockShape, Digester, Label};
use bruit_filters::Fingerprint;
use bruit_filters::bloom::MembershipFilter;

/// Maximum length of an excerpt. A longer excerpt cannot be part of a payload.
pub const EXCERPT_BYTES_MAX: usize = super::PAYLOAD_BYTES_MAX;

/// Maximum number of runs that a search returns. If there are more, the longest are kept. With 32-byte blocks, this is
/// the number of places for a whole excerpt in the longest payload.
pub const RUNS_MAX: usize = 1 << 16;

/// The reason why an excerpt cannot be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The excerpt has fewer whole blocks than requested.
    #[error("excerpt too short: {bytes} bytes are less than {blocks_min} whole blocks of {block_bytes} bytes")]
    TooShort {
        /// Length of the excerpt.
        bytes: usize,
        /// Requested number of blocks.
        blocks_min: usize,
        /// Size of a block.
        block_bytes: u32,
    },
    /// The excerpt is longer than any payload.
    #[error("excerpt too long: expected at most {EXCERPT_BYTES_MAX} bytes, found {0}")]
    TooLong(usize),
}

/// Consecutive blocks of an excerpt that were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Position of the excerpt's first block boundary, in bytes.
    pub alignment: usize,
    /// Index, at this alignment, of the first block found.
    pub first: usize,
    /// Offset of the first block found, counted in blocks from the start of the payload; 0 if digests contain no
    /// offsets.
    pub offset: usize,
    /// Number of blocks found.
    pub blocks: usize,
    /// Number of digests found: those of the blocks, and those of the doubled blocks within the run.
    pub digests: usize,
}

impl Run {
    /// Returns the bytes of the excerpt that were found, as a range.
    #[must_use]
    pub const fn bytes(&self, shape: BlockShape) -> Range<usize> {
        let block_bytes = shape.block_bytes() as usize;
        let start = self.alignment + self.first * block_bytes;
        start..start + self.blocks * block_bytes
    }

    /// Returns true if the run covers all whole blocks that an excerpt of this length has at the run's alignment.
    #[must_use]
    pub const fn is_whole(&self, shape: BlockShape, excerpt_bytes: usize) -> bool {
        self.first == 0 && self.blocks == shape.blocks_in(excerpt_bytes.saturating_sub(self.alignment))
    }

    /// Returns the probability of finding this run at its place by chance. It is assumed that no digest of the run was
    /// recorded, and that each is a false positive with probability `rate`.
    #[must_use]
    pub fn by_chance(&self, rate: f64) -> f64 {
        rate.powf(self.digests as f64)
    }
}

pub(super) fn search<F: MembershipFilter<Key = Fingerprint>>(
    digester: &Digester,
    filter: &F,
    excerpt: &[u8],
    label: Label,
    longest_blocks: usize,
    blocks_min: usize,
) -> Result<Vec<Run>, SearchError> {
    let shape = label.shape(digester.shape());
    let block_bytes = shape.block_bytes();
    if excerpt.len() > EXCERPT_BYTES_MAX {
        return Err(SearchError::TooLong(excerpt.len()));
    }
    let blocks_min = blocks_min.max(1);
    if shape.blocks_in(excerpt.len()) < blocks_min {
        return Err(SearchError::TooShort { bytes: excerpt.len(), blocks_min, block_bytes });
    }
    let mut runs = Runs { blocks_min, runs: Vec::new() };
    for alignment in 0..block_bytes as usize {
        let contents = digester.contents(excerpt, alignment, shape.levels());
        let mut aligned = Aligned { filter, label, shape, alignment, contents, runs: &mut runs };
        match label {
            Label::Content => aligned.search_contents(),
            Label::Offset | Label::Payload(_) => aligned.search_offsets(longest_blocks),
        }
    }
    Ok(runs.into_sorted())
}

/// An excerpt at one alignment.
struct Aligned<'s, F> {
    filter: &'s F,
    label: Label,
    shape: BlockShape,
    alignment: usize,
    /// For each level, the content hash of the block that begins at each base block.
    contents: Vec<Vec<u64>>,
    runs: &'s mut Runs,
}

impl<F: MembershipFilter<Key = Fingerprint>> Aligned<'_, F> {
    /// Finds runs of blocks that were recorded at any offset.
    fn search_contents(&mut self) {
        let digests: Vec<_> = self.contents[0].iter().map(|&hash| self.label.digest(hash, 0, 0)).collect();
        let mut found = vec![false; digests.len()];
        self.filter.contains_batch(&digests, &mut found);
        let mut first = 0;
        for run in found.chunk_by(|one, next| one == next) {
            if run[0] {
                self.runs.push(self.run(first, 0, run.len()));
            }
            first += run.len();
        }
    }

    /// Finds runs of blocks that were recorded at consecutive offsets.
    fn search_offsets(&mut self, offsets: usize) {
        let blocks = self.contents[0].len();
        let (mut digests, mut found) = (Vec::with_capacity(offsets), vec![false; offsets]);
        // The length, for each offset, of the run that ends there with the current block.
        let mut lengths = vec![0; offsets];
        for block in 0..blocks {
            let hash = self.contents[0][block];
            digests.clear();
            digests.extend((0..offsets).map(|offset| self.label.digest(hash, 0, offset)));
            self.filter.contains_batch(&digests, &mut found);
            let mut before = 0;
            for offset in 0..offsets {
                let length = lengths[offset];
                lengths[offset] = if found[offset] { before + 1 } else { 0 };
                if !found[offset] {
                    self.end_run(block - before, offset - before, before);
                }
                before = length;
            }
            // Runs that reached the last offset end there.
            self.end_run(block - before, offsets - before, before);
        }
        for (offset, &length) in lengths.iter().enumerate() {
            self.end_run(blocks - length, offset + 1 - length, length);
        }
    }

    /// Records a run of base blocks. Splits it if a doubled block within it is missing.
    fn end_run(&mut self, first: usize, offset: usize, blocks: usize) {
        if blocks < self.runs.blocks_min {
            return;
        }
        let mut missing = self.missing_within(first, offset, blocks);
        // Of the doubled blocks with the same end, the shortest comes first. A split there also splits the longer ones.
        missing.sort_by_key(|doubled| (doubled.end, Reverse(doubled.start)));
        let mut start = offset;
        for doubled in missing {
            if doubled.start >= start {
                self.runs.push(self.run(first + start - offset, start, doubled.end - 1 - start));
                start = doubled.start + 1;
            }
        }
        self.runs.push(self.run(first + start - offset, start, offset + blocks - start));
    }

    /// Returns those doubled blocks within a run that were never recorded, as ranges of base blocks of the payload.
    fn missing_within(&self, first: usize, offset: usize, blocks: usize) -> Vec<Range<usize>> {
        let mut missing = Vec::new();
        for level in 1..self.shape.levels() {
            for doubled in self.shape.doubled_at(level, offset, blocks) {
                let start = doubled << level;
                let hash = self.contents[level as usize][first + start - offset];
                if !self.filter.contains(&self.label.digest(hash, level, doubled)) {
                    missing.push(start..start + (1 << level));
                }
            }
        }
        missing
    }

    fn run(&self, first: usize, offset: usize, blocks: usize) -> Run {
        Run { alignment: self.alignment, first, offset, blocks, digests: self.shape.digests_at(offset, blocks) }
    }
}

/// The longest runs so far.
struct Runs {
    blocks_min: usize,
    runs: Vec<Run>,
}

impl Runs {
    fn push(&mut self, run: Run) {
        if run.blocks >= self.blocks_min {
            self.runs.push(run);
        }
        if self.runs.len() >= 2 * RUNS_MAX {
            self.keep_longest();
        }
    }

    fn keep_longest(&mut self) {
        self.runs.sort_by_key(|run| Reverse(run.blocks));
        self.runs.truncate(RUNS_MAX);
    }

    fn into_sorted(mut self) -> Vec<Run> {
        self.keep_longest();
        self.runs
    }
}
