//! A recorder of the packets or messages seen by a router or server.

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::sizing::{Goal, Layout, MembershipPlan, SizingError};
use bruit_filters::{CreateError, Fingerprint, FingerprintKey};

use super::{Invariant, TracePage, TracePageError, ensure_name, read_pages};
use crate::pages::{ClosedPage, OpenPages, Pages, PagesError, SECONDS_MAX, Span, Written};

/// Maximum number of packets or messages in a page. An open page uses 8 bytes of memory per packet or message.
pub const ITEMS_MAX: u32 = 1 << 24;

/// Lowest false-positive rate that a page may have.
const RATE_MIN: f64 = 1e-6;

/// Maximum number of bytes in a page besides the bits of its filter: the name, the key and two headers.
const CONTENT_OVERHEAD_BYTES: u64 = 1024;

/// Maximum span of a page: a day.
const SECONDS_OF_PAGE_MAX: u64 = 86_400;

/// The length, capacity and false-positive rate of pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageShape {
    /// Length of the span in seconds. Spans begin at multiples of this length.
    pub seconds: u64,
    /// Maximum number of packets or messages in a page. When it is reached, the page ends early.
    pub items: u32,
    /// False-positive rate. A rate of 1 in 1,000 takes about 16 bits per packet.
    pub false_positive_rate: f64,
}

impl Default for PageShape {
    fn default() -> Self {
        Self { seconds: 60, items: 1 << 20, false_positive_rate: 0.001 }
    }
}

impl PageShape {
    /// Validates the shape.
    ///
    /// # Errors
    /// [`RecordError`] for a number that is out of bounds.
    pub fn ensure(&self) -> Result<(), RecordError> {
        if !(1..=SECONDS_OF_PAGE_MAX).contains(&self.seconds) {
            return Err(RecordError::Seconds(self.seconds));
        }
        if !(1..=ITEMS_MAX).contains(&self.items) {
            return Err(RecordError::Items(self.items));
        }
        if !(RATE_MIN..=0.5).contains(&self.false_positive_rate) {
            return Err(RecordError::Rate(self.false_positive_rate));
        }
        Ok(())
    }

    /// Returns the maximum size of a page's content.
    ///
    /// # Errors
    /// [`RecordError::Sizing`] if the filter would be too large.
    pub fn content_bytes_max(&self) -> Result<u64, RecordError> {
        let plan = MembershipPlan::new(Layout::OneLine, self.items.into(), Goal::Rate(self.false_positive_rate))?;
        Ok(plan.bytes + CONTENT_OVERHEAD_BYTES)
    }
}

/// Progress of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of packets or messages recorded.
    pub items: u64,
    /// Number of pages written.
    pub pages: u64,
    /// Disk usage of the written pages.
    pub bytes: u64,
    /// Number of older pages removed to free space.
    pub removed: u64,
}

/// An error that stops recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The span of a page is not between 1 second and a day.
    #[error("the span of a page must be 1 to {SECONDS_OF_PAGE_MAX} seconds, not {0}")]
    Seconds(u64),
    /// The number of items is not between 1 and [`ITEMS_MAX`].
    #[error("a page must hold 1 to {ITEMS_MAX} packets or messages, not {0}")]
    Items(u32),
    /// The rate is not between a millionth and one half.
    #[error("the false-positive rate must be {RATE_MIN} to 0.5, not {0}")]
    Rate(f64),
    /// The time is beyond the range of page names.
    #[error("second {0} is out of range for pages")]
    Time(u64),
    /// The filter would be too large.
    #[error(transparent)]
    Sizing(#[from] SizingError),
    /// The filter cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The name is invalid.
    #[error("a page {0}")]
    Page(#[from] TracePageError),
    /// The directory cannot be used.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// The directory contains pages of another router or server.
    #[error("its pages were recorded by {0}: use a separate directory for each router or server")]
    OtherOwner(String),
}

/// Rejects a directory whose last readable page was recorded by another router or server.
fn ensure_owner(pages: &Pages, name: &str) -> Result<(), RecordError> {
    let latest = read_pages(pages, pages.list().iter().rev()).find_map(Result::ok);
    match latest {
        Some((_, page)) if page.name != name => Err(RecordError::OtherOwner(page.name)),
        _ => Ok(()),
    }
}

/// Records the packets or messages seen by a router or server, and writes them to pages.
///
/// An open page is a list of fingerprints. When it is written, it becomes a filter of the size that its number of
/// distinct items needs. Every page therefore has the requested rate, and a quiet minute needs only a few bytes. A page
/// is written when it is full, by [`settle`](Self::settle), and by [`close`](Self::close). If
/// [`OPEN_PAGES_MAX`](crate::pages::OPEN_PAGES_MAX) pages are open and another one is needed, the least recently used
/// page is written first.
#[derive(Debug)]
pub struct Recorder {
    name: String,
    shape: PageShape,
    keys: PageKeys,
    open: OpenPages<OpenPage>,
    /// First and last recorded second. The recorder covered only the part of a span that lies between them.
    seen: Span,
    tally: Tally,
}

/// An open page.
#[derive(Debug)]
struct OpenPage {
    key: FingerprintKey,
    /// Narrow fingerprints.
    items: Vec<u64>,
}

impl Recorder {
    /// Creates a recorder with this name that writes to `pages`. The keys of the pages are derived from `secret`, which
    /// must be 16 new random bytes for each recorder.
    ///
    /// # Errors
    /// [`RecordError`] if the name or the shape is invalid.
    pub fn new(pages: Pages, name: &str, shape: PageShape, secret: [u8; 16]) -> Result<Self, RecordError> {
        ensure_name(name)?;
        shape.ensure()?;
        ensure_owner(&pages, name)?;
        let keys = PageKeys { secret: FingerprintKey::new(secret), drawn: 0 };
        let (name, open) = (name.to_owned(), OpenPages::new(pages, shape.seconds));
        Ok(Self { name, shape, keys, open, seen: Span { from: u64::MAX, to: 0 }, tally: Tally::default() })
    }

    /// Records a packet or message seen at `second`. If that causes a page to be written, returns the page.
    ///
    /// # Errors
    /// [`RecordError`] if the time is out of range or a page cannot be written. An unwritten page is kept. If there is
    /// no page for the packet or message, it is not recorded.
    pub fn record(&mut self, second: u64, invariant: &Invariant) -> Result<Option<Written>, RecordError> {
        if second > SECONDS_MAX {
            return Err(RecordError::Time(second));
        }
        self.seen = Span { from: self.seen.from.min(second), to: self.seen.to.max(second) };
        let mut written = None;
        if self.open.turn_to(second).is_none() {
            written = self.begin(second)?.pop();
        }
        let Some(page) = self.open.turn_to(second) else { return Ok(written) };
        page.items.push(page.key.fingerprint(invariant.as_bytes()).high());
        self.tally.items += 1;
        if page.items.len() >= self.shape.items as usize {
            let span = self.open.span_of(second);
            written = self.work(|open, close| open.write(span, close))?.pop();
        }
        Ok(written)
    }

    /// Writes the pages whose spans ended at least [`SETTLE_SECONDS`](crate::pages::SETTLE_SECONDS) before `now`. Used
    /// by recorders that run continuously.
    ///
    /// # Errors
    /// [`RecordError`] if a page cannot be written; the page is kept.
    pub fn settle(&mut self, now: u64) -> Result<Vec<Written>, RecordError> {
        self.work(|open, close| open.settle(now, close))
    }

    /// Writes all open pages. If a page cannot be written, the other pages are still written.
    ///
    /// # Errors
    /// The first [`RecordError`].
    pub fn close(&mut self) -> Result<(), RecordError> {
        self.work(|open, close| open.finish(close)).map(drop)
    }

    /// Writes all open pages, and returns the final tally.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn finish(mut self) -> Result<Tally, RecordError> {
        self.close()?;
        Ok(self.tally)
    }

    /// Returns the progress so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns true if everything recorded is on disk.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    fn begin(&mut self, second: u64) -> Result<Vec<Written>, RecordError> {
        let (span, page) = (self.open.span_of(second), OpenPage { key: self.keys.draw(), items: Vec::new() });
        self.work(|open, close| open.begin(span, page, close))
    }

    /// Applies an operation to the open pages. Adds the written pages to the tally, even if the operation failed.
    fn work(
        &mut self,
        work: impl FnOnce(
            &mut OpenPages<OpenPage>,
            &mut dyn FnMut(Span, OpenPage) -> ClosedPage<RecordError>,
        ) -> Result<(), RecordError>,
    ) -> Result<Vec<Written>, RecordError> {
        let Self { open, name, shape, seen, tally, .. } = self;
        let mut close = |span: Span, page: OpenPage| {
            // If the recorder saw packets before and after a span, it was also running during the span.
            let there = Span { from: span.from.max(seen.from), to: span.to.min(seen.to) };
            Ok((there, page.close(name, shape.false_positive_rate)?.encode()?))
        };
        let outcome = work(open, &mut close);
        let written = open.take_written();
        for written in &written {
            tally.pages += 1;
            tally.bytes += written.page.bytes;
            tally.removed += written.removed.len() as u64;
        }
        tally.removed += open.take_removed().len() as u64;
        outcome.map(|()| written)
    }
}

impl OpenPage {
    /// Builds the filter of an open page, just large enough for its items.
    fn close(mut self, name: &str, rate: f64) -> Result<TracePage, RecordError> {
        let items = self.items.len() as u64;
        self.items.sort_unstable();
        self.items.dedup();
        let plan = MembershipPlan::new(Layout::OneLine, self.items.len() as u64, Goal::Rate(rate))?;
        let mut filter = OneLineFilter::from_plan(&plan, self.key.id())?;
        let mut batch = Vec::with_capacity(BATCH_ITEMS);
        for items in self.items.chunks(BATCH_ITEMS) {
            batch.clear();
            batch.extend(items.iter().copied().map(Fingerprint::narrow));
            filter.insert_batch(&batch);
        }
        Ok(TracePage { name: name.to_owned(), items, key: self.key, filter })
    }
}

/// Number of fingerprints inserted at a time.
const BATCH_ITEMS: usize = 1024;

/// A generator of page keys. As in SPIE, each router has its own seed.
#[derive(Debug)]
struct PageKeys {
    secret: FingerprintKey,
    drawn: u64,
}

impl PageKeys {
    fn draw(&mut self) -> FingerprintKey {
        self.drawn += 1;
        let random = self.secret.fingerprint(&self.drawn.to_le_bytes());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random.high().to_le_bytes());
        bytes[8..].copy_from_slice(&random.low().to_le_bytes());
        FingerprintKey::narrow(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::OPEN_PAGES_MAX;
    use crate::traceback::{NAME_BYTES_MAX, PAGE_BYTES_MAX, Subject};

    fn recorder(folder: &tempfile::TempDir, shape: PageShape) -> Recorder {
        let pages = Pages::create_or_open(folder.path(), Subject::Messages.kind(), 1 << 30).unwrap();
        Recorder::new(pages, "here", shape, [1; 16]).unwrap()
    }

    fn item(number: u32) -> Invariant {
        Invariant::of_message(&number.to_le_bytes())
    }

    /// Returns span, items and content of every page.
    fn pages(folder: &tempfile::TempDir) -> Vec<(Span, TracePage)> {
        let pages = Pages::open(folder.path(), Subject::Messages.kind()).unwrap();
        let read = |name| TracePage::decode(&pages.read(name, PAGE_BYTES_MAX).unwrap()).unwrap();
        pages.list().iter().map(|name| (name.span, read(name))).collect()
    }

    #[test]
    fn a_page_ends_with_its_span() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(&folder, PageShape::default());
        for (number, second) in [70, 119, 120, 125].into_iter().enumerate() {
            recorder.record(second, &item(number as u32)).unwrap();
        }
        let tally = recorder.finish().unwrap();
        assert_eq!((tally.items, tally.pages), (4, 2));
        let pages = pages(&folder);
        // The recorder ran from 70 to 125, and the page has that span.
        assert_eq!((pages[0].0, pages[0].1.items), (Span { from: 70, to: 119 }, 2));
        assert_eq!((pages[1].0, pages[1].1.items), (Span { from: 120, to: 125 }, 2));
        assert!(pages[0].1.contains(&item(1)) && !pages[0].1.contains(&item(2)) && pages[1].1.contains(&item(2)));
    }

    #[test]
    fn a_page_ends_when_it_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(&folder, PageShape { items: 3, ..PageShape::default() });
        let written: Vec<_> = (0..7).map(|number| recorder.record(1, &item(number)).unwrap().is_some()).collect();
        assert_eq!(written, [false, false, true, false, false, true, false]);
        recorder.finish().unwrap();
        assert_eq!(pages(&folder).iter().map(|(_, page)| page.items).collect::<Vec<_>>(), [3, 3, 1]);
    }

    #[test]
    fn every_page_has_a_key_of_its_own_and_every_secret_others() {
        let keys = |secret| {
            let mut keys = PageKeys { secret: FingerprintKey::new([secret; 16]), drawn: 0 };
            (0..100).map(|_| *keys.draw().as_bytes()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!((keys(1).len(), keys(1) == keys(1)), (100, true));
        assert!(keys(1).is_disjoint(&keys(2)));
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(&folder, PageShape { items: 1, ..PageShape::default() });
        (0..2).for_each(|_| drop(recorder.record(1, &item(0)).unwrap()));
        let pages = pages(&folder);
        assert_ne!(pages[0].1.key, pages[1].1.key);
    }

    #[test]
    fn late_items_go_to_their_page() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(&folder, PageShape::default());
        for number in 0..400 {
            let written = recorder.record(u64::from(number) % 4 * 60, &item(number)).unwrap();
            assert_eq!(written, None, "{OPEN_PAGES_MAX} pages are open");
        }
        // Opening one more page closes the oldest.
        let written = recorder.record(4 * 60, &item(400)).unwrap().unwrap();
        assert_eq!(written.page.span, Span { from: 0, to: 59 });
        assert_eq!(recorder.finish().unwrap().pages, OPEN_PAGES_MAX as u64 + 1);
    }

    #[test]
    fn pages_that_ended_are_settled() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(&folder, PageShape::default());
        recorder.record(59, &item(0)).unwrap();
        recorder.record(60, &item(1)).unwrap();
        assert_eq!(recorder.settle(119).unwrap(), [], "the page is still open, for packets that arrive a little late");
        assert_eq!(recorder.settle(120).unwrap().len(), 1);
        assert_eq!(recorder.settle(u64::MAX).unwrap().len(), 1);
    }

    #[test]
    fn a_page_has_the_size_that_its_items_need() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(&folder, PageShape::default());
        (0..20_000).for_each(|number| drop(recorder.record(1, &item(number % 10_000)).unwrap()));
        recorder.record(60, &item(0)).unwrap();
        recorder.finish().unwrap();
        let pages = pages(&folder);
        assert_eq!((pages[0].1.items, pages[1].1.items), (20_000, 1));
        let (rate, bits) = (pages[0].1.false_positive_rate(), pages[0].1.filter.bits());
        assert!((0.0008..0.0012).contains(&rate), "{rate}");
        assert!(bits < 10_000 * 16, "{bits} bits for 10,000 distinct items");
        assert_eq!(pages[1].1.filter.bits(), 512);
    }

    #[test]
    fn shapes_and_times_have_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let shape = PageShape::default();
        let make = |shape: PageShape| {
            let folder = folder.path().join("inner");
            Recorder::new(Pages::create_or_open(&folder, "test", 1 << 20).unwrap(), "here", shape, [1; 16])
        };
        for good in [
            PageShape { seconds: SECONDS_OF_PAGE_MAX, ..shape },
            PageShape { items: ITEMS_MAX, ..shape },
            PageShape { false_positive_rate: RATE_MIN, ..shape },
        ] {
            make(good).unwrap();
        }
        for bad in [
            PageShape { seconds: 0, ..shape },
            PageShape { seconds: SECONDS_OF_PAGE_MAX + 1, ..shape },
            PageShape { items: 0, ..shape },
            PageShape { items: ITEMS_MAX + 1, ..shape },
            PageShape { false_positive_rate: RATE_MIN / 2.0, ..shape },
            PageShape { false_positive_rate: 0.6, ..shape },
            PageShape { false_positive_rate: f64::NAN, ..shape },
        ] {
            assert!(make(bad).is_err(), "{bad:?}");
        }
        let mut recorder = make(shape).unwrap();
        recorder.record(SECONDS_MAX, &item(1)).unwrap();
        assert!(matches!(recorder.record(SECONDS_MAX + 1, &item(1)), Err(RecordError::Time(_))));
        recorder.finish().unwrap();
    }

    #[test]
    fn the_largest_page_can_be_read() {
        let shape = PageShape { seconds: 60, items: ITEMS_MAX, false_positive_rate: RATE_MIN };
        assert!(shape.content_bytes_max().unwrap() <= PAGE_BYTES_MAX);
    }

    #[test]
    fn a_full_page_stays_within_its_predicted_size() {
        let folder = tempfile::tempdir().unwrap();
        let shape = PageShape { items: 5000, ..PageShape::default() };
        let pages = Pages::create_or_open(folder.path(), Subject::Messages.kind(), 1 << 30).unwrap();
        let mut recorder = Recorder::new(pages, &"n".repeat(NAME_BYTES_MAX), shape, [1; 16]).unwrap();
        let written = (0..5000).filter_map(|number| recorder.record(1, &item(number)).unwrap()).next().unwrap();
        let most = shape.content_bytes_max().unwrap() + crate::pages::HEADER_BYTES as u64;
        assert!((most / 2..=most).contains(&written.page.bytes), "{written:?}, {most}");
    }
}
