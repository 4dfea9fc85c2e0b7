//! Recording: payloads in, pages out.

use bruit_filters::FingerprintKey;

use super::{Counts, Draft, PageBytesError, Pair, Settings};
use crate::pages::{PageName, Pages, PagesError, SECONDS_MAX, Span};

/// Pages that are in memory at a time. What comes out of order is put where it belongs as long as its page is one of them, and into a
/// further page of the same span otherwise.
pub const OPEN_PAGES_MAX: usize = 4;

/// How long after its end a page is still waited with: files of a capture come a little later than their packets.
pub const SETTLE_SECONDS: u64 = 60;

/// Why recording failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
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
}

/// Puts payloads into pages by their times, and writes these.
#[derive(Debug)]
pub struct Recorder<K> {
    pages: Pages,
    settings: Settings,
    keys: K,
    /// The one that was used last comes last.
    open: Vec<Draft>,
    summary: Summary,
}

impl<K: FnMut() -> FingerprintKey> Recorder<K> {
    /// Records into `pages`; `keys` draws a secret key for each page.
    pub const fn new(pages: Pages, settings: Settings, keys: K) -> Self {
        let counts = Counts { payloads: 0, short: 0, bytes: 0, unlisted: 0 };
        let summary = Summary { pages: Vec::new(), removed: Vec::new(), counts };
        Self { pages, settings, keys, open: Vec::new(), summary }
    }

    /// Records a payload that all of `pairs` carried at `time`, in seconds since 1970.
    ///
    /// # Errors
    /// [`RecordError`] if a page that is no longer needed cannot be written.
    pub fn record(&mut self, time: u64, pairs: &[Pair], payload: &[u8]) -> Result<(), RecordError> {
        let time = time.min(SECONDS_MAX);
        let page = match self.open.last() {
            Some(page) if holds(page, time) => self.open.len() - 1,
            _ => self.turn_to(time)?,
        };
        self.open[page].record(time, pairs, payload);
        Ok(())
    }

    /// Writes the pages whose spans ended [`SETTLE_SECONDS`] before `now`: for whoever goes on as long as something comes.
    ///
    /// # Errors
    /// [`RecordError`] if one cannot be written.
    pub fn settle(&mut self, now: u64) -> Result<(), RecordError> {
        let is_over = |page: &Draft| page.span().to.saturating_add(SETTLE_SECONDS) < now;
        while let Some(place) = self.open.iter().position(is_over) {
            self.write(place)?;
        }
        Ok(())
    }

    /// Writes all pages, and tells what came of the whole.
    ///
    /// # Errors
    /// [`RecordError`] if one cannot be written.
    pub fn finish(mut self) -> Result<Summary, RecordError> {
        self.open.sort_by_key(|page| page.span().from);
        while !self.open.is_empty() {
            self.write(0)?;
        }
        Ok(self.summary)
    }

    /// Makes the page of `time` the last one, and gives its place.
    fn turn_to(&mut self, time: u64) -> Result<usize, RecordError> {
        let page = match self.open.iter().position(|page| holds(page, time)) {
            Some(place) => self.open.remove(place),
            None => {
                if self.open.len() >= OPEN_PAGES_MAX {
                    self.write(0)?;
                }
                Draft::new(&self.settings, self.span_of(time), (self.keys)())
            }
        };
        self.open.push(page);
        Ok(self.open.len() - 1)
    }

    /// Spans begin at whole multiples of their length, so that pages of several runs lie beside each other.
    const fn span_of(&self, time: u64) -> Span {
        let from = time - time % self.settings.page_seconds;
        let to = from.saturating_add(self.settings.page_seconds - 1);
        Span { from, to: if to > SECONDS_MAX { SECONDS_MAX } else { to } }
    }

    fn write(&mut self, place: usize) -> Result<(), RecordError> {
        let page = self.open.remove(place).finish(self.settings.false_positive_rate);
        let written = self.pages.write(page.span(), &page.to_bytes()?)?;
        self.summary.counts = self.summary.counts.with(page.counts());
        self.summary.pages.push(written.page);
        self.summary.removed.extend(written.removed);
        Ok(())
    }
}

const fn holds(page: &Draft, time: u64) -> bool {
    let span = page.span();
    span.from <= time && time <= span.to
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
