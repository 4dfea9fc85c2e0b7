//! Pages that are gathered: what every recorder does, whatever it makes pages of.
//!
//! Promises that at most [`OPEN_PAGES_MAX`] are open, and that what was gathered stays until it is on disk: a page that
//! could not be written is kept, and written before the next.

use super::{PageName, Pages, PagesError, SECONDS_MAX, Span, Written};

/// Pages that are gathered at a time. What comes out of order is put where it belongs as long as its page is one of them, and into a
/// further page of the same span otherwise.
pub const OPEN_PAGES_MAX: usize = 4;

/// How long after its end a page is still waited with: files of a capture come a little later than their packets.
pub const SETTLE_SECONDS: u64 = 60;

/// A directory, and the pages that are gathered for it.
#[derive(Debug)]
pub(crate) struct Open<D> {
    pages: Pages,
    /// The length of a span.
    seconds: u64,
    /// The one that was used last comes last.
    drafts: Vec<(Span, D)>,
    /// A page that is finished, and could not be written yet.
    unwritten: Option<(Span, Vec<u8>)>,
    written: Vec<Written>,
}

/// The span that a page is about in the end, and its content.
pub(crate) type Closed<E> = Result<(Span, Vec<u8>), E>;

impl<D> Open<D> {
    /// Spans of `seconds`, at least one.
    pub(crate) const fn new(pages: Pages, seconds: u64) -> Self {
        Self { pages, seconds, drafts: Vec::new(), unwritten: None, written: Vec::new() }
    }

    pub(crate) const fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Spans begin at whole multiples of their length, so that pages of several runs lie beside each other.
    pub(crate) fn span_of(&self, second: u64) -> Span {
        let from = second - second % self.seconds;
        Span { from, to: from.saturating_add(self.seconds - 1).min(SECONDS_MAX) }
    }

    /// The page of `second`, which is now the one that was used last.
    pub(crate) fn turn_to(&mut self, second: u64) -> Option<&mut D> {
        let holds = |(span, _): &(Span, D)| span.from <= second && second <= span.to;
        if !self.drafts.last().is_some_and(holds) {
            let place = self.drafts.iter().position(holds)?;
            let draft = self.drafts.remove(place);
            self.drafts.push(draft);
        }
        self.drafts.last_mut().map(|(_, draft)| draft)
    }

    /// Begins a page; if as many as may be are open, the one that was used longest ago is written before.
    pub(crate) fn begin<E: From<PagesError>>(
        &mut self,
        span: Span,
        draft: D,
        close: impl FnOnce(Span, D) -> Closed<E>,
    ) -> Result<(), E> {
        if let Some((oldest, _)) = self.drafts.first().filter(|_| self.drafts.len() >= OPEN_PAGES_MAX) {
            self.write(*oldest, close)?;
        }
        self.drafts.push((span, draft));
        Ok(())
    }

    /// Writes the pages whose spans ended [`SETTLE_SECONDS`] before `now`, and one that could not be written before.
    pub(crate) fn settle<E: From<PagesError>>(
        &mut self,
        now: u64,
        mut close: impl FnMut(Span, D) -> Closed<E>,
    ) -> Result<(), E> {
        self.write_again()?;
        let is_over = |span: &Span| span.to.saturating_add(SETTLE_SECONDS) < now;
        while let Some(span) = self.first().filter(is_over) {
            self.write(span, &mut close)?;
        }
        Ok(())
    }

    /// Writes all pages. One that cannot be written does not keep the others from it; the first error is told.
    pub(crate) fn finish<E: From<PagesError>>(&mut self, mut close: impl FnMut(Span, D) -> Closed<E>) -> Result<(), E> {
        let mut outcome = self.write_again().map_err(E::from);
        while let Some(span) = self.first() {
            self.unwritten = None;
            let written = self.write(span, &mut close);
            outcome = outcome.and(written);
        }
        outcome
    }

    /// Writes the page of `span`, after one that could not be written before. `close` says which span it is about in the end,
    /// and makes the content.
    pub(crate) fn write<E: From<PagesError>>(
        &mut self,
        span: Span,
        close: impl FnOnce(Span, D) -> Closed<E>,
    ) -> Result<(), E> {
        self.write_again()?;
        if let Some(place) = self.drafts.iter().position(|(other, _)| *other == span) {
            self.unwritten = Some(close(span, self.drafts.remove(place).1)?);
        }
        Ok(self.write_again()?)
    }

    /// What was written and was not told yet.
    pub(crate) fn take_written(&mut self) -> Vec<Written> {
        std::mem::take(&mut self.written)
    }

    /// Pages that went for one that was not written.
    pub(crate) fn take_removed(&mut self) -> Vec<PageName> {
        self.pages.take_removed()
    }

    /// Whether all that was gathered is on disk.
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

    fn close(span: Span, content: Vec<u8>) -> Closed<PagesError> {
        Ok((span, content))
    }

    fn open(folder: &tempfile::TempDir) -> Open<Vec<u8>> {
        Open::new(Pages::create_or_open(folder.path(), "test", 1 << 20).unwrap(), 60)
    }

    fn begin(open: &mut Open<Vec<u8>>, second: u64, byte: u8) -> Result<(), PagesError> {
        open.begin(open.span_of(second), vec![byte], close)
    }

    fn contents(folder: &tempfile::TempDir) -> Vec<Vec<u8>> {
        let pages = Pages::open(folder.path(), "test").unwrap();
        pages.list().iter().map(|name| pages.read(name, 100).unwrap()).collect()
    }

    /// Makes writing of pages fail, whoever runs the test: no file can be made where a directory is.
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
        assert!(open.settle(1000, close).is_err(), "the second waits for the first");
        fs::remove_dir(block).unwrap();
        open.finish(close).unwrap();
        assert_eq!(contents(&folder), [[1], [2]]);
        assert_eq!((open.take_written().len(), open.is_empty()), (2, true));
    }

    #[test]
    fn at_most_so_many_pages_are_open_even_if_none_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = open(&folder);
        let block = block(&folder);
        let begun = (0..10).filter(|number| begin(&mut open, number * 60, *number as u8).is_ok()).count();
        // One is finished and waits, and the others are gathered.
        assert_eq!((begun, open.drafts.len()), (OPEN_PAGES_MAX + 1, OPEN_PAGES_MAX));
        fs::remove_dir(block).unwrap();
        open.finish(close).unwrap();
        assert_eq!(contents(&folder).len(), OPEN_PAGES_MAX + 1);
    }

    #[test]
    fn at_the_end_one_page_that_cannot_be_written_does_not_keep_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = open(&folder);
        (0..3).for_each(|number| begin(&mut open, number * 60, number as u8).unwrap());
        let too_large = |span, content: Vec<u8>| close(span, if content == [1] { vec![0; 1 << 20] } else { content });
        assert!(matches!(open.finish(too_large), Err(PagesError::TooLarge { .. })));
        assert_eq!(contents(&folder), [[0], [2]]);
    }

    #[test]
    fn the_page_that_was_used_longest_ago_goes_first() {
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
