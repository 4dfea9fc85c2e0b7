//! One page: what was carried in a span of time.

use bruit_filters::blocks::{BlockFilter, Digester, Label, PAYLOAD_BYTES_MAX};
use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::{Fingerprint, FingerprintKey};

use super::pairs::Pairs;
use super::{Listed, Pair, Settings};
use crate::pages::Span;

/// Digests are put into a filter so many at a time.
const BATCH_DIGESTS: usize = 4096;

/// Leading bits of a digest that filters look at: all, as a page is as large as it is allowed to be.
const FINGERPRINT_BITS: u32 = 64;

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
    digester: Digester,
    waiting: Waiting,
}

/// Digests on their way to the filters.
#[derive(Debug, Default)]
struct Waiting {
    offsets: Vec<Fingerprint>,
    payloads: Vec<Fingerprint>,
    longest_blocks: usize,
}

impl Page {
    /// An empty page. Whoever knows the key can test guesses of what was carried: draw another for every page.
    #[must_use]
    pub fn new(settings: &Settings, span: Span, key: FingerprintKey) -> Self {
        let filter = || OneLineFilter::new(settings.filter_lines(), settings.hashes(), FINGERPRINT_BITS, key.id());
        let digester = Digester::new(&key, settings.shape);
        Self {
            span,
            offsets: BlockFilter::new(digester.clone(), filter()),
            payloads: filter(),
            pairs: Pairs::new(settings.pairs_bytes_max()),
            counts: Counts::default(),
            digester,
            waiting: Waiting::default(),
            key,
        }
    }

    /// Records a payload that all of `pairs` carried.
    pub fn record(&mut self, time: u64, pairs: &[Pair], payload: &[u8]) {
        self.counts.bytes += payload.len() as u64;
        if payload.len() < self.digester.shape().block_bytes() as usize {
            self.counts.short += 1;
            return;
        }
        self.counts.payloads += 1;
        let mut is_listed = true;
        // A mail may have many recipients, but its blocks are cut once.
        for piece in payload.chunks(PAYLOAD_BYTES_MAX) {
            let start = self.waiting.offsets.len();
            let blocks = self.digester.append(piece, Label::Offset, &mut self.waiting.offsets);
            self.waiting.longest_blocks = self.waiting.longest_blocks.max(blocks);
            for pair in pairs {
                let (id, has_room) = self.pairs.see(pair, time, &self.digester);
                is_listed &= has_room;
                let base = &self.waiting.offsets[start..start + blocks];
                Digester::append_for_host(base, id, &mut self.waiting.payloads);
            }
            if self.waiting.offsets.len().max(self.waiting.payloads.len()) >= BATCH_DIGESTS {
                self.settle();
            }
        }
        self.counts.unlisted += u64::from(!is_listed);
    }

    /// Puts what is waiting into the filters.
    fn settle(&mut self) {
        self.offsets.insert_digests(&self.waiting.offsets, self.waiting.longest_blocks);
        self.payloads.insert_batch(&self.waiting.payloads);
        self.waiting.offsets.clear();
        self.waiting.payloads.clear();
    }

    /// The page as it is written: settled, and folded to what its contents need at `false_positive_rate`.
    #[must_use]
    pub fn finished(mut self, false_positive_rate: f64) -> Self {
        self.settle();
        let longest_blocks = self.offsets.longest_blocks();
        let offsets = folded(self.offsets.into_filter(), false_positive_rate);
        let offsets = BlockFilter::restore(self.digester.clone(), offsets, longest_blocks);
        Self { offsets, payloads: folded(self.payloads, false_positive_rate), ..self }
    }

    /// A page as it was, from its parts.
    pub(super) fn restore(
        span: Span,
        key: FingerprintKey,
        offsets: BlockFilter<OneLineFilter>,
        payloads: OneLineFilter,
        pairs: Pairs,
        counts: Counts,
    ) -> Self {
        let digester = offsets.digester().clone();
        Self { span, key, offsets, payloads, pairs, counts, digester, waiting: Waiting::default() }
    }

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

/// The smallest filter with the same keys that keeps within `rate`.
fn folded(mut filter: OneLineFilter, rate: f64) -> OneLineFilter {
    while let Some(half) = filter.folded().filter(|half| half.estimated_false_positive_rate() <= rate) {
        filter = half;
    }
    filter
}
