//! A filter for blocks.

use super::search::search;
use super::{BlockShape, Chance, Digester, Label, PAYLOAD_BYTES_MAX, Run, SearchError};
use bruit_filters::Fingerprint;
use bruit_filters::bloom::MembershipFilter;

/// A filter for the blocks of payloads. It can use any membership filter: one with the one-line layout in production,
/// or with the classical layout for study.
#[derive(Clone, Debug)]
pub struct BlockFilter<F> {
    digester: Digester,
    filter: F,
    longest_blocks: usize,
    /// Digests of the current payload. Kept only to reuse the memory.
    digests: Vec<Fingerprint>,
}

impl<F: MembershipFilter<Key = Fingerprint>> BlockFilter<F> {
    /// Creates a filter for the blocks of `digester`, from an empty `filter`.
    #[must_use]
    pub const fn new(digester: Digester, filter: F) -> Self {
        Self::restore(digester, filter, 0)
    }

    /// Restores a filter that contains the blocks of payloads. No payload has more than `longest_blocks` blocks.
    #[must_use]
    pub const fn restore(digester: Digester, filter: F, longest_blocks: usize) -> Self {
        Self { digester, filter, longest_blocks, digests: Vec::new() }
    }

    /// Records a payload. A payload longer than [`PAYLOAD_BYTES_MAX`] is recorded in pieces of that length, as separate
    /// payloads.
    pub fn insert(&mut self, payload: &[u8], label: Label) {
        for piece in payload.chunks(PAYLOAD_BYTES_MAX) {
            self.digests.clear();
            let blocks = self.digester.append(piece, label, &mut self.digests);
            self.filter.insert_batch(&self.digests);
            self.longest_blocks = self.longest_blocks.max(blocks);
        }
    }

    /// Records digests of payloads, computed by a digester with the same key and shape. No payload has more than
    /// `longest_blocks` blocks. Recording the digests of many payloads at once is faster.
    pub fn insert_digests(&mut self, digests: &[Fingerprint], longest_blocks: usize) {
        self.filter.insert_batch(digests);
        self.longest_blocks = self.longest_blocks.max(longest_blocks);
    }

    /// Finds the places where `excerpt` may have been recorded with `label`: maximal runs of at least `blocks_min`
    /// blocks, the longest first.
    ///
    /// # Errors
    /// [`SearchError`] if the excerpt is too short for such a run at every alignment, or too long.
    pub fn search(&self, excerpt: &[u8], label: Label, blocks_min: usize) -> Result<Vec<Run>, SearchError> {
        search(&self.digester, &self.filter, excerpt, label, self.longest_blocks, blocks_min)
    }

    /// Returns the expected number of false runs for an excerpt of this length, at the current fill of the filter.
    pub fn chance(&self, excerpt_bytes: usize) -> Chance {
        let rate = self.filter.estimated_false_positive_rate();
        Chance { shape: self.shape(), rate, longest_blocks: self.longest_blocks, excerpt_bytes }
    }

    /// Returns the shape of the blocks.
    #[must_use]
    pub const fn shape(&self) -> BlockShape {
        self.digester.shape()
    }

    /// Returns the digester.
    #[must_use]
    pub const fn digester(&self) -> &Digester {
        &self.digester
    }

    /// Returns the filter that contains the digests.
    #[must_use]
    pub const fn filter(&self) -> &F {
        &self.filter
    }

    /// Returns the filter that contains the digests, by value.
    #[must_use]
    pub fn into_filter(self) -> F {
        self.filter
    }

    /// Returns the number of blocks in the longest payload. No run extends beyond it.
    #[must_use]
    pub const fn longest_blocks(&self) -> usize {
        self.longest_blocks
    }
}
