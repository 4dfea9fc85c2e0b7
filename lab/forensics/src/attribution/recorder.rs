//! The recorder, which writes payloads into pages.
//!
//! All pages of one span together never exceed the span's share of the disk, however often and in whatever order its
//! traffic is recorded. A second page of a span gets the rest of the share. Payloads that do not fit are only counted
//! (`crowded`).

use bruit_filters::FingerprintKey;

use super::{Counts, Draft, PageBytesError, Pair, Settings};
use crate::pages::{ClosedPage, OpenPages, PageName, Pages, PagesError, SECONDS_MAX, Span};

/// An error during recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The time is beyond the range of page names.
    #[error("second {0} is out of range for pages")]
    Time(u64),
    /// A page could not be written.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// A page could not be encoded.
    #[error("failed to encode a page: {0}")]
    Bytes(#[from] PageBytesError),
}

/// Summary of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Pages written.
    pub pages: Vec<PageName>,
    /// Pages removed because the directory was full.
    pub removed: Vec<PageName>,
    /// Counters of all recorded payloads.
    pub counts: Counts,
    /// Number of payloads that were not recorded because their span's share of the disk was used up.
    pub crowded: u64,
}

/// Sorts payloads into pages by time, and writes the pages.
#[derive(Debug)]
pub struct Recorder<K> {
    settings: Settings,
    keys: K,
    open: OpenPages<Draft>,
    /// A span whose share of the disk is used up. Its further payloads are counted without another check.
    crowded: Option<Span>,
    summary: Summary,
}

impl<K: FnMut() -> FingerprintKey> Recorder<K> {
    /// Creates a recorder that writes to `pages`; `keys` draws a secret key for each page.
    pub const fn new(pages: Pages, settings: Settings, keys: K) -> Self {
        let counts = Counts { payloads: 0, short: 0, bytes: 0, unlisted: 0 };
        let summary = Summary { pages: Vec::new(), removed: Vec::new(), counts, crowded: 0 };
        let open = OpenPages::new(pages, settings.page_seconds);
        Self { settings, keys, open, crowded: None, summary }
    }

    /// Records a payload carried by all of `pairs` at `time`, in seconds since 1970.
    ///
    /// # Errors
    /// [`RecordError`] if the time is out of range, or a finished page cannot be written.
    pub fn record(&mut self, time: u64, pairs: &[Pair], payload: &[u8]) -> Result<(), RecordError> {
        if time > SECONDS_MAX {
            return Err(RecordError::Time(time));
        }
        if self.open.turn_to(time).is_none() {
            self.begin(time)?;
        }
        match self.open.turn_to(time) {
            Some(page) => page.record(time, pairs, payload),
            None => self.summary.crowded += 1,
        }
        Ok(())
    }

    /// Writes the pages whose spans ended at least [`SETTLE_SECONDS`](crate::pages::SETTLE_SECONDS) before `now`. Used
    /// by recorders that run continuously.
    ///
    /// # Errors
    /// [`RecordError`] if a page cannot be written; the page is kept.
    pub fn settle(&mut self, now: u64) -> Result<(), RecordError> {
        let (rate, counts) = (self.settings.false_positive_rate, &mut self.summary.counts);
        let outcome = self.open.settle(now, |span, draft| close(span, draft, rate, counts));
        self.tell(outcome)
    }

    /// Writes all pages. If a page cannot be written, the other pages are still written.
    ///
    /// # Errors
    /// The first [`RecordError`].
    pub fn close(&mut self) -> Result<(), RecordError> {
        let (rate, counts) = (self.settings.false_positive_rate, &mut self.summary.counts);
        let outcome = self.open.finish(|span, draft| close(span, draft, rate, counts));
        self.tell(outcome)
    }

    /// Writes all pages and returns the summary.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn finish(mut self) -> Result<Summary, RecordError> {
        self.close()?;
        Ok(self.summary)
    }

    /// Returns the summary so far, without open pages.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Returns true if everything recorded is on disk.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Starts a page for `time`, unless the share of its span is used up.
    fn begin(&mut self, time: u64) -> Result<(), RecordError> {
        let span = self.open.span_of(time);
        if self.crowded == Some(span) {
            return Ok(());
        }
        let taken = self.open.pages().bytes_of(span);
        let Some(settings) = self.settings.with_page_bytes(self.settings.page_share_bytes().saturating_sub(taken))
        else {
            self.crowded = Some(span);
            return Ok(());
        };
        let draft = Draft::new(&settings, span, (self.keys)());
        let (rate, counts) = (self.settings.false_positive_rate, &mut self.summary.counts);
        let outcome = self.open.begin(span, draft, |span, draft| close(span, draft, rate, counts));
        self.tell(outcome)
    }

    /// Adds written and removed pages to the summary, whether or not an error occurred.
    fn tell(&mut self, outcome: Result<(), RecordError>) -> Result<(), RecordError> {
        for written in self.open.take_written() {
            self.summary.pages.push(written.page);
            self.summary.removed.extend(written.removed);
            // The removal of pages may have freed space in the crowded span.
            self.crowded = None;
        }
        self.summary.removed.extend(self.open.take_removed());
        outcome
    }
}

/// Encodes a page and adds up its counters.
fn close(span: Span, draft: Draft, rate: f64, counts: &mut Counts) -> ClosedPage<RecordError> {
    let page = draft.finish(rate);
    let content = page.to_bytes()?;
    *counts = counts.with(page.counts());
    Ok((span, content))
}

impl Counts {
    /// Returns the sum of two sets of counters.
    const fn with(self, other: Self) -> Self {
        Self {
            payloads: self.payloads + other.payloads,
            short: self.short + other.short,
            bytes: self.bytes + other.bytes,
            unlisted: self.unlisted + other.unlisted,
        }
    }
}
