//! How far to believe a run: what the false positives of single digests compound to.

use super::BlockShape;

/// What a filter would show of an excerpt that was never recorded.
///
/// Each digest is found with probability `rate` all the same, and a run needs all of its own; there are as many places for a
/// run as there are alignments, blocks of the excerpt to begin with, and offsets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// How payloads are cut.
    pub shape: BlockShape,
    /// The rate at which the filter takes a digest for known that it is not.
    pub rate: f64,
    /// The blocks of the longest payload.
    pub longest_blocks: usize,
    /// The length of the excerpt.
    pub excerpt_bytes: usize,
}

impl Chance {
    /// How many places one would expect to show `blocks` blocks in a row, or more.
    #[must_use]
    pub fn expected_runs(&self, blocks: usize) -> f64 {
        let starts: usize = self.alignments().map(|aligned| (aligned + 1).saturating_sub(blocks)).sum();
        starts as f64 * self.expected_offsets(blocks)
    }

    /// How many places one would expect to show all blocks that the excerpt has at their alignment, if a search gives runs of at
    /// least `blocks_min` only: alignments with fewer blocks have nothing to show.
    #[must_use]
    pub fn expected_whole(&self, blocks_min: usize) -> f64 {
        let counted = self.alignments().filter(|&aligned| aligned >= blocks_min.max(1));
        counted.map(|aligned| self.expected_offsets(aligned)).sum()
    }

    /// At how many offsets one would expect to find `blocks` given blocks in a row.
    #[must_use]
    pub fn expected_offsets(&self, blocks: usize) -> f64 {
        let offsets = (self.longest_blocks + 1).saturating_sub(blocks);
        (0..offsets).map(|offset| self.rate.powf(self.shape.digests_at(offset, blocks) as f64)).sum()
    }

    /// The probability that any of so many expected things happens, each of them rare and nearly independent of the others.
    #[must_use]
    pub fn of_any(expected: f64) -> f64 {
        -(-expected).exp_m1()
    }

    /// How many whole blocks the excerpt has at each alignment.
    fn alignments(&self) -> impl Iterator<Item = usize> {
        let Self { shape, excerpt_bytes, .. } = *self;
        (0..shape.block_bytes() as usize).map(move |alignment| shape.blocks_in(excerpt_bytes.saturating_sub(alignment)))
    }
}
