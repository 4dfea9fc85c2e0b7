//! A router or server that remembers what it saw.

use std::collections::BTreeMap;

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::sizing::{Goal, Layout, MembershipPlan, SizingError};
use bruit_filters::{Fingerprint, FingerprintKey};

use super::{Invariant, TracePage, TracePageError, ensure_name};
use crate::pages::{Pages, PagesError, SECONDS_MAX, Span, Written};

/// Most packets or messages of a page. A page that is gathered takes 8 bytes of memory for each.
pub const ITEMS_MAX: u32 = 1 << 24;

/// Most pages that are gathered at a time, for what comes out of order.
pub const OPEN_PAGES_MAX: usize = 4;

/// The lowest rate that a page may be given.
const RATE_MIN: f64 = 1e-6;

/// The longest span of a page: a day.
const SECONDS_OF_PAGE_MAX: u64 = 86_400;

/// How long, how full and how exact a page is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageShape {
    /// How many seconds it is about; spans begin at multiples of this.
    pub seconds: u64,
    /// How many packets or messages end it earlier.
    pub items: u32,
    /// The rate of false positives. About 15 bits a packet for a thousandth.
    pub false_positive_rate: f64,
}

impl Default for PageShape {
    fn default() -> Self {
        Self { seconds: 60, items: 1 << 20, false_positive_rate: 0.001 }
    }
}

impl PageShape {
    /// Whether there can be such pages.
    ///
    /// # Errors
    /// [`RecordError`] names the figure that is out of bounds.
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
}

/// What was done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets or messages recorded.
    pub items: u64,
    /// Pages written.
    pub pages: u64,
    /// What they take.
    pub bytes: u64,
    /// Older pages that were removed to make room.
    pub removed: u64,
}

/// Why recording stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A page is about 1 second to a day.
    #[error("a page is about 1 to {SECONDS_OF_PAGE_MAX} seconds, not {0}")]
    Seconds(u64),
    /// A page has 1 to [`ITEMS_MAX`] items.
    #[error("a page has 1 to {ITEMS_MAX} packets or messages, not {0}")]
    Items(u32),
    /// A rate lies between a millionth and one half.
    #[error("a page has a rate of false positives from {RATE_MIN} to 0.5, not {0}")]
    Rate(f64),
    /// Nobody makes pages of the year 5138.
    #[error("second {0} is beyond all pages")]
    Time(u64),
    /// No filter is that large.
    #[error(transparent)]
    Sizing(#[from] SizingError),
    /// The name is none.
    #[error("a page {0}")]
    Page(#[from] TracePageError),
    /// The directory refuses.
    #[error(transparent)]
    Pages(#[from] PagesError),
}

/// Gathers what a router or server sees, and makes pages of it.
///
/// A page is gathered as fingerprints, and becomes a filter when it is written: of the size that its number of distinct items
/// needs, so that every page has the rate that was asked for, and a quiet minute takes a few bytes. A page is written when it is
/// full, when a later one is begun and [`OPEN_PAGES_MAX`] are open, at [`settle`](Self::settle) and at [`finish`](Self::finish).
#[derive(Debug)]
pub struct Recorder {
    pages: Pages,
    name: String,
    shape: PageShape,
    keys: PageKeys,
    /// By the number of their span.
    open: BTreeMap<u64, OpenPage>,
    /// The first and last second that anything was seen: what of a span was recorded.
    seen: Option<Span>,
    tally: Tally,
}

/// A page that is gathered.
#[derive(Debug)]
struct OpenPage {
    key: FingerprintKey,
    /// Narrow fingerprints.
    items: Vec<u64>,
}

impl Recorder {
    /// A recorder of that name that writes to `pages`. Keys of pages are drawn from `secret`, 16 random bytes that are new each
    /// time.
    ///
    /// # Errors
    /// [`RecordError`] if name or shape are out of bounds.
    pub fn new(pages: Pages, name: &str, shape: PageShape, secret: [u8; 16]) -> Result<Self, RecordError> {
        ensure_name(name)?;
        shape.ensure()?;
        let keys = PageKeys { secret: FingerprintKey::new(secret), drawn: 0 };
        let name = name.to_owned();
        Ok(Self { pages, name, shape, keys, open: BTreeMap::new(), seen: None, tally: Tally::default() })
    }

    /// Records what was seen at `second`, and tells of a page that was written because of it.
    ///
    /// # Errors
    /// [`RecordError`]: no page can be of that time, or one cannot be written.
    pub fn record(&mut self, second: u64, invariant: &Invariant) -> Result<Option<Written>, RecordError> {
        if second > SECONDS_MAX {
            return Err(RecordError::Time(second));
        }
        let seen = self.seen.get_or_insert(Span { from: second, to: second });
        *seen = Span { from: seen.from.min(second), to: seen.to.max(second) };
        let number = second / self.shape.seconds;
        let mut written = None;
        if !self.open.contains_key(&number) && self.open.len() >= OPEN_PAGES_MAX {
            written = self.write_oldest()?;
        }
        let keys = &mut self.keys;
        let page = self.open.entry(number).or_insert_with(|| OpenPage { key: keys.draw(), items: Vec::new() });
        page.items.push(page.key.fingerprint(invariant.as_bytes()).high());
        self.tally.items += 1;
        if page.items.len() >= self.shape.items as usize {
            written = self.write(number)?;
        }
        Ok(written)
    }

    /// Writes the pages whose spans had ended a span before `now`, for recorders that go on for long.
    ///
    /// # Errors
    /// [`RecordError`] if a page cannot be written.
    pub fn settle(&mut self, now: u64) -> Result<Vec<Written>, RecordError> {
        let current = now / self.shape.seconds;
        let ended: Vec<u64> = self.open.range(..current.saturating_sub(1)).map(|(number, _)| *number).collect();
        ended.into_iter().filter_map(|number| self.write(number).transpose()).collect()
    }

    /// Writes all that is gathered, and tells what was done in all.
    ///
    /// # Errors
    /// [`RecordError`] if a page cannot be written.
    pub fn finish(mut self) -> Result<Tally, RecordError> {
        while self.write_oldest()?.is_some() {}
        Ok(self.tally)
    }

    /// What was done so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    fn write_oldest(&mut self) -> Result<Option<Written>, RecordError> {
        self.open.keys().next().copied().map_or(Ok(None), |number| self.write(number))
    }

    fn write(&mut self, number: u64) -> Result<Option<Written>, RecordError> {
        let Some(page) = self.open.remove(&number) else { return Ok(None) };
        let span = self.span(number);
        let content = page.close(&self.name, self.shape.false_positive_rate)?.encode()?;
        let written = self.pages.write(span, &content)?;
        self.tally.pages += 1;
        self.tally.bytes += written.page.bytes;
        self.tally.removed += written.removed.len() as u64;
        Ok(Some(written))
    }

    /// The part of a span in which this recorder was there. A recorder that saw something before and after was there between.
    fn span(&self, number: u64) -> Span {
        let from = number * self.shape.seconds;
        let to = (from + self.shape.seconds - 1).min(SECONDS_MAX);
        let seen = self.seen.unwrap_or(Span { from, to });
        Span { from: from.max(seen.from), to: to.min(seen.to) }
    }
}

impl OpenPage {
    /// A filter of what was gathered, as large as it has to be.
    fn close(mut self, name: &str, rate: f64) -> Result<TracePage, RecordError> {
        let items = self.items.len() as u64;
        self.items.sort_unstable();
        self.items.dedup();
        let plan = MembershipPlan::new(Layout::OneLine, self.items.len() as u64, Goal::Rate(rate))?;
        let mut filter = OneLineFilter::from_plan(&plan, self.key.id());
        let mut batch = Vec::with_capacity(BATCH_ITEMS);
        for items in self.items.chunks(BATCH_ITEMS) {
            batch.clear();
            batch.extend(items.iter().copied().map(Fingerprint::narrow));
            filter.insert_batch(&batch);
        }
        Ok(TracePage { name: name.to_owned(), items, key: self.key, filter })
    }
}

/// How many fingerprints are inserted at a time.
const BATCH_ITEMS: usize = 1024;

/// The keys of pages: as SPIE has it, drawn by a generator that is seeded at each router.
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
    use crate::traceback::{PAGE_BYTES_MAX, Subject};

    fn recorder(folder: &tempfile::TempDir, shape: PageShape) -> Recorder {
        let pages = Pages::create_or_open(folder.path(), Subject::Messages.kind(), 1 << 30).unwrap();
        Recorder::new(pages, "here", shape, [1; 16]).unwrap()
    }

    fn item(number: u32) -> Invariant {
        Invariant::of_message(&number.to_le_bytes())
    }

    /// Span, items and content of every page.
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
        // It was there from 70 to 125, and says so.
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
    fn what_comes_out_of_order_finds_its_page() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(&folder, PageShape::default());
        for number in 0..400 {
            let written = recorder.record(u64::from(number) % 4 * 60, &item(number)).unwrap();
            assert_eq!(written, None, "{OPEN_PAGES_MAX} pages are open");
        }
        // One more ends the oldest.
        let written = recorder.record(4 * 60, &item(400)).unwrap().unwrap();
        assert_eq!(written.page.span, Span { from: 0, to: 59 });
        assert_eq!((recorder.open.len(), recorder.finish().unwrap().pages), (OPEN_PAGES_MAX, 5));
    }

    #[test]
    fn pages_that_ended_are_settled() {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(&folder, PageShape::default());
        recorder.record(59, &item(0)).unwrap();
        recorder.record(60, &item(1)).unwrap();
        assert_eq!(recorder.settle(119).unwrap(), [], "what is a little late finds its page open");
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
        let plan = MembershipPlan::new(Layout::OneLine, ITEMS_MAX.into(), Goal::Rate(RATE_MIN)).unwrap();
        assert!(plan.bytes + 1024 <= PAGE_BYTES_MAX, "{} bytes", plan.bytes);
    }
}
