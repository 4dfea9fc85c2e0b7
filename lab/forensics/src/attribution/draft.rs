//! A page under construction.

use bruit_filters::FingerprintKey;
use bruit_filters::bloom::{MembershipFilter as _, OneLineFilter};
use bruit_structures::blocks::{BlockFilter, Digester, PAYLOAD_BYTES_MAX};

use super::filler::{Batch, Filler, Filters};
use super::pairs::Pairs;
use super::{Counts, Page, Pair, Settings};
use crate::pages::Span;

/// Number of blocks added to the filters at a time.
const BATCH_BLOCKS: usize = 8 * 1024;

/// Number of leading digest bits that the filters use: all of them, because a draft is as large as the limit allows.
const FINGERPRINT_BITS: u32 = 64;

/// The traffic of one span of time, as recorded so far.
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
    /// Creates an empty page. Anyone who has the key can test guesses of the content, so every page needs its own key.
    #[must_use]
    pub fn new(settings: &Settings, span: Span, key: FingerprintKey) -> Self {
        let filter = || {
            OneLineFilter::new(settings.filter_lines(), settings.hashes(), FINGERPRINT_BITS, key.id())
                .unwrap_or_else(|error| panic!("{error}"))
        };
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

    /// Returns the span of the page.
    #[must_use]
    pub const fn span(&self) -> Span {
        self.span
    }

    /// Records a payload carried by all of `pairs`.
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

    /// Records a piece of a payload, and returns true if all pairs are listed. The piece is split into blocks only
    /// once, however many recipients a mail has.
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

    /// Finishes the page, and folds it to the size that its contents need at `false_positive_rate`.
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

/// Returns the filter, folded to the smallest size with a rate of at most `rate`.
fn folded(mut filter: OneLineFilter, rate: f64) -> OneLineFilter {
    while let Some(half) = filter.folded().filter(|half| half.estimated_false_positive_rate() <= rate) {
        filter = half;
    }
    filter
}
