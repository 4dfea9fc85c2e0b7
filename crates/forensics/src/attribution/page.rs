//! One page: what was carried in a span of time.

use bruit_filters::FingerprintKey;
use bruit_filters::blocks::BlockFilter;
use bruit_filters::bloom::OneLineFilter;

use super::Listed;
use super::pairs::Pairs;
use crate::pages::Span;

/// What a page has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Payloads that have at least one whole block.
    pub payloads: u64,
    /// Payloads that are shorter, of which nothing is known.
    pub short: u64,
    /// Bytes of all payloads.
    pub bytes: u64,
    /// Payloads of pairs that found no room in the list.
    pub unlisted: u64,
}

/// What was carried in a span of time.
#[derive(Debug)]
pub struct Page {
    pub(super) span: Span,
    pub(super) key: FingerprintKey,
    pub(super) offsets: BlockFilter<OneLineFilter>,
    pub(super) payloads: OneLineFilter,
    pub(super) pairs: Pairs,
    pub(super) counts: Counts,
}

impl Page {
    /// What it is about.
    #[must_use]
    pub const fn span(&self) -> Span {
        self.span
    }

    /// What it has taken.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The pairs that it knows.
    #[must_use]
    pub fn pairs(&self) -> &[Listed] {
        self.pairs.listed()
    }

    /// The offset digests.
    #[must_use]
    pub const fn offsets(&self) -> &BlockFilter<OneLineFilter> {
        &self.offsets
    }

    /// The payload digests.
    #[must_use]
    pub const fn payloads(&self) -> &OneLineFilter {
        &self.payloads
    }
}
