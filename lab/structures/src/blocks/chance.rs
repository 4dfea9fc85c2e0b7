//! The significance of a run: how likely it is that all its digests are false positives.

use super::BlockShape;

/// The results to expect for an excerpt that was never recorded.
///
/// Each digest that was not recorded is found with probability `rate`, and a run needs all of its digests. There may be
/// a run for every combination of an alignment, a first block of the excerpt, and an offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// Shape of the blocks.
    pub shape: BlockShape,
    /// Rate at which the filter reports a digest that was never recorded.
    pub rate: f64,
    /// Number of blocks in the longest payload.
    pub longest_blocks: usize,
    /// Length of the excerpt.
    pub excerpt_bytes: usize,
}

impl Chance {
    /// Returns the expected number of places with a run of at least `blocks` blocks.
    #[must_use]
    pub fn expected_runs(&self, blocks: usize) -> f64 {
        let starts: usize = self.alignments().map(|aligned| (aligned + 1).saturating_sub(blocks)).sum();
        starts as f64 * self.expected_offsets(blocks)
    }

    /// Returns the expected number of places at which all blocks of the excerpt are found. Only runs of at least
    /// `blocks_min` blocks count, so alignments with fewer blocks are ignored.
    #[must_use]
    pub fn expected_whole(&self, blocks_min: usize) -> f64 {
        let counted = self.alignments().filter(|&aligned| aligned >= blocks_min.max(1));
        counted.map(|aligned| self.expected_offsets(aligned)).sum()
    }

    /// Returns the expected number of offsets at which every block of a given run is found. The run has `blocks` blocks.
    #[must_use]
    pub fn expected_offsets(&self, blocks: usize) -> f64 {
        let offsets = (self.longest_blocks + 1).saturating_sub(blocks);
        (0..offsets).map(|offset| self.rate.powf(self.shape.digests_at(offset, blocks) as f64)).sum()
    }

    /// Returns the probability of at least one event if `expected` events are expected. The events must be rare and
    /// nearly independent.
    #[must_use]
    pub fn of_any(expected: f64) -> f64 {
        -(-expected).exp_m1()
    }

    /// Returns the number of whole blocks of the excerpt at each alignment.
    fn alignments(&self) -> impl Iterator<Item = usize> {
        let Self { shape, excerpt_bytes, .. } = *self;
        (0..shape.block_bytes() as usize).map(move |alignment| shape.blocks_in(excerpt_bytes.saturating_sub(alignment)))
    }
}
