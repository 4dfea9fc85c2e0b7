//! A page: the traffic of a span of time.

use bruit_filters::FingerprintKey;
use bruit_filters::bloom::OneLineFilter;
use bruit_structures::blocks::BlockFilter;

use super::ListedPair;
use super::pairs::Pairs;
use crate::pages::Span;

/// Counters of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of payloads with at least one whole block.
    pub payloads: u64,
    /// Number of shorter payloads, which are not recorded.
    pub short: u64,
    /// Number of bytes of all payloads.
    pub bytes: u64,
    /// Number of payloads whose pair did not fit into the list.
    pub unlisted: u64,
}

/// The recorded traffic of a span of time.
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
    /// Returns the span of the page.
    #[must_use]
    pub const fn span(&self) -> Span {
        self.span
    }

    /// Returns the counters of the page.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the listed pairs.
    #[must_use]
    pub fn pairs(&self) -> &[ListedPair] {
        self.pairs.listed()
    }

    /// Returns the filter of the offset digests.
    #[must_use]
    pub const fn offsets(&self) -> &BlockFilter<OneLineFilter> {
        &self.offsets
    }

    /// Returns the filter of the payload digests.
    #[must_use]
    pub const fn payloads(&self) -> &OneLineFilter {
        &self.payloads
    }
}
