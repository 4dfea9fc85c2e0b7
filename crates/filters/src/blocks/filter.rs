//! A filter of blocks.

use super::search::search;
use super::{BlockShape, Chance, Digester, Label, PAYLOAD_BYTES_MAX, Run, SearchError};
use crate::Fingerprint;
use crate::bloom::MembershipFilter;

/// Payloads by their blocks, in any membership filter: the one-line layout for work, the classical one for study.
#[derive(Clone, Debug)]
pub struct BlockFilter<F> {
    digester: Digester,
    filter: F,
    longest_blocks: usize,
    /// Digests of the payload at hand, kept for its memory.
    digests: Vec<Fingerprint>,
}

impl<F: MembershipFilter<Key = Fingerprint>> BlockFilter<F> {
    /// Blocks that `digester` makes, in an empty `filter`.
    #[must_use]
    pub const fn new(digester: Digester, filter: F) -> Self {
        Self::restore(digester, filter, 0)
    }

    /// A filter as it was: with blocks in it, of payloads of at most `longest_blocks`.
    #[must_use]
    pub const fn restore(digester: Digester, filter: F, longest_blocks: usize) -> Self {
        Self { digester, filter, longest_blocks, digests: Vec::new() }
    }

    /// Records a payload. One that is longer than [`PAYLOAD_BYTES_MAX`] is recorded in pieces of that length, as if they
    /// were payloads of their own.
    pub fn insert(&mut self, payload: &[u8], label: Label) {
        for piece in payload.chunks(PAYLOAD_BYTES_MAX) {
            self.digests.clear();
            let blocks = self.digester.append(piece, label, &mut self.digests);
            self.filter.insert_batch(&self.digests);
            self.longest_blocks = self.longest_blocks.max(blocks);
        }
    }

    /// Records digests that a like digester gave, of payloads of at most `longest_blocks`: many payloads at once are faster.
    pub fn insert_digests(&mut self, digests: &[Fingerprint], longest_blocks: usize) {
        self.filter.insert_batch(digests);
        self.longest_blocks = self.longest_blocks.max(longest_blocks);
    }

    /// Where `excerpt` may have been recorded with `label`: runs of at least `blocks_min` blocks, each as long as it gets,
    /// the longest first.
    ///
    /// # Errors
    /// [`SearchError`] for an excerpt in which there is no such run at any alignment, or one that is too long.
    pub fn search(&self, excerpt: &[u8], label: Label, blocks_min: usize) -> Result<Vec<Run>, SearchError> {
        search(&self.digester, &self.filter, excerpt, label, self.longest_blocks, blocks_min)
    }

    /// How many runs the filter, as full as it is, would show of an excerpt of so many bytes that was never recorded.
    pub fn chance(&self, excerpt_bytes: usize) -> Chance {
        let rate = self.filter.estimated_false_positive_rate();
        Chance { shape: self.shape(), rate, longest_blocks: self.longest_blocks, excerpt_bytes }
    }

    /// How payloads are cut.
    #[must_use]
    pub const fn shape(&self) -> BlockShape {
        self.digester.shape()
    }

    /// What makes the digests.
    #[must_use]
    pub const fn digester(&self) -> &Digester {
        &self.digester
    }

    /// What the digests are in.
    #[must_use]
    pub const fn filter(&self) -> &F {
        &self.filter
    }

    /// What the digests are in, by itself.
    #[must_use]
    pub fn into_filter(self) -> F {
        self.filter
    }

    /// The blocks of the longest payload: no run can lie behind it.
    #[must_use]
    pub const fn longest_blocks(&self) -> usize {
        self.longest_blocks
    }
}
