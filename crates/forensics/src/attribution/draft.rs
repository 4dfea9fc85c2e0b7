//! A page that is being filled.

use bruit_filters::FingerprintKey;
use bruit_filters::blocks::{BlockFilter, Digester, Label, PAYLOAD_BYTES_MAX};
use bruit_filters::bloom::{MembershipFilter as _, OneLineFilter};

use super::filler::{Batch, Filler, Filters};
use super::pairs::Pairs;
use super::{Counts, Page, Pair, Settings};
use crate::pages::Span;

/// Digests are put into a filter so many at a time.
const BATCH_DIGESTS: usize = 16 * 1024;

/// Leading bits of a digest that filters look at: all, as a page is as large as it is allowed to be.
const FINGERPRINT_BITS: u32 = 64;

/// What is carried in a span of time, up to now.
#[derive(Debug)]
pub struct Draft {
    span: Span,
    key: FingerprintKey,
    digester: Digester,
    pairs: Pairs,
    counts: Counts,
    batch: Batch,
    filler: Filler,
}

impl Draft {
    /// An empty page. Whoever knows the key can test guesses of what was carried: draw another for every page.
    #[must_use]
    pub fn new(settings: &Settings, span: Span, key: FingerprintKey) -> Self {
        let filter = || OneLineFilter::new(settings.filter_lines(), settings.hashes(), FINGERPRINT_BITS, key.id());
        let digester = Digester::new(&key, settings.shape);
        let filters = Filters { offsets: BlockFilter::new(digester.clone(), filter()), payloads: filter() };
        Self {
            span,
            pairs: Pairs::new(settings.pairs_bytes_max()),
            counts: Counts::default(),
            batch: Batch::default(),
            filler: Filler::new(filters),
            digester,
            key,
        }
    }

    /// What it is about.
    #[must_use]
    pub const fn span(&self) -> Span {
        self.span
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
        for piece in payload.chunks(PAYLOAD_BYTES_MAX) {
            is_listed &= self.record_piece(time, pairs, piece);
        }
        self.counts.unlisted += u64::from(!is_listed);
    }

    /// Records a piece of a payload, and tells whether all pairs are listed. A mail may have many recipients, but its blocks
    /// are cut once.
    fn record_piece(&mut self, time: u64, pairs: &[Pair], piece: &[u8]) -> bool {
        let mut is_listed = true;
        let start = self.batch.offsets.len();
        let blocks = self.digester.append(piece, Label::Offset, &mut self.batch.offsets);
        self.batch.longest_blocks = self.batch.longest_blocks.max(blocks);
        for pair in pairs {
            let (id, has_room) = self.pairs.see(pair, time, &self.digester);
            is_listed &= has_room;
            let base = &self.batch.offsets[start..start + blocks];
            Digester::append_for_host(base, id, &mut self.batch.payloads);
        }
        if self.batch.offsets.len().max(self.batch.payloads.len()) >= BATCH_DIGESTS {
            self.batch = self.filler.exchange(std::mem::take(&mut self.batch));
        }
        is_listed
    }

    /// The page as it is written: folded to what its contents need at `false_positive_rate`.
    #[must_use]
    pub fn finish(self, false_positive_rate: f64) -> Page {
        let Self { span, key, digester, pairs, counts, batch, filler } = self;
        drop(filler.exchange(batch));
        let Filters { offsets, payloads } = filler.finish();
        let longest_blocks = offsets.longest_blocks();
        let offsets = folded(offsets.into_filter(), false_positive_rate);
        let offsets = BlockFilter::restore(digester, offsets, longest_blocks);
        Page { span, key, offsets, payloads: folded(payloads, false_positive_rate), pairs, counts }
    }
}

/// The smallest filter with the same keys that keeps within `rate`.
fn folded(mut filter: OneLineFilter, rate: f64) -> OneLineFilter {
    while let Some(half) = filter.folded().filter(|half| half.estimated_false_positive_rate() <= rate) {
        filter = half;
    }
    filter
}
