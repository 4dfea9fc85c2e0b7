//! Recording: payloads in, pages out.
//!
//! Promises that the pages of a span never take more than its share of the disk, however often and in whatever order it is
//! recorded: a further page of a span gets what the others have left, and what then finds no room is counted as crowded out.

use bruit_filters::FingerprintKey;

use super::{Counts, Draft, PageBytesError, Pair, Settings};
use crate::pages::{Closed, Open, PageName, Pages, PagesError, SECONDS_MAX, Span};

/// Why recording failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Nobody makes pages of the year 5138.
    #[error("second {0} is beyond all pages")]
    Time(u64),
    /// A page could not be written.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// A page could not be put into bytes.
    #[error("failed to encode a page: {0}")]
    Bytes(#[from] PageBytesError),
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The pages that were written.
    pub pages: Vec<PageName>,
    /// Pages that had to go for them, as the directory is full.
    pub removed: Vec<PageName>,
    /// All that was taken.
    pub counts: Counts,
    /// Payloads that were not taken, as the pages of their span have its share of the disk.
    pub crowded: u64,
}

/// Puts payloads into pages by their times, and writes these.
#[derive(Debug)]
pub struct Recorder<K> {
    settings: Settings,
    keys: K,
    open: Open<Draft>,
    /// A span for which there is no room, so that the next payload of it is not looked for.
    crowded: Option<Span>,
    summary: Summary,
}

impl<K: FnMut() -> FingerprintKey> Recorder<K> {
    /// Records into `pages`; `keys` draws a secret key for each page.
    pub const fn new(pages: Pages, settings: Settings, keys: K) -> Self {
        let counts = Counts { payloads: 0, short: 0, bytes: 0, unlisted: 0 };
        let summary = Summary { pages: Vec::new(), removed: Vec::new(), counts, crowded: 0 };
        let open = Open::new(pages, settings.page_seconds);
        Self { settings, keys, open, crowded: None, summary }
    }

    /// Records a payload that all of `pairs` carried at `time`, in seconds since 1970.
    ///
    /// # Errors
    /// [`RecordError`]: no page can be of that time, or one that is no longer needed cannot be written.
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

    /// Writes the pages whose spans ended [`SETTLE_SECONDS`](crate::pages::SETTLE_SECONDS) before `now`: for whoever goes on as
    /// long as something comes.
    ///
    /// # Errors
    /// [`RecordError`] if one cannot be written; it is kept.
    pub fn settle(&mut self, now: u64) -> Result<(), RecordError> {
        let (rate, counts) = (self.settings.false_positive_rate, &mut self.summary.counts);
        let outcome = self.open.settle(now, |span, draft| close(span, draft, rate, counts));
        self.tell(outcome)
    }

    /// Writes all pages. One that cannot be written does not keep the others from it.
    ///
    /// # Errors
    /// [`RecordError`], the first.
    pub fn close(&mut self) -> Result<(), RecordError> {
        let (rate, counts) = (self.settings.false_positive_rate, &mut self.summary.counts);
        let outcome = self.open.finish(|span, draft| close(span, draft, rate, counts));
        self.tell(outcome)
    }

    /// Writes all pages, and tells what came of the whole.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn finish(mut self) -> Result<Summary, RecordError> {
        self.close()?;
        Ok(self.summary)
    }

    /// What came of it so far: of the pages that are no longer open.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Whether all that was recorded is on disk.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Begins a page of `time`, if its span has room for one.
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

    /// Takes account of what was written, whether or not all went well.
    fn tell(&mut self, outcome: Result<(), RecordError>) -> Result<(), RecordError> {
        for written in self.open.take_written() {
            self.summary.pages.push(written.page);
            self.summary.removed.extend(written.removed);
            // Pages that went may have made room for it.
            self.crowded = None;
        }
        self.summary.removed.extend(self.open.take_removed());
        outcome
    }
}

/// A page in bytes. What it counts is taken account of.
fn close(span: Span, draft: Draft, rate: f64, counts: &mut Counts) -> Closed<RecordError> {
    let page = draft.finish(rate);
    let content = page.to_bytes()?;
    *counts = counts.with(page.counts());
    Ok((span, content))
}

impl Counts {
    /// Both together.
    const fn with(self, other: Self) -> Self {
        Self {
            payloads: self.payloads + other.payloads,
            short: self.short + other.short,
            bytes: self.bytes + other.bytes,
            unlisted: self.unlisted + other.unlisted,
        }
    }
}
