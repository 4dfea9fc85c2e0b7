//! A page that is being filled.

use bruit_filters::FingerprintKey;
use bruit_filters::blocks::{BlockFilter, Digester, PAYLOAD_BYTES_MAX};
use bruit_filters::bloom::{MembershipFilter as _, OneLineFilter};

use super::filler::{Batch, Filler, Filters};
use super::pairs::Pairs;
use super::{Counts, Page, Pair, Settings};
use crate::pages::Span;

/// Blocks go to the filters so many at a time.
const BATCH_BLOCKS: usize = 8 * 1024;

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
        let filters = Filters::new(BlockFilter::new(digester.clone(), filter()), filter());
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
        let blocks = self.digester.append_contents(piece, &mut self.batch.contents);
        let mut is_listed = true;
        let hosts = pairs.iter().map(|pair| {
            let (id, has_room) = self.pairs.see(pair, time, &self.digester);
            is_listed &= has_room;
            id
        });
        self.batch.end_piece(blocks, hosts);
        if self.batch.contents.len() >= BATCH_BLOCKS {
            self.batch = self.filler.exchange(std::mem::take(&mut self.batch));
        }
        is_listed
    }

    /// The page as it is written: folded to what its contents need at `false_positive_rate`.
    #[must_use]
    pub fn finish(self, false_positive_rate: f64) -> Page {
        let Self { span, key, digester, pairs, counts, batch, filler } = self;
        drop(filler.exchange(batch));
        let Filters { offsets, payloads, .. } = filler.finish();
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
