//! The open pages of a recorder of any kind.
//!
//! At most [`OPEN_PAGES_MAX`] pages are open. Recorded data is kept until it is on disk. A page that could not be
//! written stays in memory, and is written before any other page.

use super::{PageName, Pages, PagesError, SECONDS_MAX, Span, Written};

/// Maximum number of open pages. Late data is added to the open page of its span. If that page is already closed,
/// another page of the same span is opened.
pub const OPEN_PAGES_MAX: usize = 4;

/// Time for which a page stays open after the end of its span. Capture files arrive a little later than their packets.
pub const SETTLE_SECONDS: u64 = 60;

/// A directory, and its open pages.
#[derive(Debug)]
pub(crate) struct OpenPages<D> {
    pages: Pages,
    /// Length of a span, in seconds.
    seconds: u64,
    /// The open pages, sorted by last use, with the most recent last.
    drafts: Vec<(Span, D)>,
    /// A finished page that could not be written yet.
    unwritten: Option<(Span, Vec<u8>)>,
    written: Vec<Written>,
}

/// A page ready to be written: its final span and its content.
pub(crate) type ClosedPage<E> = Result<(Span, Vec<u8>), E>;

impl<D> OpenPages<D> {
    /// Creates an empty set of open pages with spans of `seconds`, which must be at least 1.
    pub(crate) const fn new(pages: Pages, seconds: u64) -> Self {
        Self { pages, seconds, drafts: Vec::new(), unwritten: None, written: Vec::new() }
    }

    pub(crate) const fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Returns the span that contains `second`. Spans begin at multiples of their length, so that several runs use the
    /// same spans.
    pub(crate) fn span_of(&self, second: u64) -> Span {
        let from = second - second % self.seconds;
        Span { from, to: from.saturating_add(self.seconds - 1).min(SECONDS_MAX) }
    }

    /// Returns the open page that covers `second`, and marks it as the most recently used.
    pub(crate) fn turn_to(&mut self, second: u64) -> Option<&mut D> {
        let holds = |(span, _): &(Span, D)| span.from <= second && second <= span.to;
        if !self.drafts.last().is_some_and(holds) {
            let place = self.drafts.iter().position(holds)?;
            let draft = self.drafts.remove(place);
            self.drafts.push(draft);
        }
        self.drafts.last_mut().map(|(_, draft)| draft)
    }

    /// Opens a page. If the maximum number of pages is open, the least recently used page is written first.
    pub(crate) fn begin<E: From<PagesError>>(
        &mut self,
        span: Span,
        draft: D,
        close: impl FnOnce(Span, D) -> ClosedPage<E>,
    ) -> Result<(), E> {
        if let Some((oldest, _)) = self.drafts.first().filter(|_| self.drafts.len() >= OPEN_PAGES_MAX) {
            self.write(*oldest, close)?;
        }
        self.drafts.push((span, draft));
        Ok(())
    }

    /// Writes the pages whose spans ended at least [`SETTLE_SECONDS`] before `now`. A page that could not be written
    /// earlier comes first.
    pub(crate) fn settle<E: From<PagesError>>(
        &mut self,
        now: u64,
        mut close: impl FnMut(Span, D) -> ClosedPage<E>,
    ) -> Result<(), E> {
        self.write_again()?;
        let is_over = |span: &Span| span.to.saturating_add(SETTLE_SECONDS) < now;
        while let Some(span) = self.first().filter(is_over) {
            self.write(span, &mut close)?;
        }
        Ok(())
    }

    /// Writes all pages. If a page cannot be written, the other pages are still written. Returns the first error.
    pub(crate) fn finish<E: From<PagesError>>(
        &mut self,
        mut close: impl FnMut(Span, D) -> ClosedPage<E>,
    ) -> Result<(), E> {
        let mut outcome = self.write_again().map_err(E::from);
        while let Some(span) = self.first() {
            self.unwritten = None;
            let written = self.write(span, &mut close);
            outcome = outcome.and(written);
        }
        outcome
    }

    /// Writes the page of `span`. A page that could not be written earlier comes first. `close` returns the final span
    /// and the content of the page.
    pub(crate) fn write<E: From<PagesError>>(
        &mut self,
        span: Span,
        close: impl FnOnce(Span, D) -> ClosedPage<E>,
    ) -> Result<(), E> {
        self.write_again()?;
        if let Some(place) = self.drafts.iter().position(|(other, _)| *other == span) {
            self.unwritten = Some(close(span, self.drafts.remove(place).1)?);
        }
        Ok(self.write_again()?)
    }

    /// Returns the pages that were written but not reported yet.
    pub(crate) fn take_written(&mut self) -> Vec<Written> {
        std::mem::take(&mut self.written)
    }

    /// Returns the pages that were removed to make room for a page, if writing that page then failed.
    pub(crate) fn take_removed(&mut self) -> Vec<PageName> {
        self.pages.take_removed()
    }

    /// Returns true if everything recorded is on disk.
    pub(crate) const fn is_empty(&self) -> bool {
        self.drafts.is_empty() && self.unwritten.is_none()
    }

    fn first(&self) -> Option<Span> {
        self.drafts.iter().map(|(span, _)| *span).min()
    }

    fn write_again(&mut self) -> Result<(), PagesError> {
        if let Some((span, content)) = &self.unwritten {
            self.written.push(self.pages.write(*span, content)?);
            self.unwritten = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn close(span: Span, content: Vec<u8>) -> ClosedPage<PagesError> {
        Ok((span, content))
    }

    fn open(folder: &tempfile::TempDir) -> OpenPages<Vec<u8>> {
        OpenPages::new(Pages::create_or_open(folder.path(), "test", 1 << 20).unwrap(), 60)
    }

    fn begin(open: &mut OpenPages<Vec<u8>>, second: u64, byte: u8) -> Result<(), PagesError> {
        open.begin(open.span_of(second), vec![byte], close)
    }

    fn contents(folder: &tempfile::TempDir) -> Vec<Vec<u8>> {
        let pages = Pages::open(folder.path(), "test").unwrap();
        pages.list().iter().map(|name| pages.read(name, 100).unwrap()).collect()
    }

    /// Makes every attempt to write a page fail, even for root: no file can replace a directory.
    fn block(folder: &tempfile::TempDir) -> std::path::PathBuf {
        let path = folder.path().join(crate::pages::TEMPORARY);
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn a_page_that_cannot_be_written_is_kept_and_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = open(&folder);
        begin(&mut open, 0, 1).unwrap();
        let block = block(&folder);
        assert!(open.settle(1000, close).is_err() && open.settle(1000, close).is_err());
        assert!(!open.is_empty());
        begin(&mut open, 60, 2).unwrap();
        assert!(open.settle(1000, close).is_err(), "the second page waits for the first");
        fs::remove_dir(block).unwrap();
        open.finish(close).unwrap();
        assert_eq!(contents(&folder), [[1], [2]]);
        assert_eq!((open.take_written().len(), open.is_empty()), (2, true));
    }

    #[test]
    fn open_pages_are_limited_even_if_none_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = open(&folder);
        let block = block(&folder);
        let begun = (0..10).filter(|number| begin(&mut open, number * 60, *number as u8).is_ok()).count();
        // One page is finished but not written; the others are open.
        assert_eq!((begun, open.drafts.len()), (OPEN_PAGES_MAX + 1, OPEN_PAGES_MAX));
        fs::remove_dir(block).unwrap();
        open.finish(close).unwrap();
        assert_eq!(contents(&folder).len(), OPEN_PAGES_MAX + 1);
    }

    #[test]
    fn a_page_that_cannot_be_written_does_not_block_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = open(&folder);
        (0..3).for_each(|number| begin(&mut open, number * 60, number as u8).unwrap());
        let too_large = |span, content: Vec<u8>| close(span, if content == [1] { vec![0; 1 << 20] } else { content });
        assert!(matches!(open.finish(too_large), Err(PagesError::TooLarge { .. })));
        assert_eq!(contents(&folder), [[0], [2]]);
    }

    #[test]
    fn the_least_recently_used_page_is_written_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = open(&folder);
        (0..4).for_each(|number| begin(&mut open, number * 60, number as u8).unwrap());
        assert_eq!(open.turn_to(59), Some(&mut vec![0]));
        assert_eq!(open.turn_to(240), None);
        begin(&mut open, 240, 4).unwrap();
        assert_eq!(contents(&folder), [[1]]);
        open.settle(179 + SETTLE_SECONDS, close).unwrap();
        assert_eq!(contents(&folder), [[0], [1]]);
        open.settle(180 + SETTLE_SECONDS, close).unwrap();
        assert_eq!(contents(&folder), [[0], [1], [2]]);
    }
}
